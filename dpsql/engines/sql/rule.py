"""The shape of an emitting rule: a call, and a function that writes an operand in a wanted DuckDB type."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.expressions.expression import Call, Expression

Emit = Callable[[Expression, str], str]
Rule = Callable[[Call, Emit], str]
