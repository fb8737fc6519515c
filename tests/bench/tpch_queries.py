"""The 22 queries of TPC-H with no caps in the policy: `nice python tests/bench/tpch_queries.py --scale 1 --runs 9`.

The unit is declared, with the keys of tables, the ends of dates and short lists of values; how many rows of a customer
count, and between which bounds numbers lie, is left to private searches. Each run has an account of its own, so that it
makes every search again; epsilon is the price of the query with the search for its clip. Beside the median relative
error stands the hindsight optimum, where all outputs are counts and sums: the clip with the least error, chosen by
looking at the data, at the same price and with the same law of noise.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import duckdb
import numpy as np
import yaml
from measure import progress
from numpy.typing import NDArray
from sqlglot import exp, parse_one

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "tpch"))

from tpch_compare import Question, match, questions
from tpch_data import make_database, open_plain

import dpsql
from dpsql.interfaces.steward_tasks import check
from dpsql.mechanisms.zcdp_conversion import rho_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "tpch"
DRAWS, STEP, DELTA = 100, 2**0.25, Fraction("1e-8")
LIMITS = {5: 0.10, 7: 0.10, 9: 0.10}
Floats = NDArray[np.float64]


def policy_without_caps(*, bounds: bool) -> dict[str, Any]:
    """The example's policy without caps, and unless `bounds` also without the ends of numbers."""
    policy: dict[str, Any] = yaml.safe_load((EXAMPLE / "policy.yaml").read_text(encoding="utf-8"))
    policy |= {"search": True, "budget": {"epsilon": 20, "delta": 1e-6}, "limits": {"epsilon": 5}}
    for table in policy["tables"].values():
        table.pop("max_rows_per_unit", None)
        for spec in (table.get("columns") or {}).values():
            if not bounds and isinstance(spec.get("min"), int | float):
                del spec["min"], spec["max"]
    return policy


@dataclass(frozen=True, slots=True)
class Asked:
    """How a query is asked."""

    epsilon: float
    mechanism: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The error of each run and the rows that were found, of how many; or why the query is refused."""

    errors: tuple[float, ...] = ()
    found: float = 0
    rows: int = 0
    seconds: float = 0
    refused: str = ""


def measure(
    database: Path, checked: Path, policy: dict[str, Any], question: Question, asked: Asked, runs: int
) -> Measured:
    """Each run starts from a copy of the ledger in which nothing but the check is noted."""
    with open_plain(database) as plain:
        exact = plain.execute(question.sql).fetchall()
    errors, found, seconds = [], [], []
    for _ in range(runs):
        with TemporaryDirectory() as scratch:
            ledger = Path(shutil.copytree(checked, Path(scratch) / "own")) / "tpch.ledger"
            with dpsql.connect(database, policy=policy, ledger=ledger, analyst="ana") as db:
                try:
                    begin = perf_counter()
                    answer = db.query(question.sql, epsilon=asked.epsilon, mechanism=asked.mechanism)
                    seconds.append(perf_counter() - begin)
                    explained = db.explain(question.sql, epsilon=asked.epsilon, mechanism=asked.mechanism)
                except dpsql.Error as refusal:
                    return Measured(refused=refusal.message)
                noisy = [explained.columns.index(name) for name in explained.expected_error()]
                pairs = match(exact, answer.fetchall(), noisy)
                found.append(len(pairs))
                errors += [_error(truth[i], said[i]) for truth, said in pairs for i in noisy if truth[i]]
    return Measured(tuple(errors), median(found), len(exact), median(seconds))


def _error(truth: Any, said: Any) -> float:
    return 1.0 if said is None else abs(float(said) - float(truth)) / abs(float(truth))


# hindsight ------------------------------------------------------------------------------------------------------------


def hindsight(plain: duckdb.DuckDBPyConnection, question: Question, asked: Asked) -> float | None:
    """The median relative error at the best clip; None where an output is no count or sum over the rows of a query."""
    sql = per_customer(question.sql)
    if sql is None:
        return None
    frame = plain.execute(sql).df()
    stats = [name for name in frame if name.startswith("stat")]
    keys = [name for name in frame if name.startswith("key")]
    cells = np.asarray(frame.groupby(keys, dropna=False).ngroup()) if keys else np.zeros(len(frame), np.int64)
    units = np.unique(frame["unit"], return_inverse=True)[1]
    values = [frame[name].fillna(0).to_numpy(np.float64) for name in stats]
    return min(_median_error(units, cells, values, asked, clip) for clip in _clips(units, values, asked))


def per_customer(sql: str) -> str | None:
    """What each customer adds to each group."""
    query = parse_one(sql, dialect="duckdb")
    tables = {table.name for table in [query.args["from_"].this, *(j.this for j in query.args.get("joins") or ())]}
    outputs = [(e.this if isinstance(e, exp.Alias) else e) for e in query.expressions]
    stats = [e for e in outputs if e.find(exp.AggFunc)]
    linear = all(isinstance(e, exp.Sum | exp.Count) and not e.find(exp.Distinct, exp.Subquery) for e in stats)
    if not (linear and stats and isinstance(query, exp.Select) and tables & {"orders", "lineitem", "customer"}):
        return None
    if not tables & {"orders", "customer"}:
        query = query.join("orders", on="o_orderkey = l_orderkey")
    keys = [e for e in outputs if e not in stats]
    unit = "c_custkey" if "customer" in tables else "o_custkey"
    shown = [f"{unit} AS unit", *(f"{e.sql('duckdb')} AS key{i}" for i, e in enumerate(keys))]
    shown += [f"CAST({e.sql('duckdb')} AS DOUBLE) AS stat{i}" for i, e in enumerate(stats)]
    for clause in ("order", "limit", "group"):
        query.set(clause, None)
    return f"{query.select(*shown, append=False, dialect='duckdb').sql('duckdb')} GROUP BY ALL"


def _norms(units: NDArray[np.int64], values: Sequence[Floats], asked: Asked) -> Floats:
    """Of each unit's vector: every statistic counts by its own typical size."""
    if asked.mechanism == "laplace":
        return np.bincount(units, np.sum([np.abs(v) / _size(v) for v in values], axis=0))
    return np.sqrt(np.bincount(units, np.sum([(v / _size(v)) ** 2 for v in values], axis=0)))


