"""FROM: its items joined from left to right, comma by comma; inner joins stay flat, so that WHERE may link them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.errors import ParseError, Span
from dpsql.expressions.convert import convert
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BOOLEAN
from dpsql.expressions.typing import Mismatch, call, common
from dpsql.parse.span import refuse
from dpsql.plan.clauses import bracketed, joins_of
from dpsql.plan.join import Part, whole
from dpsql.plan.join_refusals import check_exists, check_inner, check_outer
from dpsql.plan.lookup import Unique
from dpsql.plan.normal import conjunction, conjuncts, normal
from dpsql.plan.relate import filtered
from dpsql.plan.relate_joins import existing, joined, outer_joined, renamed
from dpsql.plan.relation import Field, Relation
from dpsql.plan.scope import Entry, Named, Scope
from dpsql.policy.identifiers import fold


@dataclass(frozen=True, slots=True)
class Source:
    """An item of FROM: where it stands, what it is called, and its rows."""

    span: Span | None
    name: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class Joined:
    """FROM as it was read: parts that are all joined inner, the conditions between them, and the tables' names."""

    span: Span | None
    parts: tuple[Part, ...]
    conditions: tuple[Expression, ...]
    tables: tuple[Named, ...]

    def scope(self, aliases: Mapping[str, exp.Expr] | None = None) -> Scope:
        """The names that conditions on a row may use."""
        return Scope(Relation(self._fields, False, 1, False), self.tables, aliases or {})

    @property
    def _fields(self) -> tuple[Field, ...]:
        return tuple(f for part in self.parts for f in part.fields)

    def relation(self, conditions: Sequence[Expression], unique: Unique) -> Relation:
        """The rows on which the further conditions hold as well."""
        every = conjuncts(conjunction(map(normal, (*self.conditions, *conditions))))
        if len(self.parts) == 1 and not self.conditions:
            relation = renamed(self.parts[0], unique)
            return filtered(relation, conjunction(conditions)) if conditions else relation
        check_inner(self.parts, every, self.tables, self.span, unique)
        return joined(self.parts, every, unique)

    def part(self, unique: Unique) -> Part:
        """All of it as one side of a join."""
        alone = len(self.parts) == 1 and not self.conditions
        return self.parts[0] if alone else whole(self.relation((), unique))

    def beside(self, other: Joined, conditions: Sequence[Expression] = ()) -> Joined:
        """Both, joined inner."""
        every = (*self.conditions, *other.conditions, *conditions)
        return Joined(other.span, (*self.parts, *other.parts), every, (*self.tables, *other.tables))


def read_from(node: exp.Select, sources: Sequence[Source], unique: Unique) -> Joined:
    """The items of FROM, joined as the clause says; `sources` are those of `from_items`."""
    leaves = iter(_leaves(_named(sources) if len(sources) > 1 else sources))
    return _sequence(_item(node.args["from_"].this, leaves, unique), joins_of(node), leaves, unique)


def _item(item: exp.Expr, leaves: Iterator[Joined], unique: Unique) -> Joined:
    """An item, with what is joined to it inside its brackets or before the ON of a join around it."""
    inner = bracketed(item)
    first = next(leaves) if inner is None else _item(inner, leaves, unique)
    return _sequence(first, joins_of(item), leaves, unique)


def _sequence(first: Joined, joins: Sequence[exp.Expr], leaves: Iterator[Joined], unique: Unique) -> Joined:
    """Joins from left to right; a comma binds less than they do."""
    trees = [first]
    for join in joins:
        _known(join)
        item = _item(join.this, leaves, unique)
        if _is_comma(join):
            trees.append(item)
        else:
            trees[-1] = _join(trees[-1], item, join, unique)
    made = trees[0]
    for tree in trees[1:]:
        made = made.beside(tree)
    return made


def _named(sources: Sequence[Source]) -> list[Source]:
    """Subqueries without a name have one all the same, as in DuckDB, by which their columns can be told apart."""
    made: list[Source] = []
    for source in sources:
        number = 1 + sum(other.name.startswith("unnamed_subquery") for other in made)
        made.append(source if source.name else replace(source, name=f"unnamed_subquery{number if number > 1 else ''}"))
    return made


def _leaves(sources: Sequence[Source]) -> list[Joined]:
    """Each item by itself, its fields under names that are unique in the whole clause."""
    seen: dict[str, int] = {}
    for source in sources:
        for field in source.relation.fields:
            seen[fold(field.name)] = seen.get(fold(field.name), 0) + 1
        if sum(fold(source.name) == fold(other.name) for other in sources if source.name) > 1:
            hint = "give one of them another name: FROM orders AS a, orders AS b"
            raise refuse(
                f"the name {source.name} stands twice in FROM", source.span, kind=ParseError, hint=hint, reason="name"
            )
    taken = {name for name, times in seen.items() if times == 1}
    leaves = []
    for source in sources:
        fields = [f.name for f in source.relation.fields]
        names = [n if seen[fold(n)] == 1 else distinct(f"{source.name}.{n}", taken) for n in fields]
        entries = tuple(Entry(f, n, n) for f, n in zip(fields, names, strict=True))
        leaves.append(Joined(source.span, (Part(source.relation, tuple(names)),), (), (Named(source.name, entries),)))
    return leaves


def distinct(name: str, taken: set[str]) -> str:
    """The name, changed until it is not among those taken; it is one of them then."""
    while fold(name) in taken:
        name += "'"
    taken.add(fold(name))
    return name


