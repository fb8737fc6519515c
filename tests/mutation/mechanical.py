"""Mutants made from the syntax tree, one change each: comparisons, constants, operators, clamps, rounding and guards.

Left alone, because nothing could tell the difference: docstrings and the texts of errors, `hint=`, annotations,
`__repr__` and `__str__`, `__all__`, and switches that only shape a class or check a length (`slots`, `frozen`,
`strict`, ...).
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType

from fragments import is_sql, swaps
from modules import ROOT, written_in_sql

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_CALLS = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "minimum": "maximum",
    "maximum": "minimum",
    "nextafter": None,
    "abs": None,
    "round_up": "round_down",
    "round_down": "round_up",
}
_SHAPE_ONLY = {"slots", "frozen", "strict", "kw_only", "eq", "repr", "order", "hint", "maxsize", "compare", "daemon"}
_TEXT_FUNCTIONS = {"__repr__", "__str__", "describe", "__format__"}
_TEXT_CALLS = {"hint", "note", "InternalError", "PolicyError", "UnsupportedQuery", "LedgerError", "BudgetExceeded"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    id: str
    module: str
    line: int
    end: int
    function: str
    kind: str
    before: str
    after: str
    edit: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    undo: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.module}:{self.line}  {self.before}  →  {self.after}"


class Module:
    """A parsed module; one mutant at a time is planted in its tree."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.source = (ROOT / name).read_text()
        self.tree = ast.parse(self.source)
        self.mutants = list(_Walk(self).made())

    def mutated(self, name: str) -> str:
        """The source with the mutant of this name in it, comments left out."""
        return ast.unparse(self.planted(name))

    def planted(self, name: str) -> ast.Module:
        """A copy of the tree with the mutant of this name in it, with the line numbers of the source.

        By name, for a mutant that was made from another reading of the module changes that one's tree.
        """
        mutant = next(each for each in self.mutants if each.id == name)
        mutant.edit()
        try:
            return copy.deepcopy(ast.fix_missing_locations(self.tree))
        finally:
            mutant.undo()

    def code(self, source: str | ast.Module) -> CodeType:
        """Compiled, in the place of the module."""
        return compile(source, str(ROOT / self.name), "exec", dont_inherit=True)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node hangs, and in which function and statement."""

    parent: ast.AST
    name: str
    index: int | None
    function: str
    statement: ast.stmt | None


class _Walk:
    """Visits each node that decides something, and offers what may stand in its place."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.sql = written_in_sql(module.name)
        self.seen: Counter[str] = Counter()

    def made(self) -> Iterator[Mutant]:
        yield from self._children(self.module.tree, "", None)

    def _children(self, node: ast.AST, function: str, statement: ast.stmt | None) -> Iterator[Mutant]:
        for name, value in ast.iter_fields(node):
            if _skipped(node, name):
                continue
            nodes = (
                [(None, value)] if isinstance(value, ast.AST) else enumerate(value) if isinstance(value, list) else ()
            )
            for index, child in nodes:
                if isinstance(child, ast.AST):
                    yield from self._visit(child, _Place(node, name, index, function, statement))

    def _visit(self, node: ast.AST, place: _Place) -> Iterator[Mutant]:
        if _text(node, place):
            return
        function, statement = place.function, place.statement
        if isinstance(node, ast.stmt):
            statement = node
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            function = f"{function}.{node.name}" if function else node.name
        here = _Place(place.parent, place.name, place.index, function, statement)
        for kind, new, before, after in self._offers(node, place):
            yield self._mutant(node, new, kind, before, after, here)
        yield from self._children(node, function, statement)

    def _offers(self, node: ast.AST, place: _Place) -> Iterator[tuple[str, ast.AST, str, str]]:
        for kind, new, *shown in _changes(node, place, sql=self.sql):
            before, after = shown or (_short(node), _short(new))
            yield kind, new, before, after

    def _mutant(self, node: ast.AST, new: ast.AST, kind: str, before: str, after: str, place: _Place) -> Mutant:
        ast.copy_location(new, node)
        label = f"{self.module.name}::{place.function or '<module>'}::{before} -> {after}"
        self.seen[label] += 1
        number = f" #{self.seen[label]}" if self.seen[label] > 1 else ""
        line, end = _lines(node, place.statement)

        def put(what: ast.AST) -> None:
            if place.index is None:
                setattr(place.parent, place.name, what)
            else:
                getattr(place.parent, place.name)[place.index] = what

        return Mutant(
            label + number, self.module.name, line, end, place.function, kind, before, after,
            lambda: put(new), lambda: put(node),
        )  # fmt: skip


