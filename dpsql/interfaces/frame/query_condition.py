"""`query("age > 30 and region == 'north'")`: pandas' own little language, read as Python, over private columns."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from dpsql.errors import InterfaceError

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda one, two: one.isin(two), ast.NotIn: lambda one, two: ~one.isin(two),
}  # fmt: skip
_VARIABLE, _QUOTED = "_variable_", "_quoted_"


def evaluate(text: str, frame: Any, variables: Mapping[str, Any]) -> Any:
    """The mask that a condition stands for."""
    names: list[str] = []

    def quoted(found: re.Match[str]) -> str:
        names.append(found[1])
        return f"{_QUOTED}{len(names) - 1}"

    read = re.sub(r"@(\w+)", rf"{_VARIABLE}\1", re.sub(r"`([^`]+)`", quoted, text))
    try:
        tree = ast.parse(read.strip().replace("\n", " "), mode="eval")
    except SyntaxError:
        raise _unreadable(text) from None
    made = _Reader(frame, variables, names, text).read(tree.body)
    if not hasattr(made, "_mask_for"):
        raise _unreadable(text)
    return made


def _unreadable(text: str) -> InterfaceError:
    return InterfaceError(
        f"{text!r} is not a condition",
        hint="write comparisons joined by and, or, not: query(\"age > 30 and region in ['north', 'south']\")",
    )


class _Reader:
    """Reads names, constants, operators and methods of columns, and refuses everything else."""

    def __init__(self, frame: Any, variables: Mapping[str, Any], quoted: list[str], text: str) -> None:
        self.frame, self.variables, self.quoted, self.text = frame, variables, quoted, text

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                return self._name(name)
            case ast.List() | ast.Tuple() | ast.Set():
                return [self.read(each) for each in node.elts]
            case ast.BoolOp(op=op, values=values):
                joined = self.read(values[0])
                for each in values[1:]:
                    joined = joined & self.read(each) if isinstance(op, ast.And) else joined | self.read(each)
                return joined
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return ~self.read(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.read(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](self.read(left), self.read(right))
            case ast.Compare():
                return self._compare(node)
            case ast.Attribute(value=value, attr=attr) if not attr.startswith("_"):
                return getattr(self.read(value), attr)
            case ast.Call(func=ast.Attribute() as function, args=args, keywords=keywords):
                named = {each.arg: self.read(each.value) for each in keywords if each.arg is not None}
                return self.read(function)(*map(self.read, args), **named)
        raise _unreadable(self.text)

    def _compare(self, node: ast.Compare) -> Any:
        sides = [self.read(each) for each in (node.left, *node.comparators)]
        made: Any = None
        for one, op, two in zip(sides, node.ops, sides[1:], strict=False):
            if type(op) not in _COMPARE:
                raise _unreadable(self.text)
            step = _COMPARE[type(op)](one, two)
            made = step if made is None else made & step
        return made

    def _name(self, name: str) -> Any:
        if name.startswith(_QUOTED):
            return self.frame[self.quoted[int(name.removeprefix(_QUOTED))]]
        if name.startswith(_VARIABLE):
            known = name.removeprefix(_VARIABLE)
            if known not in self.variables:
                raise InterfaceError(f"there is no variable {known!r}", hint="define it before the query")
            return self.variables[known]
        return self.frame[name]
