"""Random SQL over the tables of `property_world`: what an analyst might write, of every supported shape.

The text is drawn from templates over the columns that are in scope. Some of it is refused (a sum without bounds, a
mixture of types): whoever draws takes the next.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from property_world import OWNED, TABLES


@dataclass(frozen=True, slots=True)
class Query:
    """SQL, its price, and which of its columns are keys: the others are aggregates, unchanged."""

    sql: str
    keys: int
    mechanism: str
    epsilon: float
    delta: float = 1e-6
    clipped: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that can be named, by kind. `finite` texts have declared values, `free` things have no bounds."""

    unit: str | None
    numbers: tuple[str, ...]
    finite: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()


def table_scope(table: str) -> Scope:
    """All columns of a table."""
    numbers = ("x", "x", "debt", "debt", "n", "n", "amount", "amount", "level", "huge", "wide", "fine", "temp")
    return Scope("id" if table in OWNED else None, numbers, ("kind", "kind", "size", "mood"),
                 ("kind", "size", "note", "mood"), ("flag",), ("day", "seen"), ("big",), ("n", "level"))  # fmt: skip


_NUMBERS = (
    "{n}", "{n}", "{n}", "{n}", "-{n}", "abs({n})", "{n} * 2", "{n} + {m}", "{n} - {m}", "{n} * {m}", "{n} / 4",
    "CASE WHEN {p} THEN {n} ELSE {m} END", "CASE WHEN {p} THEN {n} END", "coalesce({n}, 0)", "round({n})",
    "round({n}, 1)", "floor({n})", "ceil({n})", "CAST({n} AS DOUBLE)", "CAST({n} AS INTEGER)", "CAST({n} AS DECIMAL(12, 1))",
    "greatest({n}, {m})", "least({n}, {m})", "nullif({n}, 0)", "sqrt(abs({n}))", "power({n}, 2)", "exp({n} / 20)",
    "ln(abs({n}) + 1)", "least(greatest({free}, -5), 7)", "CASE WHEN {free} BETWEEN 0 AND 6 THEN {free} ELSE 0 END",
    "CAST({flag} AS INTEGER)", "extract(month FROM {day})", "day({day})", "date_diff('day', DATE '2024-01-15', {day})",
    "length({finite})", "{level} % 3", "{level} // 2", "strpos({finite}, 'a')", "sign({n})", "1", "-2.5",
)  # fmt: skip
_PREDICATES = (
    "{n} > 1", "{n} <= 12", "{n} BETWEEN -2 AND 15", "{n} <> {m}", "{n} < {m}", "{flag}", "NOT {flag}", "{flag} IS NOT TRUE",
    "{finite} IN ('a', 'b', 's', 'm')", "{finite} <> 'c'", "{text} IS NOT NULL", "{text} LIKE 'n%'", "{text} NOT LIKE '%3'",
    "starts_with({text}, 'n')", "contains({text}, 'n')", "upper({text}) = 'N3'", "length({text}) < 3",
    "{day} >= DATE '2024-01-20'", "{day} < '2024-03-15'", "extract(month FROM {day}) <> 2", "{day} + INTERVAL 10 DAY > DATE '2024-02-01'",
    "{free} >= -5", "{n} IS NULL", "coalesce({n}, 5) > 0", "isnan(CAST({n} AS DOUBLE)) IS NOT TRUE", "{level} % 2 = 1",
    "({p} AND {q})", "({p} OR {q})", "{p} OR {q}", "NOT ({p})",
)  # fmt: skip
_PUBLIC_KEYS = (
    "{finite}", "{finite}", "{flag}", "{level}", "extract(month FROM {day})", "date_trunc('month', {day})", "upper({finite})",
    "CASE WHEN {n} > 3 THEN 'high' WHEN {n} > 0 THEN 'low' ELSE 'none' END", "CASE WHEN {p} THEN 1 ELSE 0 END", "{n} > 2",
    "{finite} || '!'", "{level} % 3", "{finite} = 'a'", "quarter({day})", "CASE {finite} WHEN 'a' THEN 'first' END",
    "CAST({flag} AS INTEGER)", "left({finite}, 1)", "coalesce({finite}, 'none')",
)  # fmt: skip
_PRIVATE_KEYS = (
    "{text}", "note", "lower(note)", "substr(note, 1, 1)", "{free}", "{n}", "round({n})", "{day}", "{free} % 3", "note || '-'",
    "date_trunc('hour', seen)", "CAST({n} AS VARCHAR)", "coalesce(note, '?')",
)  # fmt: skip
_UNIT_KEYS = ("{u} % 3", "{u} > 3", "CASE WHEN {u} < 3 THEN 'few' ELSE 'many' END", "CAST({u} AS VARCHAR)", "{u} // 4")


