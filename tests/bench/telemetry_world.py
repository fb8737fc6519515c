"""Telemetry: 20,000 devices and about 440,000 events of 30 days, logged without constraints."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hindsight import Output, Ratio, Spread, Total
from made_up_world import Question, World, days, rows_per_unit, some_missing, zipf

DEVICES = 20_000
MODELS = [f"M{i}" for i in range(1, 16)]
COUNTRIES = [f"C{i:02d}" for i in range(1, 61)]
VERSIONS = [f"{major}.{minor}" for major in (4, 3, 2) for minor in range(9, -1, -1)]
KINDS = ["sync", "start", "stop", "error", "update", "crash"]


def telemetry(rows: str = "") -> World:
    """Log-normal numbers of events (a few devices send thousands), log-normal durations and bytes."""
    random = np.random.default_rng(303)
    return World(
        "telemetry",
        {"devices": _devices(random), "events": _events(random, rows)},
        {
            "devices": {},
            "events": {
                "logged": {"min": "2026-01-01", "max": "2026-01-30"},
                "kind": {"values": KINDS},
                "duration_ms": {"min": 0, "max": 3_600_000},
                "bytes": {"min": 0, "max": 1_000_000_000},
            },
        },
        QUESTIONS,
    )


def _devices(random: np.random.Generator) -> pd.DataFrame:
    made = pd.DataFrame(
        {
            "device_id": [f"d{i:05d}" for i in range(DEVICES)],
            "model": some_missing(random, zipf(random, MODELS, DEVICES), 0.01),
            "country": some_missing(random, zipf(random, COUNTRIES, DEVICES, 1.2), 0.03),
        }
    )
    return pd.concat([made, made.sample(25, random_state=3)], ignore_index=True)


def _events(random: np.random.Generator, rows: str) -> pd.DataFrame:
    number = rows_per_unit(random, rows or "lognormal", DEVICES, 24)
    number[random.random(DEVICES) < (0 if rows else 0.1)] = 1
    device = np.repeat(np.arange(DEVICES), number)
    size = len(device)
    hours = np.array([1, 1, 1, 1, 1, 2, 4, 7, 9, 9, 8, 8, 8, 8, 8, 8, 9, 10, 11, 10, 8, 6, 4, 2], dtype=np.float64)
    second = 3600 * random.choice(24, size, p=hours / hours.sum()) + random.integers(0, 3600, size)
    kind = zipf(random, KINDS, size, 1.4)
    code = 100 + random.permutation(40)[random.zipf(1.6, size) % 40]
    made = pd.DataFrame(
        {
            "device_id": some_missing(
                random, np.array([f"d{i:05d}" for i in range(DEVICES)], dtype=object)[device], 0.01
            ),
            "logged": days(random, "2026-01-01", 30, size) + pd.to_timedelta(second, "s"),
            "kind": some_missing(random, kind, 0.002),
            "version": some_missing(random, zipf(random, VERSIONS, DEVICES, 1.1)[device], 0.01),
            "error_code": pd.Series(code, dtype="Int32").mask(~np.isin(kind, ["error", "crash"])),
            "duration_ms": some_missing(random, np.minimum(random.lognormal(7, 1.5, size), 3e6).astype(int), 0.01),
            "bytes": some_missing(random, np.minimum(random.lognormal(8, 1.6, size), 2e9).astype(int), 0.01),
        }
    ).astype({"duration_ms": "Int64", "bytes": "Int64"})
    return pd.concat([made, made.sample(frac=0.003, random_state=4)], ignore_index=True)


def _by_kind(name: str, sql: str, statistics: dict[str, str], outputs: dict[str, Output]) -> Question:
    return Question(name, sql, "events", "device_id", ("kind",), statistics, outputs)


QUESTIONS = (
    Question(
        "events by day",
        "SELECT date_trunc('day', logged) AS day, count(*) AS n FROM events GROUP BY day ORDER BY day",
        "events", "device_id", ("date_trunc('day', logged)",), {"n": "count(*)"}, {"n": Total("n")},
    ),
    Question(
        "errors and crashes per 1,000 events by version",
        "SELECT version, 1000.0 * count(*) FILTER (WHERE kind IN ('error', 'crash')) / count(*) AS rate, count(*) AS n "
        "FROM events GROUP BY version ORDER BY version",
        "events", "device_id", ("version",), {"e": "count_if(kind IN ('error', 'crash'))", "n": "count(*)"},
        {"rate": Ratio("e", "n", 1000), "n": Total("n")},
    ),
    Question(
        "active devices by day",
        "SELECT date_trunc('day', logged) AS day, count(DISTINCT device_id) AS active FROM events GROUP BY day ORDER BY day",
        "events", "device_id", ("date_trunc('day', logged)",), {"n": "count(DISTINCT device_id)"}, {"active": Total("n")},
    ),
    _by_kind(
        "average duration by kind",
        "SELECT kind, avg(duration_ms) AS duration FROM events GROUP BY kind ORDER BY duration DESC",
        {"s": "sum(duration_ms)", "n": "count(duration_ms)"}, {"duration": Ratio("s", "n")},
    ),
    Question(
        "bytes by hour of the day",
        "SELECT hour(logged) AS hour, sum(bytes) AS bytes FROM events GROUP BY hour ORDER BY hour",
        "events", "device_id", ("hour(logged)",), {"s": "sum(bytes)"}, {"bytes": Total("s")},
    ),
    Question(
        "events and devices by error code",
        "SELECT error_code, count(*) AS n, count(DISTINCT device_id) AS devices FROM events "
        "WHERE error_code IS NOT NULL GROUP BY error_code ORDER BY n DESC",
        "events WHERE error_code IS NOT NULL", "device_id", ("error_code",),
        {"n": "count(*)", "d": "count(DISTINCT device_id)"}, {"n": Total("n"), "devices": Total("d")},
    ),
    Question(
        "devices by model",
        "SELECT model, count(*) AS n FROM devices GROUP BY model ORDER BY n DESC",
        "devices", "device_id", ("model",), {"n": "count(*)"}, {"n": Total("n")},
    ),
    Question(
        "average bytes by model (join)",
        "SELECT d.model, avg(e.bytes) AS bytes FROM devices d JOIN events e ON e.device_id = d.device_id GROUP BY d.model",
        "devices d JOIN events e ON e.device_id = d.device_id", "d.device_id", ("d.model",),
        {"s": "sum(e.bytes)", "n": "count(e.bytes)"}, {"bytes": Ratio("s", "n")},
    ),
    Question(
        "events by kind and day of the week",
        "SELECT kind, dayofweek(logged) AS day, count(*) AS n FROM events GROUP BY kind, day ORDER BY kind, day",
        "events", "device_id", ("kind", "dayofweek(logged)"), {"n": "count(*)"}, {"n": Total("n")},
    ),
    Question(
        "events of more than ten seconds by kind (WHERE)",
        "SELECT kind, count(*) AS n, sum(duration_ms) / 1000 AS seconds FROM events WHERE duration_ms > 10000 GROUP BY kind",
        "events WHERE duration_ms > 10000", "device_id", ("kind",), {"n": "count(*)", "s": "sum(duration_ms) / 1000"},
        {"n": Total("n"), "seconds": Total("s")},
    ),
    Question(
        "devices that crashed, per 100, by country (per unit, join)",
        "SELECT d.country, 100.0 * avg(CASE WHEN e.crashes > 0 THEN 1.0 ELSE 0.0 END) AS crashed FROM devices d JOIN "
        "(SELECT device_id, count(*) FILTER (WHERE kind = 'crash') AS crashes FROM events GROUP BY device_id) e "
        "ON e.device_id = d.device_id GROUP BY d.country",
        "devices d JOIN (SELECT device_id, count(*) FILTER (WHERE kind = 'crash') AS crashes FROM events "
        "GROUP BY device_id) e ON e.device_id = d.device_id", "d.device_id", ("d.country",),
        {"c": "count_if(e.crashes > 0)", "n": "count(*)"}, {"crashed": Ratio("c", "n", 100)},
    ),
    _by_kind(
        "spread of durations by kind",
        "SELECT kind, stddev(duration_ms) AS spread, avg(duration_ms) AS duration FROM events GROUP BY kind",
        {"s": "sum(duration_ms)", "q": "sum(duration_ms::DOUBLE * duration_ms)",
                               "n": "count(duration_ms)"},
        {"spread": Spread("s", "q", "n"), "duration": Ratio("s", "n")},
    ),
    Question(
        "median duration by kind",
        "SELECT kind, median(duration_ms) AS middle FROM events GROUP BY kind ORDER BY kind",
        chosen=("middle",),
    ),
)  # fmt: skip
