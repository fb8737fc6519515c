"""What a predicate implies for a row, in three-valued logic.

A condition that holds is TRUE. One that did not hold is FALSE *or NULL*, so it says nothing against NULL, and nothing
at all where its other side may have been NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dpsql.bounds.comparison import can
from dpsql.bounds.comparison_limits import NEGATED, SWAPPED, excluded, limited
from dpsql.bounds.domain import ONLY_NULL, Domain, finite, intersect
from dpsql.bounds.inverses import inverted
from dpsql.bounds.row_domains import RowDomains, either
from dpsql.expressions.expression import Call, Column, Expression, Literal
from dpsql.expressions.types import BOOLEAN

Infer = Callable[[Expression, RowDomains], Domain]

MOST_TRIED = 1_000


@dataclass(frozen=True, slots=True)
class Truth:
    """The condition is `value`, or perhaps NULL."""

    value: bool
    or_null: bool

    def __invert__(self) -> Truth:
        return Truth(not self.value, self.or_null)

    def admits(self, domain: Domain) -> bool:
        """Can a condition with that domain be so?"""
        return can(domain, self.value) or (self.or_null and domain.nullable)


def narrowed(known: RowDomains, condition: Expression, truth: Truth, infer: Infer, clause: str) -> RowDomains:
    """The row, where the condition has that truth."""
    if known.impossible:
        return known
    match condition:
        case Call(op="not", args=(inner,)):
            return narrowed(known, inner, ~truth, infer, clause)
        case Call(op="and" | "or", args=(one, two)):
            first = narrowed(known, one, truth, infer, clause)
            if (condition.op == "and") == truth.value:
                return narrowed(first, two, truth, infer, clause)
            return either(known, first, narrowed(known, two, truth, infer, clause))
        case Call(op="is_not_distinct" | "is_distinct", args=(inner, Literal(value=bool(wanted)))):
            same = (condition.op == "is_not_distinct") == truth.value
            return narrowed(known, inner, Truth(wanted == same, or_null=not same), infer, clause)
    origin = f"{clause} {describe(condition)}" if truth.value else f"{clause} NOT ({describe(condition)})"
    for expression, domain in _facts(known, condition, truth, infer):
        known = _refined(known, expression, domain.because(origin))
    return _tried(known, condition, truth, infer, origin)


def _refined(known: RowDomains, expression: Expression, domain: Domain) -> RowDomains:
    """Refine the expression, and what it is made of where the operation can be turned round."""
    known = known.refined(expression, domain)
    below = inverted(expression, domain)
    return known if below is None else _refined(known, below[0], below[1])


def _facts(known: RowDomains, condition: Expression, truth: Truth, infer: Infer) -> Iterator[tuple[Expression, Domain]]:
    """What follows for the operands of one comparison."""
    match condition:
        case Column():
            yield condition, finite((truth.value,), BOOLEAN, nullable=truth.or_null)
        case Call(op="eq" | "ne" | "lt" | "le" | "gt" | "ge", args=(one, two)):
            op = condition.op if truth.value else NEGATED[condition.op]
            yield from _compared(known, op, one, two, truth.or_null, infer)
            yield from _compared(known, SWAPPED[op], two, one, truth.or_null, infer)
        case Call(op="is_not_distinct" | "is_distinct", args=(one, two)):
            same = (condition.op == "is_not_distinct") == truth.value
            yield from _matched(known, same, one, two, infer)
            yield from _matched(known, same, two, one, infer)
        case Call(op="in", args=(it, *listed)) if truth.value and not (truth.or_null and any(_null(x) for x in listed)):
            domains = [infer(x, known) for x in listed]
            if all(
                d.values is not None and (x.type.kind is it.type.kind or _null(x))
                for d, x in zip(domains, listed, strict=True)
            ):
                values = [v for d in domains for v in d.values or ()]
                yield it, finite(values, it.type, nullable=truth.or_null)
        case Call(op="is_null", args=(it,)):
            yield it, ONLY_NULL if truth.value else Domain(nullable=False, nan=True)
        case Call(op="isnan", args=(it,)) if not truth.value:
            yield it, Domain(nullable=truth.or_null, nan=False)


def _null(node: Expression) -> bool:
    return isinstance(node, Literal) and node.value is None


def _compared(
    known: RowDomains, op: str, one: Expression, two: Expression, or_null: bool, infer: Infer
) -> Iterator[tuple[Expression, Domain]]:
    """What `one op two` implies for `one`. A date compared with a timestamp is NULL where no timestamp represents
    it.
    """
    other = infer(two, known)
    unread = one.type.temporal and one.type != two.type
    if isinstance(one, Literal) or other.empty or (or_null and (other.nullable or unread)):
        return
    made = excluded(one, infer(one, known), two, other) if op == "ne" else limited(op, one, two, other)
    yield one, replace(made, nullable=or_null)


def _matched(
    known: RowDomains, same: bool, one: Expression, two: Expression, infer: Infer
) -> Iterator[tuple[Expression, Domain]]:
    other = infer(two, known)
    if isinstance(one, Literal) or other.empty:
        return
    if same:
        yield one, replace(limited("eq", one, two, other), nullable=other.nullable)
    elif not other.nullable:
        yield one, excluded(one, infer(one, known), two, other)


def _tried(known: RowDomains, condition: Expression, truth: Truth, infer: Infer, origin: str) -> RowDomains:
    """Put NULL, and each of finitely many values, for each column; keep those with which the condition can hold.

    Two compared columns have already exchanged their bounds, and their lists of values if they are equal.
    """
    match condition:
        case Call(op="eq" | "ne" | "lt" | "le" | "gt" | "ge", args=(Column(), Column())):
            if truth == Truth(True, or_null=False):
                return known

    def possible(name: str, domain: Domain) -> bool:
        return truth.admits(infer(condition, known.with_column(name, domain)))

    for column in {n.name: n for n in condition.walk() if isinstance(n, Column)}.values():
        domain = known.column(column)
        if domain.nullable and not possible(column.name, ONLY_NULL):
            domain = replace(domain, nullable=False)
        if domain.values is not None and not domain.nan and len(domain.values) <= MOST_TRIED:
            points = (finite((v,), column.type, nullable=False) for v in domain.values)
            kept = tuple(v for v, point in zip(domain.values, points, strict=True) if possible(column.name, point))
            if kept != domain.values:
                domain = intersect(domain, Domain(values=kept, nullable=domain.nullable, origin=(origin,)))
        known = known.with_column(column.name, domain)
    return known


LONGEST = 60


def describe(expression: Expression) -> str:
    """The expression in SQL's own signs, cut where it is long."""
    text = str(expression)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
