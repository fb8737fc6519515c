"""Values and explanations as JSON and back, unchanged: what a remote connection and the server send each other.

Own code, because JSON libraries do not keep decimals, tuples, non-finite floats and mappings with keys of any type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any
from uuid import UUID

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
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace
from dpsql.options import Within

_READ: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
    "float": float,
    "uuid": UUID,
    "bytes": bytes.fromhex,
    "microseconds": lambda count: timedelta(microseconds=count),
    "tuple": lambda parts: tuple(map(unpack, parts)),
    "map": lambda pairs: {unpack(key): unpack(value) for key, value in pairs},
    "within": lambda parts: Within(*map(unpack, parts)),
    "text": str,
}


def pack(value: Any) -> Any:
    """The value in JSON's own types; what these have not is an object with one key, its kind."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case datetime() | date() | time():
            return {type(value).__name__.lower(): value.isoformat()}
        case Decimal():
            return {"decimal": str(value)}
        case UUID():
            return {"uuid": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case timedelta():
            return {"microseconds": value // timedelta(microseconds=1)}
        case Within():
            return {"within": [pack(value.amount), pack(value.confidence)]}
        case list():
            return [pack(each) for each in value]
        case tuple():
            return {"tuple": [pack(each) for each in value]}
        case Mapping():
            return {"map": [[pack(key), pack(each)] for key, each in value.items()]}
        case _:
            item = getattr(value, "item", None)
            return pack(item()) if callable(item) else {"text": str(value)}


def unpack(value: Any) -> Any:
    """The inverse of `pack`; ValueError for what `pack` does not write."""
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or (kind := next(iter(value))) not in _READ:
        raise ValueError("a value of an unknown kind")
    try:
        return _READ[kind](value[kind])
    except (TypeError, ArithmeticError, KeyError):
        raise ValueError(f"no {kind}") from None


# explanations --------------------------------------------------------------------------------------------------------

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
