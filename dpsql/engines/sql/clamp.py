"""A row's value as a clamped integer. NULL and NaN are settled here, before any bound is compared.

Values that a copy has on their grid already: clamped and rounded at rest, so that a query adds up integers.

**Theorem.** A statistic that reads the steps of a column gives the integers that it would compute from the column.
**Proof.** The steps were written by the very expression that a query emits (`clamped`) for the column's declared
bounds; they are read only where a query's own argument is that column, unchanged, below filters and EXISTS only, which
change no column. Bounds and grid are part of the name under which steps are stored (`steps_name`), so steps of others
are not found, whatever gave the column its bounds (the policy, a public table that it refers to) when they were
written.
**Requires** a copy that was written from this version of the data by this policy (`dpsql.plan.at_rest`).
**Checked by** `tests/properties/test_at_rest.py`, which compares with the integers of the table, and
`tests/privacy/test_found_in_copies_and_sources.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.sql_types import physical
from dpsql.expressions.expression import Column
from dpsql.expressions.types import DOUBLE, Kind, integer
from dpsql.plan.nodes.relation import Field, Relation, Scan
from dpsql.plan.nodes.semi_joins import Exists
from dpsql.plan.nodes.unary import Filter
from dpsql.sensitivity.argument import Argument, summed
from dpsql.sensitivity.bound import Bounded


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows on which a condition is true, and the integer that each of them adds."""

    condition: str
    result: str


def clamped(dialect: Dialect, argument: Argument, value: str, *, otherwise: str = "NULL") -> str:
    """`value` as an integer in [lower, upper] grid steps; `otherwise` for NULL and NaN, where a sum takes both alike.

    What needs no clamp is left as it is: sums leave NULL out, and of a bare column DuckDB knows that they fit.
    """
    if (read := _unclamped(dialect, argument, value)) is not None:
        return read
    branches = [
        f"WHEN {p.condition} THEN {p.result}" for p in pieces(dialect, argument, value) if p.result != otherwise
    ]
    return f"CASE {' '.join(branches)} ELSE {otherwise} END"


def pieces(dialect: Dialect, argument: Argument, value: str) -> tuple[Piece, Piece, Piece]:
    """The rows inside the bounds, above them and below them, with what they add; rows with NULL or NaN are in none.

    **Theorem.** Whatever is stored, a row is in at most one piece, its result is an integer in [lower, upper], and no
    step can raise. **Proof.** NaN compares above every number in all engines, so it fails `<= U` and `<= infinity`, and
    NULL fails every comparison; on numbers the three conditions exclude each other. Inside [L, U] the product with the
    power of two is exact and its rounding monotone, so it stays within the bounds, which lie on the grid and fit the
    integer type; `steps` and `unscaled` do not rely on the condition being evaluated first. CASE is several times
    cheaper than least/greatest.
    **Requires** bounds on the grid, lower ≤ upper (`dpsql.sensitivity.argument`), an expression that is total (the
    theorem of each dialect), and an engine that orders NaN above all numbers.
    **Checked by** `tests/unit/engines/test_duckdb_clamp.py` and the planted bug "no clamp".
    """
    assert argument.expression is not None
    type_ = argument.expression.type
    width = "INTEGER" if argument.magnitude < 2**31 else "BIGINT"
    if type_.kind is Kind.INTEGER and argument.grid == 1:
        inside = dialect.attempted(value, physical(type_), width)
        return _pieces(value, str(argument.lower), str(argument.upper), inside, argument, "")
    if type_.kind is Kind.DECIMAL and argument.grid == Fraction(1, 10**type_.scale):
        inside = dialect.unscaled(value, type_.scale)
        low, high = (_exact(Fraction(x) * argument.grid, type_.scale) for x in (argument.lower, argument.upper))
        return _pieces(value, low, high, inside, argument, "")
    number = value if type_ == DOUBLE else dialect.cast(value, "DOUBLE")
    inside = dialect.steps(number, float(1 / argument.grid), width)
    low, high = (dialect.double(float(x * argument.grid)) for x in (argument.lower, argument.upper))
    return _pieces(number, low, high, inside, argument, f" AND {number} <= {dialect.double(math.inf)}")


def _unclamped(dialect: Dialect, argument: Argument, value: str) -> str | None:
    """The value as it is, where its type allows nothing outside the bounds."""
    assert argument.expression is not None
    type_ = argument.expression.type
    whole = type_.kind is Kind.INTEGER and argument.grid == 1
    if not whole or type_.lower < argument.lower or type_.upper > argument.upper:
        return None
    return dialect.cast(value, "INTEGER" if argument.magnitude < 2**31 else "BIGINT")


def _pieces(
    value: str, low: str, high: str, inside: str, argument: Argument, not_nan: str
) -> tuple[Piece, Piece, Piece]:
    return (
        Piece(f"{value} BETWEEN {low} AND {high}", inside),
        Piece(f"{value} > {high}{not_nan}", str(argument.upper)),
        Piece(f"{value} < {low}", str(argument.lower)),
    )


def _exact(value: Fraction, scale: int) -> str:
    unscaled = int(value * 10**scale)
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


# values that are on their grid at rest --------------------------------------------------------------------------------


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
