"""Answers, accounts and findings as tables for people, or as CSV and JSON for programs."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from io import StringIO
from typing import TYPE_CHECKING, Any

from dpsql.answers.notes import first_notes
from dpsql.answers.number_format import numeric, plain, with_error
from dpsql.answers.quality import quality_line, quality_words
from dpsql.answers.render import left_text
from dpsql.interfaces.cli.terminal import printable
from dpsql.mechanisms.exact_numbers import digits_down, digits_up

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from dpsql.answers.result import Result
    from dpsql.budget.status import BudgetStatus
    from dpsql.policy import PolicyFinding

CONFIDENCE = 0.95
Ends = list[tuple[float, float]]
_COLOURS = {"rough": "yellow", "noise": "red"}
_MARKS = {"verified": "✓", "information": "i", "violated": "✗", "error": "✗"}


def error_bars(result: Result) -> list[Ends | None]:
    """For each column its interval in each row; None for a column without noise."""
    return result.shown_bars


def column_cells(values: Sequence[Any], ends: Ends | None) -> list[str]:
    """One column as text."""
    if ends is None:
        return [printable(plain(value)) for value in values]
    return [with_error(value, *end) for value, end in zip(values, ends, strict=True)]


def answer_table(result: Result) -> Table:
    """The answer with its 95% error bars."""
    table = new_table()
    rows, texts = result.fetchall(), []
    bars = error_bars(result)
    for position, (name, ends, judged) in enumerate(zip(result.columns, bars, result.qualities, strict=True)):
        values = [row[position] for row in rows]
        number = ends is not None or (bool(values) and numeric(values))
        table.add_column(cell(printable(name)), justify="right" if number else "left", no_wrap=number)
        texts.append([cell(text) for text in column_cells(values, ends)])
        if words := quality_words(judged or ()):
            table.add_column("", no_wrap=True)
            texts.append([cell(word, _COLOURS.get(word, "")) for word in words])
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    return table


def rows_as_lines(result: Result) -> Table:
    """The answer with one line for each value, for rows that are wider than the screen."""
    bars = error_bars(result)
    rows, judged = result.fetchall(), result.qualities
    columns = [column_cells([row[i] for row in rows], ends) for i, ends in enumerate(bars)]
    words = [quality_words(each or ()) or [""] * len(rows) for each in judged]
    table = new_table(show_header=False)
    for title in ("column", "value"):
        table.add_column(title)
    for number in range(len(rows)):
        table.add_row(cell(f"row {number + 1}", "bold"), cell(""))
        for name, texts, found in zip(result.columns, columns, words, strict=True):
            table.add_row(cell(printable(name)), cell(f"{texts[number]}  {found[number]}".rstrip()))
    return table


def new_table(**options: Any) -> Table:
    """A table in the house style."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0), **options)


def cell(text: str, style: str = "") -> Text:
    """Text for a cell, never read as markup."""
    from rich.text import Text

    return Text(text, style=style)


def footer(result: Result, *, notes: bool = False, details: bool = False) -> str:
    """What the answer cost, and what else there is to know of it: the first notes, or all of them."""
    judged = result.qualities
    lines = ["± is the 95% error bar of the noise"] if any(each is not None for each in judged) else []
    lines += [line] if (line := quality_line(judged)) else []
    lines += [str(way)] if (way := result.way_out) else []
    lines.append(f"cost: {price(result)}{left_text(result)}")
    lines += [f"in detail: {result.cost.details}"] if details else []
    shown = result.notes if notes else first_notes(result.notes, "--notes shows them all")
    lines += [f"note: {note}" for note in shown]
    return "\n".join(lines)


def price(result: Result) -> str:
    """What was paid for an answer."""
    if result.replayed:
        from dpsql.accounts import REPLAYED

        counted = any(note.startswith(REPLAYED) for note in result.notes)
        return f"free{' for the dataset' if counted else ''} (released before, and replayed)"
    return f"{result.cost} of your budget" if result.cost.epsilon else "free (no private data was used)"


