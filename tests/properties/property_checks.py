"""What must hold between two neighbouring databases, and between a price and the noise that it buys.

Each check returns the violations it found, as text; an empty list is a pass. The planted bugs are tried on these same
functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from property_queries import Query
from property_world import Database

from dpsql.audit import ReleaseTrace, StatisticTrace, trace
from dpsql.errors import EngineError

SALT = b"a fixed salt"
NORMS = ("l0", "linf", "l1", "l2")
Key = tuple[str, ...]


def traced(database: Database, query: Query, salt: bytes = SALT) -> list[ReleaseTrace] | None:
    """The integers before noise; None if the engine failed, which must not happen on any data."""
    try:
        return trace(
            database.db, query.sql, salt=salt, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism,
            clipped=query.clipped,
        )  # fmt: skip
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
    moved = _moved(one, two)
    for statistic in one.statistics:
        rule = "selection" if statistic.name == "selection" else one.rule
        _measure(rule, statistic, moved[statistic.name], made)
    for names, l1, l2 in one.joint:
        together = [d for name in names for d in moved[name]]
        _norms(one.rule, " and ".join(names), together, {"l1": l1, "l2": l2}, made)
    if is_private(one):
        before = _rows(one)
        made.violations += [f"a key appears when a unit goes: {key}" for key in _rows(two) if key not in before]


def _public_part(release: ReleaseTrace) -> tuple[object, ...]:
    claims = [(s.name, s.l0, s.linf, s.l1, s.l2, s.grid, s.mechanism, s.scale) for s in release.statistics]
    return release.rule, release.joint, tuple(claims)


def is_private(release: ReleaseTrace) -> bool:
    """Are the keys of the release private?"""
    return any(statistic.name == "selection" for statistic in release.statistics)


def _rows(release: ReleaseTrace) -> dict[Key, int]:
    """Positions by key, as text: NaN equals itself, and −0.0 is not 0.0."""
    return {tuple(f"{type(v).__name__} {v!r}" for v in key): i for i, key in enumerate(release.keys)}


def _moved(one: ReleaseTrace, two: ReleaseTrace) -> dict[str, list[int]]:
    """How far each coordinate moved; a private key that only one database has counts as zero in the other."""
    pairs = [(s.name, s.values, o.values) for s, o in zip(one.statistics, two.statistics, strict=True)]
    if not is_private(one):
        return {name: [v - w for v, w in zip(values, other, strict=True)] for name, values, other in pairs}
    after = _rows(two)
    places = [after.get(key) for key in _rows(one)]
    return {name: [v - (0 if i is None else other[i]) for v, i in zip(values, places, strict=True)]
            for name, values, other in pairs}  # fmt: skip


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
        if list(_rows(a)) != list(_rows(b)) if is_private(a) else a.keys != b.keys:
            found.append(f"keys differ: {a.keys} and {b.keys}")
        found += [f"{s.name} differs: {s.values} and {t.values}" for s, t in zip(a.statistics, b.statistics, strict=True)
                  if s.values != t.values]  # fmt: skip
    return found


def visible(database: Database, query: Query) -> tuple[object, ...]:
    """All that an analyst sees of a query besides noisy values."""
    prepared = database.db.prepare(query.sql, query.epsilon, query.delta, query.mechanism)
    explained = database.db.explain(query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism)
    return prepared.plan.outputs, prepared.types, prepared.bill.cost, explained.columns, explained.types, str(explained)
