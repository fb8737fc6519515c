"""What a name means inside one SELECT over a private relation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.expressions.convert import convert
from dpsql.expressions.expression import Column, Expression
from dpsql.parse.span import refuse
from dpsql.plan.catalog import suggest
from dpsql.plan.relation import Relation


@dataclass(frozen=True, slots=True)
class Scope:
    """The fields of one relation under one name; SELECT aliases stand in where no field has that name."""

    relation: Relation
    name: str
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)

    def column(self, node: exp.Column) -> Expression:
        """The field or alias that a column name means; names are compared as SQL does, in any case."""
        table = node.args.get("table")
        if table is not None and table.name.lower() != self.name.lower():
            raise refuse(
                f"there is no table {table.name} here",
                node,
                kind=ParseError,
                hint=f"the table in FROM is called {self.name}",
            )
        for candidate in self.relation.fields:
            if candidate.name.lower() == node.name.lower():
                return Column(candidate.type, name=candidate.name)
        if table is None and node.name.lower() in self.aliases:
            without = {k: v for k, v in self.aliases.items() if k != node.name.lower()}
            return convert(self.aliases[node.name.lower()], Scope(self.relation, self.name, without))
        raise refuse(
            f"there is no column {node.name} in {self.name}",
            node,
            kind=ParseError,
            hint=suggest(node.name, [f.name for f in self.relation.fields], "columns"),
        )
