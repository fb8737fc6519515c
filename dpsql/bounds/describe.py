"""Conditions as people write them, for the origin of a bound."""

from __future__ import annotations

from dpsql.expressions.expression import Expression

LONGEST = 60


def describe(expression: Expression) -> str:
    """The expression in SQL's own signs, cut where it is long."""
    text = str(expression)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
