"""What must hold between two neighbouring databases: no vector moves further than claimed, and the claims are equal.

**Theorem.** If for every pair of neighbours the traced vectors move by no more than their claims, the mechanisms give
the privacy that they were paid for. **Proof.** The claims are the sensitivities from which the noise is scaled.
**Requires** that the traced integers are those to which noise is added: `dpsql.audit.traces` runs the same code.
**Checked by** the planted bugs of tests/properties, which are tried on these same functions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpsql.answers.missing_groups import decided_by_noise
from dpsql.answers.noise_stage import NoisyTable
from dpsql.audit.grammar.query_writer import Query
from dpsql.audit.traces import ReleaseTrace, StatisticTrace, Stepwise, extremes, traced
from dpsql.audit.world import Unit, World
from dpsql.budget import Cost
from dpsql.budget.pricing import Priced, price_release
from dpsql.errors import EngineError, Error, InternalError
from dpsql.mechanisms.zcdp_conversion import rho_for
from dpsql.plan.nodes.released_scan import Content
from dpsql.query_draft import PreparedQuery
from dpsql.sensitivity.bound import norm_search, settle
from dpsql.sensitivity.clip import clip_at
from dpsql.session import Connection

NORMS = ("l0", "linf", "l1", "l2")
FAILED = "the engine failed"
Key = tuple[str, ...]
Traces = Sequence[ReleaseTrace]


@dataclass(slots=True)
class Comparison:
    """Two traces side by side: what is wrong, and how much of each claim was used, by rule and norm."""

    violations: list[str] = field(default_factory=list)
    ratios: dict[tuple[str, str], float] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)

    def use(self, rule: str, norm: str, ratio: float) -> None:
        """Note that a part of a claim was used."""
        self.ratios[rule, norm] = max(ratio, self.ratios.get((rule, norm), 0.0))

    @property
    def most(self) -> float:
        """The largest part of any claim that was used."""
        return max(self.ratios.values(), default=0.0)


def compare(larger: Traces | None, smaller: Traces | None, paid: Fraction | None = None) -> Comparison:
    """`smaller` is `larger` without one unit. With `paid`, no choice may cost more ε than that."""
    made = Comparison()
    if larger is None or smaller is None:
        made.violations.append(FAILED)
        return made
    for one, two in zip(larger, smaller, strict=True):
        _compare_release(one, two, paid, made)
    return made


def _compare_release(one: ReleaseTrace, two: ReleaseTrace, paid: Fraction | None, made: Comparison) -> None:
    if _public_part(one) != _public_part(two):
        made.violations.append(f"the claims depend on the data: {_public_part(one)} and {_public_part(two)}")
        return
    if not is_private(one) and one.keys != two.keys:
        made.violations.append(f"public keys differ: {one.keys} and {two.keys}")
        return
    places = _places(one, two)
    moved: dict[str, list[int]] = {}
    for statistic, other in zip(one.statistics, two.statistics, strict=True):
        rule = rule_of(one, statistic)
        if isinstance(statistic.values, Stepwise) and isinstance(other.values, Stepwise):
            after = [None if i is None else other.values.groups[i] for i in places]
            ends = [extremes(a, b) for a, b in zip(statistic.values.groups, after, strict=True) if a != b]
            _choice(rule, statistic, ends, paid, made)
        else:
            moved[statistic.name] = _moved(len(one.keys), places, statistic, other)
            _measure(rule, statistic, moved[statistic.name], made)
    for names, l1, l2 in one.joint:
        together = [d for name in names for d in moved[name]]
        _norms(one.rule, " and ".join(names), together, {"l1": l1, "l2": l2}, made)
    if is_private(one):
        before = _rows(one)
        made.violations += [f"a key appears when a unit goes: {key}" for key in _rows(two) if key not in before]


def rule_of(release: ReleaseTrace, statistic: StatisticTrace) -> str:
    """The rule that bounds a statistic."""
    if statistic.mechanism == "exponential":
        return "choice"
    if statistic.name == "selection":
        return "selection"
    return "tree" if statistic.name.startswith("tree") else release.rule


def rules_of(releases: Traces | None) -> set[str]:
    """The rules that bound some releases."""
    return {rule_of(r, s) for r in releases or () for s in r.statistics} | {r.rule for r in releases or ()}


def _public_part(release: ReleaseTrace) -> tuple[object, ...]:
    claims = [(s.name, s.l0, s.linf, s.l1, s.l2, s.grid, s.mechanism, s.scale) for s in release.statistics]
    return release.rule, release.joint, tuple(claims)


def is_private(release: ReleaseTrace) -> bool:
    """Are the keys of the release private?"""
    return any(statistic.name == "selection" for statistic in release.statistics)


def _rows(release: ReleaseTrace) -> dict[Key, int]:
    """Positions by key, as text: NaN equals itself, and −0.0 is not 0.0."""
    return {tuple(f"{type(v).__name__} {v!r}" for v in key): i for i, key in enumerate(release.keys)}


def _places(one: ReleaseTrace, two: ReleaseTrace) -> list[int | None]:
    """The position in the other trace of each key of this one; None if a private key is missing there."""
    if not is_private(one):
        return list(range(len(one.keys)))
    after = _rows(two)
    return [after.get(key) for key in _rows(one)]


def _moved(keys: int, places: list[int | None], statistic: StatisticTrace, other: StatisticTrace) -> list[int]:
    """How far each coordinate moved; in a private group that only one database has, all were zero."""
    values, others = tuple(statistic.values), tuple(other.values)
    if values == others and None not in places:
        return [0] * len(values)
    size = len(values) // max(1, keys)
    nothing = (0,) * size
    after = [nothing if i is None else others[i * size : (i + 1) * size] for i in places]
    return [v - w for v, w in zip(values, (each for group in after for each in group), strict=True)]


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
            shown = [d for d in moved if d]
            made.violations.append(f"rule {rule}, {name}: {norm} moved by {size}, claimed {claim}: {shown}")
        made.use(rule, norm, size / claim if claim else float(size > 0))


def _choice(
    rule: str, statistic: StatisticTrace, ends: Sequence[tuple[int, int]], paid: Fraction | None, made: Comparison
) -> None:
    """No score moves by more than was claimed, nor all groups together by a wider spread than was paid for.

    `ends` are the smallest and the largest move in each group that moved. With a claim `l2` it is their squares that
    add up.
    """
    assert statistic.linf is not None
    together = sum if statistic.l2 is None else _root_of_squares
    most = together([max(abs(low), abs(high)) for low, high in ends])
    spread = together([max(0, high) - min(0, low) for low, high in ends])
    wide = statistic.linf if statistic.name.startswith("mode") else 2 * statistic.linf
    if most > statistic.linf:
        made.violations.append(f"{statistic.name} moved by {most}, claimed {statistic.linf}")
    if spread > wide:
        made.violations.append(f"{statistic.name} has a spread of {spread}, paid for {wide}")
    if paid is not None and spread / statistic.scale > paid:
        made.violations.append(f"{statistic.name} costs {float(spread / statistic.scale)}, paid {paid}")
    made.use(rule, "linf", most / statistic.linf)
    if most:
        made.touched.add(rule)


def _root_of_squares(moves: Sequence[int]) -> int:
    """Rounded up: it is above a whole number if and only if the true root is."""
    square = sum(move * move for move in moves)
    return math.isqrt(square - 1) + 1 if square else 0


def compare_equal(one: Traces | None, two: Traces | None) -> list[str]:
    """Two databases that dpsql must not tell apart."""
    if one is None or two is None:
        return [FAILED]
    found = []
    for a, b in zip(one, two, strict=True):
        if list(_rows(a)) != list(_rows(b)) if is_private(a) else a.keys != b.keys:
            found.append(f"keys differ: {a.keys} and {b.keys}")
        found += [
            f"{s.name} differs: {s.values} and {t.values}"
            for s, t in zip(a.statistics, b.statistics, strict=True)
            if s.values != t.values
        ]
    return found


# one query on two databases -------------------------------------------------------------------------------------------


SALT = b"a fixed salt"
FAILURES = (EngineError.__name__, InternalError.__name__)
"""Errors that no query may end with, on any data."""


def prepare(db: Connection, query: Query) -> PreparedQuery:
    """The query up to its price; where vectors are clipped, at some norm, with the searches for their norms beside it.

    Any public clip is sound, so that one will do which the text of the query decides.
    """
    prepared = db.prepare(
        query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism, clipped=query.clipped
    )
    rng, releases, searches = random.Random(query.sql), list[Priced](), list[Priced]()
    for priced in prepared.bill.releases:
        bounded = priced.bounded
        for each in bounded.clipped:
            norm = each.vector.limit ** rng.random() * rng.choice((1.0, 1.4, 0.1))
            bounded = settle(bounded, clip_at(each.vector, norm))
            search = norm_search(priced.bounded, each.vector)
            searches.append(price_release(search, replace(priced.portion, parts=priced.portion.parts[:1])))
        releases.append(price_release(bounded, priced.portion) if bounded.clipped else priced)
    return replace(prepared, bill=replace(prepared.bill, releases=(*releases, *searches)))


def vectors(
    db: Connection, prepared: PreparedQuery, released: dict[str, Content] | None = None
) -> tuple[list[ReleaseTrace] | None, dict[str, Content]]:
    """The integers before noise; None if the engine failed, which must not happen on any data."""
    try:
        return traced(db, prepared, salt=SALT, released=released)
    except EngineError:
        return None, {}


def paid(query: Query) -> Fraction:
    """All that a choice may cost in ε; under Gaussian noise the ε of one whose ρ is that of the whole query."""
    epsilon, delta = Fraction(str(query.epsilon)), Fraction(str(query.delta))
    if query.mechanism == "laplace":
        return epsilon
    return Fraction((8 * float(rho_for(epsilon, delta))) ** 0.5 * 1.000001)


def visible(db: Connection, query: Query) -> tuple[object, ...]:
    """All that an analyst sees of a query before it is asked: names, types, cost, the plan, or why it is refused."""
    try:
        told = db.explain(
            query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism, clipped=query.clipped
        )
    except Error as refusal:
        return type(refusal).__name__, str(refusal)
    return told.columns, told.types, told.cost, told.sql, told.finishing, str(told)


def answered(db: Connection, query: Query) -> tuple[object, ...]:
    """All that an analyst sees of the answer besides noisy values; rows and keys where they are public."""
    try:
        made = db.query(
            query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism, clipped=query.clipped
        )
    except Error as refusal:
        return type(refusal).__name__, str(refusal)
    keys = [row[: query.keys] for row in made.fetchall()] if _fixed(made.released.values(), query) else None
    return made.columns, made.types, _about(made.cost) if db.policy.search else made.cost, keys


def _about(cost: Cost) -> tuple[str, ...]:
    """What a cost says whatever a search found: noise of few steps has another ρ where the clip that was found has."""
    return tuple(f"{each:.3g}" for each in (cost.epsilon, cost.delta))


def forget_searches(db: Connection, label: str) -> None:
    """Make a new version of the data: what was searched for in another belongs to that."""
    if db.policy.search:
        db.ledger.bump(label, "the audit")


def _fixed(released: Iterable[NoisyTable], query: Query) -> bool:
    """Whether neither the rows of the answer nor their order can depend on noise."""
    text = query.sql.upper()
    steered = any(word in text for word in ("HAVING", "ORDER BY", "LIMIT", "QUALIFY", " JOIN", "WHERE A0"))
    return not steered and not any(decided_by_noise(table) for table in released)


# one case, from scratch: for reports and for making it smaller --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """A query, a world, the units that its neighbour lacks, and the way in which the two are compared.

    `order` is the seed by which the neighbour's rows are shuffled.
    """

    kind: str
    query: Query
    world: World
    gone: tuple[Unit, ...]
    order: int = 1

    @property
    def other(self) -> World:
        """The other database of the pair."""
        if self.kind == ORDER:
            return self.world.without_unowned().reordered(random.Random(self.order))
        return self.world.lacking(self.gone).reordered(random.Random(self.order))


MOVED, ORDER, SEEN, ANSWERED = "moved", "order", "seen", "answered"


def violations(case: Case) -> list[str]:
    """The violations of a case; none if its query is refused."""
    with case.world.open(steward=True) as one, case.other.open(steward=True) as two:
        return KINDS[case.kind](case, one, two)


def _traced(case: Case, one: Connection, two: Connection) -> list[str]:
    try:
        prepared = prepare(one, case.query)
    except Error:
        return []
    larger, inner = vectors(one, prepared)
    smaller, _ = vectors(two, prepared, inner)
    if case.kind == ORDER:
        return compare_equal(larger, smaller)
    return compare(larger, smaller, paid(case.query)).violations


def _differs(
    look: Callable[[Connection, Query], tuple[object, ...]],
) -> Callable[[Case, Connection, Connection], list[str]]:
    def told(case: Case, one: Connection, two: Connection) -> list[str]:
        return differences(look(one, case.query), look(two, case.query))

    return told


def refused(seen: tuple[object, ...]) -> bool:
    """Whether this is the name and text of an error rather than an answer."""
    return len(seen) == 2


def differences(one: tuple[object, ...], two: tuple[object, ...]) -> list[str]:
    """The parts by which an analyst could tell two databases apart."""
    if refused(one) and one == two and one[0] in FAILURES:
        return [f"the query failed: {one[1]}"]
    if len(one) != len(two):
        return [f"an analyst can tell the databases apart: {one} and {two}"]
    return [f"an analyst can tell the databases apart: {a} and {b}" for a, b in zip(one, two, strict=True) if a != b]


KINDS: dict[str, Callable[[Case, Connection, Connection], list[str]]] = {
    MOVED: _traced, ORDER: _traced, SEEN: _differs(visible), ANSWERED: _differs(answered),
}  # fmt: skip
