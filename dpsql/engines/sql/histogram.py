"""The histograms of a release in SQL: one row for each group and cell whose weight `h` is not zero.

A group is its keys, or their code `g` where the keys are public. A cell without weight has no row and counts as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.bounds.domain import value_at
from dpsql.engines.sql.clamp import clamped
from dpsql.engines.sql.dialect import Dialect, Site
from dpsql.engines.sql.emit import LIMIT, ONE, read_by
from dpsql.engines.sql.from_item import From
from dpsql.engines.sql.key_codes import INLINE, Coded, code_keys, lookup
from dpsql.engines.sql.relations import relation_sql
from dpsql.engines.sql.sql_types import whole
from dpsql.engines.sql.vector_clip import ROUNDED_UP
from dpsql.expressions.expression import columns_of
from dpsql.expressions.types import Kind
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.choice import Histogram
from dpsql.sensitivity.grid import Grid
from dpsql.sensitivity.unit_weight import WEIGHT_BITS

_ROOT_BITS = 20


def emit_histogram(bounded: Bounded, histogram: Histogram, site: Site) -> str:
    """The SQL of one histogram of a release."""
    source, keys = _base(bounded, [histogram.grid], site)
    return _weights(bounded, histogram, keys, _rows(bounded, histogram.grid, source, keys))


def emit_histograms(bounded: Bounded, site: Site, *, keep: bool) -> str:
    """The SQL of all histograms of a release over one scan of its rows; column `i` numbers them (`branches`).

    The rows are kept for all of them with their cells, or where they would take too much memory read again.

    **Theorem.** Its rows with the number of a histogram are those of `emit_histogram`.
    **Proof.** `s` has the rows of the release, each with its unit, its keys and its cell in every grid: which rows
    these are does not depend on the columns that are read of them. A cell of a long list is looked up in a table that
    has each value once, so a LEFT JOIN repeats no row and leaves NULL where `emit_histogram` has no row. Each part
    reads the rows whose own cell is not NULL, by the expression that `emit_histogram` uses. Histograms that share a
    part have the same expression: where a unit has one row, its least and its greatest value are the value of that row.
    **Requires** an engine that evaluates `s` alike each time: its rows are a function of the data, in no order.
    **Checked by** `tests/unit/engines/test_shared_scans.py`.
    """
    parts = branches(bounded)
    grids = list(dict.fromkeys(bounded.histograms[parts.index(number)].grid for number in range(max(parts) + 1)))
    source, keys = _base(bounded, grids, site)
    owner, written = [] if _unowned(bounded) else ["u"], []
    for number in range(max(parts) + 1):
        histogram = bounded.histograms[parts.index(number)]
        cell = f"x{grids.index(histogram.grid)}"
        rows = f"SELECT {', '.join([*owner, *keys.names, f'{cell} AS cell'])} FROM s WHERE {cell} IS NOT NULL"
        if max(parts) == 0:
            rows = _rows(bounded, histogram.grid, source, keys)
        written.append(f"SELECT {number} AS i, b.* FROM ({_weights(bounded, histogram, keys, rows)}) AS b")
    scanned = (
        f"WITH s AS {site.dialect.kept if keep else site.dialect.recomputed}({_cells(bounded, grids, source, keys)}) "
    )
    return f"{scanned if max(parts) else ''}{' UNION ALL '.join(written)}"


def branches(bounded: Bounded) -> tuple[int, ...]:
    """For each histogram the number of its part in `emit_histograms`; equal ones have one part."""
    same = [replace(h, kept="rows") if _unowned(bounded) else h for h in bounded.histograms]
    different = list(dict.fromkeys(same))
    return tuple(different.index(each) for each in same)


def _base(bounded: Bounded, grids: Sequence[Grid], site: Site) -> tuple[From, Coded]:
    """The rows of the release, and their keys."""
    expressions = [*(grid.expression for grid in grids), *(k.expression for k in bounded.keys)]
    needed = frozenset().union(*map(columns_of, expressions))
    source = relation_sql(read_by(bounded), needed, site, owned=bounded.rule != "at_rest")
    return source, code_keys(bounded, source)


def _weights(bounded: Bounded, histogram: Histogram, keys: Coded, rows: str) -> str:
    """The weights by group and cell, from rows that have a unit, keys and a cell.

    Where the rows of a unit are counted by group, values that are not listed are one group before they are counted.
    """
    if histogram.kept == "rows" and histogram.clipped == "l2":
        rows, names = keys.in_rows(rows, ["u", "cell"])
        totals = _by_rows(keys.dialect, histogram, rows, names)
    elif histogram.kept == "rows" or _unowned(bounded):
        totals = keys.mapped(_by_rows(keys.dialect, histogram, rows, keys.names), ["h"], ["cell"])
    else:
        rows, names = keys.in_rows(rows, ["u", "cell"])
        totals = _by_units(keys.dialect, histogram, rows, names)
    shown = ("g",) if keys.code is not None else keys.names
    weight = keys.dialect.cast(f"least(h, {LIMIT})", "BIGINT")
    return f"SELECT {', '.join([*shown, 'cell'])}, {weight} AS h FROM ({totals}) AS t"


def _unowned(bounded: Bounded) -> bool:
    """Do rows count as they are, whoever owns them: because a unit has one, or a copy bounds them?"""
    source = bounded.release.source
    return source.by_row or source.single or bounded.rule == "at_rest"


def _rows(bounded: Bounded, grid: Grid, source: From, keys: Coded) -> str:
    """Each row that has a value: its unit, its keys, its cell."""
    owner = [] if _unowned(bounded) else [f"{source.unit} AS u"]
    value = source.render(grid.expression)
    listed = ", ".join([*owner, *keys.listed, f"{_cell(source.dialect, grid, value)} AS cell"])
    rows = f"SELECT {listed} FROM {source.source}{source.conditions}"
    if not _looked_up(grid):
        return f"SELECT * FROM ({rows}) AS c WHERE cell IS NOT NULL"
    listed = ", ".join([*(["u"] if owner else []), *keys.names, "d.i AS cell"])
    return f"SELECT {listed} FROM ({rows}) AS r JOIN {_lookup(source.dialect, grid)} AS d ON r.cell = d.v"


def _cells(bounded: Bounded, grids: Sequence[Grid], source: From, keys: Coded) -> str:
    """Each row: its unit, its keys, and its cell `x0`, `x1`, … in each grid, NULL where it has no value."""
    owner, dialect = [] if _unowned(bounded) else [f"{source.unit} AS u"], source.dialect
    cells = [_cell(dialect, grid, source.render(grid.expression)) for grid in grids]
    narrow = [c if _looked_up(g) else dialect.cast(c, whole(g.cells)) for c, g in zip(cells, grids, strict=True)]
    listed = [*owner, *keys.listed, *(f"{cell} AS x{number}" for number, cell in enumerate(narrow))]
    rows = f"SELECT {', '.join(listed)} FROM {source.source}{source.conditions}"
    found = {number: grid for number, grid in enumerate(grids) if _looked_up(grid)}
    if not found:
        return rows
    joins = "".join(f" LEFT JOIN {_lookup(dialect, g)} AS d{n} ON r.x{n} = d{n}.v" for n, g in found.items())
    shown = [f"d{number}.i AS x{number}" if number in found else f"x{number}" for number in range(len(grids))]
    return f"SELECT {', '.join([*(['u'] if owner else []), *keys.names, *shown])} FROM ({rows}) AS r{joins}"


def _looked_up(grid: Grid) -> bool:
    """Is the cell of a value found in a table of values?"""
    return grid.values is not None and len(grid.values) > INLINE


def _lookup(dialect: Dialect, grid: Grid) -> str:
    return lookup(dialect, grid.values or (), grid.expression.type)


def _cell(dialect: Dialect, grid: Grid, value: str) -> str:
    """The number of the cell of a value, NULL where it has none; a long list is looked up afterwards.

    **Theorem.** Whatever is stored, this is NULL or a whole number in [0, cells), and no step can raise.
    **Proof.** Numbers are clamped to [lower, upper], NULL and NaN to NULL (`dpsql.engines.sql.clamp`). Moments are
    moved to the nearer end before they are subtracted, so infinities are gone, and CASE keeps NULL from `least`, which
    would take it for the other end. The width is a positive constant. Differences of whole numbers are taken in the
    widest type: those of two ends of a type do not fit into the type.
    **Requires** a grid whose ends and width are public and positive (`dpsql.sensitivity.grid`), and a total expression.
    **Checked by** `tests/properties/test_choices.py`, on rows with NULL, NaN, infinities and values out of bounds.
    """
    type_ = grid.expression.type
    if grid.values is not None:
        if len(grid.values) > INLINE:
            return value
        branches = " ".join(f"WHEN {dialect.literal(v, type_)} THEN {i}" for i, v in enumerate(grid.values))
        return f"CASE {value} {branches} END"
    if grid.argument is not None:
        steps = f"({dialect.wide(clamped(dialect, grid.argument, value))} - ({grid.lower}))"
        return dialect.cast(dialect.quotient(steps, str(grid.width)), "BIGINT")
    low, high = (dialect.literal(value_at(place, type_), type_) for place in (grid.lower, grid.upper))
    inside = f"greatest(least({value}, {high}), {low})"
    micros = f"({dialect.microseconds(inside)} - ({grid.lower}))"
    count = dialect.days(inside, low) if type_.kind is Kind.DATE else micros
    cell = dialect.cast(dialect.quotient(count, str(grid.width)), "BIGINT")
    return f"CASE WHEN {value} IS NOT NULL THEN {cell} END"


def _by_rows(dialect: Dialect, histogram: Histogram, rows: str, names: Sequence[str]) -> str:
    """Every row weighs what its unit's weight leaves of it."""
    listed = ", ".join([*names, "cell"])
    if histogram.term is None:
        return f"SELECT {listed}, count(*) AS h FROM ({rows}) AS r GROUP BY {listed}"
    if histogram.clipped == "l2" and names:
        pairs = f"SELECT u, count(*) AS n FROM c GROUP BY {', '.join(['u', *names])}"
        squares = dialect.total(f"{dialect.wide('n')} * n")
        weights = f"SELECT u, {_clipped(dialect, histogram, squares)} AS w FROM ({pairs}) AS p GROUP BY u"
    else:
        weights = f"SELECT u, {_weight(dialect, histogram)} AS w FROM c GROUP BY u"
    return (
        f"WITH c AS {dialect.recomputed}({rows}), w AS ({weights}) "
        f"SELECT {listed}, {dialect.total('w', bits=ONE.bit_length())} AS h FROM {dialect.weighed('c')} "
        f"GROUP BY {listed}"
    )


