"""A clinic: 40,000 patients and about 107,000 admissions, imported from files, so without constraints and not clean."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hindsight import Output, Ratio, Share, Spread, Total
from made_up_world import Question, World, days, pareto, rows_per_unit, some_missing, zipf

PATIENTS = 40_000
WARDS = ["medicine", "surgery", "cardiology", "maternity", "paediatrics", "oncology", "neurology", "urology",
         "psychiatry", "dialysis", "burns", "hospice"]  # fmt: skip
DIVISIONS = ["internal", "operative", "internal", "family", "family", "internal", "internal", "operative", "mental",
             "internal", "operative", "care"]  # fmt: skip
INSURANCES = ["public", "private", "company", "none", "military"]
TOWNS = [f"town {i}" for i in range(1, 41)]


def clinic(rows: str = "") -> World:
    """Most patients come once or twice, one in a hundred every month (dialysis); costs have a Pareto tail."""
    random = np.random.default_rng(101)
    return World(
        "clinic",
        {
            "patients": _patients(random),
            "admissions": _admissions(random, rows),
            "wards": pd.DataFrame({"ward": WARDS, "division": DIVISIONS}),
        },
        {
            "patients": {
                "sex": {"values": ["F", "M", "X"]},
                "birth_year": {"min": 1900, "max": 2026},
                "insurance": {"values": INSURANCES},
            },
            "admissions": {
                "ward": {"values": WARDS},
                "admitted": {"min": "2023-01-01", "max": "2025-12-31"},
                "days": {"min": 0, "max": 365},
                "cost": {"min": 0, "max": 200_000},
            },
        },
        QUESTIONS,
        left_out={"wards": {"public": True}},
    )


def _patients(random: np.random.Generator) -> pd.DataFrame:
    made = pd.DataFrame(
        {
            "patient_id": np.arange(1, PATIENTS + 1),
            "sex": some_missing(random, random.choice(["F", "M", "X"], PATIENTS, p=[0.52, 0.475, 0.005]), 0.02),
            "birth_year": some_missing(random, 2025 - np.clip(random.gamma(5, 10, PATIENTS), 0, 104).astype(int), 0.03),
            "insurance": some_missing(random, zipf(random, INSURANCES, PATIENTS, 1.3), 0.04),
            "town": some_missing(random, zipf(random, TOWNS, PATIENTS), 0.01),
        }
    ).astype({"birth_year": "Int32"})
    return pd.concat([made, made.sample(60, random_state=1)], ignore_index=True)


def _admissions(random: np.random.Generator, rows: str) -> pd.DataFrame:
    visits = rows_per_unit(random, rows or "geometric", PATIENTS, 2.4)
    regular = random.random(PATIENTS) < (0 if rows else 0.01)
    visits[regular] = random.integers(12, 60, regular.sum())
    patient = np.repeat(np.arange(1, PATIENTS + 1), visits)
    patient = patient[random.random(len(patient)) > 0.05 * (patient % 3 == 0)]
    size = len(patient)
    ward = zipf(random, WARDS, size, 0.8)
    ward[regular[patient - 1] & (random.random(size) < 0.8)] = "dialysis"
    stay = np.minimum(random.lognormal(1.2, 0.9, size), 300).astype(int)
    cost = 300 + 420 * (stay + 1) ** 0.8 * random.lognormal(0, 0.7, size)
    dear = random.random(size) < 0.01
    cost[dear] += pareto(random, int(dear.sum()), 2.5, 15_000)
    frail = np.where(np.isin(ward, ["hospice"]), 0.45, np.where(np.isin(ward, ["oncology", "burns"]), 0.08, 0.025))
    made = pd.DataFrame(
        {
            "patient_id": some_missing(random, patient, 0.01),
            "ward": some_missing(random, ward, 0.005),
            "admitted": days(random, "2023-01-01", 1096, size).dt.date,
            "days": some_missing(random, stay, 0.02),
            "cost": some_missing(random, cost.round(2), 0.03),
            "emergency": random.random(size) < 0.35,
            "died": random.random(size) < frail,
        }
    ).astype({"patient_id": "Int64", "days": "Int32"})
    return pd.concat([made, made.sample(frac=0.005, random_state=2)], ignore_index=True)


def _by_ward(name: str, sql: str, statistics: dict[str, str], outputs: dict[str, Output]) -> Question:
    return Question(name, sql, "admissions", "patient_id", ("ward",), statistics, outputs)


QUESTIONS = (
    Question(
        "admissions by month",
        "SELECT date_trunc('month', admitted) AS month, count(*) AS n FROM admissions GROUP BY month ORDER BY month",
        "admissions", "patient_id", ("date_trunc('month', admitted)",), {"n": "count(*)"}, {"n": Total("n")},
    ),
    _by_ward(
        "mean cost by ward",
        "SELECT ward, avg(cost) AS cost FROM admissions GROUP BY ward ORDER BY cost DESC",
        {"s": "sum(cost)", "n": "count(cost)"}, {"cost": Ratio("s", "n")},
    ),
    _by_ward(
        "deaths per 100 by ward",
        "SELECT ward, 100.0 * count(*) FILTER (WHERE died) / count(*) AS deaths FROM admissions GROUP BY ward",
        {"d": "count_if(died)", "n": "count(*)"}, {"deaths": Ratio("d", "n", 100)},
    ),
    Question(
        "patients by sex and insurance",
        "SELECT sex, insurance, count(*) AS n FROM patients GROUP BY sex, insurance ORDER BY n DESC",
        "patients", "patient_id", ("sex", "insurance"), {"n": "count(*)"}, {"n": Total("n")},
    ),
    _by_ward(
        "different patients by ward",
        "SELECT ward, count(DISTINCT patient_id) AS patients FROM admissions GROUP BY ward",
        {"n": "count(DISTINCT patient_id)"}, {"patients": Total("n")},
    ),
    Question(
        "cost by insurance (join)",
        "SELECT p.insurance, sum(a.cost) AS cost FROM patients p JOIN admissions a ON a.patient_id = p.patient_id "
        "GROUP BY p.insurance ORDER BY cost DESC",
        "patients p JOIN admissions a ON a.patient_id = p.patient_id", "p.patient_id", ("p.insurance",),
        {"s": "sum(a.cost)"}, {"cost": Total("s")},
    ),
    _by_ward(
        "length of stay by ward: average and stddev",
        "SELECT ward, avg(days) AS stay, stddev(days) AS spread FROM admissions GROUP BY ward ORDER BY ward",
        {"s": "sum(days)", "q": "sum(days::BIGINT * days)", "n": "count(days)"},
        {"stay": Ratio("s", "n"), "spread": Spread("s", "q", "n")},
    ),
    Question(
        "emergencies per 100 by day of the week",
        "SELECT dayofweek(admitted) AS day, 100 * avg(CASE WHEN emergency THEN 1.0 ELSE 0.0 END) AS emergencies "
        "FROM admissions GROUP BY day ORDER BY day",
        "admissions", "patient_id", ("dayofweek(admitted)",), {"e": "count_if(emergency)", "n": "count(*)"},
        {"emergencies": Ratio("e", "n", 100)},
    ),
    Question(
        "admissions and days by year and ward",
        "SELECT year(admitted) AS year, ward, count(*) AS n, sum(days) AS days FROM admissions GROUP BY year, ward",
        "admissions", "patient_id", ("year(admitted)", "ward"), {"n": "count(*)", "s": "sum(days)"},
        {"n": Total("n"), "days": Total("s")},
    ),
    Question(
        "stays of more than two weeks by division (WHERE, join)",
        "SELECT w.division, count(*) AS n FROM admissions a JOIN wards w ON w.ward = a.ward WHERE a.days > 14 "
        "GROUP BY w.division ORDER BY n DESC",
        "admissions a JOIN wards w ON w.ward = a.ward WHERE a.days > 14", "a.patient_id", ("w.division",),
        {"n": "count(*)"}, {"n": Total("n")},
    ),
    Question(
        "patients by number of admissions (per unit)",
        "SELECT CASE WHEN visits < 6 THEN visits ELSE 6 END AS visits, count(*) AS patients FROM (SELECT patient_id, "
        "count(*) AS visits FROM admissions GROUP BY patient_id) GROUP BY 1 ORDER BY 1",
        "(SELECT patient_id, count(*) AS visits FROM admissions GROUP BY patient_id)", "patient_id",
        ("least(visits, 6)",), {"n": "count(*)"}, {"patients": Total("n")},
    ),
    _by_ward(
        "each ward's share of all costs",
        "SELECT ward, sum(cost) / sum(sum(cost)) OVER () AS share FROM admissions GROUP BY ward ORDER BY share DESC",
        {"s": "sum(cost)"}, {"share": Share("s")},
    ),
    Question(
        "median cost by ward",
        "SELECT ward, median(cost) AS middle FROM admissions GROUP BY ward ORDER BY ward",
        chosen=("middle",),
    ),
)  # fmt: skip
