"""COUNT(DISTINCT x) in SQL: each unit's own pairs of group and value, cut to its cap, and then the values together.

Only units that have more pairs than they may keep are sorted. See `dpsql.sensitivity.distinct` for the theorem.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.engines.duckdb.keys import Coded
from dpsql.engines.duckdb.literals import literal
from dpsql.engines.duckdb.source import From, one_zero
from dpsql.expressions.types import DOUBLE, TEXT
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.statistics import Part


def distinct_totals(bounded: Bounded, source: From, keys: Coded, salt: str) -> list[str]:
    """For each COUNT(DISTINCT) a query with the groups and the column `c` and the argument's number."""
    owned = bounded.rule not in ("row", "single_row")
    parts = [s.part for s in bounded.statistics if s.part.distinct]
    return [_total(part, _pairs(bounded, part, source, keys, owned=owned), keys, salt, owned=owned) for part in parts]


def shown_names(keys: Coded) -> tuple[str, ...]:
    """What the groups of an emitted query are called."""
    return keys.names if keys.code is None else ("g",)


def _pairs(bounded: Bounded, part: Part, source: From, keys: Coded, *, owned: bool) -> str:
    """Each unit's different pairs of group and value, by their codes where the groups have codes."""
    expression = bounded.arguments[part.argument].expression
    assert expression is not None
    value = source.render(expression)
    value = one_zero(value) if expression.type == DOUBLE else value
    listed = [*([f"{source.unit} AS u"] if owned else []), *keys.listed, f"{value} AS x"]
    rows = f"SELECT DISTINCT {', '.join(listed)} FROM {source.source}{source.conditions}"
    coded, names = keys.in_rows(f"SELECT * FROM ({rows}) WHERE x IS NOT NULL")
    return f"SELECT DISTINCT {', '.join([*(['u'] if owned else []), *names, 'x'])} FROM ({coded})"


def _total(part: Part, pairs: str, keys: Coded, salt: str, *, owned: bool) -> str:
    names = shown_names(keys)
    kept = pairs if not owned else _kept(pairs, names, part.row, salt)
    grouped = f" GROUP BY {', '.join(names)}" if names else ""
    return f"SELECT {', '.join([*names, f'count(DISTINCT x) AS c{part.argument}'])} FROM ({kept}){grouped}"


def _kept(pairs: str, names: Sequence[str], cap: int, salt: str) -> str:
    """At most `cap` pairs of each unit, those of the least hash."""
    listed = ", ".join([*names, "x"])
    place = f"row_number() OVER (PARTITION BY u ORDER BY hash({literal(salt, TEXT)}, u, {listed}), {listed})"
    return (
        f"WITH p AS MATERIALIZED ({pairs}), many AS (SELECT u FROM p GROUP BY u HAVING count(*) > {cap}), "
        f"chosen AS (SELECT {listed}, {place} AS place FROM p SEMI JOIN many USING (u)) "
        f"SELECT {listed} FROM p ANTI JOIN many USING (u) "
        f"UNION ALL SELECT {listed} FROM chosen WHERE place <= {cap}"
    )
