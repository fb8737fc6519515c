"""Window functions over the rows of one unit: the rows stay, and each gets further columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpsql.bounds import infer
from dpsql.bounds.casts import widened
from dpsql.bounds.domain import Domain, RowDomains, interval, union
from dpsql.bounds.infer import AT_MOST, aggregate_domain
from dpsql.expressions.expression import Column, Expression, columns_of
from dpsql.expressions.types import DOUBLE, integer
from dpsql.expressions.typing import common
from dpsql.plan.nodes.relation import Aggregate, Field, Relation, UniqueKeys, aggregate_type, require
from dpsql.policy.identifiers import fold

RANKED = ("rank", "dense_rank", "percent_rank", "cume_dist")
"""They number peers, rows that are equal in ORDER BY, and so need no order among them."""

CHOSEN = ("first_value", "last_value", "nth_value")
"""They take the value of one row of the frame."""

PLACED = ("row_number", "ntile", "lag", "lead", *CHOSEN)
"""They distinguish rows that are equal in ORDER BY, so the order must be total."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """An expression of ORDER BY."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """From `start` to `end`, counted in rows (or peers) from the current one; None is unbounded."""

    kind: Literal["ROWS", "RANGE"]
    start: int | None
    end: int | None

    def __post_init__(self) -> None:
        offsets = {end for end in (self.start, self.end) if end}
        require(self.kind == "ROWS" or not offsets, "a frame by values")

    @property
    def whole(self) -> bool:
        """Is it the whole partition for every row?"""
        return self.start is None and self.end is None

    @property
    def rows(self) -> int | None:
        """How many rows it has at most; None if that is not known."""
        if self.kind == "RANGE" or self.start is None or self.end is None:
            return None
        return max(0, self.end - self.start + 1)

    @property
    def around(self) -> bool:
        """Is the current row always in it?"""
        return (self.start is None or self.start <= 0) and (self.end is None or self.end >= 0)


WHOLE = Frame("ROWS", None, None)


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function: an aggregate, or one of the others with its operands; `number` is that of ntile, lag, …."""

    function: str
    aggregate: Aggregate | None = None
    args: tuple[Expression, ...] = ()
    number: int | None = None
    ignore_nulls: bool = False
    partition: tuple[Expression, ...] = ()
    order: tuple[Ordering, ...] = ()
    frame: Frame = WHOLE

    @property
    def expressions(self) -> Iterator[Expression]:
        """All that is computed from a row."""
        yield from self.args
        yield from self.partition
        yield from (o.expression for o in self.order)
        if self.aggregate is not None and self.aggregate.argument is not None:
            yield self.aggregate.argument

    @property
    def total(self) -> bool:
        """Does the result depend on the order of rows that are equal in ORDER BY?"""
        return self.function in PLACED or (not self.frame.whole and self.frame.kind == "ROWS")


@dataclass(frozen=True, slots=True)
class Windowed(Relation):
    """The rows of `source`, each with the values of window functions over rows of its owner.

    **Theorem.** The result is unit-local, and as a bag it is a function of the owner's rows as a bag.
    **Proof.** The owner is among the keys of every partition (as the hidden column, besides those that are written),
    so a function reads rows of one owner. A function that numbers peers, or aggregates whole groups of peers, is the
    same for rows that are equal in ORDER BY. Every other one is computed in an order that is total up to rows that
    are equal in all fields (`ties`): two such rows are interchangeable, so whichever the engine takes first, the bag
    of rows with their values is the same. Zeros and NaNs are of one spelling there, so equal means the same.
    Aggregates are exact integers, so their order does not matter.
    **Requires** that no unit is a row, nor public; frames that count rows or peers, never values, which could overflow.
    **Checked by** the neighbour and the order test of windows, and the planted bugs "partition without the unit" and
    "ties left to the engine".
    """

    source: Relation | None = None
    calls: tuple[tuple[str, WindowCall], ...] = ()

    def __post_init__(self) -> None:
        source = self.source
        require(source is not None and not source.by_row and not source.public, "a window over rows without owner")
        assert source is not None
        names = [fold(f.name) for f in self.fields]
        require(len(set(names)) == len(names) == len(source.fields) + len(self.calls), "each field of a window once")
        require(all(source.offers(e) for _, c in self.calls for e in c.expressions), "window reads what is not there")
        require(all(any(source.owner_of(e) is not None for e in c.partition) for _, c in self.calls), "a global window")

    def unique_keys(self) -> UniqueKeys:
        assert self.source is not None
        return self.source.unique_keys()

    def row_numbers(self) -> frozenset[str]:
        source = self.source
        assert source is not None
        numbered = {
            n for n, c in self.calls if c.function == "row_number" and all(map(source.is_attribute, c.partition))
        }
        return source.row_numbers() | numbered

    @property
    def ties(self) -> tuple[Column, ...]:
        """The columns by which rows of one owner can differ."""
        assert self.source is not None
        varying = [] if self.source.single else [f for f in self.source.fields if not f.attribute]
        return tuple(Column(f.type, name=f.name) for f in varying)

    def used(self, needed: frozenset[str]) -> frozenset[str]:
        """The fields of `source` that are read where these columns are needed."""
        calls = [call for name, call in self.calls if name in needed]
        read = frozenset().union(*(columns_of(e) for call in calls for e in call.expressions))
        ties = {c.name for c in self.ties} if any(call.total for call in calls) else frozenset()
        return (needed - {name for name, _ in self.calls}) | read | ties


