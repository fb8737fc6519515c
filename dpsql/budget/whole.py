"""A whole ledger given as its entries."""

from __future__ import annotations

from dpsql.budget.book import Book
from dpsql.budget.chain import Row
from dpsql.budget.head import Mark
from dpsql.budget.store import damaged
from dpsql.errors import LedgerError


def read_whole(name: str, rows: list[Row]) -> Book:
    """The account that the entries add up to; refused unless they are one unbroken chain."""
    book = Book()
    try:
        book.extend(rows)
    except (LedgerError, LookupError, TypeError, ValueError) as error:
        raise damaged(name) from error
    if not book.number:
        raise damaged(name)
    return book


def end_of(name: str, rows: list[Row]) -> Mark:
    """The mark of a whole ledger with these entries, and the trail that leads to it."""
    read_whole(name, rows)
    book, mark = Book(), Mark()
    for row in rows:
        book.extend([row])
        mark = book.mark().after(mark)
    return mark
