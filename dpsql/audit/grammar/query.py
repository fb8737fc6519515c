"""A query, with what it is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Query:
    """SQL and its price. Of its columns the first `keys` are keys, where that is known."""

    sql: str
    keys: int
    mechanism: str
    epsilon: float
    delta: float = 1e-6
    clipped: bool = False
