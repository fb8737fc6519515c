"""The SQL dialect of PostgreSQL: how it writes each part of the emitted SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from dpsql.engines.postgres import datetime_rules, number_rules, syntax, text_rules
from dpsql.engines.sql import expression_rules as comparison_rules
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.expression_rules import Rule
from dpsql.expressions.expression import Call
from dpsql.expressions.types import Kind, Type, from_engine
from dpsql.policy.identifiers import fold

UNLIMITED = "DECIMAL(1000,500)"
"""How a `numeric` without precision is described: too wide for an exact type, so it is computed with as DOUBLE."""
LABELS = "ENUM()"
"""How an ENUM is described: its labels are values of the data."""
STORED = 2**24
"""The most bytes of a stored text that is read."""
RULES: dict[str, Rule] = {**comparison_rules.RULES, **number_rules.RULES, **datetime_rules.RULES, **text_rules.RULES}
"""The operations that have a total form here; what is not among them is refused before anything is charged."""
_MOST = {"INTEGER": 2**31 - 1, "BIGINT": 2**63 - 1024}


class Postgres(Dialect):
    """Total SQL of PostgreSQL: no stored value whatsoever makes it raise or grow without bound.

    **Theorem.** For every row over the stored types, an emitted expression gives a value of type
    `physical(expression.type)` or NULL; it never raises. **Proof.** By induction over the tree: `read` gives such a
    value for each stored one (below), comparisons are total, and each operation is by the theorem of its file
    (`numbers`, `moments`, `texts`, `total`). PostgreSQL evaluates a branch of a CASE only where its condition holds;
    the two exceptions of its manual do not occur: constants are folded to what does not raise, and no aggregate stands
    inside an expression. **Requires** the settings in `dpsql.engines.postgres.server_session`, and a database in UTF-8.
    **Checked by** `tests/engines/test_postgres_total.py`.
    """

    ignores_nulls = False
    windows_of_different = False
    full_joins_by_any = False
    fence = " OFFSET 0"
    carried, longest = 2**28, STORED

    def short(self, text: str, most: int) -> str:
        return syntax.called("short", text, str(most))

    def __init__(self, places: Mapping[str, str] | None = None) -> None:
        self._places: Mapping[str, str] = {} if places is None else places
        """Where the tables are, by folded name: schema and name, quoted."""

    def table(self, name: str) -> str:
        return self._places.get(fold(name)) or syntax.quoted(name)

    def type(self, name: str) -> str:
        return syntax.type_name(name)

    def quote(self, name: str) -> str:
        return syntax.quoted(name)

    def text(self, value: str) -> str:
        return syntax.text(value)

    def double(self, value: float | Decimal) -> str:
        return syntax.double(value)

    def moment(self, written: str, wanted: str) -> str:
        return f"{wanted} '{written}'"

    def cast(self, value: str, wanted: str) -> str:
        return syntax.cast(value, wanted)

    def attempted(self, value: str, given: str, wanted: str) -> str:
        return number_rules.attempted(value, given, wanted)

    def read(self, column: str, stored: str) -> str:
        """A stored decimal may be NaN, which no exact type of the planner has: NULL.

        One without precision may have 100,000 digits, and be infinite: as DOUBLE it is NULL beyond 1e300. A text may
        have 1 GB, which is also the most that PostgreSQL allocates at once: patterns, trims and changes of case take
        up to eight bytes for a letter, and raise. One that is longer than `STORED` is NULL. A label is written out by
        the function of its type: a cast may be somebody's.
        """
        type_ = from_engine(stored)
        if type_ is None:
            return column
        if stored == LABELS:
            return self.compared(f"textin(enum_out({column}))")
        if stored == UNLIMITED:
            return syntax.called("narrow", column)
        if stored.startswith("DECIMAL"):
            exact = f"nullif({column}, 'NaN')"
            return syntax.cast(exact, "DOUBLE") if type_.kind is Kind.DOUBLE else exact
        if type_.kind is Kind.TEXT:
            read = self.compared(f"CAST({column} AS text)")
            return read if stored == "UUID" else syntax.called("short", read, str(STORED))
        if stored == "TIMESTAMP WITH TIME ZONE":
            return f"({column} AT TIME ZONE 'UTC')"
        return syntax.cast(column, "DOUBLE") if stored == "FLOAT" else column

    def compared(self, text: str) -> str:
        return f'({text} COLLATE "C")'

    def rule(self, node: Call) -> Rule | None:
        known = all(family.has_form(node) for family in (number_rules, datetime_rules, text_rules))
        return RULES.get(node.op) if known else None

    def total(self, value: str, over: str = "", *, distinct: bool = False, bits: int | None = None) -> str:
        """A sum of `bigint` or `numeric` is a `numeric`, which holds any; one of `integer` is only a `bigint`.

        What a unit's total is multiplied with would overflow that.
        """
        if bits is not None:
            value = self.cast(value, "BIGINT" if bits <= 62 else "HUGEINT")
        return super().total(value, over, distinct=distinct)

    def extreme(self, function: str, value: str, type_: Type) -> str:
        if type_.kind is Kind.BOOLEAN:
            return f"{'bool_and' if function == 'min' else 'bool_or'}({value})"
        return f"{function}({value})"

    def quotient(self, number: str, divisor: str) -> str:
        return f"div({self.wide(number)}, {self.wide(divisor)})"

    def floored(self, total: str, shift: int) -> str:
        """`div` is exact and rounds toward zero, so what is below zero and leaves a rest goes one down."""
        step = self.wide(str(2**shift))
        return f"(div({total}, {step}) - CASE WHEN mod({total}, {step}) < 0 THEN 1 ELSE 0 END)"

    def scrambled(self, salt: str, columns: Sequence[str]) -> str:
        """A digest of digests: what joins k long texts one by one holds them k times over."""
        parts = [f"coalesce(md5(CAST({c} AS text)), '-')" for c in columns]
        return f"CAST(md5({' || '.join([self.text(salt), *parts])}) AS uuid)"

    def pick(self, values: Sequence[int], place: str) -> str:
        return f"(CAST(ARRAY[{', '.join(map(str, values))}] AS bigint[]))[{self.cast(place, 'INTEGER')}]"

    def steps(self, value: str, factor: float, width: str) -> str:
        """Within its reach the product fits; next to nothing it is nothing, rather than an underflow."""
        least, most = self.double(1e-9 / factor), self.double(_MOST[width] / factor)
        product = f"CASE WHEN abs({value}) > {least} THEN {value} * {self.double(factor)} ELSE 0 END"
        return f"CASE WHEN abs({value}) <= {most} THEN {self.cast(product, width)} END"

    def unscaled(self, value: str, scale: int) -> str:
        return self.attempted(f"({value} * {10**scale})", "HUGEINT", "BIGINT")

    def days(self, end: str, start: str) -> str:
        return f"({end} - {start})"

    def is_nan(self, value: str) -> str:
        return f"({value} = 'NaN')"

    def microseconds(self, moment: str) -> str:
        return f"CAST(extract(epoch FROM {moment}) * 1000000 AS bigint)"
