"""What `explain` shows, as JSON and back: the same objects on both sides of the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from typing import Any

from dpsql.answers.explain import (
    AggregatePlan,
    Bounds,
    ChoicePlan,
    ClipPlan,
    Explanation,
    KeyPlan,
    NestedPlan,
    ReleasePlan,
    StatisticPlan,
    TreePlan,
)
from dpsql.budget import Cost
from dpsql.interfaces.server.packed import pack, unpack
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace

_PLANS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        AggregatePlan, Bounds, ChoicePlan, ClipPlan, Cost, DiscreteGaussian, DiscreteLaplace, KeyPlan, NestedPlan,
        ReleasePlan, StatisticPlan, TreePlan,
    )
}  # fmt: skip
TOLD = ("cost", "mechanism", "releases", "finishing", "columns", "types", "notes", "remark", "nested")


def tell(made: Explanation) -> dict[str, Any]:
    """An explanation with its alternatives."""
    others = {name: tell(other) for name, other in made.alternatives.items()}
    return {name: _tell(getattr(made, name)) for name in TOLD} | {"alternatives": others}


def _tell(part: Any) -> Any:
    if type(part).__name__ in _PLANS:
        return {"plan": type(part).__name__, "of": [_tell(getattr(part, each.name)) for each in fields(part)]}
    if isinstance(part, tuple):
        return {"all": [_tell(each) for each in part]}
    if isinstance(part, Fraction):
        return {"fraction": str(part)}
    return None if callable(part) else pack(part)


def read(said: Any) -> Any:
    """The inverse, for a part of an explanation. What only the server can compute is None."""
    match said:
        case {"plan": kind, "of": parts}:
            return _PLANS[kind](*map(read, parts))
        case {"all": parts}:
            return tuple(map(read, parts))
        case {"fraction": text}:
            return Fraction(text)
        case _:
            return unpack(said)


def with_ranks(releases: tuple[ReleasePlan, ...], rank: Callable[[int, int, float], float]) -> tuple[ReleasePlan, ...]:
    """Releases whose choices ask `rank` how far off they may be: by release, by choice, and by the chance to miss."""

    def asking(release: ReleasePlan, i: int) -> ReleasePlan:
        listed = enumerate(release.choices)
        return replace(release, choices=tuple(replace(choice, _errors=partial(rank, i, j)) for j, choice in listed))

    return tuple(asking(release, i) for i, release in enumerate(releases))
