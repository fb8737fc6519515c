"""Queries whose answers are read below an aggregate: made closed, checked and typed while the plan is made.

A nested query is a query over released and public tables, like the outermost one, and runs in the same sealed database.
What it says of itself before it runs is its columns' names and types; nothing here reads a row of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.bounds.domain import of_type
from dpsql.errors import Span
from dpsql.expressions.types import Type, from_engine
from dpsql.plan.finishing import check_finishing
from dpsql.plan.nodes.relation import Field
from dpsql.plan.nodes.released_scan import ReleasedScan
from dpsql.plan.ownership import one_to_one
from dpsql.plan.plan import Family, NestedQuery, Output, Plan, Release
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse

Describe = Callable[[Plan], tuple[str, ...]]
"""The types of the columns that a plan's finishing SQL gives; refuses what would not run."""

Released = tuple[Sequence[Release], Sequence[Family]]
"""The releases that a query may read, and the families among them."""

MOST_NESTED = 20


def not_described(plan: Plan) -> tuple[str, ...]:
    """For planning without a sealed database: nothing can be nested."""
    raise refuse(
        "a result with noise cannot be read below another aggregate here",
        None,
        hint="ask it by itself",
        reason="subquery",
    )


@dataclass(slots=True)
class Nesting:
    """The nested queries of one query, each once."""

    describe: Describe = not_described
    made: list[NestedQuery] = field(default_factory=list)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def scan(
        self,
        query: exp.Query,
        outputs: Sequence[Output],
        made: Released,
        public: Collection[str],
        key: tuple[int, ...] | None,
        node: exp.Expr | Span | None,
    ) -> ReleasedScan:
        """The rows of a closed query over these releases and public tables.

        Its key is one below the aggregate only where no two values are read as one: a wide DECIMAL becomes a DOUBLE.
        """
        nested = self._nested(query, outputs, made, public, key, node)
        types = self.types[nested.name]
        known = [_known(output, name, node) for output, name in zip(outputs, types, strict=True)]
        fields = tuple(Field(o.name, type_, of_type(type_)) for o, type_ in zip(outputs, known, strict=True))
        exact = nested.key is not None and all(one_to_one(types[i]) for i in nested.key)
        unique = frozenset(fields[i].name for i in nested.key or ()) if exact else None
        return ReleasedScan(fields, False, 1, False, nested.name, unique)

    def _nested(
        self,
        query: exp.Query,
        outputs: Sequence[Output],
        made: Released,
        public: Collection[str],
        key: tuple[int, ...] | None,
        node: exp.Expr | Span | None,
    ) -> NestedQuery:
        text = query.sql("duckdb")
        same = next((n for n in self.made if n.plan.finishing.sql("duckdb") == text and n.key == key), None)
        if same is not None:
            return same
        if len(self.made) >= MOST_NESTED:
            raise refuse(
                f"one query may nest {MOST_NESTED} results", node, hint="ask for some of them first", reason="size"
            )
        releases, families = made
        check_finishing(query, {*public, *(release.name for release in releases)})
        read = {table.name for table in query.find_all(exp.Table)}
        plan = Plan(
            tuple(release for release in releases if release.name in read),
            query,
            tuple(sorted(read & set(public))),
            tuple(outputs),
            None,
            tuple(family for family in families if {member.release for member in family.members} <= read),
        )
        nested = NestedQuery(f"_n{len(self.made)}", plan, key)
        self.types[nested.name] = self.describe(plan)
        self.made.append(nested)
        return nested


def _known(output: Output, name: str, node: exp.Expr | Span | None) -> Type:
    type_ = from_engine(name)
    if type_ is None:
        raise refuse(
            f"the column {output.name} of this subquery has the type {name}, which cannot be read below an aggregate",
            node,
            hint=f"cast it: CAST({output.name} AS DOUBLE), or AS VARCHAR",
            reason="subquery",
        )
    return type_


def closed(query: exp.Expr, around: Mapping[str, exp.CTE]) -> exp.Query:
    """The query with the outer CTEs that it reads, so that it is self-contained; `around` lists them in order."""
    needed = list(_needed(query, around))[::-1]
    copied = query.copy()
    if isinstance(copied, exp.Table):
        copied = exp.Select(expressions=[exp.Star()], from_=exp.From(this=copied))
    assert isinstance(copied, exp.Query)
    if needed:
        own = copied.args.get("with_")
        inner = [] if own is None else list(own.expressions)
        copied.set("with_", exp.With(expressions=[*(around[name].copy() for name in needed), *inner]))
    return copied


def _needed(query: exp.Expr, around: Mapping[str, exp.CTE]) -> Iterator[str]:
    """The names of CTEs that are read, directly or through others, the last first."""
    reading = {fold(table.name) for table in query.find_all(exp.Table)}
    for name in reversed(list(around)):
        if name in reading:
            yield name
            reading |= {fold(table.name) for table in around[name].find_all(exp.Table)}
