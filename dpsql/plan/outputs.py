"""Which columns of the answer carry noise, and which are one aggregate of one release, unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from sqlglot import exp

from dpsql.plan.choosing import chooses
from dpsql.plan.clauses import title_of, unaliased
from dpsql.plan.plan import Output
from dpsql.plan.relation import Aggregate


def release_output(title: str, made: exp.Expr, release: str, aggregates: Sequence[Aggregate]) -> Output:
    """A column of the SELECT list of a release with these aggregates."""
    columns = {c.name for c in made.find_all(exp.Column) if c.table == release}
    chosen = any(chooses(a) for i, a in enumerate(aggregates) if f"_a{i}" in columns)
    noisy = any(c.name.startswith("_a") and c.table == release for c in made.find_all(exp.Column))
    mixed = any(isinstance(n, exp.Window | exp.Subquery | exp.Query | exp.AggFunc) for n in made.walk())
    direct = (release, int(made.name[2:])) if noisy and isinstance(made, exp.Column) else None
    return Output(title, noisy or mixed, direct, (release, made) if noisy and not mixed else None, chosen)


def open_output(item: exp.Expr, columns: Sequence[tuple[str, Output]], nested: bool) -> Output:
    """A column of a SELECT over released and public tables: noisy if anything it reads is."""
    inner = unaliased(item)
    used = [
        o
        for c in inner.find_all(exp.Column)
        for name, o in columns
        if o.name.lower() == c.name.lower() and c.table.lower() in ("", name)
    ]
    counted = any(isinstance(n, exp.AggFunc | exp.Window) for n in inner.walk()) and any(o.noisy for _, o in columns)
    subquery = nested and any(isinstance(n, exp.Query | exp.Subquery) for n in inner.walk())
    noisy = any(o.noisy for o in used) or counted or subquery
    direct = used[0].direct if isinstance(inner, exp.Column) and len(used) == 1 else None
    return Output(title_of(item), noisy, direct, chosen=any(o.chosen for o in used))


def united(left: Sequence[Output], right: Sequence[Output]) -> tuple[Output, ...]:
    """The columns of a set operation: noisy, or chosen, if one of its sides is."""
    pairs = zip_longest(left, right[: len(left)])
    return tuple(
        Output(one.name, two is None or one.noisy or two.noisy, chosen=two is not None and (one.chosen or two.chosen))
        for one, two in pairs
    )