class Writer:
    """Draws queries."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def query(self, table: str | None = None) -> Query:
        """A random query over one table (or a given one)."""
        rng = self.rng
        table = table or rng.choice((*TABLES, "orders"))
        lead, source, scope = self._source(table)
        keys = self._keys(scope)
        items = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        aggregates = [self._aggregate(scope) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
        items += [f"{aggregate} AS a{i}" for i, aggregate in enumerate(aggregates)]
        group = rng.choice((", ".join(keys), ", ".join(str(i + 1) for i in range(len(keys))), "ALL")) if keys else ""
        where = f" WHERE {self.predicate(scope)}" if rng.random() < 0.25 else ""
        sql = f"{lead}SELECT {', '.join(items)} FROM {source}{where}{f' GROUP BY {group}' if group else ''}"
        return Query(sql, len(keys), rng.choice(("laplace", "gaussian")), rng.choice((0.1, 0.5, 1.0, 3.0)))

    def nested(self) -> Query:
        """Two releases, joined or united, with clauses above them that must not matter."""
        one, two = self.query(), self.query()
        named = [f"SELECT * FROM ({q.sql}) AS r{i}" for i, q in enumerate((one, two))]
        union = " UNION ALL ".join(f"SELECT a0 FROM ({q.sql}) AS r{i}" for i, q in enumerate((one, two)))
        joined = f"WITH p AS ({named[0]}), q AS ({named[1]}) SELECT p.a0, q.a0, sum(p.a0) OVER () FROM p JOIN q ON p.a0 > q.a0"
        above = f"SELECT *, rank() OVER (ORDER BY a0) FROM ({one.sql}) AS r WHERE a0 > 3 ORDER BY a0 DESC LIMIT 2"
        return replace(one, sql=self.rng.choice((union, joined, above)), keys=0)

    # parts ------------------------------------------------------------------------------------------------------------

    def number(self, scope: Scope, depth: int = 1) -> str:
        """A numeric expression, most often one with bounds."""
        return self._fill(self.rng.choice(_NUMBERS), scope, depth)

    def predicate(self, scope: Scope, depth: int = 1) -> str:
        """A condition on a row."""
        return self._fill(self.rng.choice(_PREDICATES), scope, depth)

    def _keys(self, scope: Scope) -> list[str]:
        rng = self.rng
        choices = [_PUBLIC_KEYS, _PUBLIC_KEYS, _PRIVATE_KEYS]
        if scope.unit is not None:
            choices.append(_UNIT_KEYS)
        templates = rng.choice(choices)
        count = rng.choice((0, 1, 1, 1, 2))
        mixed = [rng.choice(rng.choice(choices)) if rng.random() < 0.2 else rng.choice(templates) for _ in range(count)]
        return list(dict.fromkeys(self._fill(template, scope, 0) for template in mixed))

    def _aggregate(self, scope: Scope) -> str:
        rng = self.rng
        choices = ["count(*)", f"count({self.number(scope)})", f"sum({self.number(scope)})", f"avg({self.number(scope)})",
                   f"sum({rng.choice(scope.numbers)})", f"avg({rng.choice(scope.numbers)})",
                   f"count({rng.choice(scope.texts or scope.numbers)})"]  # fmt: skip
        if scope.unit is not None:
            choices.append(f"count(DISTINCT {scope.unit})")
        chosen = rng.choice(choices)
        filtered = rng.random() < 0.15 and "DISTINCT" not in chosen
        return f"{chosen} FILTER (WHERE {self.predicate(scope)})" if filtered else chosen

    def _source(self, table: str) -> tuple[str, str, Scope]:
        """What stands before SELECT, what stands after FROM, and the columns there."""
        scope, rng = table_scope(table), self.rng
        where = f" WHERE {self.predicate(scope)}" if rng.random() < 0.4 else ""
        kind = rng.choice(
            ("plain", "plain", "plain", "with", "derived", *(("per unit", "pairs") if scope.unit else ()))
        )
        if kind == "with":
            return f"WITH c AS (SELECT * FROM {table}{where}) ", "c", scope
        if kind == "derived":
            more = f"{self.number(scope)} AS y, {self.predicate(scope)} AS ok"
            inner = f"SELECT *, {more} FROM {table}{where}"
            return "", f"({inner}) AS t", replace(scope, numbers=(*scope.numbers, "y", "y"), flags=(*scope.flags, "ok"))
        if kind in ("per unit", "pairs"):
            return self._per_unit(table, scope, where, pairs=kind == "pairs")
        return "", table, scope

    def _per_unit(self, table: str, scope: Scope, where: str, *, pairs: bool) -> tuple[str, str, Scope]:
        rng = self.rng
        keys = [rng.choice(("kind", "flag", "level", "extract(month FROM day)", "note"))] if pairs else []
        named = [f"{key} AS g" for key in keys]
        having = rng.choice(("", "", " HAVING count(*) > 1", f" HAVING sum({rng.choice(scope.numbers)}) > 0"))
        totals = [f"sum({self.number(scope)}) AS total", "count(*) AS c", f"avg({rng.choice(scope.numbers)}) AS mean",
                  f"{rng.choice(('min', 'max'))}({rng.choice(scope.numbers)}) AS best"]  # fmt: skip
        inner = (
            f"SELECT id, {', '.join([*named, *totals])} FROM {table}{where} GROUP BY {', '.join(['id', *keys])}{having}"
        )
        above = Scope("id", ("total", "c", "mean", "best"), free=("total",), levels=("c",))
        if keys == ["kind"]:
            above = replace(above, finite=("g",), texts=("g",))
        elif keys == ["flag"]:
            above = replace(above, flags=("g",))
        elif keys and keys[0] != "note":
            above = replace(above, levels=("c", "g"), numbers=(*above.numbers, "g"))
        elif keys:
            above = replace(above, texts=("g",))
        if rng.random() < 0.4:
            return f"WITH u AS ({inner}) ", "u", above
        return "", f"({inner}) AS u", above

    def _fill(self, template: str, scope: Scope, depth: int) -> str:
        rng = self.rng

        def pick(names: Sequence[str], otherwise: str) -> str:
            return rng.choice(names) if names else otherwise

        def number() -> str:
            return (
                f"({self.number(scope, depth - 1)})" if depth > 0 and rng.random() < 0.3 else rng.choice(scope.numbers)
            )

        def predicate() -> str:
            return self.predicate(scope, depth - 1) if depth > 0 else self._fill("{n} > 1", scope, 0)

        return template.format(
            n=number(), m=number(), p=predicate() if "{p}" in template else "", q=predicate() if "{q}" in template else "",
            u=scope.unit or "", free=pick(scope.free, "(2 * n)"), flag=pick(scope.flags, "(mean > 1)"), day=pick(scope.moments, "DATE '2024-02-02'"),
            finite=pick(scope.finite, "'a'"), text=pick(scope.texts, "'n1'"), level=pick(scope.levels, "3"),
        )  # fmt: skip
