"""Casts: which types can be cast to which. The emitted cast is TRY_CAST, so what does not fit is NULL."""

from __future__ import annotations

from sqlglot import exp

from dpsql.expressions.expression import Expression, Literal
from dpsql.expressions.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INT64,
    INT128,
    NULL,
    TEXT,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
    integer,
)
from dpsql.expressions.typing import Mismatch, call, read_date

CASTS: dict[str, Type] = {
    "BOOLEAN": BOOLEAN, "TINYINT": integer(-(2**7), 2**7 - 1), "SMALLINT": integer(-(2**15), 2**15 - 1),
    "INT": integer(-(2**31), 2**31 - 1), "BIGINT": integer(*INT64), "INT128": integer(*INT128),
    "FLOAT": DOUBLE, "DOUBLE": DOUBLE, "TEXT": TEXT,
    "VARCHAR": TEXT, "DATE": DATE, "TIMESTAMP": TIMESTAMP, "DATETIME": TIMESTAMP, "TIMESTAMPNTZ": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
}  # fmt: skip


def target(to: exp.DataType) -> Type:
    """The type that a cast names."""
    name = to.this.name if hasattr(to.this, "name") else str(to.this)
    if name == "DECIMAL":
        sizes = [int(p.name) for p in to.expressions] or [18, 3]
        width, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        if not 0 <= scale <= width or not 1 <= width <= (18 if scale else 38):
            raise Mismatch("a decimal has at most 18 digits here; write DECIMAL(18, 2), or cast to double")
        return decimal(-(10**width) + 1, 10**width - 1, scale)
    if name not in CASTS:
        raise Mismatch(
            f"a cast to {to.sql('duckdb')} is not supported; use integer, double, decimal, text, date or timestamp"
        )
    return CASTS[name]


def cast(it: Expression, to: Type) -> Expression:
    """The value in another type; constants are read as dates at once."""
    if it.type in (to, NULL):
        return it if it.type == to else call("cast", to, it)
    if to.temporal and isinstance(it, Literal):
        it = read_date(it)
        return it if it.type == to else call("cast", to, it)
    if ((to.temporal and it.type.kind is not Kind.TEXT) or (it.type.temporal and to.kind is not Kind.TEXT)) and not (
        to.temporal and it.type.temporal
    ):
        raise Mismatch(f"{it.type} cannot be cast to {to}")
    if it.type.kind is Kind.BOOLEAN and to.kind is Kind.INTEGER:
        to = integer(0, 1)
    return call("cast", to, it)
