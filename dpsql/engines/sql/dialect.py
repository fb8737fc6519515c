"""The SQL dialect of an engine: how it writes each part of the emitted SQL.

All that differs between engines stands behind this class.

Types go by DuckDB's names for them (`physical` gives them), and each dialect has its own names for these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Self

from dpsql.engines.sql.expression_rules import Rule
from dpsql.engines.sql.sql_types import physical
from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.expressions.expression import Call, Column, Expression, Literal, Value
from dpsql.expressions.types import Kind, Type

LONGEST = 500_000


class Dialect(ABC):
    """The SQL dialect of one engine. Whatever is stored, nothing that it writes may raise.

    **Theorem (shares).** Where the engine limits the texts of a row, all texts that one row carries, at any stage of a
    statement, have at most `carried` bytes together, but for what functions add. **Proof.** A text in a row was read
    from a stored column or computed by an operation, and each of both is counted when it is written: `texts` of them
    share `carried`. A stored text that is longer than its share is NULL. An operation gives a part of its operand, at
    most one and a half times as many bytes (upper and lower case), or at most 2**18 bytes (what lengthens a text). The
    count follows from the query and the policy.
    **Requires** that whatever writes a text goes through `read` or a rule, and that a statement is emitted twice: once
    to count, and once with the share (`dpsql.engines.sql.release_statements`).
    **Checked by** `tests/engines/test_row_sizes.py`.
    """

    carried: int | None = None
    """The bytes that all texts of one row may have together; None where the engine needs no limit."""
    longest: int = 2**24
    """The bytes that one of them may have, if there are few."""
    texts = 0
    """How many texts a statement reads or makes, as far as it is written."""
    share: int | None = None
    """The bytes of each text in a statement with many; None in one with few."""

    def counting(self, share: int | None = None) -> Self:
        """A copy for one statement: it counts the texts, and limits each to `share` bytes, if given."""
        made = copy(self)
        made.texts, made.share = 0, share
        return made

    def short(self, text: str, most: int) -> str:
        """A text, or NULL if it has more bytes."""
        raise InternalError("this engine limits no texts")

    def carry(self, text: str) -> str:
        """A stored text as one more of a row, within its share."""
        self.texts += 1
        return text if self.share is None else self.short(text, self.share)

    # names, constants, casts ------------------------------------------------------------------------------------------

    @abstractmethod
    def type(self, name: str) -> str:
        """The engine's name for a type."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """A name as SQL, whatever it contains."""

    def copied(self, table: str, part: str) -> str:
        """A part of the prepared copy of a table."""
        raise InternalError("this engine has no prepared copies")

    def table(self, name: str) -> str:
        """A stored table, or one that holds released rows, as SQL."""
        return self.quote(name)

    @abstractmethod
    def text(self, value: str) -> str:
        """A string constant."""

    @abstractmethod
    def double(self, value: float | Decimal) -> str:
        """A constant of type DOUBLE, which may be infinite or NaN."""

    @abstractmethod
    def cast(self, value: str, wanted: str) -> str:
        """A cast that cannot fail on what stands there."""

    @abstractmethod
    def attempted(self, value: str, given: str, wanted: str) -> str:
        """A cast that gives NULL where it would fail; `given` is the type of the value."""

    @abstractmethod
    def read(self, column: str, stored: str) -> str:
        """A stored column in the type that the planner computes with; `stored` is DuckDB's name for its own type.

        Text is compared byte by byte: under another collation two units could be grouped as one, and the spelling that
        a group shows would be that of some person.
        """

    @abstractmethod
    def compared(self, text: str) -> str:
        """A text that is compared byte by byte."""

    def literal(self, value: Value, type_: Type) -> str:
        """A constant as SQL, in exactly the type that `physical` names."""
        wanted = physical(type_)
        if value is None:
            return self.cast("NULL", wanted)
        match type_.kind, value:
            case Kind.BOOLEAN, bool():
                return "TRUE" if value else "FALSE"
            case Kind.TEXT, str():
                return self.text(value)
            case Kind.TIMESTAMP, datetime():
                return self.moment(value.isoformat(sep=" "), "TIMESTAMP")
            case Kind.DATE, date():
                return self.moment(value.isoformat(), "DATE")
            case Kind.DOUBLE, int() | float() | Decimal():
                return self.double(value)
            case Kind.INTEGER | Kind.DECIMAL, int() | Decimal():
                return self._exact(value, type_)
        raise InternalError(f"no literal of type {type_} for a {type(value).__name__}")

    def _exact(self, value: int | Decimal, type_: Type) -> str:
        wanted = physical(type_)
        if wanted == "INTEGER":
            return str(value) if value >= 0 else f"({value})"
        return self.cast(f"'{value:f}'" if isinstance(value, Decimal) else f"'{value}'", wanted)

    @abstractmethod
    def moment(self, written: str, wanted: str) -> str:
        """A constant date or timestamp."""

    # expressions ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def rule(self, node: Call) -> Rule | None:
        """How an operation is written; None if this engine has no total form of it."""

    def sql(self, expression: Expression, column: Callable[[str], str]) -> str:
        """The expression as total SQL; `column` writes a column of the row."""

        def emit(node: Expression, wanted: str) -> str:
            if node.type.kind is Kind.NULL or (isinstance(node, Literal) and node.value is None):
                return self.cast("NULL", wanted)
            if isinstance(node, Column):
                return self._column(node, column(node.name), wanted)
            made = self.literal(node.value, node.type) if isinstance(node, Literal) else self._call(node, emit)
            if node.type.kind is Kind.TEXT and isinstance(node, Call):
                self.texts += 1
            return self.converted(made, physical(node.type), wanted)

        return emit(expression, physical(expression.type))

    def _column(self, node: Column, name: str, wanted: str) -> str:
        """A number or a text is read in the wanted type: an ENUM or an unsigned number would behave in its own way.

        Engines drop a cast to the type that a column has.
        """
        if node.type.kind in (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP):
            return self.converted(name, physical(node.type), wanted)
        return self.cast(name, wanted)

    def _call(self, node: Expression, emit: Callable[[Expression, str], str]) -> str:
        if not isinstance(node, Call):
            raise InternalError(f"no SQL for {node}")
        rule = self.rule(node)
        if rule is None:
            raise UnsupportedQuery(
                f"{node.op.upper()} is not computed by this database", span=node.span,
                hint="compute it above the aggregate, or ask the steward for a column that holds it",
            )  # fmt: skip
        made = rule(node, emit)
        if len(made) > LONGEST:
            raise UnsupportedQuery("this expression is nested too deeply", span=node.span, hint="split it into parts")
        return made

    def converted(self, made: str, given: str, wanted: str) -> str:
        """A widening cast, which cannot fail; only a date may lie outside the range of timestamps."""
        if given == wanted:
            return made
        return self.attempted(made, given, wanted) if given == "DATE" else self.cast(made, wanted)

    # the totals -------------------------------------------------------------------------------------------------------

    def wide(self, value: str) -> str:
        """A whole number in the widest exact type."""
        return self.cast(value, "HUGEINT")

    def addend(self, value: str, type_: Type) -> str:
        """A decimal of a type as `total` adds it up."""
        return value

    def total(self, value: str, over: str = "", *, distinct: bool = False, bits: int | None = None) -> str:
        """The exact sum of whole numbers or decimals, in a type that holds it; `over` makes it a window's.

        With `bits` each value is a whole number between -2**bits and 2**bits that may have a type as narrow as that;
        without, the values are addends, in the widest type, or counts.
        """
        return f"sum({'DISTINCT ' if distinct else ''}{value}){over}"

    def extreme(self, function: str, value: str, type_: Type) -> str:
        """The least (`min`) or largest (`max`) of values of a type, NULL left out."""
        return f"{function}({value})"

    def weighed(self, rows: str) -> str:
        """A FROM item: a table of rows, each with the weight `w` that the table `w` has for its unit `u`."""
        return f"{rows} JOIN w USING (u)"

    @abstractmethod
    def quotient(self, number: str, divisor: str) -> str:
        """The whole quotient of a number that is not negative and a positive one, rounded down, in the widest type."""

    @abstractmethod
    def floored(self, total: str, shift: int) -> str:
        """⌊total/2**shift⌋ of a number in the widest type."""

    @abstractmethod
    def scrambled(self, salt: str, columns: Sequence[str]) -> str:
        """A value by which rows are put into an order that the salt and their own columns settle."""

    def reach(self, groups: str, few: int) -> str | None:
        """A value below which the hashes of about `few` of so many groups lie; None if unknown."""
        return None

    @abstractmethod
    def pick(self, values: Sequence[int], place: str) -> str:
        """The whole number at a place of a list, from 1 on."""

    @abstractmethod
    def steps(self, value: str, factor: float, width: str) -> str:
        """A DOUBLE that is known to fit, times a power of two, rounded to a whole number; NULL rather than an error."""

    @abstractmethod
    def unscaled(self, value: str, scale: int) -> str:
        """A decimal that is known to fit, times ten to its scale, as BIGINT; NULL rather than an error."""

    @abstractmethod
    def days(self, end: str, start: str) -> str:
        """The whole days from one date to another."""

    recomputed = "NOT MATERIALIZED "
    """What makes a table of a WITH clause cheap to read twice: here by computing it twice."""
    kept = "MATERIALIZED "
    """The same, by keeping it."""
    ignores_nulls = True
    """Has it window functions that pass over NULL?"""
    ignores_nulls_behind = False
    """Do these words stand behind the brackets?"""
    windows_of_different = True
    """Has it DISTINCT in the aggregates of a window?"""
    full_joins_by_any = True
    """Does a FULL JOIN take any condition, or only equalities of its two sides?"""
    scans_by_piece = False
    """Is a scan for each piece of a clamp cheaper than one with a CASE?"""

    fence = ""
    """What ends a subquery whose columns are computed once, however often they are read above it."""

    def one_zero(self, value: str) -> str:
        """A DOUBLE without negative zero: grouping takes both for one value, and would show that of some row."""
        return f"CASE WHEN {value} = 0 THEN {self.double(0.0)} ELSE {value} END"

    def settled(self, value: str, type_: Type) -> str:
        """A value that is the same wherever it is equal: of zeros and of NaNs DOUBLE has several."""
        if type_.kind is not Kind.DOUBLE:
            return value
        return f"CASE WHEN {self.is_nan(value)} THEN {self.double(float('nan'))} ELSE {self.one_zero(value)} END"

    @abstractmethod
    def is_nan(self, value: str) -> str:
        """Whether a DOUBLE is NaN."""

    @abstractmethod
    def microseconds(self, moment: str) -> str:
        """A timestamp as whole microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where the SQL will run: the stored columns with the engine's own types, and how the engine writes."""

    columns: Mapping[str, Mapping[str, str]]
    dialect: Dialect
