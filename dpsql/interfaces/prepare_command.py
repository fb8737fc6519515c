"""`dpsql prepare`: for the steward, with a bar while it works and what became of each table afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.interfaces.terminal import problems, screen
from dpsql.progress import bar

if TYPE_CHECKING:
    from dpsql.engines.duckdb.prepare import Written
    from dpsql.session import Connection


def run(session: Connection) -> None:
    """Write the copies, and say what they hold: true figures, for the steward only."""
    from dpsql.interfaces import steward

    with bar(problems()) as told:
        written = steward.prepare(session, told)
    for each in written:
        screen().print(_said(each, session.policy.tables[each.table].prepare or "", session), soft_wrap=True)


def _said(each: Written, mode: str, session: Connection) -> str:
    rows = session.policy.rows_per_unit(each.table)
    if not each.over_units:
        return f"{each.table}: {each.rows:,} rows; no unit has more than {rows:,}. Nothing is weighed or left out."
    share = f"{each.over_rows / each.rows:.1%}"
    head = f"{each.table}: {each.rows:,} rows; {each.over_units:,} units have more than {rows:,} ({share} of the rows)"
    if mode == "weigh":
        return f"{head}. They are weighed in each query, as without a copy; all others need no more work."
    lost = f"{each.left_out / each.rows:.1%}"
    biased = each.left_out > 0.05 * each.rows
    advice = " Answers are biased by it: raise max_rows_per_unit, or write `prepare: weigh`." if biased else ""
    return f"{head}. {each.left_out:,} rows ({lost}) were left out.{advice}"