def to_csv(result: Result) -> str:
    """Each noisy column is followed by its `_low` and `_high`; NULL is empty."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    bars = error_bars(result)
    writer.writerow(_spread(result.columns, bars, lambda name, _: [f"{name}_low", f"{name}_high"]))
    for number, row in enumerate(result.fetchall()):
        writer.writerow(_spread(row, bars, lambda _, ends, at=number: list(ends[at])))
    return text.getvalue()


def _spread(items: Iterable[Any], bars: Sequence[Ends | None], more: Any) -> list[Any]:
    spread: list[Any] = []
    for item, ends in zip(items, bars, strict=True):
        spread += [item, *(more(item, ends) if ends is not None else ())]
    return spread


def to_json(result: Result) -> str:
    """Rows and intervals as lists, in the order of `columns`."""
    bars = error_bars(result)
    document = {
        "columns": [{"name": n, "type": t, "noisy": e is not None}
                    for n, t, e in zip(result.columns, result.types, bars, strict=True)],
        "rows": result.fetchall(),
        "confidence": CONFIDENCE,
        "intervals": {n: e for n, e in zip(result.columns, bars, strict=True) if e is not None},
        "quality": {n: q for n, q in zip(result.columns, result.qualities, strict=True) if q is not None},
        "way_out": None if result.way_out is None else {"text": str(result.way_out), **asdict(result.way_out)},
        "cost": asdict(result.cost), "replayed": result.replayed, "mechanism": result.mechanism, "notes": result.notes,
        "clipped": [asdict(each) for each in result.clipped],
    }  # fmt: skip
    return as_json(document)


def as_json(document: Any) -> str:
    """JSON that every reader accepts: no NaN, dates as ISO text."""
    return json.dumps(_plain_json(document), indent=2, ensure_ascii=False)


def _plain_json(value: Any) -> Any:
    match value:
        case dict():
            return {str(k): _plain_json(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain_json(each) for each in value]
        case float() if not math.isfinite(value):
            return None
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return float(value)
        case None | bool() | int() | float():
            return value
        case _:
            return str(value)


def budget_table(status: BudgetStatus, *, details: bool = False) -> Group:
    """What everyone together and one analyst have spent and have left, as shares or in ε, δ and ρ."""
    from rich.console import Group

    table = new_table()
    if not details:
        for title in ("account", "cap", "spent", "left"):
            table.add_column(title, justify="right" if title in ("spent", "left") else "left", no_wrap=True)
        for name, account in status.accounts():
            table.add_row(cell(printable(name)), account.cap, account.spent_share, account.left_share)
        return Group(table, *(cell(f"{printable(note)}.") for note in status.notes()))
    for title in ("account", "", "whole", "spent", "left"):
        table.add_column(title, justify="left" if title in ("account", "") else "right", no_wrap=True)
    for name, account in status.accounts():
        whole, spent, left = account.whole, account.spent, account.remaining
        rows = [(printable(name), "ε", whole.epsilon, spent.epsilon, left.epsilon)]
        if account.caps.delta:
            rows.append((f"  cap {account.cap}", "ρ", whole.rho, spent.rho, left.rho))
            rows.append(("", "δ for private keys", whole.delta, account.spent_on_keys, left.delta))
        for title, sign, *numbers in rows:
            shown = [digits_down(numbers[0]), digits_up(numbers[1]), digits_down(numbers[2])]
            table.add_row(cell(title), sign, *(f"{each:.4g}" for each in shown))
    how = status.details.splitlines()[len(status.accounts()) :]
    return Group(table, *(cell(f"{printable(note)}.") for note in (*how, *status.notes())))


def budget_json(status: BudgetStatus) -> str:
    """The accounts for programs."""
    mine = None if status.analyst is None else {"name": status.name, **asdict(status.analyst)}
    purpose = None if status.purpose is None else {"name": status.purpose_name, **asdict(status.purpose)}
    buys = None if status.buys is None else asdict(status.buys)
    return as_json(
        {
            "dataset": asdict(status.dataset),
            "analyst": mine,
            "purpose": purpose,
            "conversion_delta": status.at,
            "largest_price": status.offer,
            "largest_price_with_private_keys": status.offer_keys,
            "largest_epsilon": status.largest,
            "largest_epsilon_laplace": status.largest_laplace,
            "buys": buys,
            "notes": list(status.notes()),
        }
    )


def findings_table(findings: Sequence[PolicyFinding]) -> Table:
    """What `dpsql check` found, problems marked."""
    table = new_table()
    for title in ("", "table", "fact", "finding"):
        table.add_column(title)
    for each in findings:
        style = "bold red" if not each.ok else "dim" if each.kind == "information" else ""
        table.add_row(*(cell(printable(t), style) for t in (_MARKS[each.kind], each.table, each.fact, each.text)))
    return table
