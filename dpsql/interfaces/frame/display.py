"""What a private frame shows of itself: its columns, what was declared of them, and the budget; never a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.budget.status import account_bar
from dpsql.interfaces.frame.frame_view import Mode
from dpsql.interfaces.frame.protection import NAMELESS
from dpsql.notebook_html import element, page, text

if TYPE_CHECKING:
    from dpsql.interfaces.frame.frame_view import FrameView
    from dpsql.interfaces.frame.private_column import PrivateColumn
    from dpsql.interfaces.frame.private_frame import PrivateFrame


def frame_text(frame: PrivateFrame) -> str:
    """The columns as lines."""
    view = frame._view
    width = max(map(len, view.fields), default=0)
    lines = [_title(view)]
    lines += [f"  {name:<{width}}  {field.kind.value:<8}{field.note}".rstrip() for name, field in view.fields.items()]
    lines.append(f"budget: {frame.budget().dataset}")
    lines.append(_way(view))
    return "\n".join(lines)


def frame_html(frame: PrivateFrame) -> str:
    """The columns as a table, and the budget as a bar."""
    view = frame._view
    head = "".join(element("th", title) for title in ("column", "holds", "declared"))
    rows = "".join(
        element("tr", "".join(element("td", text(each)) for each in (name, field.kind.value, field.note)))
        for name, field in view.fields.items()
    )
    table = element("table", element("thead", element("tr", head)) + element("tbody", rows))
    account = element("p", "budget" + account_bar(frame.budget().dataset), "dim")
    return page(
        element("p", element("b", text(_title(view)))) + table + account + element("p", text(_way(view)), "dim")
    )


def column_text(column: PrivateColumn) -> str:
    """The expression, and what can be asked."""
    return f"<private column {column._name}: {_about(column)}; ask {_verbs(column)}>"


def column_html(column: PrivateColumn) -> str:
    """The same for a notebook."""
    code = element("code", text(_about(column)))
    return page(element("p", f"private column {element('b', text(column._name))}: {code}")
                + element("p", text(f"ask {_verbs(column)}"), "dim"))  # fmt: skip


def _about(column: PrivateColumn) -> str:
    field, written = column._field, column._field.expression.sql("duckdb")
    parts = [field.kind.value, *([field.note] if field.note else [])]
    return ", ".join(parts + ([written] if written != column._name else []))


def _verbs(column: PrivateColumn) -> str:
    number = column._field.kind.value in ("number", "mask", "boolean")
    return ".mean(), .sum(), .count()" if number else ".value_counts(), .nunique(), .count()"


def _title(view: FrameView) -> str:
    protection = view.protection
    policy = protection.connection(view.tables).policy
    owners = []
    for name in view.tables:
        table = policy.tables[name]
        if table.public:
            owners.append(f"{name} is public")
        elif table.by_row:
            owners.append(f"each row of {name} is its own unit")
        else:
            most = policy.rows_per_unit(name)
            count = "1 row counts" if most == 1 else f"up to {most} rows count"
            fewer = "" if table.max_rows_per_unit else " (unless max_rows_per_unit= says fewer: that is less noise)"
            owners.append(f"the unit of {name} is {table.unit_column}, of whom {count}{fewer}")
    kept = "" if protection.durable else "; the ledger is in memory and ends with this process"
    where = " and ".join(condition.sql("duckdb") for condition in view.where)
    called = "" if protection.name == NAMELESS else f" of {protection.name}"
    return f"private frame {' and '.join(view.tables)}{called}: {'; '.join(owners)}{kept}" + (
        f"; rows where {where}" if where else ""
    )


def _way(view: FrameView) -> str:
    if view.mode is Mode.EXPLAIN:
        return "verbs only explain what they would do and cost; nothing is spent"
    if view.mode is Mode.WRITE:
        return "verbs only write their SQL; nothing is spent"
    share = view.protection.epsilon / 10
    return (
        f"a verb (.mean(), .groupby(…).size(), .sql(…)) takes ε = {share:g} unless it says epsilon=; .explain() is free"
    )
