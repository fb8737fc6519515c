"""A verb asks at once, or only looks: what it costs and does (`explain`), or the SQL that it stands for (`to_sql`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from enum import Enum
from typing import Any, TypedDict

from dpsql.errors import Error, UnboundedColumn
from dpsql.options import Accuracy


class Mode(Enum):
    """What a verb does."""

    ASK = "asks"
    EXPLAIN = "explains"
    WRITE = "writes SQL"


class Price(TypedDict, total=False):
    """What every verb takes: the price of the query, or how exact its answer must be."""

    epsilon: float | Decimal | None
    delta: float | Decimal | None
    mechanism: str | None
    accuracy: Accuracy | None
    clipped: bool


def ask(connection: Any, sql: str, mode: Mode, price: Price) -> Any:
    """The answer, or in the looking modes the explanation or the SQL: those spend nothing."""
    if mode is Mode.WRITE:
        return sql
    with in_frame_terms():
        return connection.explain(sql, **price) if mode is Mode.EXPLAIN else connection.query(sql, **price)


@contextmanager
def in_frame_terms() -> Iterator[None]:
    """Refusals say what to write in Python, where SQL's way out is another."""
    try:
        yield
    except UnboundedColumn as refusal:
        refusal.hint = "bound it: .clip(low, high) before the verb, or bounds={…: (low, high)} in protect"
        raise
    except Error as refusal:
        if "needs delta" in refusal.message:
            refusal.hint = (
                "list the values of a text, values={…: […]} in protect, or the ends of a number or date, "
                "bounds={…: (first, last)}; or protect with a delta, such as delta=1e-6"
            )
        elif "takes a number, but this is" in refusal.message:
            refusal.hint = (
                "count it instead. A column of dtype object or category is text unless protect knows better: declare "
                "bounds={…: (low, high)} for numbers, or convert the column before"
            )
        raise
