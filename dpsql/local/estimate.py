"""From randomised answers to shares of people, with intervals."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsql.errors import InterfaceError
from dpsql.mechanisms import RandomizedResponse, Share
from dpsql.mechanisms.exact import Number

if TYPE_CHECKING:
    import pandas as pd

ATTRS = "dpsql.randomized"
"""Where a pandas column says how it was randomised."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated shares of people, each with an interval that misses with probability at most 1 − `confidence`.

    The interval is about the people who answered, and as well about the population if they are a random sample of it.
    """

    shares: dict[Hashable, Share]
    n: int
    epsilon: float
    confidence: float

    def df(self) -> pd.DataFrame:
        """One row for each value: share, low, high."""
        import pandas as pd

        rows = [(value, each.share, each.low, each.high) for value, each in self.shares.items()]
        return pd.DataFrame(rows, columns=["value", "share", "low", "high"])

    def __str__(self) -> str:
        lines = [f"{value}: {s.share:.4f} ({s.low:.4f} to {s.high:.4f})" for value, s in self.shares.items()]
        told = (
            f"{self.n} answers, each randomised with ε = {self.epsilon:g}; {self.confidence:.0%} intervals. "
            "Who answered is public, what they truly answered is not."
        )
        return "\n".join([*lines, told])


def estimate(
    answers: Iterable[Hashable],
    *,
    epsilon: Number | None = None,
    values: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """The share of people for each value, from answers of randomized response.

    What `df.dp.randomize` gives knows its ε and values; for other answers say them. Shares are unbiased, so one may lie
    a little below 0 or above 1.
    """
    said: dict[str, Any] = getattr(answers, "attrs", {}).get(ATTRS, {})
    rate, options = epsilon if epsilon is not None else said.get("epsilon"), values or said.get("values")
    if rate is None or options is None:
        raise InterfaceError(
            "these answers do not say how they were randomised", hint='write epsilon=1, values=["yes", "no"]'
        )
    listed = list(answers)
    response = RandomizedResponse(rate, options)
    shares = response.estimate(listed, beta=1 - confidence)
    return Estimate(shares, len(listed), float(response.rate), confidence)
