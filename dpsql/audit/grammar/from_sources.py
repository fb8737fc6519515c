"""What stands after FROM: tables, derived tables, joins, sets, windows, aggregates per unit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpsql.audit.grammar.column_scope import ColumnScope, KnownTable
from dpsql.audit.grammar.scalar_expressions import Expressions

SETS = ("UNION ALL", "UNION ALL", "UNION ALL BY NAME", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")


@dataclass(frozen=True, slots=True)
class QuerySource:
    """The text after FROM, the columns that it offers, the conditions that it needs, and the CTEs before it."""

    text: str
    scope: ColumnScope
    where: str = ""
    lead: str = ""


class Relations:
    """Draws sources over the tables of a world."""

    def __init__(self, rng: random.Random, tables: Sequence[KnownTable], views: Sequence[str] = ()) -> None:
        self.rng, self.tables, self.views, self.words = rng, tables, views, Expressions(rng)
        self.private = [table for table in tables if not table.public]
        self.owned = [table for table in tables if table.owned]
        self.public = [table for table in tables if table.public]

    def source(self) -> QuerySource:
        """Any of them."""
        kinds: list[Callable[[], QuerySource | None]] = [
            self.plain,
            self.plain,
            self.plain,
            self.with_cte,
            self.derived,
        ]
        kinds += [self.matched] if self.public else []
        if self.owned:
            kinds += [self.joined, self.joined, self.united, self.windowed, self.windowed, self.per_unit]
            kinds += [self.per_unit, self.asked, self.asked, self.marked, self.distinct]
        while True:
            made = self.rng.choice(kinds)()
            if made is not None:
                return made

    # one table --------------------------------------------------------------------------------------------------------

    def plain(self) -> QuerySource:
        """A table."""
        table = self.rng.choice(self.private)
        return QuerySource(table.name, table.scope)

    def filtered(self, table: KnownTable, share: float = 0.4) -> str:
        """A WHERE clause, or none."""
        return f" WHERE {self.words.predicate(table.scope)}" if self.rng.random() < share else ""

    def with_cte(self) -> QuerySource:
        """A common table expression."""
        table = self.rng.choice(self.private)
        return QuerySource("c", table.scope, lead=f"WITH c AS (SELECT * FROM {table.name}{self.filtered(table)}) ")

    def derived(self) -> QuerySource:
        """A table with computed columns."""
        table = self.rng.choice(self.private)
        more = f"{self.words.number(table.scope)} AS y, {self.words.predicate(table.scope)} AS ok"
        scope = replace(table.scope, numbers=(*table.scope.numbers, "y", "y"), flags=(*table.scope.flags, "ok"))
        return QuerySource(f"(SELECT *, {more} FROM {table.name}{self.filtered(table)}) AS t", scope)

    def distinct(self) -> QuerySource | None:
        """Different rows of each unit."""
        table = self.rng.choice(self.owned)
        names = self.some(table.scope)
        if not names:
            return None
        listed = ", ".join((table.scope.unit or "", *names))
        return QuerySource(
            f"(SELECT DISTINCT {listed} FROM {table.name}) AS d", table.scope.only((table.scope.unit or "", *names))
        )

    def some(self, scope: ColumnScope, most: int = 3) -> tuple[str, ...]:
        """Some of the columns."""
        names = sorted(scope.names)
        return tuple(self.rng.sample(names, min(len(names), self.rng.randint(1, most))))

    # per unit ---------------------------------------------------------------------------------------------------------

    def per_unit(self) -> QuerySource | None:
        """One row for each unit, or for each unit and a key."""
        table, rng = self.rng.choice(self.owned), self.rng
        scope, unit = table.scope, table.scope.unit or ""
        if not scope.numbers:
            return None
        keys = (
            [rng.choice([*scope.finite, *scope.flags, *scope.levels, *scope.texts] or [unit])]
            if rng.random() < 0.5
            else []
        )
        keys = [key for key in keys if key != unit]
        having = rng.choice(("", "", " HAVING count(*) > 1", f" HAVING sum({rng.choice(scope.numbers)}) > 0"))
        number = rng.choice(scope.numbers)
        totals = [f"sum({self.words.number(scope)}) AS total", "count(*) AS c", f"avg({number}) AS mean",
                  f"{rng.choice(('min', 'max'))}({number}) AS best"]  # fmt: skip
        named = [unit, *(f"{key} AS g" for key in keys), *totals]
        read = f"FROM {table.name}{self.filtered(table)}"
        inner = f"SELECT {', '.join(named)} {read} GROUP BY {', '.join([unit, *keys])}{having}"
        above = ColumnScope(unit, ("total", "c", "mean", "best"), free=("total",), levels=("c",), literals={})
        if keys:
            above = above.plus(scope.renamed(keys[0], "g"))
        if rng.random() < 0.4:
            return QuerySource("u", above, lead=f"WITH u AS ({inner}) ")
        return QuerySource(f"({inner}) AS u", above)

    def windowed(self) -> QuerySource | None:
        """A window over the rows of each unit, as a column or in QUALIFY."""
        table, rng = self.rng.choice(self.owned), self.rng
        scope, unit = table.scope, table.scope.unit or ""
        if not scope.numbers:
            return None
        window = self.window(scope, unit)
        if rng.random() < 0.25:
            test = rng.choice(("<= 2", "= 1", "> 1"))
            counted = rng.choice(("row_number()", "rank()", "count(*)"))
            over = self.over(scope, unit) if counted != "count(*)" else f"(PARTITION BY {unit})"
            return QuerySource(f"(SELECT * FROM {table.name} QUALIFY {counted} OVER {over} {test}) AS t", scope)
        made = replace(scope, numbers=(*scope.numbers, "w", "w"), levels=(*scope.levels, "w"))
        return QuerySource(f"(SELECT *, {window} AS w FROM {table.name}{self.filtered(table, 0.2)}) AS t", made)

    def window(self, scope: ColumnScope, unit: str) -> str:
        """A window function."""
        rng = self.rng
        number = rng.choice(scope.numbers)
        ranked = ("row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)",
                  f"lag({number})", f"lag({number}, 1, 0)", f"lead({number}, 2)", f"lead({number} IGNORE NULLS)",
                  f"first_value({number})", f"nth_value({number}, 2)", f"last_value({number})")  # fmt: skip
        summed = ("count(*)", f"sum({number})", f"avg({number})", f"min({number})", f"max({number})",
                  f"count({number}) FILTER (WHERE {self.words.comparison(scope)})")  # fmt: skip
        if rng.random() < 0.5:
            return f"{rng.choice(ranked)} OVER {self.over(scope, unit)}"
        frame = rng.choice(("", "", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS UNBOUNDED PRECEDING",
                            " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"))  # fmt: skip
        over = self.over(scope, unit)[:-1] + frame + ")" if rng.random() < 0.6 else f"(PARTITION BY {unit})"
        return f"{rng.choice(summed)} OVER {over}"

    def over(self, scope: ColumnScope, unit: str) -> str:
        """PARTITION BY the unit, ORDER BY some columns (ties may stay)."""
        more = f", {self.rng.choice(scope.names)}" if self.rng.random() < 0.2 else ""
        listed = ", ".join(f"{name}{self.rng.choice(('', '', ' DESC', ' NULLS FIRST'))}" for name in self.some(scope))
        return f"(PARTITION BY {unit}{more} ORDER BY {listed})"

    # several tables ---------------------------------------------------------------------------------------------------

    def pair(self) -> tuple[KnownTable, KnownTable, str, str] | None:
        """Two owned tables and the columns by which rows of one owner meet."""
        rng = self.rng
        one, two = rng.choice(self.owned), rng.choice(self.owned)
        if one.link is None and two.link is None:
            return one, two, one.scope.unit or "", two.scope.unit or ""
        if one.link is not None and two.name == one.link[1]:
            return one, two, one.link[0], one.link[2]
        if two.link is not None and one.name == two.link[1]:
            return one, two, two.link[2], two.link[0]
        if one.link is not None and two.link is not None and one.link[1:] == two.link[1:]:
            return one, two, one.link[0], two.link[0]
        return None

    def joined(self) -> QuerySource | None:
        """Two or three private tables of the same owner, in any kind of join."""
        met = self.pair()
        if met is None:
            return None
        one, two, left, right = met
        rng, scope = self.rng, one.scope.under("p").plus(two.scope.under("q"))
        on = f"p.{left} = q.{right}"
        more = f" AND {self.words.comparison(scope)}" if rng.random() < 0.3 else ""
        kind = rng.choice(
            ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", ",", "USING", "NATURAL")
        )
        if kind in ("SEMI JOIN", "ANTI JOIN"):
            return QuerySource(f"{one.name} AS p {kind} {two.name} AS q ON {on}{more}", one.scope.under("p"))
        if kind == ",":
            return QuerySource(f"{one.name} AS p, {two.name} AS q", scope, f"{on}{more}")
        if kind == "USING" and left == right:
            joined = f"{one.name} AS p {rng.choice(('JOIN', 'LEFT JOIN', 'FULL JOIN'))} {two.name} AS q USING ({left})"
            return QuerySource(joined, replace(scope, unit=None))
        if kind == "NATURAL" and left == right:
            return self._natural(one, two, left)
        kind = kind if kind.endswith("JOIN") else "JOIN"
        text = f"{one.name} AS p {kind} {two.name} AS q ON {on}{more}"
        if rng.random() < 0.2:
            third = rng.choice(self.owned)
            if third.link is None and one.link is None:
                more = rng.choice(("JOIN", "LEFT JOIN"))
                return QuerySource(f"({text}) {more} {third.name} AS r ON r.{third.scope.unit} = p.{one.scope.unit}",
                              scope.plus(third.scope.under("r")))  # fmt: skip
        return QuerySource(text, scope)

    def _natural(self, one: KnownTable, two: KnownTable, unit: str) -> QuerySource | None:
        """Both sides reduced to the unit and different columns."""
        mine = self.some(one.scope)
        yours = tuple(name for name in self.some(two.scope) if name not in mine)
        if not mine or not yours or unit in (*mine, *yours):
            return None
        kind = self.rng.choice(("NATURAL JOIN", "NATURAL LEFT JOIN", "NATURAL FULL JOIN"))
        text = (
            f"(SELECT {', '.join((unit, *mine))} FROM {one.name}) AS p {kind} "
            f"(SELECT {', '.join((unit, *yours))} FROM {two.name}) AS q"
        )
        return QuerySource(text, one.scope.only(mine).plus(two.scope.only(yours)))

    def matched(self) -> QuerySource | None:
        """A private table and a public one."""
        one, two, rng = self.rng.choice(self.private), self.rng.choice(self.public), self.rng
        pairs = [
            (a, b) for a in one.scope.names for b in two.scope.names if one.scope.kind_of(a) == two.scope.kind_of(b)
        ]
        if not pairs:
            return None
        same = [(a, b) for a, b in pairs if a == b]
        a, b = rng.choice(same or pairs)
        scope = one.scope.under("p").plus(two.scope.under("q"))
        kind = rng.choice(("JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN", ",", "CROSS JOIN", "<"))
        if kind == "CROSS JOIN":
            return QuerySource(f"{one.name} AS p CROSS JOIN {two.name} AS q", scope)
        if kind in (",", "<"):
            return QuerySource(f"{one.name} AS p, {two.name} AS q", scope, f"p.{a} {'=' if kind == ',' else '<'} q.{b}")
        on = f"p.{a} = q.{b}" + (f" AND {self.words.comparison(scope)}" if rng.random() < 0.3 else "")
        shown = one.scope.under("p") if kind in ("SEMI JOIN", "ANTI JOIN") else scope
        return QuerySource(f"{one.name} AS p {kind} {two.name} AS q ON {on}", shown)

    def asked(self) -> QuerySource | None:
        """A table with EXISTS or IN, over a private or a public subquery."""
        test, one = self.test()
        return None if test is None or one is None else QuerySource(f"{one.name} AS p", one.scope.under("p"), test)

    def marked(self) -> QuerySource | None:
        """Such a condition as a column of each row."""
        test, one = self.test()
        if test is None or one is None:
            return None
        case = self.rng.random() < 0.4
        mark = f"CASE WHEN {test} THEN 1 ELSE 0 END" if case else test
        listed = ", ".join(f"p.{name}" for name in one.scope.names)
        scope = one.scope.plus(
            ColumnScope(levels=("m", "m"), numbers=("m",)) if case else ColumnScope(flags=("m", "m", "m"))
        )
        return QuerySource(f"(SELECT {listed}, {mark} AS m FROM {one.name} AS p) AS t", replace(scope, unit=None))

    def test(self) -> tuple[str | None, KnownTable | None]:
        """A condition on the rows of `p` that reads another table."""
        rng = self.rng
        if self.public and rng.random() < 0.3:
            one, two = rng.choice(self.private), rng.choice(self.public)
            pairs = [
                (a, b) for a in one.scope.names for b in two.scope.names if one.scope.kind_of(a) == two.scope.kind_of(b)
            ]
            if not pairs:
                return None, None
            a, b = rng.choice(pairs)
            inner = f"SELECT {b} FROM {two.name}{self.filtered(two)}"
            return f"p.{a} {rng.choice(('IN', 'NOT IN'))} ({inner})", one
        met = self.pair()
        if met is None:
            return None, None
        one, two, left, right = met
        both = one.scope.under("p").plus(two.scope.under("q"))
        more = f" AND {self.words.comparison(both)}" if rng.random() < 0.4 else ""
        exists = f"EXISTS (SELECT 1 FROM {two.name} AS q WHERE q.{right} = p.{left}{more})"
        if rng.random() < 0.5:
            return rng.choice(
                (exists, exists, f"NOT {exists}", f"({exists} OR {self.words.comparison(one.scope.under('p'))})")
            ), one
        if rng.random() < 0.3 and two.scope.numbers and one.scope.numbers:
            total = rng.choice(
                ("count(*)", f"max(q.{rng.choice(two.scope.numbers)})", f"sum(q.{rng.choice(two.scope.numbers)})")
            )
            return (
                f"p.{rng.choice(one.scope.numbers)} > (SELECT {total} FROM {two.name} AS q WHERE q.{right} = p.{left})",
                one,
            )
        unknown = f" WHERE {right} IS NOT NULL" if rng.random() < 0.5 else self.filtered(two)
        return f"p.{left} {rng.choice(('IN', 'NOT IN'))} (SELECT {right} FROM {two.name}{unknown})", one

    def united(self) -> QuerySource | None:
        """A set operation between projections with the unit."""
        rng, one, two = self.rng, self.rng.choice(self.owned), self.rng.choice(self.owned)
        shared = [name for name in one.scope.names if name in two.scope.names]
        if one.link != two.link or not shared or one.scope.unit != two.scope.unit:
            return None
        names = (one.scope.unit or "", *rng.sample(sorted(shared), min(len(shared), rng.randint(1, 4))))
        listed = ", ".join(names)
        sides = [f"SELECT {listed} FROM {each.name}{self.filtered(each, 0.3)}" for each in (one, two)]
        return QuerySource(f"({f' {rng.choice(SETS)} '.join(sides)}) AS t", one.scope.only(names))
