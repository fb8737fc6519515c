"""Numbers, conditions and keys over the columns in scope: templates, and every function of the planner's own table."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache
from string import Formatter

from dpsql.audit.grammar.column_scope import ColumnScope
from dpsql.expressions.functions.function import NUMBERS as NUMERIC
from dpsql.expressions.functions.function import TEMPORAL, Function
from dpsql.expressions.functions.table import FUNCTIONS
from dpsql.expressions.types import Kind, Type

NUMBERS = (
    "{n}", "{n}", "{n}", "{n}", "-{n}", "abs({n})", "{n} * 2", "{n} + {m}", "{n} - {m}", "{n} * {m}", "{n} / 4",
    "CASE WHEN {p} THEN {n} ELSE {m} END", "CASE WHEN {p} THEN {n} END", "coalesce({n}, 0)", "round({n})",
    "round({n}, 1)", "floor({n})", "ceil({n})", "CAST({n} AS DOUBLE)", "CAST({n} AS INTEGER)",
    "CAST({n} AS DECIMAL(12, 1))", "greatest({n}, {m})", "least({n}, {m})", "nullif({n}, 0)", "sqrt(abs({n}))",
    "power({n}, 2)", "exp({n} / 20)", "ln(abs({n}) + 1)", "least(greatest({free}, -5), 7)",
    "CASE WHEN {free} BETWEEN 0 AND 6 THEN {free} ELSE 0 END", "CAST({flag} AS INTEGER)",
    "extract(month FROM {day})", "day({day})", "date_diff('day', DATE '2024-01-15', {day})", "length({finite})",
    "{level} % 3", "{level} // 2", "strpos({finite}, 'a')", "sign({n})", "1", "-2.5", "{fn}", "{fn}", "{fn}",
)  # fmt: skip
PREDICATES = (
    "{c}", "{c}", "{c}", "{c}", "{n} > 1", "{n} <= 12", "{n} BETWEEN -2 AND 15", "{n} <> {m}", "{n} < {m}", "{flag}",
    "NOT {flag}", "{flag} IS NOT TRUE", "{text} IS NOT NULL", "{text} LIKE 'n%'", "{text} NOT LIKE '%3'",
    "starts_with({text}, 'n')", "contains({text}, 'n')", "upper({text}) = 'N3'", "length({text}) < 3",
    "extract(month FROM {day}) <> 2", "{day} + INTERVAL 10 DAY > DATE '2024-02-01'", "{free} >= -5", "{n} IS NULL",
    "coalesce({n}, 5) > 0", "isnan(CAST({n} AS DOUBLE)) IS NOT TRUE", "{level} % 2 = 1", "({p} AND {q})",
    "({p} OR {q})", "{p} OR {q}", "NOT ({p})", "{any} IS NOT NULL", "{n} IS DISTINCT FROM {m}",
)  # fmt: skip
PUBLIC_KEYS = (
    "{finite}", "{finite}", "{flag}", "{level}", "extract(month FROM {day})", "date_trunc('month', {day})",
    "upper({finite})", "CASE WHEN {n} > 3 THEN 'high' WHEN {n} > 0 THEN 'low' ELSE 'none' END",
    "CASE WHEN {p} THEN 1 ELSE 0 END", "{n} > 2", "{finite} || '!'", "{level} % 3", "{c}", "quarter({day})",
    "CAST({flag} AS INTEGER)", "left({finite}, 1)", "coalesce({finite}, 'none')",
)  # fmt: skip
PRIVATE_KEYS = (
    "{text}", "{text}", "lower({text})", "substr({text}, 1, 1)", "{free}", "{n}", "round({n})", "{day}", "{free} % 3",
    "{text} || '-'", "date_trunc('hour', {day})", "CAST({n} AS VARCHAR)", "coalesce({text}, '?')", "{any}",
)  # fmt: skip
UNIT_KEYS = (
    "CAST({u} AS VARCHAR) > '3'", "length(CAST({u} AS VARCHAR))", "CAST({u} AS VARCHAR)", "{u} % 3", "{u} // 4",
    "CASE WHEN CAST({u} AS VARCHAR) < '3' THEN 'few' ELSE 'many' END",
)  # fmt: skip
TRIES = 30
"""How many functions are looked at for one that fits the columns."""
LETTER = re.compile(r"\b([a-c])\b(?!['%*.|(])")


@cache
def fields_of(template: str) -> frozenset[str]:
    """The placeholders of a template."""
    return frozenset(name for _, name, _, _ in Formatter().parse(template) if name)


class Expressions:
    """Draws expressions."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def number(self, scope: ColumnScope, depth: int = 1) -> str:
        """A numeric expression, most often one with bounds."""
        return self.fill(NUMBERS, scope, depth)

    def predicate(self, scope: ColumnScope, depth: int = 1) -> str:
        """A condition on a row."""
        return self.fill(PREDICATES, scope, depth)

    def comparison(self, scope: ColumnScope) -> str:
        """A column and a constant of its kind."""
        rng = self.rng
        named = [name for name in scope.names if (scope.literals or {}).get(name)]
        if not named:
            return "1 = 1"
        name = rng.choice(named)
        literals = (scope.literals or {})[name]
        if rng.random() < 0.25:
            listed = ", ".join(dict.fromkeys(rng.choice(literals) for _ in range(3)))
            return f"{name} {rng.choice(('IN', 'NOT IN'))} ({listed})"
        if rng.random() < 0.15:
            return f"{name} BETWEEN {rng.choice(literals)} AND {rng.choice(literals)}"
        return f"{name} {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {rng.choice(literals)}"

    def keys(self, scope: ColumnScope) -> list[str]:
        """None to three keys, public, private, or functions of the unit."""
        rng = self.rng
        kinds = [PUBLIC_KEYS, PUBLIC_KEYS, PRIVATE_KEYS, *([UNIT_KEYS] if scope.unit else [])]
        chosen = rng.choice(kinds)
        mixed = [rng.choice((chosen, PUBLIC_KEYS)) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3)))]
        return list(dict.fromkeys(self.fill(templates, scope, 0) for templates in mixed))

    def function(self, scope: ColumnScope) -> tuple[str, Type | None]:
        """A call of any function of the table over columns that fit, and its type if that is fixed."""
        rng = self.rng
        for _ in range(TRIES):
            function = FUNCTIONS[rng.choice(_NAMES)]
            text = self._called(function, rng.choice(function.written), scope)
            if text is not None:
                return text, function.gives if isinstance(function.gives, Type) else None
        return f"coalesce({rng.choice(scope.names)})", None

    def _called(self, function: Function, form: str, scope: ColumnScope) -> str | None:
        by_letter: dict[str, str] = {}
        for letter, parameter in zip("abc", function.takes or (None,) * 3, strict=False):
            column = self.column(scope, parameter.kinds if parameter is not None else ())
            if column is None:
                return None
            by_letter[letter] = column
        return LETTER.sub(lambda found: by_letter.get(found[1], found[1]), form)

    def column(self, scope: ColumnScope, kinds: Sequence[Kind]) -> str | None:
        """A column of one of these kinds; of any kind for none."""
        names: list[str] = []
        if not kinds or set(kinds) & set(NUMERIC):
            names += scope.levels if kinds == (Kind.INTEGER,) and scope.levels else (*scope.numbers, *scope.free)
        names += scope.texts if not kinds or Kind.TEXT in kinds else ()
        names += scope.moments if not kinds or set(kinds) & set(TEMPORAL) else ()
        names += scope.flags if not kinds or Kind.BOOLEAN in kinds else ()
        return self.rng.choice(names) if names else None

    # templates --------------------------------------------------------------------------------------------------------

    def fill(self, templates: Sequence[str], scope: ColumnScope, depth: int) -> str:
        """Fill one of the templates for which there are columns of the right kind."""
        rng = self.rng
        there = self._there(scope)
        while True:
            template = rng.choice(templates)
            needed = fields_of(template)
            if needed <= there:
                return template.format(**{name: self._field(name, scope, depth) for name in sorted(needed)})
            if not any(fields_of(each) <= there for each in templates):
                return rng.choice(scope.names) if scope.names else "1"

    def _there(self, scope: ColumnScope) -> frozenset[str]:
        kinds = {
            "n": scope.numbers, "m": scope.numbers, "free": scope.free, "flag": scope.flags, "day": scope.moments,
            "finite": scope.finite, "text": scope.texts, "level": scope.levels, "u": scope.unit,
            "fn": scope.names, "any": scope.names,
        }  # fmt: skip
        return frozenset([*(name for name, each in kinds.items() if each), "p", "q", "c"])

    def _field(self, name: str, scope: ColumnScope, depth: int) -> str:
        rng = self.rng
        if name in ("p", "q"):
            return self.predicate(scope, depth - 1) if depth > 0 else self.comparison(scope)
        if name in ("n", "m"):
            deep = depth > 0 and rng.random() < 0.3
            return f"({self.number(scope, depth - 1)})" if deep else rng.choice(scope.numbers)
        if name == "c":
            return self.comparison(scope)
        if name == "any":
            return self.function(scope)[0]
        if name == "fn":
            return self._bounded(scope)
        kinds = {"free": scope.free, "flag": scope.flags, "day": scope.moments, "finite": scope.finite,
                 "text": scope.texts, "level": scope.levels, "u": (scope.unit or "",)}  # fmt: skip
        return rng.choice(kinds[name])

    def _bounded(self, scope: ColumnScope) -> str:
        """A function as a number with bounds."""
        text, type_ = self.function(scope)
        if type_ is not None and type_.kind is Kind.TEXT:
            return f"length({text})"
        if type_ is not None and not type_.numeric:
            return f"CASE WHEN {text} IS NULL THEN 0 ELSE 1 END"
        return text if self.rng.random() < 0.3 else f"least(greatest({text}, -5), 7)"


_NAMES = sorted(FUNCTIONS)
