"""VALUES, UNNEST of a list and generate_series of constants in FROM: each is a query of constants.

**Theorem.** A query and the one with its constant tables written out have the same meaning. **Proof.** Such a table has
the rows that its text lists, or that the sealed database computes from constants; `SELECT … UNION ALL SELECT …` has the
same rows and names. No data has a part in it. **Requires** that what reads a column stays as it is, to be refused where
FROM is read. **Checked by** `tests/unit/plan/test_constant_tables.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp, parse_one

from dpsql.plan.constant_expressions import Evaluate, is_constant, literal_of
from dpsql.sql.span import refuse

MOST_ROWS = 500
"""A year of days, with room; each row becomes a SELECT of its own."""
_COUNT = "({end} - {start}) / {step}"
_TIME = "(epoch(CAST({end} AS TIMESTAMP)) - epoch(CAST({start} AS TIMESTAMP))) / epoch({step})"


def write_out_tables(query: exp.Query, evaluate: Evaluate) -> exp.Query:
    """The query with each constant table of FROM as a subquery."""
    for node in list(query.find_all(exp.Values, exp.Unnest, exp.Table)):
        if not isinstance(node.parent, exp.From | exp.Join):
            continue
        found = _rows(node, evaluate)
        if found is None:
            continue
        rows, default = found
        alias = node.args.get("alias")
        named = [each.name for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
        width = len(rows[0])
        names = [*named, *[f"col{i}" if default == "col" else default for i in range(len(named), width)]]
        title = exp.to_identifier(alias.name if alias is not None and alias.name else f"_{default}", quoted=True)
        made = exp.Subquery(this=_union([_select(row, names) for row in rows]), alias=exp.TableAlias(this=title))
        made.meta.update(node.meta)
        node.replace(made)
    return query


def _rows(node: exp.Expr, evaluate: Evaluate) -> tuple[list[list[exp.Expr]], str] | None:
    """The rows of a constant table, and how DuckDB calls its columns; None if it is not one."""
    if any(part for name, part in node.args.items() if part and name not in ("this", "expressions", "alias")):
        return None
    if isinstance(node, exp.Values):
        rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
        even = len({len(row) for row in rows}) == 1
        return (_few(rows, node), "col") if even and all(is_constant(cell) for row in rows for cell in row) else None
    listed = node.expressions[0] if isinstance(node, exp.Unnest) and len(node.expressions) == 1 else node.this
    if isinstance(node, exp.Unnest) and isinstance(listed, exp.Array) and listed.expressions:
        cells = listed.expressions
        return (_few([[cell] for cell in cells], node), "unnest") if all(map(is_constant, cells)) else None
    if isinstance(listed, exp.GenerateSeries):
        ends = (listed.args.get("start"), listed.args.get("end"), listed.args.get("step"))
        if not all(each is None or is_constant(each) for each in ends) or None in ends[:2]:
            return None
        name = "range" if listed.args.get("is_end_exclusive") else "generate_series"
        cells = _series(listed, node, evaluate)
        return None if not cells else ([[cell] for cell in cells], "unnest" if isinstance(node, exp.Unnest) else name)
    return None


def _series(series: exp.GenerateSeries, node: exp.Expr, evaluate: Evaluate) -> list[exp.Expr]:
    """The values of a series: how many there are is known before they are made."""
    parts = {name: f"({series.args[name].sql('duckdb')})" for name in ("start", "end")}
    step = series.args.get("step")
    parts["step"] = "1" if step is None else f"({step.sql('duckdb')})"
    texts = (_COUNT, _TIME) if step is None or not step.find(exp.Interval) else (_TIME,)
    sizes = [evaluate([parse_one(text.format(**parts), dialect="duckdb")])[0] for text in texts]
    size = next((float(found[1]) for found in sizes if found is not None), None)
    if size is None:
        return []
    if not size < MOST_ROWS:
        raise _too_many(node)
    text = exp.GenerateSeries(**{name: part for name, part in series.copy().args.items() if part}).sql("duckdb")
    ask = [parse_one(f"typeof(list_extract({text}, 1))", dialect="duckdb"),
           parse_one(f"array_to_string({text}, '|')", dialect="duckdb")]  # fmt: skip
    kind, values = evaluate(ask)
    if kind is None or values is None or not values[1]:
        return []
    cells = [literal_of(kind[1], value) for value in values[1].split("|")]
    return [] if None in cells else [cell for cell in cells if cell is not None]


def _few(rows: list[list[exp.Expr]], node: exp.Expr) -> list[list[exp.Expr]]:
    if len(rows) > MOST_ROWS:
        raise _too_many(node)
    return rows


def _too_many(node: exp.Expr) -> Exception:
    return refuse(
        f"a table of constants may have {MOST_ROWS} rows",
        node,
        hint="ask the steward for a public table",
        reason="size",
    )


def _select(row: Sequence[exp.Expr], names: Sequence[str]) -> exp.Query:
    cells = [exp.alias_(cell.copy(), name, quoted=True) for cell, name in zip(row, names, strict=True)]
    return exp.Select(expressions=cells)


def _union(selects: Sequence[exp.Query]) -> exp.Query:
    """Half and half, so that no tree is deep."""
    if len(selects) == 1:
        return selects[0]
    half = len(selects) // 2
    return exp.Union(this=_union(selects[:half]), expression=_union(selects[half:]), distinct=False)
