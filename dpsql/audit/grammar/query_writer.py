"""Whole queries: aggregates over a source, by keys, with all that may stand above a release."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.audit.grammar.column_scope import ColumnScope, KnownTable, tables_of
from dpsql.audit.grammar.from_sources import QuerySource, Relations
from dpsql.audit.grammar.scalar_expressions import Expressions
from dpsql.audit.world import World


@dataclass(frozen=True, slots=True)
class Query:
    """SQL and its price. Of its columns the first `keys` are keys, where that is known."""

    sql: str
    keys: int
    mechanism: str
    epsilon: float
    delta: float = 1e-6
    clipped: bool = False


# queries --------------------------------------------------------------------------------------------------------------


MECHANISMS, EPSILONS = ("laplace", "gaussian"), (0.1, 0.5, 1.0, 3.0)
PAIRS = ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_count", "regr_avgx",
         "regr_avgy", "regr_sxx", "regr_sxy", "regr_syy")  # fmt: skip


class Writer:
    """Draws queries over some tables. Some are refused: whoever draws takes the next."""

    def __init__(
        self,
        rng: random.Random,
        tables: Sequence[KnownTable],
        views: Sequence[tuple[str, ColumnScope]] = (),
        *,
        pure: bool = False,
    ) -> None:
        self.rng, self.views, self.pure = rng, views, pure
        self.words, self.relations = Expressions(rng), Relations(rng, tables)

    @classmethod
    def over(cls, world: World, rng: random.Random) -> Writer:
        """The tables and views of a world; without δ there is one mechanism only."""
        return cls(rng, tables_of(world), views_of(world), pure=not world.policy.budget.delta)

    def any(self) -> Query:
        """A query of any shape."""
        chance, rng = self.rng.random(), self.rng
        if chance < 0.07:
            made = self.several()
        elif chance < 0.17:
            made = self.nested()
        elif chance < 0.25:
            made = self.grouping_sets()
        else:
            made = self.query()
        return replace(made, clipped=rng.random() < 0.15)

    def priced(self, sql: str, keys: int) -> Query:
        """With a random price."""
        mechanism = "laplace" if self.pure else self.rng.choice(MECHANISMS)
        return Query(sql, keys, mechanism, self.rng.choice(EPSILONS), 0.0 if self.pure else 1e-6)

    def query(self, source: QuerySource | None = None) -> Query:
        """Aggregates over one source; sometimes with clauses above them."""
        rng, made = self.rng, source or self._source()
        keys = self.words.keys(made.scope)
        named = [f"{key} AS k{i}" for i, key in enumerate(keys)]
        aggregates = [f"{each} AS a{i}" for i, each in enumerate(self.aggregates(made.scope))]
        group = rng.choice((", ".join(keys), ", ".join(str(i + 1) for i in range(len(keys))), "ALL")) if keys else ""
        where = self._where(made)
        tail = f"{f' GROUP BY {group}' if group else ''}{self._above(keys)}"
        return self.priced(
            f"{made.lead}SELECT {', '.join([*named, *aggregates])} FROM {made.text}{where}{tail}", len(keys)
        )

    def _source(self) -> QuerySource:
        if self.views and self.rng.random() < 0.15:
            name, scope = self.rng.choice(self.views)
            return QuerySource(name, scope)
        return self.relations.source()

    def _where(self, made: QuerySource) -> str:
        parts = [made.where] if made.where else []
        parts += [f"({self.words.predicate(made.scope)})"] if self.rng.random() < 0.25 else []
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _above(self, keys: list[str]) -> str:
        """What costs nothing: HAVING, ORDER BY, LIMIT."""
        rng = self.rng
        if not keys or rng.random() < 0.8:
            return ""
        return rng.choice(
            (" HAVING count(*) > 2", " ORDER BY a0 DESC", " ORDER BY k0 LIMIT 3", " HAVING count(*) > 0 ORDER BY 1")
        )

    # aggregates -------------------------------------------------------------------------------------------------------

    def aggregates(self, scope: ColumnScope) -> list[str]:
        """One to three of a kind; choices and moments are dear to trace, so they stand alone more often."""
        rng = self.rng
        chance = rng.random()
        if chance < 0.12 and (scope.numbers or scope.finite or scope.moments):
            return [self.choice(scope) for _ in range(rng.choice((1, 1, 2)))]
        if chance < 0.22 and scope.numbers:
            return [self.moment(scope) for _ in range(rng.choice((1, 1, 2)))]
        return [self.aggregate(scope) for _ in range(rng.choice((1, 1, 2, 2, 3)))]

    def aggregate(self, scope: ColumnScope) -> str:
        """A count, sum or mean."""
        rng, words = self.rng, self.words
        number = words.number(scope) if rng.random() < 0.7 or not scope.numbers else rng.choice(scope.numbers)
        choices = [
            "count(*)",
            f"count({number})",
            f"sum({number})",
            f"sum({number})",
            f"avg({number})",
            f"avg({number})",
        ]
        choices += [f"count({words.function(scope)[0]})", f"count_if({words.predicate(scope)})"] if scope.names else []
        choices += [f"{rng.choice(('bool_or', 'bool_and'))}({words.predicate(scope)})"] if rng.random() < 0.2 else []
        if scope.names:
            choices.append(f"count(DISTINCT {rng.choice(scope.names)})")
        if scope.unit is not None:
            choices.append(f"count(DISTINCT {scope.unit})")
        chosen = rng.choice(choices)
        return f"{chosen} FILTER (WHERE {words.predicate(scope)})" if rng.random() < 0.15 else chosen

    def choice(self, scope: ColumnScope) -> str:
        """A quantile, an extreme or a mode."""
        rng = self.rng
        ranked = rng.choice([*scope.numbers, *scope.moments, *scope.levels] or list(scope.finite) or ["1"])
        listed = rng.choice([*scope.finite, *scope.levels, *scope.flags] or [ranked])
        made = rng.choice((
            f"median({ranked})", f"quantile_disc({ranked}, 0.9)", f"quantile_cont({ranked}, 0.25)", f"min({ranked})",
            f"max({ranked})", f"min({listed})", f"max({listed})", f"mode({listed})", f"median({ranked})",
            f"percentile_cont(0.75) WITHIN GROUP (ORDER BY {ranked} DESC)", f"quantile_cont({ranked}, [0.1, 0.5, 0.9])",
            f"quantile_disc({ranked}, [0.05, 0.25, 0.5, 0.75, 0.95])",
        ))  # fmt: skip
        return f"{made} FILTER (WHERE {self.words.comparison(scope)})" if rng.random() < 0.1 else made

    def moment(self, scope: ColumnScope) -> str:
        """A variance, covariance or regression."""
        rng = self.rng
        one, two = rng.choice(scope.numbers), rng.choice(scope.numbers)
        if rng.random() < 0.5:
            return f"{rng.choice(('var_samp', 'var_pop', 'stddev_samp', 'stddev_pop'))}({one})"
        return f"{rng.choice(PAIRS)}({one}, {two})"

    # more than one release --------------------------------------------------------------------------------------------

    def grouping_sets(self) -> Query:
        """ROLLUP, CUBE and GROUPING SETS over public keys."""
        rng, made = self.rng, self._source()
        columns = sorted({*made.scope.finite, *made.scope.flags, *made.scope.levels})
        if not columns:
            return self.query(made)
        keys = rng.sample(columns, min(len(columns), rng.choice((1, 2, 2))))
        listed = ", ".join(keys)
        clause = rng.choice((f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ({keys[0]}), ())"))
        asked = ", ".join(
            f"{each} AS a{i}" for i, each in enumerate([self.aggregate(made.scope) for _ in range(rng.choice((1, 2)))])
        )
        return self.priced(
            f"{made.lead}SELECT {listed}, {asked} FROM {made.text}{self._where(made)} GROUP BY {clause}", len(keys)
        )

    def several(self) -> Query:
        """Two releases, joined or united, with clauses above them that must not matter."""
        one, two = self.query(), self.query()
        named = [f"SELECT * FROM ({q.sql}) AS r{i}" for i, q in enumerate((one, two))]
        union = " UNION ALL ".join(f"SELECT a0 FROM ({q.sql}) AS r{i}" for i, q in enumerate((one, two)))
        both = f"WITH p AS ({named[0]}), q AS ({named[1]})"
        joined = f"{both} SELECT p.a0, q.a0, sum(p.a0) OVER () FROM p JOIN q ON p.a0 > q.a0"
        above = f"SELECT *, rank() OVER (ORDER BY a0) FROM ({one.sql}) AS r WHERE a0 > 3 ORDER BY a0 DESC LIMIT 2"
        table = self.rng.choice(self.relations.private).name
        scalar = f"SELECT a0 / (SELECT count(*) + 1 FROM {table}) FROM ({one.sql}) AS r"
        return replace(one, sql=self.rng.choice((union, joined, above, scalar)), keys=0)

    def nested(self) -> Query:
        """A result of its own below the aggregate."""
        rng, relations = self.rng, self.relations
        one, two = rng.choice(relations.private), rng.choice(relations.private)
        numbers, others = one.scope.numbers, two.scope.numbers
        if not numbers or not others:
            return self.query()
        number, inner = rng.choice(numbers), f"avg({rng.choice(others)})"
        finite = [c for c in {*one.scope.finite, *one.scope.levels} if c in two.scope.names]
        shapes = [f"{number} > (SELECT {inner} FROM {two.name}{relations.filtered(two)})"]
        if finite:
            key = rng.choice(sorted(finite))
            shapes += [f"{key} IN (SELECT {key} FROM {two.name} GROUP BY {key} HAVING count(*) > 2)",
                       f"p.{number} > (SELECT {inner} FROM {two.name} AS q WHERE q.{key} = p.{key})"]  # fmt: skip
        test = rng.choice(shapes)
        scope = one.scope.under("p") if "p." in test else one.scope
        made = QuerySource(f"{one.name} AS p", scope, test)
        if finite and rng.random() < 0.25:
            released = f"(SELECT {key} AS g, count(*) AS c FROM {two.name} GROUP BY {key}) AS q"
            made = QuerySource(
                f"{one.name} AS p JOIN {released} ON p.{key} = q.g", one.scope.under("p"), f"p.{number} > q.c"
            )
        return self.query(made)


def views_of(world: World) -> list[tuple[str, ColumnScope]]:
    """The views that can be planned, with their columns; what they are is asked of the planner."""
    from dpsql.audit.grammar.column_scope import scopes_of_views

    return scopes_of_views(world) if world.policy.views else []
