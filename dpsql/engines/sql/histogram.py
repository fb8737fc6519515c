"""The histogram of a choice as one query: keys (or their code `g`), the cell, and its weight `h`, integers only.

A cell without weight has no row: who reads the result takes it for zero, so its shape is no output.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.bounds.domain import value_at
from dpsql.engines.sql.clamp import clamped
from dpsql.engines.sql.dialect import Dialect, Site
from dpsql.engines.sql.emit import LIMIT, ONE, read_by
from dpsql.engines.sql.from_item import From
from dpsql.engines.sql.key_codes import INLINE, Coded, code_keys, lookup
from dpsql.engines.sql.relations import relation_sql
from dpsql.engines.sql.vector_clip import ROUNDED_UP
from dpsql.expressions.expression import columns_of
from dpsql.expressions.types import Kind
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.choice import Histogram
from dpsql.sensitivity.grid import Grid
from dpsql.sensitivity.weight import WEIGHT_BITS

_ROOT_BITS = 20


def emit_histogram(bounded: Bounded, histogram: Histogram, site: Site) -> str:
    """The SQL of one histogram of a release."""
    grid = histogram.grid
    needed = frozenset().union(*map(columns_of, [grid.expression, *(k.expression for k in bounded.keys)]))
    source = relation_sql(read_by(bounded), needed, site, owned=bounded.rule != "at_rest")
    keys = code_keys(bounded, source)
    rows = _rows(bounded, grid, source, keys)
    if histogram.kept == "rows" or _unowned(bounded):
        names = keys.names
        totals = keys.mapped(_by_rows(site.dialect, histogram, rows, names), ["h"], ["cell"])
    else:
        rows, names = keys.in_rows(rows, ["u", "cell"])
        totals = _by_units(site.dialect, histogram, rows, names)
    shown = ("g",) if keys.code is not None else keys.names
    weight = site.dialect.cast(f"least(h, {LIMIT})", "BIGINT")
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
    if grid.values is None or len(grid.values) <= INLINE:
        return f"SELECT * FROM ({rows}) AS c WHERE cell IS NOT NULL"
    found = lookup(source.dialect, grid.values, grid.expression.type)
    listed = ", ".join([*(["u"] if owner else []), *keys.names, "d.i AS cell"])
    return f"SELECT {listed} FROM ({rows}) AS r JOIN {found} AS d ON r.cell = d.v"


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
    """A unit's weight by the number of its rows or groups here, as in `dpsql.sensitivity.weight`, rounded down."""
    less = dialect.cast(dialect.quotient(dialect.wide(str(histogram.most)), "count(*)"), "BIGINT")
    return f"CASE WHEN count(*) > {histogram.most // ONE} THEN {less} ELSE {ONE} END"


def _clipped(dialect: Dialect, histogram: Histogram, power: str) -> str:
    """A unit's weight by the sum of squares of its numbers in each group, or of its groups.

    **Theorem.** W is at most ONE, and W²·S ≤ most² for the sum of squares S; it fits 64 bits. **Proof.** Where
    S ≤ ⌊(most/ONE)²⌋, W = ONE and ONE²·S ≤ most². Else W = ⌊most·2²⁰/N⌋ with N = ⌊√S·2²⁰·(1+2⁻⁴⁰)⌋ + 1. Turning S
    into a DOUBLE, the root and the product each lose less than 2⁻⁵⁰ of their operand, which 2⁻⁴⁰ makes up for, so
    N > 2²⁰·√S and W·√S ≤ most. There S > (most/ONE)², as S is a whole number, so W is at most ONE as well. For up to
    2⁴² rows S is below 2⁸⁴, and N fits 64 bits; `most` is below 2⁶², and most·2²⁰ is taken in the widest type.
    **Requires** an exact S. **Checked by** `tests/properties/test_choices.py` and the planted bug "ranks are clipped by
    the root of too little".
    """
    above = f"floor(sqrt({dialect.cast(power, 'DOUBLE')}) * {dialect.double(ROUNDED_UP * 2**_ROOT_BITS)})"
    root = f"({dialect.cast(above, 'BIGINT')} + 1)"
    less = dialect.cast(dialect.quotient(dialect.wide(f"'{histogram.most << _ROOT_BITS}'"), root), "BIGINT")
    return f"CASE WHEN {power} > {histogram.most**2 >> 2 * WEIGHT_BITS} THEN {less} ELSE {ONE} END"
