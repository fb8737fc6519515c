"""An explanation from a server: the same object; what takes the plan to compute is asked of the server, free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from dpsql.answers.explain import Explanation
from dpsql.interfaces.server.packed_plans import TOLD, read, with_ranks

Ask = Callable[..., dict[str, Any]]
"""Asks a question about the same query: its name, and further words."""


@dataclass(frozen=True, slots=True)
class RemoteExplanation(Explanation):
    """What a query would do and cost: `print` it."""

    _ask: Ask | None = field(default=None, repr=False, compare=False)

    def expected_error(self, confidence: float = 0.95, n: float | None = None) -> dict[str, float | None]:
        """For each output column with noise, the half width of its interval in every row, at this price."""
        assert self._ask is not None
        return self._ask("expected_error", confidence=confidence, n=n)

    def __str__(self) -> str:
        from dpsql.answers.render import format_explanation

        return format_explanation(self)

    __repr__ = __str__


def explanation_of(said: dict[str, Any], ask: Ask) -> RemoteExplanation:
    """What the server said, as an object; `ask` reaches the same query at the same price."""

    def made(said: dict[str, Any], ask: Ask, others: dict[str, RemoteExplanation]) -> RemoteExplanation:
        told = {name: read(said[name]) for name in TOLD}
        told["releases"] = with_ranks(told["releases"], lambda *place: float(ask("rank_error", place=place)["rank"]))
        return RemoteExplanation(**told, alternatives=others, _plan=cast(Any, None), _bill=cast(Any, None), _ask=ask)

    def with_other(name: str) -> Ask:
        return lambda call, **words: ask(call, **words | {"mechanism": name})

    others = {name: made(other, with_other(name), {}) for name, other in said["alternatives"].items()}
    return made(said, ask, others)