def _size(values: Floats) -> float:
    return float(np.abs(values).mean()) or 1.0


def _clips(units: NDArray[np.int64], values: Sequence[Floats], asked: Asked) -> Iterator[float]:
    norms = _norms(units, values, asked)
    clip, least = float(norms.max()), float(np.quantile(norms[norms > 0], 0.05))
    while clip >= least:
        yield clip
        clip /= STEP


def _median_error(
    units: NDArray[np.int64], cells: NDArray[np.int64], values: Sequence[Floats], asked: Asked, clip: float
) -> float:
    kept = np.minimum(1, clip / np.maximum(_norms(units, values, asked), 1e-12))[units]
    draws = np.random.default_rng(0)
    errors = []
    for each in values:
        truth, cut = np.bincount(cells, each), np.bincount(cells, each * kept)
        shape = (DRAWS, len(truth))
        if asked.mechanism == "laplace":
            noise = draws.laplace(scale=clip / asked.epsilon, size=shape)
        else:
            noise = draws.normal(scale=clip / sqrt(2 * float(rho_for(Fraction(asked.epsilon), DELTA))), size=shape)
        shown = np.abs(cut + _size(each) * noise - truth)
        errors.append(shown[:, truth != 0] / np.abs(truth[truth != 0]))
    return float(np.median(np.concatenate([each.ravel() for each in errors])))


def main() -> int:
    """Print a line for each query (`none`: no row of the exact answer was shown); 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--mechanism", choices=("laplace", "gaussian"), default="laplace")
    parser.add_argument("--bounds", action="store_true", help="keep the declared ends of numbers")
    parser.add_argument("--queries", type=int, nargs="+", default=list(range(1, 23)))
    parser.add_argument("--data", type=Path, default=Path(".tpch"))
    given = parser.parse_args()
    asked, policy = Asked(given.epsilon, given.mechanism), policy_without_caps(bounds=given.bounds)
    database, missed = make_database(given.data, given.scale), 0
    print(f"{'':14}{'median':>9}{'hindsight':>11}{'rows':>12}{'seconds':>9}")
    with TemporaryDirectory() as checked:
        with dpsql.connect(database, policy=policy, ledger=Path(checked) / "tpch.ledger", steward=True) as steward:
            check(steward)
        for number in given.queries:
            for question in questions(number):
                progress(f"queries: {question.name}")
                made = measure(database, Path(checked), policy, question, asked, given.runs)
                if made.refused:
                    print(f"{question.name:14}refused: {made.refused}", flush=True)
                    continue
                with open_plain(database) as plain:
                    best = hindsight(plain, question, asked) if made.errors else None
                error = f"{median(made.errors):.2%}" if made.errors else "exact" if made.found == made.rows else "none"
                missed += number in LIMITS and (not made.errors or median(made.errors) > LIMITS[number])
                shown = "" if best is None else f"{best:.2%}"
                rows = f"{made.found:g}/{made.rows}"
                print(f"{question.name:14}{error:>9}{shown:>11}{rows:>12}{made.seconds:>9.1f}", flush=True)
                break
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
