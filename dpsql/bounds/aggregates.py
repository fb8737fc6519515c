"""What is known of an aggregate over one unit's rows (at most `rows` of them)."""

from __future__ import annotations

from dpsql.bounds.domain import UNKNOWN, Domain, interval

AT_MOST = "at most "
"""How the origin begins of a bound that rests on how many rows of a unit count."""


def aggregate_domain(function: str, argument: Domain | None, rows: int) -> Domain:
    """Count, sum, avg, min and max of one unit; a group exists only if it has a row."""
    if function == "count":
        least = 1 if argument is None or not argument.nullable else 0
        return interval(least, rows, nullable=False, origin=(f"{AT_MOST}{rows} rows per unit",))
    if argument is None:
        return UNKNOWN
    if function == "sum":
        low = None if argument.lower is None else min(argument.lower, rows * argument.lower)
        high = None if argument.upper is None else max(argument.upper, rows * argument.upper)
        origin = (*argument.origin, f"{AT_MOST}{rows} rows per unit")
        return interval(low, high, nullable=argument.nullable, origin=origin)
    return Domain(argument.lower, argument.upper, None, argument.nullable, False, argument.origin)
