"""Choices between values, comparisons and logic; those that are signs rather than calls are read in `convert`."""

from __future__ import annotations

from sqlglot import exp

from dpsql.expressions.expression import Expression
from dpsql.expressions.functions.function import Builder, Function
from dpsql.expressions.types import BOOLEAN, Kind
from dpsql.expressions.typing import Mismatch, call, case, common, literal, require


def compared(op: str) -> Builder:
    """A comparison; both sides must be of one kind, and nothing is cast that could fail."""

    def build(args: tuple[Expression, ...]) -> Expression:
        return call(op, BOOLEAN, *common(args)[1])

    return build


def _logic(op: str) -> Builder:
    def build(args: tuple[Expression, ...]) -> Expression:
        return call(op, BOOLEAN, *(require(a, Kind.BOOLEAN, what=op.upper()) for a in args))

    return build


def between(args: tuple[Expression, ...]) -> Expression:
    """Two comparisons."""
    _, (it, low, high) = common(args)
    return call("and", BOOLEAN, call("ge", BOOLEAN, it, low), call("le", BOOLEAN, it, high))


def _any_of(op: str) -> Builder:
    def build(args: tuple[Expression, ...]) -> Expression:
        if not args:
            raise Mismatch(f"{op.upper()} takes at least one argument")
        type_, operands = common(args)
        if op in ("greatest", "least") and type_.kind in (Kind.TEXT, Kind.BOOLEAN):
            raise Mismatch(f"{op.upper()} takes numbers or dates")
        return call(op, type_, *operands)

    return build


def _nullif(args: tuple[Expression, ...]) -> Expression:
    if len(args) != 2:
        raise Mismatch(f"NULLIF takes 2 arguments, not {len(args)}")
    _, (one, two) = common(args)
    return call("nullif", one.type, one, two)


def _if(args: tuple[Expression, ...]) -> Expression:
    if len(args) not in (2, 3):
        raise Mismatch(f"IF takes 2 or 3 arguments, not {len(args)}")
    condition, *results = args
    return case([condition], [*results, *([literal(None)] if len(results) == 1 else [])])


def _sign(name: str, op: str, node: type[exp.Expr], sign: str) -> Function:
    return Function(name, build=compared(op), node=node, reads=("this", "expression"), forms=(f"a {sign} b",))


FUNCTIONS: tuple[Function, ...] = (
    _sign("equal", "eq", exp.EQ, "="), _sign("unequal", "ne", exp.NEQ, "<>"), _sign("less", "lt", exp.LT, "<"),
    _sign("at_most", "le", exp.LTE, "<="), _sign("more", "gt", exp.GT, ">"), _sign("at_least", "ge", exp.GTE, ">="),
    _sign("same", "is_not_distinct", exp.NullSafeEQ, "IS NOT DISTINCT FROM"),
    _sign("different", "is_distinct", exp.NullSafeNEQ, "IS DISTINCT FROM"),
    Function("between", build=between, node=exp.Between, reads=("this", "low", "high"), forms=("a BETWEEN 1 AND b",)),
    Function("and", build=_logic("and"), node=exp.And, reads=("this", "expression"), forms=("a AND b",)),
    Function("or", build=_logic("or"), node=exp.Or, reads=("this", "expression"), forms=("a OR b",)),
    Function("not", build=_logic("not"), node=exp.Not, forms=("NOT a",)),
    Function("coalesce", build=_any_of("coalesce"), aliases=("ifnull",), node=exp.Coalesce,
             reads=("this", "expressions"), forms=("coalesce(a, b)", "ifnull(a, 0)")),
    Function("greatest", build=_any_of("greatest"), node=exp.Greatest, reads=("this", "expressions"),
             forms=("greatest(a, b)", "greatest(a, 1.5, NULL)")),
    Function("least", build=_any_of("least"), node=exp.Least, reads=("this", "expressions"),
             forms=("least(a, b)", "least(a, 0)")),
    Function("nullif", build=_nullif, node=exp.Nullif, forms=("nullif(a, b)", "nullif(a, 0)")),
    Function("if", build=_if, node=exp.If, reads=("this", "true", "false"),
             forms=("if(a IS NULL, 1, 2)", "if(a, b, NULL)")),
)  # fmt: skip
SYNTAX: tuple[str, ...] = (
    "CASE WHEN a > 0 THEN 1 ELSE 2 END", "a IN (1, 2)", "a IS NULL", "a IS TRUE", "CAST(a AS INTEGER)",
    "TRY_CAST(a AS DATE)", "a::DOUBLE",
)  # fmt: skip
"""Forms that only the grammar has; `convert` reads them."""
