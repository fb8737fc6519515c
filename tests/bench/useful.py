"""How useful are first answers? Ordinary questions about three made-up worlds, with policies as they are drafted.

`python tests/bench/useful.py [--world clinic] [--questions 1,4-6] [--runs 3] [--epsilon 0.5] [--policy drafted] [--rows zipf]` asks
every question with a fresh account and compares each cell (a group and a noisy column) with what plain DuckDB says:
is the answer within 10%, does its 95% bar hold, and does the best clip in hindsight reach 10% at the same price (in two
of three draws: an rms error of 10%)? The aim is to reach 85% of the cells that are in reach. The policy is the draft of
`dpsql init`: as it is (`--policy drafted`), with the bounds and short lists that its comments ask for (`filled`), or with
`auto` for the bounds of numbers and for the caps (each search costs extra).
The data have a fixed seed, the noise has none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, nan
from typing import Any

import duckdb
import numpy as np
import yaml
from clinic_world import clinic
from hindsight import Floats, Key, best_clip, contributions, exact_output, key_text
from made_up_world import SHAPES, Question, World
from measure import cpu, progress
from shop_world import shop
from telemetry_world import telemetry

import dpsql
from dpsql.mechanisms.zcdp_conversion import rho_for
from dpsql.policy.draft import draft_policy

WORLDS: dict[str, Callable[[str], World]] = {"clinic": clinic, "shop": shop, "telemetry": telemetry}
EPSILON, DELTA = 0.5, 1e-8
POLICIES = ("filled", "drafted", "auto")
NEAR = 0.10
OFTEN = 2 / 3
AIM = 0.85
Cell = tuple[Key, str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A number of an answer and its 95% bar (None: it has none)."""

    value: float
    bar: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Asked:
    """One run of the product: its cells, or why it refused; `rows` counts the groups that do not exist, too."""

    cells: Mapping[Cell, Shown]
    rows: int = 0
    refusal: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Score:
    """One question. Shares are of the truth's cells that are neither NULL nor 0; errors are relative medians."""

    name: str
    cells: int
    within: float
    hindsight: float
    reachable: int
    reached: float
    bars: int
    held: float
    open: float
    missing: float
    error: float
    hindsight_error: float
    refusal: str = ""
    chosen: bool = False


def policy_of(world: World, connection: duckdb.DuckDBPyConnection, policy: str = "filled") -> dict[str, Any]:
    """The draft: unchanged; filled in by a person; or with bounds and caps left to private searches."""
    drafted: dict[str, Any] = yaml.safe_load(draft_policy(connection, world.name).policy)
    if policy == "drafted":
        return drafted
    drafted["tables"] |= {name: dict(table) for name, table in world.left_out.items()}
    for name, columns in world.filled.items():
        table = drafted["tables"][name]
        table["columns"] |= {column: _declared(facts, policy) for column, facts in columns.items()}
        if policy == "auto" and "unique" not in table:
            table["max_rows_per_unit"] = "auto"
    return drafted


