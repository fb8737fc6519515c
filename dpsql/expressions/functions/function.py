"""A function allowed below an aggregate: its parameters, its result, its bounds, and SQL that cannot raise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.expressions.expression import Call, Expression, Literal, Value
from dpsql.expressions.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT64, TEXT, TIMESTAMP, Kind, Type
from dpsql.expressions.typing import Mismatch, call, read_date, require

NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
TEMPORAL = (Kind.DATE, Kind.TIMESTAMP)
Builder = Callable[[tuple[Expression, ...]], Expression]
Accepts = Callable[[Value], str | None]


@dataclass(frozen=True, slots=True)
class Parameter:
    """What an argument may be, and the DuckDB type in which it is handed over ("" for its own).

    `accepts` makes it a constant of the query: it gives the reason why a value is not allowed, or None. `longest`
    limits a text to so many bytes (a longer one is NULL) where the work grows faster than the text.
    """

    kinds: tuple[Kind, ...]
    handed: str = ""
    accepts: Accepts | None = None
    longest: int | None = None

    def check(self, argument: Expression, what: str) -> Expression:
        """The argument, if it fits."""
        if self.kinds == TEMPORAL:
            argument = read_date(argument)
        argument = self._typed(argument)
        require(argument, *self.kinds, what=what)
        if self.handed == "BIGINT" and (argument.type.lower < INT64[0] or argument.type.upper > INT64[1]):
            raise Mismatch(f"{what} takes whole numbers of 64 bits; cast it first: CAST({argument} AS BIGINT)")
        if self.accepts is not None:
            problem = "takes a constant here" if not isinstance(argument, Literal) else self.accepts(argument.value)
            if problem is not None:
                raise Mismatch(f"{what} {problem}")
        return argument

    def _typed(self, argument: Expression) -> Expression:
        """A bare NULL in a type that the parameter takes: else the database may not know which function is meant."""
        if argument.type.kind is not Kind.NULL or self.accepts is not None:
            return argument
        return Literal(_TYPES[self.kinds[0]], value=None, span=argument.span)


_TYPES = {
    Kind.INTEGER: BIGINT, Kind.DECIMAL: DOUBLE, Kind.DOUBLE: DOUBLE, Kind.TEXT: TEXT, Kind.DATE: DATE,
    Kind.TIMESTAMP: TIMESTAMP, Kind.BOOLEAN: BOOLEAN,
}  # fmt: skip
NUMBER = Parameter(NUMBERS, "DOUBLE")
WHOLE = Parameter((Kind.INTEGER,), "BIGINT")
WORDS = Parameter((Kind.TEXT,), "VARCHAR")
SHORT_WORDS = Parameter((Kind.TEXT,), "VARCHAR", longest=256)
MOMENT = Parameter(TEMPORAL)
STAMP = Parameter(TEMPORAL, "TIMESTAMP")


def count(least: int, most: int) -> Parameter:
    """A whole constant in a range."""

    def accepts(value: Value) -> str | None:
        inside = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return None if inside else f"takes a constant from {least} to {most} here"

    return Parameter((Kind.INTEGER,), "INTEGER", accepts)


def constant(accepts: Accepts) -> Parameter:
    """A constant text that passes a check."""

    def checked(value: Value) -> str | None:
        return accepts(value) if isinstance(value, str) else "takes a constant text here"

    return Parameter((Kind.TEXT,), "VARCHAR", checked)


@dataclass(frozen=True, slots=True)
class Anything:
    """Bounds: those of the type."""


@dataclass(frozen=True, slots=True)
class Image:
    """Bounds: the function never leaves [low, high], wherever its arguments are."""

    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class Listed:
    """Bounds: one of these values."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Monotone:
    """Bounds: rising (or falling) in its one argument on [least, most], and NaN outside.

    The ends are computed by `function` and widened by the library's own rounding, relative `slack`.
    """

    function: Callable[[float], float]
    least: float = -math.inf
    most: float = math.inf
    falling: bool = False
    slack: float = 1e-12


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Bounds or SQL that need more than a line: a rule of `dpsql.bounds` or of the engine under that name."""


ELSEWHERE = Elsewhere()


@dataclass(frozen=True, slots=True)
class Function:
    """A line of the table.

    `sql` is the total DuckDB form, with {0}, {1}, … for the arguments; without it the name is called with them all.
    `nan` says that a NaN can come of arguments that are none, `null` the same of NULL; a function that is not `strict`
    may answer although an argument is NULL. `value` computes the answer in Python where that is certain to be DuckDB's
    (a ValueError where it is not), so that listed values stay listed. `growth` bounds the bytes of a text that it
    gives: factor times the longest argument, plus a constant. `forms` are texts over columns a, b, c that the tests
    run on every edge value of every type; the first one is shown to people. `node` and `reads` name the parser's own
    class for it and the order of its parts, `build` makes a tree of other operations instead of a call.
    """

    name: str
    takes: tuple[Parameter, ...] = ()
    gives: Type | Callable[..., Type] | None = None
    bounds: Anything | Image | Listed | Monotone | Elsewhere = ELSEWHERE
    sql: str | Elsewhere | None = None
    aliases: tuple[str, ...] = ()
    optional: int = 0
    strict: bool = True
    nan: bool = False
    null: bool = False
    value: Callable[..., Value] | None = None
    growth: tuple[int, int] | Callable[[Call], tuple[int, int]] = (1, 0)
    forms: tuple[str, ...] = ()
    node: type[exp.Expr] | tuple[type[exp.Expr], ...] = ()
    reads: tuple[str, ...] = ()
    build: Builder | None = None

    @property
    def written(self) -> tuple[str, ...]:
        """The forms, or a call with one letter for each argument."""
        letters = "abcdef"[: len(self.takes)]
        return self.forms or (f"{self.name}({', '.join(letters)})",)

    def parameters(self, arguments: int) -> tuple[Parameter, ...]:
        """One parameter for each of that many arguments."""
        least, most = len(self.takes) - self.optional, len(self.takes)
        if not least <= arguments <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise Mismatch(f"{self.name.upper()} takes {wanted} arguments, not {arguments}")
        return self.takes[:arguments]

    def made(self, arguments: Sequence[Expression]) -> Expression:
        """The typed expression of a call."""
        if self.build is not None and not self.takes:
            return self.build(tuple(arguments))
        parameters = self.parameters(len(arguments))
        checked = tuple(p.check(a, self.name.upper()) for p, a in zip(parameters, arguments, strict=True))
        if self.build is not None:
            return self.build(checked)
        assert self.gives is not None
        return call(self.name, self.gives if isinstance(self.gives, Type) else self.gives(*checked), *checked)
