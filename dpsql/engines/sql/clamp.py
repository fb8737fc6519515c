"""A row's value as a clamped integer. NULL and NaN are settled here, before any bound is compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.sql_types import physical
from dpsql.expressions.types import DOUBLE, Kind
from dpsql.sensitivity.argument import Argument


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
