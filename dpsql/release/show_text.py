"""An answer as text, for `print`, the Python prompt and notebooks without HTML: no number without its error bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.release.numbers import numeric, plain, with_error

if TYPE_CHECKING:
    from dpsql.release.result import Result

MOST_ROWS = 60


def result_text(result: Result) -> str:
    """The table with an error bar beside every noisy value, what it cost, and what the bars do not cover."""
    rows = result.fetchall()
    bars = result.bars()
    columns = []
    for index, (name, ends) in enumerate(zip(result.columns, bars, strict=True)):
        values = [row[index] for row in rows[:MOST_ROWS]]
        if ends is not None:
            cells, right = [with_error(value, *end) for value, end in zip(values, ends, strict=False)], True
        else:
            cells, right = [_printable(plain(value)) for value in values], bool(values) and numeric(values)
        columns.append(_aligned([_printable(name), *cells], right=right))
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    if len(rows) > MOST_ROWS:
        lines.append(f"… {len(rows) - MOST_ROWS:,} more rows")
    return "\n".join([*lines, *_footer(result, barred=any(ends is not None for ends in bars))])


def _aligned(cells: list[str], *, right: bool) -> list[str]:
    width = max(map(len, cells))
    return [cell.rjust(width) if right else cell.ljust(width) for cell in cells]


def _footer(result: Result, *, barred: bool) -> list[str]:
    lines = ["± is the 95% error bar of the noise"] if barred else []
    lines.append(f"cost: {'free (replayed)' if result.replayed else result.cost}")
    return lines + ([f"notes: {'; '.join(result.notes)}"] if result.notes else [])


def _printable(text: str) -> str:
    """Text that stays inside its line and tells the terminal nothing."""
    return "".join(each if each.isprintable() else "?" for each in text)