def _declared(facts: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """What the policy says of a column; searches find the bounds of numbers, not those of dates."""
    return {"bounds": "auto"} if policy == "auto" and isinstance(facts.get("max"), int | float) else dict(facts)


def truth_of(connection: duckdb.DuckDBPyConnection, question: Question) -> dict[Cell, float]:
    """What plain DuckDB answers; NULL is NaN."""
    cursor = connection.execute(question.sql)
    names = [each[0] for each in cursor.description]
    return {cell: value for cell, value, _ in _cells(question, names, cursor.fetchall())}


def _cells(question: Question, names: list[str], rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[Cell, float, int]]:
    """Every noisy cell of a table, with the number of its row."""
    wanted = {*question.outputs, *question.chosen}
    for place, row in enumerate(rows):
        key = tuple(key_text(v) for name, v in zip(names, row, strict=True) if name not in wanted)
        for name, value in zip(names, row, strict=True):
            if name in wanted:
                yield (key, name), nan if value is None else float(value), place


def ask(
    connection: duckdb.DuckDBPyConnection, policy: Mapping[str, Any], question: Question, epsilon: float, delta: float
) -> Asked:
    """Ask the product, with a new account."""
    try:
        with dpsql.connect(connection, policy=dict(policy), ledger=":memory:", analyst="newcomer") as db:
            answer = db.query(question.sql, epsilon=epsilon, delta=delta)
            bars = dict(zip(answer.columns, answer.bars(0.95), strict=True))
            found = {
                cell: Shown(value, None if (column := bars[cell[1]]) is None else column[place])
                for cell, value, place in _cells(question, list(answer.columns), answer.fetchall())
            }
            return Asked(found, len(answer), notes=tuple(answer.notes))
    except dpsql.Error as refusal:
        return Asked({}, refusal=f"{type(refusal).__name__}: {refusal}")


def hindsight_errors(
    connection: duckdb.DuckDBPyConnection, question: Question, truth: Mapping[Cell, float], rho: float
) -> dict[Cell, Floats]:
    """For each cell the relative errors of the draws with the best clip; the question's own check comes first."""
    given = contributions(connection, question.source, question.unit, question.keys, question.statistics)
    exact = {name: np.array([truth.get((key, name), nan) for key in given.keys]) for name in question.outputs}
    totals = given.totals()
    for name, output in question.outputs.items():
        with np.errstate(invalid="ignore"):
            again = exact_output(output, totals)
        if not np.allclose(
            again[np.isfinite(exact[name])], exact[name][np.isfinite(exact[name])], rtol=1e-6, atol=1e-9
        ):
            raise AssertionError(f"{question.name}: the statistics do not add up to {name}")
    best = best_clip(given, question.outputs, exact, rho)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            (key, name): errors[:, i] / abs(exact[name][i])
            for name, errors in best.errors.items()
            for i, key in enumerate(best.keys)
        }


def score(question: Question, truth: Mapping[Cell, float], runs: list[Asked], draws: Mapping[Cell, Floats]) -> Score:
    """The shares of one question over all runs."""
    counted = [cell for cell, value in truth.items() if isfinite(value) and value != 0]
    errors = np.array([[_error(run.cells.get(cell), truth[cell]) for cell in counted] for run in runs])
    near = errors <= NEAR
    reach = np.array([np.mean(draws[cell] <= NEAR) if draws else nan for cell in counted])
    reachable = reach >= OFTEN
    bars = [
        (run.cells[cell].bar, value)
        for run in runs
        for cell, value in truth.items()
        if isfinite(value) and cell in run.cells
    ]
    known = [(bar, value) for bar, value in bars if bar is not None and not np.isnan(bar[0])]
    shown = [cell in run.cells for run in runs for cell in counted]
    return Score(
        question.name,
        len(counted),
        _mean(near),
        _mean(reach),
        int(reachable.sum()),
        _mean(near[:, reachable]),
        len(known),
        _mean([low - _slack(v) <= v <= high + _slack(v) for (low, high), v in known]),
        _mean([not (isfinite(low) and isfinite(high)) for (low, high), _ in known]),
        1 - _mean(shown),
        float(np.median(errors)) if errors.size else nan,
        float(np.median([np.median(draws[cell]) for cell in counted])) if draws and counted else nan,
        next((run.refusal for run in runs if run.refusal), ""),
        bool(question.chosen),
    )


def _error(shown: Shown | None, truth: float) -> float:
    """A number that is not shown, or is no number, is wrong by more than everything."""
    return abs(shown.value - truth) / abs(truth) if shown is not None and isfinite(shown.value) else np.inf


def _slack(truth: float) -> float:
    return 1e-6 * (1 + abs(truth))


def _mean(values: Any) -> float:
    return float(np.mean(values)) if np.size(values) else nan


