"""Window functions from their source: type and domain of each, what is an attribute, and what numbering proves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.bounds import infer
from dpsql.bounds.aggregates import AT_MOST, aggregate_domain
from dpsql.bounds.casts import widened
from dpsql.bounds.domain import Domain, interval, union
from dpsql.bounds.known import Known
from dpsql.expressions.types import DOUBLE, integer
from dpsql.expressions.typing import common
from dpsql.plan.relate import aggregate_type, known_of
from dpsql.plan.relation import Field, Relation
from dpsql.plan.window import CHOSEN, Over, Windowed

MOST = 2**62


def windowed(source: Relation, calls: Sequence[tuple[str, Over]]) -> Windowed:
    """The rows of the source with the values of these window functions."""
    known = known_of(source)
    fields = [replace(f, domain=known.columns.get(f.name, f.domain)) for f in source.fields]
    fields += [_computed(name, call, source, known) for name, call in calls]
    return Windowed(tuple(fields), False, source.rows_per_unit, source.single, source, tuple(calls))


def _computed(name: str, call: Over, source: Relation, known: Known) -> Field:
    """A window function as a field.

    **Theorem.** It is an attribute if its frame is the whole partition, each key of the partition is an attribute, and
    it is an aggregate or takes the value of one row. **Proof.** Then all rows of an owner are one partition and have
    one frame, in one order, from which the same value is computed for each.
    **Requires** the owner among the keys of the partition, and an order that is total up to equal rows
    (`dpsql.plan.window`).
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


def _aggregated(name: str, call: Over, known: Known, rows: int, attribute: bool) -> Field:
    assert call.aggregate is not None
    aggregate, frame = call.aggregate, call.frame
    argument = None if aggregate.argument is None else infer(aggregate.argument, known)
    most = rows if frame.rows is None else max(1, min(rows, frame.rows))
    domain = aggregate_domain(aggregate.function, argument, most)
    if not frame.around:
        domain = _or_none(domain) if aggregate.function == "count" else replace(domain, nullable=True)
    return Field(name, aggregate_type(aggregate, domain), domain, attribute)


def _or_none(counted: Domain) -> Domain:
    """A count that may be of no row."""
    return interval(0, counted.upper, nullable=False, origin=counted.origin)