def _by_units(dialect: Dialect, histogram: Histogram, rows: str, names: Sequence[str]) -> str:
    """Each unit counts once in each of its groups, at its own extreme there."""
    listed, group = ", ".join([*names, "cell"]), ", ".join(["u", *names])
    end = "min" if histogram.kept == "least" else "max"
    pairs = f"SELECT {group}, {end}(cell) AS cell FROM ({rows}) AS r GROUP BY {group}"
    if histogram.term is None:
        return f"SELECT {listed}, count(*) AS h FROM ({pairs}) AS p GROUP BY {listed}"
    squared = histogram.clipped == "l2" and len(names) > 0
    weight = _clipped(dialect, histogram, "count(*)") if squared else _weight(dialect, histogram)
    return (
        f"WITH p AS ({pairs}), w AS (SELECT u, {weight} AS w FROM p GROUP BY u) "
        f"SELECT {listed}, {dialect.total('w', bits=ONE.bit_length())} AS h FROM p JOIN w USING (u) GROUP BY {listed}"
    )


def _weight(dialect: Dialect, histogram: Histogram) -> str:
    """A unit's weight by the number of its rows or groups here, as in `dpsql.sensitivity.unit_weight`, rounded down."""
    less = dialect.cast(dialect.quotient(dialect.wide(str(histogram.most)), "count(*)"), "BIGINT")
    return f"CASE WHEN count(*) > {histogram.most // ONE} THEN {less} ELSE {ONE} END"


