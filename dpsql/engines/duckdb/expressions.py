"""Expressions as DuckDB SQL that is *total*: no stored value whatsoever makes it raise or grow without bound.

**Theorem.** For every row over the stored types, the emitted SQL gives a value of type `physical(expression.type)` or
NULL; it never raises. **Proof.** By induction over the tree. Each rule computes in a type that holds the hard range of
its operands and its result; where DuckDB's function is partial, the *operand* is guarded (NULL instead of what it
cannot take), so that nothing depends on which branch of a CASE the engine evaluates first; casts that could fail are
TRY_CAST. **Requires** DuckDB's settings `ieee_floating_point_ops = true` and `integer_division = false` (the
defaults). **Checked by** the sweep in `tests/unit/engines/test_duckdb_expressions.py`: every operation over the edge
values of every stored type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dpsql.engines.duckdb import compare, functions, moments, numbers, strings
from dpsql.engines.duckdb.literals import literal
from dpsql.engines.duckdb.physical import physical
from dpsql.engines.duckdb.rule import Rule
from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.expressions.expression import Call, Column, Expression, Literal
from dpsql.expressions.types import Kind

LONGEST = 500_000
_RULES: dict[str, Rule] = {**numbers.RULES, **compare.RULES, **moments.RULES, **strings.RULES}


def sql(expression: Expression, column: Callable[[str], str]) -> str:
    """The expression as total SQL; `column` writes a column of the row."""

    def emit(node: Expression, wanted: str) -> str:
        if node.type.kind is Kind.NULL or (isinstance(node, Literal) and node.value is None):
            return f"CAST(NULL AS {wanted})"
        if isinstance(node, Column):
            return _column(node, column(node.name), wanted)
        made = literal(node.value, node.type) if isinstance(node, Literal) else _call(node, emit)
        return converted(made, physical(node.type), wanted)

    return emit(expression, physical(expression.type))


def _column(node: Column, name: str, wanted: str) -> str:
    """A number or a text is read in the wanted type: an ENUM or an unsigned number would behave in its own way.

    DuckDB drops a cast to the type that a column has.
    """
    if node.type.kind in (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP):
        return converted(name, physical(node.type), wanted)
    return f"CAST({name} AS {wanted})"


def _call(node: Expression, emit: Callable[[Expression, str], str]) -> str:
    if not isinstance(node, Call):
        raise InternalError(f"no SQL for {node}")
    made = _rule(node)(node, emit)
    if len(made) > LONGEST:
        raise UnsupportedQuery("this expression is nested too deeply", span=node.span, hint="split it into parts")
    return made


def _rule(node: Call) -> Rule:
    """A rule of this package, or the form in the table of functions."""
    if node.op in _RULES:
        return _RULES[node.op]
    function = functions.listed(node)
    if function is None:
        raise InternalError(f"no SQL for {node}")
    return strings.longer if functions.growth(function, node) > (1, 0) else partial(functions.written, function)


def converted(made: str, given: str, wanted: str) -> str:
    """A widening cast, which cannot fail; only a date may lie outside the range of timestamps."""
    if given == wanted:
        return made
    return f"{'TRY_CAST' if given == 'DATE' else 'CAST'}({made} AS {wanted})"
