"""How much the finishing SQL becomes once its aliases are written out, which is what DuckDB does while it binds.

Forty aliases that each name the one before twice are a terabyte, and no limit of time or memory holds while DuckDB
still binds: so they are counted here, before it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.policy.identifiers import fold

MOST_WRITTEN = 20_000


def limit_aliases(query: exp.Expr) -> None:
    """Refuse a SELECT whose aliases of aliases multiply."""
    for select in query.find_all(exp.Select):
        if _repeated(select) > MOST_WRITTEN:
            raise ParseError(
                "the query is too large once its aliases are written out",
                hint="compute repeated parts once, in a subquery",
            )


def _repeated(select: exp.Select) -> int:
    """What the names of the SELECT's own columns stand for, in all the places where they are used."""
    sizes: dict[str, int] = {}
    total = 0
    for item in select.expressions:
        more = _written(item, sizes)
        total += more
        if isinstance(item, exp.Alias):
            sizes[fold(item.alias)] = more + sum(1 for _ in item.walk())
    clauses = (each for name, each in select.args.items() if name not in ("expressions", "from_", "joins", "with_"))
    return total + sum(_written(each, sizes) for each in clauses if isinstance(each, exp.Expr))


def _written(node: exp.Expr, sizes: Mapping[str, int]) -> int:
    return sum(sizes.get(fold(column.name), 0) for column in node.find_all(exp.Column) if not column.table)
