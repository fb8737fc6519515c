"""Window functions over one unit's rows, as a node: the rows stay, and each gets further columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dpsql.expressions.expression import Column, Expression, columns_of
from dpsql.plan.relation import Aggregate, Relation, require
from dpsql.policy.identifiers import fold

RANKED = ("rank", "dense_rank", "percent_rank", "cume_dist")
"""They number peers, rows that are equal in ORDER BY, and so need no order among them."""

CHOSEN = ("first_value", "last_value", "nth_value")
"""They take the value of one row of the frame."""

PLACED = ("row_number", "ntile", "lag", "lead", *CHOSEN)
"""They tell rows apart that are equal in ORDER BY, so the order must be total."""


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
class Over:
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
        """Must rows that are equal in ORDER BY be told apart?"""
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
    calls: tuple[tuple[str, Over], ...] = ()

    def __post_init__(self) -> None:
        source = self.source
        require(source is not None and not source.by_row and not source.public, "a window over rows without owner")
        assert source is not None
        names = [fold(f.name) for f in self.fields]
        require(len(set(names)) == len(names) == len(source.fields) + len(self.calls), "each field of a window once")
        require(all(source.offers(e) for _, c in self.calls for e in c.expressions), "window reads what is not there")
        require(all(any(source.owner_of(e) is not None for e in c.partition) for _, c in self.calls), "a global window")

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