def apart(relation: Relation, outer: Scope, names: Sequence[str] | None = None) -> Part:
    """A subquery's rows, under names (these, or their own) that none of the fields around it has."""
    taken = {fold(f.name) for f in outer.relation.fields}
    return Part(relation, tuple(distinct(name, taken) for name in names or [f.name for f in relation.fields]))


_PARTS = {"this", "on", "using", "kind", "side", "method"}
_METHODS = {
    "ASOF": "compare with >= and <=, or group by a date part on both sides",
    "POSITIONAL": "join on a key: JOIN … ON a.key = b.key",
}


def _known(join: exp.Expr) -> None:
    """Refuse what is not read here."""
    kind, side, method = (str(join.args.get(part) or "").upper() for part in ("kind", "side", "method"))
    if method and method != "NATURAL":
        hint = _METHODS.get(method, "write JOIN … ON")
        raise refuse(f"{method} JOIN is not supported with private rows", join, hint=hint, reason="clause")
    extra = [name for name, part in join.args.items() if part and name not in _PARTS]
    if extra or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or (side and kind in ("SEMI", "ANTI")):
        word = extra[0] if extra else f"{side} {kind}".strip()
        raise refuse(
            f"{word.upper()} in a join is not supported",
            join,
            hint="write [LEFT | RIGHT | FULL] JOIN … ON",
            reason="clause",
        )


def _is_comma(join: exp.Expr) -> bool:
    return not any(join.args.get(part) for part in ("on", "using", "kind", "side", "method"))


def _join(left: Joined, right: Joined, join: exp.Expr, unique: Unique) -> Joined:
    both = left.beside(right)
    conditions = _on(join, both.scope()) if join.args.get("on") is not None else []
    equal = _using(join, left, right)
    conditions += [condition for _, _, condition in equal]
    kind, side = (str(join.args.get(part) or "").upper() for part in ("kind", "side"))
    if kind in ("SEMI", "ANTI"):
        source, inner = left.relation((), unique), right.part(unique)
        condition = conjunction(map(normal, conditions))
        check_exists(source, inner, [condition], both.tables, join)
        made = existing(source, inner, condition, negated=kind == "ANTI")
        return replace(left, parts=(whole(made),), conditions=())
    if not side:
        tables = _merged_tables(both.tables, {two: None for _, two, _ in equal})
        return replace(left.beside(right, conditions), tables=tables)
    return _outer(left, right, side, conditions, [(one, two) for one, two, _ in equal], join, unique)


def _on(join: exp.Expr, scope: Scope) -> list[Expression]:
    made = convert(join.args["on"], scope)
    if made.type != BOOLEAN:
        raise refuse(
            "ON takes a condition", join.args["on"], kind=ParseError, hint="compare: ON a.key = b.key", reason="types"
        )
    return [made]


def _using(join: exp.Expr, left: Joined, right: Joined) -> list[tuple[str, str, Expression]]:
    """The columns of USING: the field on either side, and that they are equal."""
    made: list[tuple[str, str, Expression]] = []
    for name in join.args.get("using") or _natural(join, left, right):
        column = exp.column(name.name, quoted=True)
        column.meta.update(name.meta)
        one, two = left.scope().column(column), right.scope().column(column)
        assert isinstance(one, Column) and isinstance(two, Column)
        try:
            _, sides = common((one, two))
        except Mismatch as problem:
            raise refuse(str(problem), name, kind=ParseError, hint="join columns of one kind", reason="types") from None
        made.append((one.name, two.name, call("eq", BOOLEAN, *sides)))
    return made


def _natural(join: exp.Expr, left: Joined, right: Joined) -> list[exp.Expr]:
    """The columns that both sides of a NATURAL JOIN have."""
    if str(join.args.get("method") or "").upper() != "NATURAL":
        return []
    ones, twos = ([e.column for t in side.tables for e in t.columns if e.bare is not None] for side in (left, right))
    names = [name for name in dict.fromkeys(ones) if fold(name) in map(fold, twos)]
    if not names:
        raise refuse(
            "a NATURAL JOIN needs columns of the same name", join, kind=ParseError, hint="say what is equal: JOIN … ON"
        )
    return [exp.to_identifier(name, quoted=True) for name in names]


def _merged_tables(tables: Sequence[Named], bare: Mapping[str, str | None]) -> tuple[Named, ...]:
    """The same tables, where the bare names of some columns mean another field (None: are left to another table)."""
    return tuple(
        replace(t, columns=tuple(replace(e, bare=bare.get(e.bare, e.bare)) if e.bare else e for e in t.columns))
        for t in tables
    )


def _outer(
    left: Joined,
    right: Joined,
    side: str,
    conditions: Sequence[Expression],
    equal: Sequence[tuple[str, str]],
    join: exp.Expr,
    unique: Unique,
) -> Joined:
    one, two = left.part(unique), right.part(unique)
    tables, condition = (*left.tables, *right.tables), conjunction(map(normal, conditions))
    first, second = (two, one) if side == "RIGHT" else (one, two)
    check_outer(first, second, side, [condition], tables, join, unique)
    merged: list[tuple[str, str, str]] = []
    bare: dict[str, str | None] = {two: None for _, two in equal}
    if side == "RIGHT":
        bare |= dict(equal)
    elif side == "FULL":
        taken = {fold(name) for part in (first, second) for name in part.names}
        merged = [(distinct(a.rpartition(".")[2], taken), a, b) for a, b in equal]
        bare |= {a: name for name, a, _ in merged}
    made = outer_joined(first, second, side == "FULL", condition, merged, unique)
    return Joined(left.span, (whole(made),), (), _merged_tables(tables, bare))
