"""Dates and timestamps in the range of years that engines can compute with.

±infinity and extreme years, which a stored column may hold, become NULL where an engine would raise on some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpsql.engines.sql.expression_rules import Emit, Rule
from dpsql.engines.sql.sql_types import physical
from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.expressions.expression import Call, Expression, Literal
from dpsql.expressions.types import Kind

FIRST, LAST = "0001-01-01", "9999-12-31 23:59:59.999999"
_CHOICES = {"case", "coalesce", "greatest", "least", "nullif"}
_MOVES = {"add_days", "sub_days", "shift", "time_bucket"}


@dataclass(frozen=True, slots=True)
class Calendar:
    """How far an engine's moments reach, and how it writes a guarded one.

    `years` is the furthest that its timestamps go either way, `days` the most that are added at once; `guard` writes a
    moment of a type that is NULL outside FIRST to LAST, `attempted` a cast between dates and timestamps; `rules` has
    the operations that give guarded moments by themselves, `choices` those that only choose, and casts.
    """

    years: int
    days: int
    guard: Callable[[str, str], str]
    attempted: Callable[[str, str, str], str]
    rules: Callable[[], Mapping[str, Rule]]
    choices: Mapping[str, Rule]

    def of(self, node: Expression, emit: Emit) -> str:
        """A moment within `reach(node)`, or NULL. The guards stand at the leaves, so the SQL stays short."""
        wanted = stored(node)
        self._require(node)
        if node.type.kind is Kind.NULL or isinstance(node, Literal):
            return emit(node, wanted)
        if isinstance(node, Call) and node.op in self.rules():
            return emit(node, wanted)
        if isinstance(node, Call) and (node.op in _CHOICES or (node.op == "cast" and node.args[0].type.temporal)):
            return self._rebuilt(node, emit)
        return self.guard(emit(node, wanted), wanted)

    def _rebuilt(self, node: Call, emit: Emit) -> str:
        """A choice between moments, each of them guarded."""

        def inner(child: Expression, type_: str) -> str:
            if child.type.temporal:
                made, given = self.of(child, emit), stored(child)
                return made if given == type_ else self.attempted(made, given, type_)
            return emit(child, type_)

        return self.choices[node.op](node, inner)

    def within_reach(self, rules: Mapping[str, Rule]) -> Mapping[str, Rule]:
        """The same rules, each of which refuses to move a moment out of reach.

        **Theorem.** No moment that they give lies further than `years` from the year 0. **Proof.** By induction:
        `reach` counts each move, also the outermost, which no other operation asks for.
        **Requires** stored moments inside the years 1 to 9999, as each dialect's `read` or guard leaves them.
        **Checked by** `tests/privacy/test_found_beyond_one_machine.py` and `tests/engines/test_postgres_total.py`.
        """

        def kept(rule: Rule) -> Rule:
            def moved_within(call: Call, emit: Emit) -> str:
                self._require(call)
                return rule(call, emit)

            return moved_within

        return {op: kept(rule) if op in _MOVES else rule for op, rule in rules.items()}

    def _require(self, node: Expression) -> None:
        if self.reach(node) > self.years:
            raise UnsupportedQuery(
                f"these intervals add up to more than {self.years:,} years", span=node.span, hint="move by less"
            )

    def reach(self, node: Expression) -> int:
        """How far from the year 0 a guarded moment can lie; a bucket begins up to its own length before."""
        if not isinstance(node, Call):
            return 10_000
        below = max((self.reach(a) for a in node.args if a.type.temporal), default=10_000)
        return below + 1 + self._moved(node) // 365

    def _moved(self, node: Call) -> int:
        if node.op in ("add_days", "sub_days"):
            amount = node.args[1].type
            return min(self.days, max(-amount.lower, amount.upper))
        if node.op not in _MOVES:
            return 0
        months, days, micros = moved(node)
        return 31 * abs(months) + abs(days) + abs(micros) // (86_400 * 10**6)


def stored(node: Expression) -> str:
    """The type in which a moment is written."""
    return "TIMESTAMP" if node.type.kind is Kind.NULL else physical(node.type)


def moved(node: Call) -> tuple[int, int, int]:
    """The months, days and microseconds of a shift, or of a bucket."""
    match node.option:
        case (int(months), int(days), int(micros)):
            return months, days, micros
    raise InternalError(f"{node} has no interval")
