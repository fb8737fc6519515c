"""The notices behind an answer: its cost and what is left, its error bars, and what these leave out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpsql.answers.number_format import plain
from dpsql.budget import FREE
from dpsql.interfaces.server.wire import Fault

if TYPE_CHECKING:
    from dpsql.answers.result import Result
    from dpsql.session import Connection


def notices(result: Result, db: Connection) -> Iterator[Fault]:
    """In the order in which they are shown."""
    for text in (_price(result, db), *_bars(result), *result.notes):
        yield Fault(text, "00000", severity="NOTICE")


def _price(result: Result, db: Connection) -> str:
    if result.cost == FREE:
        return "replayed: free" if result.replayed else "free"
    status = db.budget()
    return f"cost: {result.cost}; left: {(status.analyst or status.dataset).remaining}"


def _bars(result: Result) -> Iterator[str]:
    """The half width of each noisy column where all rows have the same; how to ask for those of the others."""
    known = result.half_widths()
    said = [f"{name} ± {plain(width)}" for name, width in known if width is not None]
    if said:
        yield f"errors (95%): {', '.join(said)}"
    others = [name for name, width in known if width is None]
    if others:
        yield f"error bars of {', '.join(others)} differ by row: select DP_LOW(…) and DP_HIGH(…) of the same expression"
