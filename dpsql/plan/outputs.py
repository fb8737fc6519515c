"""Which columns of the answer carry noise, and which are one aggregate of one release, unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.plan.clauses import title_of, unaliased
from dpsql.plan.plan import Output
from dpsql.policy.names import fold


def release_output(title: str, made: exp.Expr, release: str) -> Output:
    """A column of a release's SELECT list."""
    noisy = any(c.name.startswith("_a") and c.table == release for c in made.find_all(exp.Column))
    mixed = any(isinstance(n, exp.Window | exp.Subquery | exp.Query | exp.AggFunc) for n in made.walk())
    direct = (release, int(made.name[2:])) if noisy and isinstance(made, exp.Column) else None
    return Output(title, noisy or mixed, direct, (release, made) if noisy and not mixed else None)


def open_output(item: exp.Expr, columns: Sequence[tuple[str, Output]], nested: bool) -> Output:
    """A column of a SELECT over released and public tables: noisy if anything it reads is."""
    inner = unaliased(item)
    used = [
        o
        for c in inner.find_all(exp.Column)
        for name, o in columns
        if fold(o.name) == fold(c.name) and fold(c.table) in ("", name)
    ]
    counted = any(isinstance(n, exp.AggFunc | exp.Window) for n in inner.walk()) and any(o.noisy for _, o in columns)
    subquery = nested and any(isinstance(n, exp.Query | exp.Subquery) for n in inner.walk())
    noisy = any(o.noisy for o in used) or counted or subquery
    return Output(title_of(item), noisy, used[0].direct if isinstance(inner, exp.Column) and len(used) == 1 else None)
