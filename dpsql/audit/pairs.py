"""One query on neighbouring databases: the traced vectors, and everything else that an analyst sees."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.audit.compare import compare, compare_equal
from dpsql.audit.grammar.query import Query
from dpsql.audit.traces import ReleaseTrace, traced
from dpsql.audit.world import Unit, World
from dpsql.budget import Cost
from dpsql.budget.pricing import Priced, price_release
from dpsql.errors import EngineError, Error, InternalError
from dpsql.flow.draft import Prepared
from dpsql.mechanisms.convert import rho_for
from dpsql.plan.nodes.released_scan import Content
from dpsql.sensitivity.bound import norm_search, settle
from dpsql.sensitivity.clip import clip_at
from dpsql.session import Connection

SALT = b"a fixed salt"
FAILURES = (EngineError.__name__, InternalError.__name__)
"""Errors that no query may end with, on any data."""


def prepare(db: Connection, query: Query) -> Prepared:
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
    db: Connection, prepared: Prepared, released: dict[str, Content] | None = None
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
    keys = [row[: query.keys] for row in made.fetchall()] if _fixed(made._released.values(), query) else None
    return made.columns, made.types, _about(made.cost) if db.policy.search else made.cost, keys


def _about(cost: Cost) -> tuple[str, ...]:
    """A cost without its last digits, in which the noise of a search may show: clips are rounded to their grid."""
    return tuple(f"{each:.3g}" for each in (cost.epsilon, cost.delta, cost.rho))


def forget_searches(db: Connection, label: str) -> None:
    """Make a new version of the data: what was searched for in another belongs to that."""
    if db.policy.search:
        db._ledger.bump(label, "the audit")


def _fixed(released: object, query: Query) -> bool:
    """Whether which rows there are, and in which order, cannot depend on noise."""
    text = query.sql.upper()
    steered = any(word in text for word in ("HAVING", "ORDER BY", "LIMIT", "QUALIFY", " JOIN", "WHERE A0"))
    return not steered and all(table.priced.threshold is None for table in released)  # type: ignore[attr-defined]


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
    """What is wrong with a case; nothing, if its query is refused."""
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
    """Is this the name and the text of an error, and not an answer?"""
    return len(seen) == 2


def differences(one: tuple[object, ...], two: tuple[object, ...]) -> list[str]:
    """In which parts an analyst could tell two databases apart."""
    if refused(one) and one == two and one[0] in FAILURES:
        return [f"the query failed: {one[1]}"]
    if len(one) != len(two):
        return [f"an analyst can tell the databases apart: {one} and {two}"]
    return [f"an analyst can tell the databases apart: {a} and {b}" for a, b in zip(one, two, strict=True) if a != b]


KINDS: dict[str, Callable[[Case, Connection, Connection], list[str]]] = {
    MOVED: _traced, ORDER: _traced, SEEN: _differs(visible), ANSWERED: _differs(answered),
}  # fmt: skip
