"""`dpsql audit`: attack one's own promise, and show the figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsql.interfaces.terminal import problems, screen

if TYPE_CHECKING:
    from dpsql.audit import Outcome, Settings, World


def audit(
    db: Annotated[
        Path | None, typer.Argument(metavar="[DB]", help="Your own database; default: the built-in worlds.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="The policy; default: policy.yaml beside DB.")
    ] = None,
    check: Annotated[list[str] | None, typer.Option("--check", metavar="NAME", help="Only these checks.")] = None,
    pairs: Annotated[int | None, typer.Option("--pairs", help="How many neighbouring pairs are compared.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed, for other worlds and queries.")] = 0,
    long: Annotated[bool, typer.Option("--long/--short", help="A million pairs; default: five thousand.")] = False,
) -> None:
    """For the steward: attack the promise of this policy and database, or of the built-in worlds."""
    from dpsql.audit import Settings
    from dpsql.audit.registry import names

    settings = Settings(seed=seed, pairs=pairs or (1_000_000 if long else 5_000), long=long)
    outcomes = run(_worlds(db, policy, seed), settings, check or names())
    for outcome in outcomes:
        screen().print(f"{outcome.check}: {'passed' if outcome.passed else 'FAILED'}")
    if not all(outcome.passed for outcome in outcomes):
        raise typer.Exit(1)


def _worlds(db: Path | None, policy: Path | None, seed: int) -> Sequence[World]:
    from dpsql.audit import World, builtin_worlds

    return builtin_worlds(seed) if db is None else [World.of(db, policy or db.parent / "policy.yaml")]


def run(worlds: Sequence[World], settings: Settings, checks: Sequence[str]) -> list[Outcome]:
    """Each check in turn, with a bar that shows how far it is."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from dpsql.audit.registry import find

    found = {name: find(name) for name in checks}
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f}"))
    outcomes = []
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=problems(), transient=True) as bar:
        for name, check in found.items():
            task, began = bar.add_task(name, total=1), time.monotonic()

            def progress(done: int, total: int, task: object = task) -> None:
                bar.update(task, completed=done, total=max(1, total))  # type: ignore[arg-type]

            outcomes.append(replace(check(worlds, settings, progress), seconds=time.monotonic() - began))
    return outcomes