def study(world: World, numbers: set[int], runs: int, epsilon: float, policy: str = "filled") -> Iterable[Score]:
    """Every chosen question of a world."""
    connection = world.database()
    declared = policy_of(world, connection, policy)
    rho = float(rho_for(Fraction(epsilon), Fraction(DELTA)))
    for number, question in enumerate(world.questions, 1):
        if numbers and number not in numbers:
            continue
        truth = truth_of(connection, question)
        draws = hindsight_errors(connection, question, truth, rho) if question.outputs else {}
        answers = [ask(connection, declared, question, epsilon, DELTA) for _ in range(runs)]
        yield score(question, truth, answers, draws)


HEADER = (
    f"{'question':58}{'cells':>6}{'≤ 10%':>7}{'hind.':>7}{'reach':>6}{'reached':>8}{'bars':>6}{'open':>6}{'none':>6}"
    f"{'error':>8}{'hind.':>7}"
)


def line(each: Score) -> str:
    """One row of the table."""
    head = f"{each.name:58}{each.cells:>6}{_percent(each.within):>7}{_percent(each.hindsight):>7}{each.reachable:>6}"
    tail = f"{_percent(each.reached):>8}{_percent(each.held):>6}{_percent(each.open):>6}{_percent(each.missing):>6}"
    return head + tail + f"{_percent(each.error, 1):>8}{_percent(each.hindsight_error, 1):>7}"


def _percent(share: float, digits: int = 0) -> str:
    return "-" if np.isnan(share) else "all" if np.isinf(share) else f"{share:.{digits}%}" if share < 100 else "> 99×"


def together(name: str, scores: list[Score]) -> Score:
    """Several questions as one: every cell counts once."""
    cells, reachable, bars = (np.array([getattr(s, n) for s in scores], float) for n in ("cells", "reachable", "bars"))

    def weighted(field: str, weights: Floats) -> float:
        values = np.array([getattr(s, field) for s in scores])
        use = (weights > 0) & np.isfinite(values)
        return float(np.average(values[use], weights=weights[use])) if use.any() else nan

    return Score(
        name,
        int(cells.sum()),
        weighted("within", cells),
        weighted("hindsight", cells),
        int(reachable.sum()),
        weighted("reached", reachable),
        int(bars.sum()),
        weighted("held", bars),
        weighted("open", bars),
        weighted("missing", cells),
        nan,
        nan,
    )


def main() -> int:
    """Print the tables; 1 if less is reached than the aim."""
    asked = _arguments()
    begin, everything = cpu(), []
    print(f"policy {asked.policy}, ε = {asked.epsilon:g}, δ = {DELTA:g}, runs {asked.runs}")
    for name in asked.world or WORLDS:
        progress(f"useful: {name}")
        scores = []
        print(f"\n{name}\n{HEADER}")
        for each in study(WORLDS[name](asked.rows), asked.questions, asked.runs, asked.epsilon, asked.policy):
            scores.append(each)
            print(line(each) + (" (apart)" if each.chosen else ""), flush=True)
            if each.refusal:
                print("    refused: " + each.refusal.replace("\n", "\n    "))
        counted = [each for each in scores if not each.chosen]
        everything += counted
        if counted:
            print(line(together(f"{name}, all", counted)))
    total = together("all worlds", everything)
    print(f"\n{HEADER}\n{line(total)}")
    print(f"the aim: {AIM:.0%} of the cells in reach; reached {total.reached:.1%}; {cpu() - begin:.0f} s of CPU")
    return 0 if total.reached >= AIM else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How useful are first answers?")
    parser.add_argument("--world", action="append", choices=list(WORLDS), help="one or more worlds; all if none")
    parser.add_argument("--questions", type=_numbers, default=set(), help="their numbers, such as 1,4-6; all if none")
    parser.add_argument("--runs", type=int, default=1, help="how often each question is asked")
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--rows", choices=SHAPES, default="", help="the same number of rows per unit in all worlds")
    parser.add_argument("--policy", choices=POLICIES, default="filled")
    return parser.parse_args()


def _numbers(text: str) -> set[int]:
    ranges = [part.partition("-") for part in text.split(",")]
    return {n for low, _, high in ranges for n in range(int(low), int(high or low) + 1)}


if __name__ == "__main__":
    sys.exit(main())
