"""The 22 queries of TPC-H, private, beside plain DuckDB, as one table: `python examples/tpch/run.py --scale 0.1 1`.

It makes the data if they are not there, verifies what the policy declares, and asks every query a few times.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tpch_compare import NOISELESS, Comparison, Price, compare, questions
from tpch_data import NoGenerator, make_database, open_plain

import dpsql
from dpsql.interfaces.steward_tasks import check
from dpsql.policy import Policy, load_policy

HERE = Path(__file__).parent
CAPTION = (
    "rows: those of the exact answer that were found. error: median relative error.",
    "cut: what of it is no noise, but cut off by the policy's bounds. ×: time against plain DuckDB.",
)


def main() -> int:
    """Make, verify, ask, print."""
    arguments = _arguments()
    price = Price(arguments.epsilon, arguments.mechanism)
    every: list[Comparison] = []
    for scale in arguments.scale:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            try:
                asked = (arguments.runs, arguments.queries, progress, arguments.patience)
                made = run(arguments.data, scale, price, *asked)
            except (NoGenerator, dpsql.Error) as problem:
                progress.console.print(str(problem), markup=False)
                return 1
        every += made
        if not arguments.json:
            Console().print(table(made, f"TPC-H at scale {scale:g}, epsilon = {price.epsilon:g} for each query"))
    if arguments.json:
        print(json.dumps([asdict(each) | {"ratio": each.ratio} for each in every], indent=1, ensure_ascii=False))
    return 0 if all(each.outcome != "wrong" for each in every) else 1


def run(
    folder: Path,
    scale: float,
    price: Price,
    runs: int,
    numbers: list[int],
    progress: Progress,
    patience: float = float("inf"),
) -> list[Comparison]:
    """Every query, and where it is refused, its rewriting."""
    steps = progress.add_task(f"making the data of scale {scale:g}", total=len(numbers) + 2)
    database = make_database(folder, scale)
    progress.update(steps, advance=1, description="verifying the policy's keys")
    with opened(database, measuring(load_policy(HERE / "policy.yaml"))) as (db, plain):
        progress.advance(steps)
        made: list[Comparison] = []
        for number in numbers:
            for question in questions(number):
                progress.update(steps, description=f"asking {question.name}")
                made.append(compare(db, plain, question, price, runs, patience))
                if made[-1].outcome != "refused":
                    break
            progress.advance(steps)
        return made


def measuring(policy: Policy) -> Policy:
    """The policy for a measurement: every answer is made anew, and the budget holds as many as are asked for."""
    plenty = {"epsilon": Decimal(NOISELESS) * 1000}
    return policy.model_copy(
        update={
            "replay": False,
            "budget": policy.budget.model_copy(update=plenty),
            "limits": policy.limits.model_copy(update=plenty),
        }
    )


@contextmanager
def opened(database: Path, policy: Policy) -> Iterator[tuple[dpsql.Connection, duckdb.DuckDBPyConnection]]:
    """A private door and a plain one, once the steward has verified what the policy declares."""
    with TemporaryDirectory() as scratch:
        ledger = Path(scratch) / "tpch.ledger"
        with dpsql.connect(database, policy=policy, ledger=ledger, steward=True) as steward:
            check(steward)
        with (
            dpsql.connect(database, policy=policy, ledger=ledger, analyst="ana") as db,
            open_plain(database) as plain,
        ):
            yield db, plain


def table(made: list[Comparison], title: str) -> Table:
    """For people: a line for each query, and below it why some are refused."""
    why = [f"{each.name} is refused: {each.reason}." for each in made if each.outcome == "refused"]
    shown = Table(title=title, caption="\n".join([*CAPTION, *why]), caption_justify="left", box=box.SIMPLE_HEAD)
    for name in ("query", "answer", "runs", "rows", "error", "cut", "cost", "seconds", "×"):
        shown.add_column(name, justify="left" if name in ("query", "answer", "cost") else "right", no_wrap=True)
    for each in made:
        shown.add_row(*_cells(each))
    return shown


def _cells(it: Comparison) -> list[str]:
    if it.outcome == "refused":
        return [it.name, it.outcome]
    shares = [_percent(it.error), _percent(it.cut)]
    counts = [str(it.runs), f"{it.found}/{it.rows}"]
    return [it.name, it.outcome, *counts, *shares, it.cost, f"{it.seconds:.3f}", f"{it.ratio:.1f}"]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}" if share < 1 else f"{share:.0%}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="TPC-H, private, beside plain DuckDB.")
    parser.add_argument(
        "--scale", type=float, nargs="+", default=[0.1], help="0.1 is 15,000 customers and 600,000 lines; or several"
    )
    parser.add_argument("--epsilon", type=float, default=1.0, help="the price of each query")
    parser.add_argument("--mechanism", choices=("laplace", "gaussian"), help="other noise than the policy's")
    parser.add_argument("--runs", type=int, default=5, help="how often each query is asked")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds after which a query is asked no more")
    parser.add_argument("--queries", type=int, nargs="+", default=list(range(1, 23)), metavar="N", help="some of them")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="the folder of the databases")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
