"""Expressions as JSON values and back: what the ledger needs to know a release again, and an order for operands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dpsql.expressions.expression import Call, Column, Expression, Literal, Value
from dpsql.expressions.types import Kind, Type

_KINDS: dict[str, type] = {"d": date, "t": datetime, "n": Decimal}


def write(expression: Expression) -> list[Any]:
    """Two expressions with equal JSON are equal, regardless of their positions in the SQL."""
    type_ = [expression.type.kind.value, expression.type.lower, expression.type.upper, expression.type.scale]
    match expression:
        case Column():
            return [type_, "column", expression.name]
        case Literal():
            return [type_, "literal", write_value(expression.value)]
        case Call():
            option = expression.option
            written = [write_value(o) for o in option] if isinstance(option, tuple) else write_value(option)
            return [type_, "call", expression.op, [write(a) for a in expression.args], written]
    raise TypeError(f"no text for {type(expression).__name__}")


def read(written: Sequence[Any]) -> Expression:
    """The expression that was written."""
    (kind, *sizes), node, *rest = written
    type_ = Type(Kind(kind), *sizes)
    if node == "column":
        return Column(type_, name=rest[0])
    if node == "literal":
        return Literal(type_, value=read_value(rest[0]))
    op, args, option = rest
    options = tuple(map(read_value, option)) if isinstance(option, list) else read_value(option)
    return Call(type_, op=op, args=tuple(map(read, args)), option=options)


def order(expression: Expression) -> str:
    """A text by which expressions are put in order, the same in every process."""
    return json.dumps(write(expression))


def write_value(value: Value) -> object:
    """A constant; dates, timestamps and decimals, which JSON lacks, get a tag."""
    for tag, kind in _KINDS.items():
        if type(value) is kind:
            return {tag: str(value)}
    return value


def read_value(value: object) -> Value:
    """The constant that was written."""
    if not isinstance(value, dict):
        return value  # type: ignore[return-value]
    [(tag, text)] = value.items()
    return Decimal(text) if tag == "n" else datetime.fromisoformat(text) if tag == "t" else date.fromisoformat(text)
