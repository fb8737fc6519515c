"""Values that a copy has on their grid already: clamped and rounded at rest, so that a query adds up integers.

**Theorem.** A statistic that reads the steps of a column gives the integers that it would compute from the column.
**Proof.** The steps were written by the very expression that a query emits (`clamped`) for the column's declared
bounds; they are read only where a query's own argument is that column, unchanged, below filters and EXISTS only, which
change no column. Bounds and grid are part of the name under which steps are stored (`steps_name`), so steps of others
are not found, whatever gave the column its bounds (the policy, a public table that it refers to) when they were
written.
**Requires** a copy that was written from this version of the data by this policy (`dpsql.plan.copies`).
**Checked by** `tests/properties/test_at_rest.py`, which compares with the integers of the table, and
`tests/privacy/test_found_in_copies_and_sources.py`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpsql.engines.sql.clamp import clamped
from dpsql.engines.sql.dialect import Dialect
from dpsql.expressions.expression import Column
from dpsql.expressions.types import DOUBLE, integer
from dpsql.plan.nodes.relation import Field, Relation, Scan
from dpsql.plan.nodes.semi_joins import Exists
from dpsql.plan.nodes.unary import Filter
from dpsql.sensitivity.argument import Argument, summed
from dpsql.sensitivity.bound import Bounded

STEPS = "\x1fsteps"
"""What follows the name of a column in that of its steps: no stored column is called so."""


def steps_name(column: str, argument: Argument) -> str:
    """Under which name a copy has the steps of a column on this grid, within these bounds."""
    return f"{column}{STEPS} {argument.lower} to {argument.upper} by {argument.grid}"


def steps_of(scan: Scan) -> dict[str, Argument]:
    """The columns of a table whose steps a copy has: numbers with a binary point and bounds that the policy declares.

    Bounds that a private search found are known only later, and may become others.
    """
    numbers = [f for f in scan.fields if f.type == DOUBLE and f.domain.bounded and f.domain.values is None]
    declared = [f for f in numbers if all(origin.startswith("declared for") for origin in f.domain.origin)]
    return {f.name: summed(Column(f.type, name=f.name), f.domain) for f in declared}


def steps_sql(dialect: Dialect, argument: Argument, value: str) -> str:
    """The steps of a value, as a copy stores them."""
    return clamped(dialect, argument, value)


def on_steps(bounded: Bounded) -> Bounded:
    """The release over a part of a copy, reading steps in place of the columns that it sums up, where it can."""
    scan = _scan_of(bounded.release.source)
    if scan is None or scan.part is None:
        return bounded
    known = steps_of(scan)
    summed_up = {s.part.argument for s in bounded.statistics if s.part.alpha}
    places = {
        i: it.expression.name
        for i, it in enumerate(bounded.arguments)
        if i in summed_up and isinstance(it.expression, Column) and _same(it, known.get(it.expression.name))
    }
    if not places:
        return bounded
    named = {n: steps_name(n, known[n]) for n in places.values()}
    made = [_stepped(it, named[places[i]]) if i in places else it for i, it in enumerate(bounded.arguments)]
    offered = [Field(named[n], integer(known[n].lower, known[n].upper), known[n].domain) for n in places.values()]
    source = _offering(bounded.release.source, tuple(dict.fromkeys(offered)))
    return replace(bounded, arguments=tuple(made), release=replace(bounded.release, source=source))


def _same(one: Argument, two: Argument | None) -> bool:
    return two is not None and (one.lower, one.upper, one.grid) == (two.lower, two.upper, two.grid)


def _stepped(argument: Argument, column: str) -> Argument:
    type_ = integer(argument.lower, argument.upper)
    return replace(argument, expression=Column(type_, name=column), grid=Fraction(1))


def _scan_of(relation: Relation) -> Scan | None:
    """The table below filters."""
    while isinstance(relation, Filter | Exists) and relation.source is not None:
        relation = relation.source
    return relation if isinstance(relation, Scan) else None


def _offering(relation: Relation, fields: tuple[Field, ...]) -> Relation:
    """The same with these columns of the copy too."""
    if isinstance(relation, Filter | Exists) and relation.source is not None:
        return replace(relation, source=_offering(relation.source, fields))
    return replace(relation, fields=(*relation.fields, *fields))
