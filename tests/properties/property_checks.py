"""What must hold between two neighbouring databases, and between a price and the noise that it buys.

Each check returns the violations it found, as text; an empty list is a pass. The planted bugs are tried on these same
functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from property_queries import Query
from property_world import Database

import dpsql
from dpsql.audit import ReleaseTrace, StatisticTrace, trace
from dpsql.errors import EngineError

SALT = b"a fixed salt"
NORMS = ("l0", "linf", "l1", "l2")
Key = tuple[str, ...]


def traced(database: Database, query: Query, salt: bytes = SALT) -> list[ReleaseTrace] | None:
    """The integers before noise; None if the engine failed, which must not happen on any data."""
    try:
        return trace(database.db, query.sql, salt=salt, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism)
    except EngineError:
        return None


# neighbours -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Comparison:
    """Two traces side by side: what is wrong, and how much of each claim was used, by rule and norm."""

    violations: list[str] = field(default_factory=list)
    ratios: dict[tuple[str, str], float] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)

    def use(self, rule: str, norm: str, ratio: float) -> None:
        self.ratios[rule, norm] = max(ratio, self.ratios.get((rule, norm), 0.0))


def compare(larger: list[ReleaseTrace] | None, smaller: list[ReleaseTrace] | None) -> Comparison:
    """`smaller` is `larger` without one unit: no vector may move by more than was claimed."""
    made = Comparison()
    if larger is None or smaller is None:
        made.violations.append("the engine failed")
        return made
    for one, two in zip(larger, smaller, strict=True):
        _compare_release(one, two, made)
    return made


def _compare_release(one: ReleaseTrace, two: ReleaseTrace, made: Comparison) -> None:
    if _public_part(one) != _public_part(two):
        made.violations.append(f"the claims depend on the data: {_public_part(one)} and {_public_part(two)}")
        return
    if not is_private(one) and one.keys != two.keys:
        made.violations.append(f"public keys differ: {one.keys} and {two.keys}")
        return
    moved = {s.name: _moved(one, two, index) for index, s in enumerate(one.statistics)}
    for statistic in one.statistics:
        rule = "selection" if statistic.name == "selection" else one.rule
        _measure(rule, statistic, moved[statistic.name], made)
    for names, l1, l2 in one.joint:
        together = [d for name in names for d in moved[name]]
        _norms(one.rule, " and ".join(names), together, {"l1": l1, "l2": l2}, made)
    if is_private(one):
        made.violations += [f"a key appears when a unit goes: {key}" for key in _rows(two) if key not in _rows(one)]


def _public_part(release: ReleaseTrace) -> tuple[object, ...]:
    claims = [(s.name, s.l0, s.linf, s.l1, s.l2, s.grid, s.mechanism, s.scale) for s in release.statistics]
    return release.rule, release.joint, tuple(claims)


def is_private(release: ReleaseTrace) -> bool:
    """Are the keys of the release private?"""
    return any(statistic.name == "selection" for statistic in release.statistics)


def _rows(release: ReleaseTrace) -> dict[Key, int]:
    """Positions by key, as text: NaN equals itself, and −0.0 is not 0.0."""
    return {tuple(f"{type(v).__name__} {v!r}" for v in key): i for i, key in enumerate(release.keys)}


def _moved(one: ReleaseTrace, two: ReleaseTrace, index: int) -> list[int]:
    """How far each coordinate moved.

    A private key that only one database has may be shown with probability δ only (the threshold's theorem), and only
    then are its values; so there its weight must obey the claim, and its values need not.
    """
    before, after = _rows(one), _rows(two)
    statistic, other = one.statistics[index], two.statistics[index]
    common = before if statistic.name == "selection" else [key for key in before if key in after]
    return [statistic.values[before[key]] - (other.values[after[key]] if key in after else 0) for key in common]


def _measure(rule: str, statistic: StatisticTrace, moved: Sequence[int], made: Comparison) -> None:
    claims = {"l0": statistic.l0, "linf": statistic.linf, "l1": statistic.l1, "l2": statistic.l2}
    _norms(rule, statistic.name, moved, {norm: claim for norm, claim in claims.items() if claim is not None}, made)
    if any(moved):
        made.touched.add(rule)


def _norms(rule: str, name: str, moved: Sequence[int], claims: dict[str, int], made: Comparison) -> None:
    square = sum(d * d for d in moved)
    found = {"l0": sum(1 for d in moved if d), "linf": max(map(abs, moved), default=0), "l1": sum(map(abs, moved))}
    for norm, claim in claims.items():
        exceeds = square > claim * claim if norm == "l2" else found[norm] > claim
        size = math.isqrt(square) if norm == "l2" else found[norm]
        if exceeds:
            made.violations.append(f"rule {rule}, {name}: {norm} moved by {size}, claimed {claim}: {list(moved)}")
        made.use(rule, norm, size / claim)


def compare_equal(one: list[ReleaseTrace] | None, two: list[ReleaseTrace] | None) -> list[str]:
    """Two databases that dpsql must not tell apart."""
    if one is None or two is None:
        return ["the engine failed"]
    found = []
    for a, b in zip(one, two, strict=True):
        if list(_rows(a)) != list(_rows(b)):
            found.append(f"keys differ: {a.keys} and {b.keys}")
        found += [f"{s.name} differs: {s.values} and {t.values}" for s, t in zip(a.statistics, b.statistics, strict=True)
                  if s.values != t.values]  # fmt: skip
    return found


def visible(database: Database, query: Query) -> tuple[object, ...]:
    """All that an analyst sees of a query besides noisy values."""
    prepared = database.db.prepare(query.sql, query.epsilon, query.delta, query.mechanism)
    explained = database.db.explain(query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism)
    return prepared.plan.outputs, prepared.types, prepared.bill.cost, explained.columns, explained.types, str(explained)