# Construction from a source ------------------------------------------------------------------------------------------

MOST = 2**62


def windowed(source: Relation, calls: Sequence[tuple[str, WindowCall]]) -> Windowed:
    """The rows of the source with the values of these window functions."""
    known = source.row_domains()
    fields = [replace(f, domain=known.columns.get(f.name, f.domain)) for f in source.fields]
    fields += [_computed(name, call, source, known) for name, call in calls]
    return Windowed(tuple(fields), False, source.rows_per_unit, source.single, source, tuple(calls))


def _computed(name: str, call: WindowCall, source: Relation, known: RowDomains) -> Field:
    """A window function as a field.

    **Theorem.** It is an attribute if its frame is the whole partition, each key of the partition is an attribute, and
    it is an aggregate or takes the value of one row. **Proof.** Then all rows of an owner are one partition and have
    one frame, in one order, from which the same value is computed for each.
    **Requires** the owner among the keys of the partition, and an order that is total up to equal rows
    (`dpsql.plan.nodes.windows`).
    **Checked by** the neighbour test of windows (rule `one_group`).
    """
    alike = call.frame.whole and (call.aggregate is not None or call.function in CHOSEN)
    attribute = source.single or (alike and all(source.is_attribute(e) for e in call.partition))
    rows = source.rows_per_unit
    if call.aggregate is not None:
        return _aggregated(name, call, known, rows, attribute)
    if call.args:
        type_, _ = common(call.args)
        domain = union(widened(infer(a, known), a.type, type_) for a in call.args)
        always = call.function != "nth_value" and (call.frame.around if call.function in CHOSEN else len(call.args) > 1)
        nullable = domain.nullable or not always
        return Field(name, type_, replace(domain, nullable=nullable), attribute)
    if call.function in ("percent_rank", "cume_dist"):
        return Field(name, DOUBLE, interval(0, 1, nullable=False), attribute)
    if call.function == "ntile":
        assert call.number is not None
        return Field(name, integer(1, call.number), interval(1, call.number, nullable=False), attribute)
    origin = (f"{AT_MOST}{rows} rows per unit",)
    return Field(name, integer(1, MOST), interval(1, rows, nullable=False, origin=origin), attribute)


def _aggregated(name: str, call: WindowCall, known: RowDomains, rows: int, attribute: bool) -> Field:
    assert call.aggregate is not None
    aggregate, frame = call.aggregate, call.frame
    argument = None if aggregate.argument is None else infer(aggregate.argument, known)
    most = rows if frame.rows is None else max(1, min(rows, frame.rows))
    domain = aggregate_domain(aggregate.function, argument, most)
    if not frame.around:
        domain = _or_none(domain) if aggregate.function == "count" else replace(domain, nullable=True)
    return Field(name, aggregate_type(aggregate, domain), domain, attribute)


def _or_none(counted: Domain) -> Domain:
    """A count, which may be over no rows."""
    return interval(0, counted.upper, nullable=False, origin=counted.origin)
