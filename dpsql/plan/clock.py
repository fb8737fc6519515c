"""The clock as a public constant: `now()` and its relatives, bound once for each question.

**Theorem.** A query that reads the clock has one meaning, which its plan shows. **Proof.** Each call is replaced by the
literal of one moment before anything is planned, so the plan, the mark under which a release is stored and the
finishing SQL hold that literal and no call. A release of another moment has another mark, and is charged by itself.
The moment is that of the question, which the analyst knows anyway; no private data has a part in it.
**Requires** that nothing else reads the clock: what is not listed here is refused below and above the aggregate.
**Checked by** `tests/unit/session/test_clock_constants.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlglot import exp

from dpsql.plan.builder.clauses import keep_title
from dpsql.policy.identifiers import fold

_MOMENTS = (exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentDatetime)
_NAMED = {"now", "get_current_timestamp", "transaction_timestamp", "statement_timestamp"}
CLOCK = "clock"
"""The mark (`meta`) of a bound literal."""
MOMENT_NOTE = (
    "now() is the moment of the question, so asked again this is another question, with a cost of its own; "
    "current_date or date_trunc('hour', now()) lets answers be replayed"
)


def now() -> datetime:
    """This moment, in UTC and without a time zone, as all timestamps are read."""
    return datetime.now(UTC).replace(tzinfo=None)


def reads_the_clock(query: exp.Expr) -> bool:
    """Whether the query reads the clock, so that its meaning changes with time."""
    return any(_reads(node) for node in query.walk())


def reads_the_moment(query: exp.Expr) -> bool:
    """Whether it reads more of the clock than a date or `date_trunc(…, now())`, which stand still for a while."""
    return any(_reads(node) and not isinstance(node, exp.CurrentDate) and not _is_coarse(node) for node in query.walk())


def bind_clock(query: exp.Query, moment: datetime) -> exp.Query:
    """The query with the literals of one moment in place of the clock."""
    for node in [node for node in query.walk() if _reads(node)]:
        date = isinstance(node, exp.CurrentDate)
        text, type_ = (moment.date().isoformat(), "date") if date else (moment.isoformat(" "), "timestamp")
        made = exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(type_))
        made.meta.update(node.meta)
        made.meta[CLOCK] = True
        keep_title(node)
        zone = node.parent if isinstance(node.parent, exp.AtTimeZone) else None
        if zone is not None and zone.args["zone"].name.upper() in ("UTC", "GMT") and not date:
            zone.replace(made)
        else:
            node.replace(made)
    return query


def _reads(node: exp.Expr) -> bool:
    """A call of the clock; one with a precision of its own is not known."""
    if isinstance(node, exp.Anonymous):
        return fold(node.name) in _NAMED and not node.expressions
    return isinstance(node, (*_MOMENTS, exp.CurrentDate)) and not any(node.args.values())


def _is_coarse(node: exp.Expr) -> bool:
    """Is only the day of it read, or its hour, month or year?"""
    above = node.parent
    while isinstance(above, exp.Paren | exp.AtTimeZone | exp.Add | exp.Sub | exp.Cast):
        if isinstance(above, exp.Cast) and above.to.this == exp.DataType.Type.DATE:
            return True
        above = above.parent
    return isinstance(above, exp.TimestampTrunc | exp.DateTrunc)
