"""The SQL dialect of Spark: how it writes each part of the emitted SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from dpsql.engines.spark import datetime_rules, function_rules, number_rules, text_rules
from dpsql.engines.spark.type_names import spark_type
from dpsql.engines.sql import expression_rules as comparison_rules
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.expression_rules import Rule
from dpsql.expressions.expression import Call
from dpsql.expressions.types import Kind, from_engine

PIECE = 21
"""Bits of the pieces in which whole numbers are added up as BIGINT."""
HASHES = 2**63 - 1
_PLAIN = {Kind.DOUBLE: "DOUBLE", Kind.TIMESTAMP: "TIMESTAMP"}


class Spark(Dialect):
    """Total SQL of Spark: no stored value whatsoever makes it raise or grow without bound.

    **Theorem.** For every row over the stored types, an emitted expression gives a value of the type that `physical`
    names or NULL; it never raises. **Proof.** By induction over the tree. The session has ANSI mode off
    (`dpsql.engines.spark.session_settings`): casts, arithmetic, divisions and `make_date` then give NULL, saturate or
    wrap, and each rule computes in a type that holds the hard range of its operands and result, so that the last two do
    not happen to values that are used. What raises even so is never reached: timestamps and dates out of their range
    (the operands are guarded by `numbers.guarded`), a part number 0 of `split_part` and signs that a date format does
    not have (refused), texts that are no UTF-8 (NULL where they are read). Nothing depends on which branch of a CASE is
    evaluated first, since operands are guarded, not results. **Requires** the settings of that session. **Checked by**
    the sweep in `tests/engines/test_spark_expressions.py`: every operation over the edge values of every stored type.
    """

    recomputed = ""
    kept = ""
    ignores_nulls_behind = True
    windows_of_different = False
    carried = 2**26

    def short(self, text: str, most: int) -> str:
        return text_rules.short(text, most)

    def type(self, name: str) -> str:
        return spark_type(name)

    def quote(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def text(self, value: str) -> str:
        return text_rules.text(value)

    def double(self, value: float | Decimal) -> str:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        return f"({number!r}D)" if math.isfinite(number) else f"CAST('{number!r}' AS DOUBLE)"

    def moment(self, written: str, wanted: str) -> str:
        return number_rules.moment(written, wanted)

    def cast(self, value: str, wanted: str) -> str:
        return f"CAST({value} AS {spark_type(wanted)})"

    def attempted(self, value: str, given: str, wanted: str) -> str:
        """Numbers are only used where they fit; a date may lie outside the range of timestamps."""
        value = number_rules.guarded(value, given) if given == "DATE" else value
        return self.cast(value, wanted)

    def read(self, column: str, stored: str) -> str:
        """Text in the order of its bytes, and NULL where they are no UTF-8: functions of Spark trust that they are."""
        type_ = from_engine(stored)
        kind = None if type_ is None else type_.kind
        if kind is Kind.TEXT:
            return f"try_validate_utf8({self.compared(column)})"
        plain = _PLAIN.get(kind) if kind else None
        return column if plain is None or stored.upper() == plain else self.cast(column, plain)

    def compared(self, text: str) -> str:
        return f"collate({text}, 'UTF8_BINARY')"

    def rule(self, node: Call) -> Rule | None:
        """A rule of this package, or a form of the table of functions."""
        for family in (number_rules, datetime_rules, text_rules):
            if node.op in family.RULES:
                return family.RULES[node.op] if family.computed(node) else None
        if node.op in comparison_rules.RULES:
            return (
                comparison_rules.RULES[node.op] if all(number_rules.fits(a.type) for a in (node, *node.args)) else None
            )
        return function_rules.written if function_rules.computed(node) else None

    def total(self, value: str, over: str = "", *, distinct: bool = False, bits: int | None = None) -> str:
        """Whole numbers in pieces of 21 bits, each of which adds up exactly as BIGINT.

        **Theorem.** For up to 2⁴² rows no sum overflows. **Proof.** A piece is below 2²¹, the highest (which has the
        sign) below 2^(bits - 42) ≤ 2²¹. A number is the sum of its pieces, so its total is that of theirs: `>>` rounds
        down, and `&` leaves what that took away. Sums of decimals are decimals that are ten digits wider, at most 38:
        totals stay below 2¹²⁶ (`dpsql.sensitivity.argument`), which 38 digits hold.
        **Requires** that `bits` are those of what a row really adds (`dpsql.sensitivity.argument`, which the clamp
        enforces), and at most 63.
        **Checked by** `tests/engines/test_spark_expressions.py` and `tests/engines/test_spark_neighbours.py`.
        """
        if distinct or bits is None:
            return f"sum({'DISTINCT ' if distinct else ''}{value if bits is None else self.wide(value)}){over}"
        if bits <= PIECE:
            return self.wide(f"sum({value}){over}")
        pieces = range(0, bits, PIECE)
        return "(" + " + ".join(self._piece(value, start, start == pieces[-1], over) for start in pieces) + ")"

    def _piece(self, value: str, start: int, last: bool, over: str) -> str:
        shifted = f"shiftright({self.cast(value, 'BIGINT')}, {start})" if start else self.cast(value, "BIGINT")
        piece = shifted if last else f"({shifted} & {2**PIECE - 1}L)"
        total = self.wide(f"sum({piece}){over}")
        return self.cast(f"{total} * {self.wide(repr(str(2**start)))}", "HUGEINT") if start else total

    def weighed(self, rows: str) -> str:
        """Weights before rows, so that the rows stay where they are if the weights are few enough to be sent to them.

        Before it starts, Spark takes weights to be as large as the table, and would send every row to the place of its
        unit: most of what such a query costs. It plans anew when a part is done, but starts all parts that wait for
        nothing at once. Here the rows wait for a weight below zero, hence for all weights, and by then their size is
        known; as there is none, Spark also drops that join. **Theorem.** Each row is there once, with the weight of its
        unit. **Proof.** The anti join has each row at most once, and drops one only for a weight below zero. There is
        none: a weight is 2**WEIGHT_BITS or a quotient of positive numbers. `w` has each unit once.
        **Requires** `w` grouped by unit, with positive caps and totals (`dpsql.sensitivity.unit_weight`), and units
        that are not NULL.
        **Checked by** `tests/engines/test_spark_neighbours.py`.
        """
        waiting = f"{rows} LEFT ANTI JOIN (SELECT w FROM w WHERE w < 0) AS m ON TRUE"
        return f"(SELECT {rows}.*, w.w FROM {waiting} JOIN w ON {rows}.u = w.u) AS j"

    def quotient(self, number: str, divisor: str) -> str:
        return f"({self.wide(number)} div {self.wide(divisor)})"

    def floored(self, total: str, shift: int) -> str:
        """The total in steps of the noise grid.

        **Theorem.** It is the exact floor, in 64 bits. **Proof.** The remainder is subtracted first, so `div` divides
        evenly; a total that would not fit is moved to the nearer end, which `LIMIT` would do afterwards.
        **Requires** a total of at most 38 digits, which `dpsql.sensitivity.argument` proves.
        **Checked by** `tests/engines/test_spark_neighbours.py`.
        """
        whole = self.wide(total)
        if shift + 62 < 126:
            ends = [self.wide(f"'{sign}{2 ** (shift + 62)}'") for sign in ("", "-")]
            whole = f"greatest(least({whole}, {ends[0]}), {ends[1]})"
        unit = self.wide(f"'{2**shift}'")
        return f"({self.cast(f'{whole} - pmod({whole}, {unit})', 'HUGEINT')} div {unit})"

    def scrambled(self, salt: str, columns: Sequence[str]) -> str:
        return f"shiftrightunsigned(xxhash64({', '.join([self.text(salt), *columns])}), 1)"

    def reach(self, groups: str, few: int) -> str | None:
        return f"(CASE WHEN {groups} > {few} THEN {HASHES}L div {groups} * {few} ELSE {HASHES}L END)"

    def pick(self, values: Sequence[int], place: str) -> str:
        return f"get(array({', '.join(f'{value}L' for value in values)}), CAST({place} AS INT) - 1)"

    def steps(self, value: str, factor: float, width: str) -> str:
        return self.cast(f"rint({value} * {self.double(factor)})", width)

    def unscaled(self, value: str, scale: int) -> str:
        return self.cast(f"{value} * {10**scale}", "BIGINT")

    def days(self, end: str, start: str) -> str:
        return datetime_rules.days_between(end, start)

    def is_nan(self, value: str) -> str:
        return number_rules.is_nan(value)

    def microseconds(self, moment: str) -> str:
        return datetime_rules.micros(moment)


SPARK = Spark()
