"""The SQL dialect of DuckDB: how it writes each part of the emitted SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import partial

from dpsql.engines.duckdb import datetime_rules, function_rules, number_rules, text_rules
from dpsql.engines.sql import expression_rules as comparison_rules
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.expression_rules import Rule
from dpsql.expressions.expression import Call
from dpsql.expressions.types import SPELLINGS, Kind, Type, from_engine
from dpsql.policy.identifiers import fold

HASHES = 2**64 - 1
COPY = "dpsql_prepared"
"""Under this name the file with prepared copies is attached, with a schema for each part."""
RULES: dict[str, Rule] = {**number_rules.RULES, **comparison_rules.RULES, **datetime_rules.RULES, **text_rules.RULES}
_PLAIN = {Kind.DOUBLE: "DOUBLE", Kind.TEXT: "VARCHAR", Kind.TIMESTAMP: "TIMESTAMP"}


class DuckDB(Dialect):
    """Total SQL of DuckDB: no stored value whatsoever makes it raise or grow without bound.

    **Theorem.** For every row over the stored types, an emitted expression gives a value of type
    `physical(expression.type)` or NULL; it never raises. **Proof.** By induction over the tree. Each rule computes in a
    type that holds the hard range of its operands and its result; where DuckDB's function is partial, the *operand* is
    guarded (NULL instead of what it cannot take), so that nothing depends on which branch of a CASE is evaluated first;
    casts that could fail are TRY_CAST, which costs nothing extra. **Requires** DuckDB's settings
    `ieee_floating_point_ops = true` and `integer_division = false` (the defaults), and room in memory for sixteen times
    the longest stored text: only statements with more texts than that give each its share. **Checked by** the sweep in
    `tests/unit/engines/test_duckdb_expressions.py`: every operation over the edge values of every stored type.
    """

    scans_by_piece = True
    carried, longest = 2**26, 2**22

    def short(self, text: str, most: int) -> str:
        return f"CASE WHEN strlen({text}) <= {most} THEN {text} END"

    def type(self, name: str) -> str:
        return name

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def copied(self, table: str, part: str) -> str:
        return f"{COPY}.{part}.{self.quote(fold(table))}"

    def text(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def double(self, value: float | Decimal) -> str:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        return f"CAST('{number!r}' AS DOUBLE)"

    def moment(self, written: str, wanted: str) -> str:
        return f"{wanted} '{written}'"

    def cast(self, value: str, wanted: str) -> str:
        return f"CAST({value} AS {wanted})"

    def attempted(self, value: str, given: str, wanted: str) -> str:
        return f"TRY_CAST({value} AS {wanted})"

    def read(self, column: str, stored: str) -> str:
        type_ = from_engine(stored)
        kind = None if type_ is None else type_.kind
        plain = _PLAIN.get(kind) if kind else None
        as_is = plain is None or stored.upper() == plain or stored == SPELLINGS
        read = column if as_is else f"TRY_CAST({column} AS {plain})"
        return self.compared(read) if kind is Kind.TEXT else read

    def compared(self, text: str) -> str:
        return f'({text} COLLATE "C")'

    def rule(self, node: Call) -> Rule | None:
        """A rule of this package, or the form in the table of functions. What lengthens a text keeps to its share."""
        function = None if node.op in RULES else function_rules.listed(node)
        if node.op in text_rules.LONGER or (function is not None and function_rules.growth(function, node) > (1, 0)):
            return partial(text_rules.limited, limit=min(text_rules.LONGEST, self.share or text_rules.LONGEST))
        return RULES.get(node.op) if function is None else partial(function_rules.written, function)

    def addend(self, value: str, type_: Type) -> str:
        """A decimal in 128 bits, the one width whose sum DuckDB does not replace after a look at the statistics.

        **Theorem.** A sum of decimals fails on no rows, and its type and value do not depend on statistics.
        **Proof.** DuckDB adds decimals of at most 18 digits by a function that its optimizer replaces
        (`sum_no_overflow`) where the smallest and the largest value of the column cannot overflow 64 bits. Where it has
        also rewritten a window over a whole partition into a join with an aggregate, the replacement is typed HUGEINT
        instead of DECIMAL: the query then fails, or reads the total with a wrong scale, on tables that have rows, and
        not on empty ones. Sums of 128-bit decimals have no such replacement. The cast only widens, so it cannot fail,
        and fewer than 2**63 values below 10**18 add up to less than 2**127.
        **Requires** decimals of at most 18 digits (`dpsql.expressions.types.decimal`).
        **Checked by** `tests/privacy/test_sums_of_decimals.py`.
        """
        return self.cast(value, f"DECIMAL(38,{type_.scale})")

    def quotient(self, number: str, divisor: str) -> str:
        return f"({number} // {divisor})"

    def floored(self, total: str, shift: int) -> str:
        return f"{total} >> {shift}"

    def scrambled(self, salt: str, columns: Sequence[str]) -> str:
        return f"hash({', '.join([self.text(salt), *columns])})"

    def reach(self, groups: str, few: int) -> str | None:
        bound = f"CASE WHEN {groups} > {few} THEN {HASHES} // CAST({groups} AS UBIGINT) * {few} ELSE {HASHES} END"
        return f"CAST({bound} AS UBIGINT)"

    def pick(self, values: Sequence[int], place: str) -> str:
        return f"{list(values)}[{place}]"

    def steps(self, value: str, factor: float, width: str) -> str:
        return f"TRY_CAST({value} * {self.double(factor)} AS {width})"

    def unscaled(self, value: str, scale: int) -> str:
        return f"TRY_CAST(round(CAST({value} AS DOUBLE) * {10**scale}) AS BIGINT)"

    def days(self, end: str, start: str) -> str:
        return f"({end} - {start})"

    def is_nan(self, value: str) -> str:
        return f"isnan({value})"

    def microseconds(self, moment: str) -> str:
        return f"epoch_us({moment})"


DUCKDB = DuckDB()