def _clipped(dialect: Dialect, histogram: Histogram, power: str) -> str:
    """A unit's weight by the sum of squares of its numbers in each group, or of its groups.

    **Theorem.** W is at most ONE, and W²·S ≤ most² for the sum of squares S; it fits 64 bits. **Proof.** Where
    S ≤ ⌊(most/ONE)²⌋, W = ONE and ONE²·S ≤ most². Else W = ⌊most·2²⁰/N⌋ with N = ⌊√S·2²⁰·(1+2⁻⁴⁰)⌋ + 1. Turning S
    into a DOUBLE, the root and the product each lose less than 2⁻⁵⁰ of their operand, which 2⁻⁴⁰ makes up for, so
    N > 2²⁰·√S and W·√S ≤ most. There S > (most/ONE)², as S is a whole number, so W is at most ONE as well. For up to
    2⁴² rows S is below 2⁸⁴, and N fits 64 bits; `most` is below 2⁶², and most·2²⁰ is taken in the widest type.
    **Requires** an exact S over the groups that are released: keys are coded before rows are counted by them.
    **Checked by** `tests/properties/test_ranked_clip.py` and the planted bug "ranks are clipped by the root of too
    little".
    """
    above = f"floor(sqrt({dialect.cast(power, 'DOUBLE')}) * {dialect.double(ROUNDED_UP * 2**_ROOT_BITS)})"
    root = f"({dialect.cast(above, 'BIGINT')} + 1)"
    less = dialect.cast(dialect.quotient(dialect.wide(f"'{histogram.most << _ROOT_BITS}'"), root), "BIGINT")
    return f"CASE WHEN {power} > {histogram.most**2 >> 2 * WEIGHT_BITS} THEN {less} ELSE {ONE} END"
