"""COUNT(DISTINCT x) in SQL: each unit's own pairs of group and value, cut to its cap, and then the values together.

Only units that have more pairs than they may keep are sorted. Why a cap bounds the count is the theorem of
`dpsql.sensitivity.distinct`; this is that the SQL keeps to it.

**Theorem.** The emitted query counts, in each group, the different values of the union of sets K_u, one for each unit,
of which each has at most `cap` pairs (group, value) and depends on the rows of u and the salt alone.
**Proof.** `p` has each pair of a unit once, with values of one spelling (`one_zero`) and without NULL. A unit is in
`many` by its own rows in `p` only, and then keeps the first `cap` of its pairs in the order of (hash, pair), which is
total since pairs differ; any other unit has at most `cap`, and keeps them all. Both parts are put together before
values of different units meet, in `count(DISTINCT x)`. By rule `row` or `single_row` a unit has one row, hence one
pair.
**Requires** a unit that is not NULL and one spelling for equal units (`dpsql.engines.sql.relations`), and an engine
that evaluates `p` alike each time: its rows are a function of the data, in no order.
**Checked by** `tests/properties/test_distinct.py`, and the planted bugs "distinct values are counted before the cap",
"the cap of distinct values is one too many" and "a unit that is just over the cap keeps all its values".
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.keys import Coded
from dpsql.engines.sql.source import From
from dpsql.expressions.types import DOUBLE
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.statistics import Part


def distinct_totals(bounded: Bounded, source: From, keys: Coded, salt: str) -> list[str]:
    """For each COUNT(DISTINCT) a query with the groups and the column `c` and the argument's number."""
    owned = not (bounded.release.source.by_row or bounded.release.source.single)
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
    value = source.dialect.one_zero(value) if expression.type == DOUBLE else value
    listed = [*([f"{source.unit} AS u"] if owned else []), *keys.listed, f"{value} AS x"]
    rows = f"SELECT DISTINCT {', '.join(listed)} FROM {source.source}{source.conditions}"
    owner = ["u"] if owned else []
    coded, names = keys.in_rows(f"SELECT * FROM ({rows}) AS d WHERE x IS NOT NULL", [*owner, "x"])
    return f"SELECT DISTINCT {', '.join([*owner, *names, 'x'])} FROM ({coded}) AS c"


def _total(part: Part, pairs: str, keys: Coded, salt: str, *, owned: bool) -> str:
    names = shown_names(keys)
    kept = pairs if not owned else _kept(keys.dialect, pairs, names, part.row, salt)
    grouped = f" GROUP BY {', '.join(names)}" if names else ""
    return f"SELECT {', '.join([*names, f'count(DISTINCT x) AS c{part.argument}'])} FROM ({kept}) AS k{grouped}"


def _kept(dialect: Dialect, pairs: str, names: Sequence[str], cap: int, salt: str) -> str:
    """At most `cap` pairs of each unit, those of the least hash."""
    listed = [*names, "x"]
    order = ", ".join([dialect.scrambled(salt, ["u", *listed]), *listed])
    many = "SELECT 1 FROM many WHERE many.u = p.u"
    return (
        f"WITH p AS {dialect.kept}({pairs}), many AS (SELECT u FROM p GROUP BY u HAVING count(*) > {cap}), "
        f"chosen AS (SELECT {', '.join(listed)}, row_number() OVER (PARTITION BY u ORDER BY {order}) AS place "
        f"FROM p WHERE EXISTS ({many})) "
        f"SELECT {', '.join(listed)} FROM p WHERE NOT EXISTS ({many}) "
        f"UNION ALL SELECT {', '.join(listed)} FROM chosen WHERE place <= {cap}"
    )
