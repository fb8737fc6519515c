"""What a name means inside one SELECT over a private relation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.errors import Error, ParseError
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.plan.catalog import suggest
from dpsql.plan.nodes.relation import Relation
from dpsql.policy.identifiers import fold
from dpsql.sql.span import refuse


@dataclass(frozen=True, slots=True)
class FromColumn:
    """A column of a table in FROM: the field that holds it, and the one that its bare name means.

    They differ where USING merged two columns; `bare` is None if another table's column represents both.
    """

    column: str
    field: str
    bare: str | None


@dataclass(frozen=True, slots=True)
class FromTable:
    """A table in FROM under its name."""

    name: str
    columns: tuple[FromColumn, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables of FROM over the fields of one relation; a SELECT alias applies where no column has that name."""

    relation: Relation
    tables: tuple[FromTable, ...]
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)

    def column(self, node: exp.Column) -> Expression:
        """The field or alias that a column name means; names are compared as SQL does, in any case."""
        found = self.find(node)
        if found is not None:
            return found
        table = node.args.get("table")
        if table is None and fold(node.name) in self.aliases:
            without = {k: v for k, v in self.aliases.items() if k != fold(node.name)}
            return convert(self.aliases[fold(node.name)], replace(self, aliases=without))
        if table is not None and not any(_same(t.name, table.name) for t in self.tables):
            raise refuse(
                f"there is no table {table.name} here", node, kind=ParseError, hint=self._called(), reason="name"
            )
        named = [t for t in self.tables if table is None or _same(t.name, table.name)]
        raise refuse(
            f"there is no column {node.name} in {' or '.join(t.name for t in named)}",
            node,
            kind=ParseError,
            hint=suggest(node.name, list(dict.fromkeys(e.column for t in named for e in t.columns)), "columns"),
            reason="name",
        )

    def find(self, node: exp.Column) -> Expression | None:
        """The field that a column name means, None if there is none; a name that means several is an error."""
        field = computed_field(node)
        if field is not None:
            return self._field(field) if any(f.name == field for f in self.relation.fields) else None
        table = node.args.get("table")
        if fold(node.text("db")) not in ("", "main") or node.text("catalog"):
            hint = "write table.column; fields of a struct cannot be read"
            raise refuse("a column is named by its table and its name", node, kind=ParseError, hint=hint, reason="name")
        found = [
            (t.name, e.field if table is not None else e.bare)
            for t in self.tables
            for e in t.columns
            if _same(e.column, node.name) and (e.bare is not None if table is None else _same(t.name, table.name))
        ]
        if len({name for _, name in found}) > 1:
            raise self._ambiguous(node, [f"{t}.{node.name}" for t, _ in found])
        return next((self._field(name) for _, name in found if name is not None), None)

    def listed(self, table: str) -> Iterable[exp.Expr]:
        """The columns of `*`, or with a name of `table.*`."""
        for named in self.tables:
            if table and not _same(named.name, table):
                continue
            for entry in named.columns:
                if table or entry.bare is not None:
                    merged = not named.name or (not table and entry.bare != entry.field) or len(self.tables) == 1
                    yield exp.column(entry.column, table=None if merged else named.name, quoted=True)

    def _field(self, name: str) -> Column:
        return Column(self.relation.field(name).type, name=name)

    def _called(self) -> str:
        if len(self.tables) == 1:
            return f"the table in FROM is called {self.tables[0].name}"
        return f"the tables in FROM are called {', '.join(t.name for t in self.tables)}"

    def _ambiguous(self, node: exp.Column, candidates: list[str]) -> Error:
        return refuse(
            f"the column {node.name} is ambiguous: {len(candidates)} tables have it",
            node,
            kind=ParseError,
            hint=f"write {' or '.join(candidates)}",
            reason="name",
        )


def _same(one: str, two: str) -> bool:
    return fold(one) == fold(two)


def named(name: str, relation: Relation) -> FromTable:
    """A relation that is alone in FROM."""
    return FromTable(name, tuple(FromColumn(f.name, f.name, f.name) for f in relation.fields))


def scope_of(relation: Relation, name: str, aliases: Mapping[str, exp.Expr] | None = None) -> Scope:
    """The scope of one relation under one name."""
    return Scope(relation, (named(name, relation),), aliases or {})


@dataclass(frozen=True, slots=True)
class Correlated:
    """The names of a subquery first, then those of the outer query; `names` are its fields as the join calls them."""

    inner: Scope
    outer: Scope
    names: Mapping[str, str]

    def column(self, node: exp.Column) -> Expression:
        """The field that a column name means here."""
        own = self.inner.find(node)
        if isinstance(own, Column):
            return replace(own, name=self.names[own.name])
        return self.outer.find(node) or self.inner.column(node)


# Computed columns ----------------------------------------------------------------------------------------------------

_MARK = "computed"


@dataclass(frozen=True, slots=True)
class Computed:
    """The field that holds the value."""

    field: str


def computed(field: str, instead_of: exp.Expr) -> exp.Column:
    """A column for a computed field, at the place of what it computes."""
    made = exp.column(field, quoted=True)
    made.meta.update({key: value for key, value in instead_of.meta.items() if key != _MARK})
    made.meta[_MARK] = Computed(field)
    return made


def computed_field(node: exp.Expr) -> str | None:
    """The computed field that a column refers to; None for an ordinary name."""
    mark = node.meta.get(_MARK)
    return mark.field if isinstance(mark, Computed) else None


def outermost(root: exp.Expr, kind: type[exp.Expr] | tuple[type[exp.Expr], ...]) -> list[exp.Expr]:
    """The outermost nodes of a kind, not counting those in subqueries."""
    found = []
    for node in root.walk(prune=lambda n: isinstance(n, kind) or (isinstance(n, exp.Query) and n is not root)):
        if isinstance(node, kind):
            found.append(node)
    return found
