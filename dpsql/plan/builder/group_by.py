"""GROUP BY: its keys, its aggregates, and the rewriting of the expressions above them.

A grouped SELECT reads only keys and aggregates. Everything else in its SELECT list, HAVING, QUALIFY and ORDER BY is
arithmetic on those, so each key becomes a column `<key>i` and each aggregate a column `<aggregate>i` of a new table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlglot import exp

from dpsql.errors import Error, ParseError
from dpsql.expressions.expression import Expression, columns_of
from dpsql.expressions.from_syntax import case, convert, written_out
from dpsql.expressions.types import DOUBLE, Kind, Type, integer
from dpsql.expressions.typing import call, literal
from dpsql.plan.builder.grouping_sets import GroupKeys, grouping, is_grouping
from dpsql.plan.builder.linear_aggregates import over_base, response_count
from dpsql.plan.builder.moments import composed
from dpsql.plan.builder.name_scope import Scope
from dpsql.plan.builder.selection_aggregates import argument_of, chooses, is_choosing, separated, to_choice
from dpsql.plan.finishing import bar_of, is_bar
from dpsql.plan.nodes.relation import Aggregate
from dpsql.plan.plan import Bar
from dpsql.policy.identifiers import fold
from dpsql.sql.span import name_of, refuse
from dpsql.sql.text_limits import MOST_AGGREGATES, too_many_aggregates

_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.CountIf: "count", exp.ApproxDistinct: "count", exp.Sum: "sum", exp.Avg: "avg",
}  # fmt: skip
_QUERY = (exp.Subquery, exp.Query)
T = TypeVar("T", Aggregate, Bar)


def is_aggregate(node: exp.Expr) -> bool:
    """An aggregate call (with its FILTER) that is not a window function."""
    call = node.this if isinstance(node, exp.Filter) else node
    return isinstance(call, exp.AggFunc | exp.WithinGroup) and not _is_window(node)


def _is_window(node: exp.Expr) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup) and parent.this is node:
        return _is_window(parent)
    return isinstance(parent, exp.Window) and parent.this is node


def has_aggregate(node: exp.Expr) -> bool:
    """Does the expression contain an aggregate of this SELECT (not of a subquery)?"""
    return any(is_aggregate(part) for part in node.walk(prune=lambda n: isinstance(n, _QUERY) and n is not node))


def to_aggregate(node: exp.Expr, scope: Scope, *, per_unit: bool = True) -> Aggregate:
    """The aggregate of a call; its FILTER becomes a CASE inside the argument."""
    where = None
    if isinstance(node, exp.Filter):
        where, node = _condition(node.expression.this, scope), node.this
    if is_choosing(node):
        chosen = _offered(convert(argument_of(node), scope), scope, node)
        made = to_choice(node, chosen if where is None else _filtered(chosen, where))
        if per_unit and made.function not in ("min", "max"):
            raise refuse(
                f"{name_of(node)} over the rows of one unit is not supported",
                node,
                hint="use MIN, MAX or AVG there",
                reason="aggregate",
            )
        return made
    name = _FUNCTIONS.get(type(node))
    if name is None or len(node.expressions) > 0 or isinstance(node.this, exp.Order):
        raise refuse(
            f"the aggregate {name_of(node)} is not supported",
            node,
            hint="use COUNT, SUM or AVG; for a distribution, count rows by ranges: GROUP BY CASE WHEN … END",
            reason="aggregate",
        )
    if isinstance(node, exp.CountIf):
        condition = _condition(node.this, scope)
        where = condition if where is None else call("and", condition.type, where, condition)
        return Aggregate("count", _filtered(literal(1), where))
    inner, distinct = node.this, isinstance(node, exp.ApproxDistinct)
    if isinstance(inner, exp.Distinct):
        if len(inner.expressions) != 1:
            raise refuse(
                "DISTINCT over several columns is not supported",
                node,
                hint="count one column at a time",
                reason="aggregate",
            )
        inner, distinct = inner.expressions[0], True
    argument = None if inner is None or isinstance(inner, exp.Star) else _offered(convert(inner, scope), scope, node)
    if distinct and argument is None:
        raise refuse(
            "DISTINCT needs a column", node, kind=ParseError, hint="name one: count(DISTINCT x)", reason="subquery"
        )
    if name in ("sum", "avg"):
        argument = _summable(name, argument, node)
    if where is not None:
        argument = _filtered(argument if argument is not None else literal(1), where)
    return Aggregate(name, argument, distinct)


def _offered(argument: Expression, scope: Scope, node: exp.Expr) -> Expression:
    if not scope.relation.offers(argument):
        raise refuse("this aggregate reads a column that is not there", node, kind=ParseError, reason="name")
    return argument


def _condition(node: exp.Expr, scope: Scope) -> Expression:
    """What FILTER and COUNT_IF take: a boolean; an implicit cast of anything else could fail on some row."""
    made = convert(node, scope)
    if made.type.kind not in (Kind.BOOLEAN, Kind.NULL):
        raise refuse(
            f"a condition is needed, but this is {made.type}",
            node,
            kind=ParseError,
            hint="compare: x > 0",
            reason="types",
        )
    return made


def _summable(name: str, argument: Expression | None, node: exp.Expr) -> Expression:
    if argument is not None and argument.type.kind is Kind.BOOLEAN:
        return call("cast", integer(0, 1), argument)
    if argument is not None and argument.type.kind is Kind.NULL:
        return call("cast", DOUBLE, argument)
    if argument is None or not argument.type.numeric:
        raise refuse(
            f"{name.upper()} takes a number, but this is {argument.type if argument else '*'}",
            node,
            kind=ParseError,
            hint="use COUNT for rows, or cast the column: CAST(x AS DOUBLE)",
            reason="types",
        )
    return argument


def _filtered(argument: Expression, where: Expression) -> Expression:
    return case([where], [argument, literal(None)])


def _place(item: T, items: list[T]) -> int:
    """The position of the item in the list; a new one is appended."""
    if item not in items:
        items.append(item)
    if len(items) > MOST_AGGREGATES:
        raise too_many_aggregates()
    return items.index(item)


@dataclass(slots=True)
class Grouping:
    """Collects the aggregates of one grouped SELECT while it rewrites the expressions above them."""

    scope: Scope
    keys: GroupKeys
    column: Callable[[str], exp.Expr]
    subquery: Callable[[exp.Expr], exp.Expr]
    per_unit: bool = False
    bases: frozenset[tuple[str, str]] = frozenset()
    aggregates: list[Aggregate] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def rewrite(self, node: exp.Expr, *, aliases: bool = False) -> exp.Expr:
        """The same expression over the columns of the grouped table; with `aliases`, output names stay as they are."""
        if isinstance(node, exp.Div) and node.args.get("typed") and not self.per_unit:
            node = self._divided(node)
        if is_grouping(node) and not self.per_unit:
            places = [self._key(self._meant(key)) for key in node.expressions]
            return grouping(node, places, self.keys.sets, self.column("_set"))
        if is_aggregate(node) and not self.per_unit and (answers := self._debiased(node)) is not None:
            self.notes.append(answers[1])
            return self.rewrite(answers[0])
        if is_aggregate(node) and not self.per_unit and (made := composed(node, self.scope)) is not None:
            return self.rewrite(made)
        if is_aggregate(node) and not self.per_unit and (linear := over_base(node, self.bases)) is not None:
            return self.rewrite(linear)
        if is_aggregate(node) and not self.per_unit and (each := separated(node)) is not None:
            return self.rewrite(each)
        if is_aggregate(node):
            return self.column(f"_a{_place(self._allowed(node), self.aggregates)}")
        if is_bar(node) and not self.per_unit:
            return self.column(f"_b{_place(self._bar(node), self.bars)}")
        if isinstance(node, _QUERY):
            return self.subquery(node)
        if (key := self._key(node)) is not None:
            return self.column(f"_k{key}")
        if isinstance(node, exp.Column):
            return self._loose(node, aliases)
        for name, child in list(node.args.items()):
            if isinstance(child, exp.Expr):
                node.set(name, self._child(node, name, child, aliases))
            elif isinstance(child, list):
                node.set(name, [self.rewrite(c, aliases=aliases) if isinstance(c, exp.Expr) else c for c in child])
        return node

    def _divided(self, node: exp.Div) -> exp.Expr:
        """PostgreSQL's `/` (the parser marks it), where the types decide: of two whole numbers it is whole."""
        sides = [self._is_whole(node.this), self._is_whole(node.expression)]
        if all(sides):
            whole = exp.IntDiv(this=node.this, expression=node.expression)
            whole.meta.update(node.meta)
            return whole
        node.set("typed", False not in sides)
        return node

    def _is_whole(self, node: exp.Expr) -> bool | None:
        """Is it of a whole type in PostgreSQL? The sum of a bigint is a numeric. None where that is not evident."""
        match node:
            case exp.Literal():
                return None if node.is_string else node.name.isdigit()
            case exp.Avg() | exp.Count() | exp.CountIf():
                return not isinstance(node, exp.Avg)
            case exp.Paren() | exp.Neg() | exp.Abs() | exp.Filter() | exp.Min() | exp.Max():
                return self._is_whole(node.this)
            case exp.Sum(this=exp.Column() as summed):
                type_ = self._type(summed)
                return None if type_ is None else type_.kind is Kind.INTEGER and type_.upper < 2**31
            case exp.Sum():
                type_ = self._type(node.this)
                return False if type_ is not None and type_.kind is not Kind.INTEGER else None
            case exp.Column():
                type_ = self._type(node)
                return None if type_ is None else type_.kind is Kind.INTEGER
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Nullif():
                sides = [self._is_whole(node.this), self._is_whole(node.expression)]
                return False if False in sides else True if all(sides) else None
        return None

    def _type(self, node: exp.Expr) -> Type | None:
        """The type of a number below the aggregate."""
        try:
            type_ = convert(node.copy(), self.scope).type
        except Error:
            return None
        return type_ if type_.numeric else None

    def _debiased(self, node: exp.Expr) -> tuple[exp.Expr, str] | None:
        keys = frozenset[str]().union(*map(columns_of, self.keys.expressions))
        return response_count(node, self.scope, keys)

    def _child(self, node: exp.Expr, name: str, child: exp.Expr, aliases: bool) -> exp.Expr:
        if isinstance(node, exp.Alias) and name == "alias":
            return child
        return self.rewrite(child, aliases=aliases)

    def _allowed(self, node: exp.Expr) -> Aggregate:
        """Over one unit's rows every aggregate is unit-local; over all rows only those that can be released."""
        aggregate = to_aggregate(node, self.scope, per_unit=self.per_unit)
        if self.per_unit or chooses(aggregate):
            return aggregate
        if aggregate.distinct and aggregate.function != "count":
            raise refuse(
                f"{aggregate} is not supported: how much one value adds would depend on who else has it",
                node,
                hint=f"leave out DISTINCT, or count the values: count(DISTINCT {aggregate.argument})",
                reason="aggregate",
            )
        return aggregate

    def _bar(self, node: exp.Expr) -> Bar:
        bar = bar_of(node, self.rewrite)
        numbers = [int(c.name[2:]) for c in bar.expression.find_all(exp.Column) if c.name.startswith("_a")]
        if any(chooses(self.aggregates[number]) for number in numbers):
            raise refuse(
                "a quantile, MIN, MAX or MODE has no error bar: the notes say how far off its rank may be",
                node,
                hint="ask for the value itself, and see explain",
                reason="error-bar",
            )
        return bar

    def _meant(self, node: exp.Expr) -> exp.Expr:
        """The argument of GROUPING: a SELECT alias means its expression unless a column has that name."""
        if not isinstance(node, exp.Column) or node.table or self.scope.find(node) is not None:
            return node
        return self.scope.aliases.get(fold(node.name), node)

    def _key(self, node: exp.Expr) -> int | None:
        if not isinstance(node, exp.Condition | exp.Paren | exp.Func) or isinstance(node, exp.Literal | exp.Alias):
            return None
        if has_aggregate(node) or node.find(exp.Column) is None or node.find(exp.Window) is not None:
            return None
        try:
            made = convert(node, replace(self.scope, aliases={}))
        except Error:
            return None
        keys = self.keys.expressions
        return keys.index(made) if made in keys else None

    def _loose(self, node: exp.Column, aliases: bool) -> exp.Expr:
        alias = self.scope.aliases.get(fold(node.name)) if node.args.get("table") is None else None
        if alias is not None and aliases:
            return node
        if alias is not None:
            written_out(node, alias)
            return exp.Paren(this=self.rewrite(alias.copy()))
        function = "avg" if self.scope.column(node).type.numeric else "count"
        raise refuse(
            f"the column {node.name} is neither a group key nor inside an aggregate",
            node,
            kind=ParseError,
            hint=f"add {node.name} to GROUP BY, or aggregate it: {function}({node.name})",
            reason="group-key",
        )
