"""A row's value as a clamped integer. NULL and NaN are settled here, before any bound is compared."""

from __future__ import annotations

from fractions import Fraction

from dpsql.engines.duckdb.literals import literal
from dpsql.plan.types import DOUBLE, Kind
from dpsql.sensitivity.argument import Argument


def clamped(argument: Argument, value: str, *, otherwise: str = "NULL") -> str:
    """`value` as an integer in [lower, upper] grid steps; `otherwise` for NULL and NaN.

    **Theorem.** Whatever is stored, the result is NULL, `otherwise`, or an integer in [lower, upper], and no step can
    raise. **Proof.** NaN compares above every number in DuckDB, so it fails `< U` and `<= infinity`; NULL fails every
    comparison; both fall through. Inside (L, U) the product with the power of two is exact and its rounding monotone,
    so it stays within the rounded bounds, which fit the integer type. CASE is several times cheaper than least/greatest.
    **Checked by** `tests/unit/engines/test_duckdb_clamp.py` and the planted bug "no clamp".
    """
    assert argument.expression is not None
    type_ = argument.expression.type
    width = "INTEGER" if argument.magnitude < 2**31 else "BIGINT"
    if type_.kind is Kind.INTEGER and argument.grid == 1:
        if argument.lower <= type_.lower and type_.upper <= argument.upper:
            read = f"CAST({value} AS {width})"
            return read if otherwise == "NULL" else f"coalesce({read}, {otherwise})"
        return _case(value, str(argument.lower), str(argument.upper), f"CAST({value} AS {width})", argument, otherwise, "")
    if type_.kind is Kind.DECIMAL and argument.grid == Fraction(1, 10**type_.scale):
        inside = f"CAST(round(CAST({value} AS DOUBLE) * {10**type_.scale}) AS BIGINT)"
        low, high = (_exact(Fraction(x) * argument.grid, type_.scale) for x in (argument.lower, argument.upper))
        return _case(value, low, high, inside, argument, otherwise, "")
    number = value if type_ == DOUBLE else f"CAST({value} AS DOUBLE)"
    inside = f"CAST({number} * {literal(float(1 / argument.grid), DOUBLE)} AS {width})"
    low, high = (literal(float(x * argument.grid), DOUBLE) for x in (argument.lower, argument.upper))
    return _case(number, low, high, inside, argument, otherwise, f" AND {number} <= CAST('infinity' AS DOUBLE)")


def _case(value: str, low: str, high: str, inside: str, argument: Argument, otherwise: str, not_nan: str) -> str:
    branches = [f"WHEN {value} > {low} AND {value} < {high} THEN {inside}"]
    if str(argument.upper) != otherwise:
        branches.append(f"WHEN {value} >= {high}{not_nan} THEN {argument.upper}")
    if str(argument.lower) != otherwise:
        branches.append(f"WHEN {value} <= {low} THEN {argument.lower}")
    return f"CASE {' '.join(branches)} ELSE {otherwise} END"


def _exact(value: Fraction, scale: int) -> str:
    unscaled = int(value * 10**scale)
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"