def _changes(node: ast.AST, place: _Place, *, sql: bool) -> Iterator[tuple]:
    match node:
        case ast.Compare():
            yield from _comparison(node)
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _OPERATORS:
            if not (isinstance(node.op, ast.Add) and _strings(node)) and not _types(node, place):
                yield "operator", _with(node, op=_OPERATORS[type(node.op)]())
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "boolean", _with(node, op=other)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield "sign", node.operand
        case ast.Call():
            yield from _call(node)
        case ast.If() if not _typing(node):
            yield from _condition(node)
        case ast.IfExp() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield "condition", _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Raise():
            yield "raise", ast.Pass(), _short(node), "pass"
        case ast.Expr(value=ast.Call()):
            yield "statement", ast.Pass(), _short(node), "pass"
        case ast.Constant():
            yield from _constant(node, place, sql=sql)


def _comparison(node: ast.Compare) -> Iterator[tuple]:
    for position, op in enumerate(node.ops):
        for other in _COMPARISONS[type(op)]:
            ops = [*node.ops[:position], other(), *node.ops[position + 1 :]]
            yield "comparison", _with(node, ops=ops)


def _call(node: ast.Call) -> Iterator[tuple]:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name not in _CALLS:
        return
    other = _CALLS[name]
    if other is None:
        if len(node.args) >= 1:
            yield "clamp", node.args[0]
        return
    func = copy.copy(node.func)
    setattr(func, "id" if isinstance(func, ast.Name) else "attr", other)
    yield "rounding" if other in ("floor", "ceil") else "clamp", _with(node, func=func)


def _condition(node: ast.If) -> Iterator[tuple]:
    guard = isinstance(node.body[-1], ast.Raise | ast.Return | ast.Continue) and not node.orelse
    shown = f"if {_short(node.test)}"
    if guard:
        yield "guard", _with(node, test=ast.Constant(False)), shown, "if False"
    if not isinstance(node.test, ast.Compare) or len(node.test.ops) > 1:
        yield "condition", _with(node, test=ast.UnaryOp(ast.Not(), node.test)), shown, f"if not ({_short(node.test)})"


def _constant(node: ast.Constant, place: _Place, *, sql: bool) -> Iterator[tuple]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        if isinstance(place.parent, ast.BinOp) and isinstance(place.parent.op, ast.Pow) and place.name == "left":
            return
        yield "constant", ast.Constant(value + 1)
        if value > 1 and not isinstance(place.parent, ast.Subscript | ast.Slice | ast.UnaryOp):
            yield "constant", ast.Constant(value - 1)
    elif isinstance(value, float):
        yield "constant", ast.Constant(value * 2 if value else 1.0)
    elif isinstance(value, str) and sql and is_sql(value):
        for changed, before, after in swaps(value):
            yield "sql", ast.Constant(changed), f"{_near(value, changed, before)}", f"{_near(changed, value, after)}"


def _near(text: str, other: str, fragment: str) -> str:
    """The fragment with a little of what stands around it."""
    start = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    return f"'{text[max(0, start - 14) : start + len(fragment) + 14]}'"


def _skipped(node: ast.AST, name: str) -> bool:
    """Annotations, decorators and the parts of an error."""
    if name in ("annotation", "returns", "type_comment", "type_params", "bases"):
        return True
    return (isinstance(node, ast.Raise | ast.Assert | ast.FunctionDef) and name in ("exc", "cause", "msg", "test", "decorator_list")) or (
        isinstance(node, ast.ClassDef) and name in ("decorator_list", "keywords")
    )  # fmt: skip


def _text(node: ast.AST, place: _Place) -> bool:
    """What is only shown or only shapes a class."""
    match node:
        case ast.keyword(arg=str(name)):
            return name in _SHAPE_ONLY
        case ast.FunctionDef(name=name):
            return name in _TEXT_FUNCTIONS or name.startswith(("__repr", "_repr"))
        case ast.If() if _typing(node):
            return True
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _TEXT_CALLS or name == "TypeVar"
        case ast.Constant() if isinstance(place.parent, ast.Subscript) and _generic(place.parent):
            return True
    return False


def _generic(node: ast.Subscript) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("NDArray", "Callable", "Literal")


def _typing(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _strings(node: ast.BinOp | ast.AugAssign) -> bool:
    """Texts and lists that are put together: `-` would only raise a TypeError."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp) or
               (isinstance(side, ast.Constant) and isinstance(side.value, str)) for side in sides)  # fmt: skip


def _types(node: ast.BinOp | ast.AugAssign, place: _Place) -> bool:
    """A union of types, which is an annotation in effect."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.BitOr):
        return False
    asked = isinstance(place.parent, ast.Call) and getattr(place.parent.func, "id", "") in ("isinstance", "cast")
    return asked or not place.function or isinstance(place.parent, ast.BinOp)


def _with(node: ast.AST, **changes: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in changes.items():
        setattr(new, name, value)
    return new


def _lines(node: ast.AST, statement: ast.stmt | None) -> tuple[int, int]:
    """The lines of the innermost statement (without its body), on which a test must have been.

    A default of a function is read at import, and seen by who runs the function: its body counts too.
    """
    if statement is None or not hasattr(node, "lineno"):
        return 1, 1
    if isinstance(statement, ast.FunctionDef):
        return statement.lineno, statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno or statement.lineno
    return statement.lineno, max(last, statement.lineno)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:87] + "..."
