"""The columns of a policy's views, as the planner knows them."""

from __future__ import annotations

from dpsql.audit.grammar.scope import Scope, quoted
from dpsql.audit.world import World
from dpsql.errors import Error
from dpsql.plan.view_expansion import planned, view_columns


def scopes_of_views(world: World) -> list[tuple[str, Scope]]:
    """Views that can be planned; their columns are taken for what their types are, without bounds."""
    with world.open(steward=True) as db:
        catalog, found = db._dataset.whole_catalog, []
        for name, sql in world.policy.view_queries.items():
            made = planned(sql, catalog)
            if not isinstance(made, Error):
                found.append((quoted(name), _scope(dict(view_columns(made, catalog)))))
    return found


def _scope(columns: dict[str, object]) -> Scope:
    scope = Scope(literals={})
    for column, type_ in columns.items():
        said, name = str(type_).lower(), quoted(column)
        if "text" in said or "varchar" in said:
            scope = scope.plus(Scope(texts=(name,), finite=(name,)))
        elif "date" in said or "timestamp" in said:
            scope = scope.plus(Scope(moments=(name,)))
        elif "bool" in said:
            scope = scope.plus(Scope(flags=(name,)))
        else:
            scope = scope.plus(Scope(numbers=(name,), levels=(name,)))
    return scope
