"""Rules `vector` and `norms` in SQL: each unit's vector in whole numbers, clipped to its norm, or counted by it.

Why the clip bounds a release is the theorem of `dpsql.sensitivity.clip`; this is that the SQL keeps to it.

**Theorem (vector).** Whatever is stored, the totals are sums over units of vectors that have a norm of at most C, each
of which depends on the rows of its unit alone, and no step overflows for up to 2⁴² rows.
**Proof.** A cell is a function of exact sums over the rows of one unit in one group: y is compared with its ends before
it is scaled, so z is a whole number in [−C, C] (`cell`). C is below 2²¹: squares are below 2⁴², their sum over the
cells of a unit is exact, and |z|·C fits 64 bits. Where the sum S of squares is at most C² the vector is left alone.
Else N = ⌊√S·(1+2⁻⁴⁰)⌋ + 1 is above the root of S: turning S into a DOUBLE, the root and the product each lose less than
2⁻⁵⁰ of their operand, which 2⁻⁴⁰ makes up for. Under Laplace noise N is the sum of |z| itself. In both cases each cell
becomes sign(z)·⌊|z|·C/N⌋, at most |z|·C/N either way. The totals add up what is left of each unit in each group. Where
a unit has one cell, it is its own norm, and cutting it to [−C, C] is the clip.
**Theorem (norms).** Each unit whose vector is not zero is in one bucket, by its exact norm, and adds a whole number
in [0, b] to its spread. **Proof.** Cells are as above with 2**CELL_BITS for C, and a row adds at most 2**ROW_BITS to
one, so that the sum of squares is at most 2⁵²·2³²·2⁴² = 2¹²⁶. The buckets are branches of one CASE over whole numbers.
The spread is a function of two exact sums over the unit's cells, of which that of squares is not zero; it is cut to
[0, b] as a DOUBLE, hence fits when it becomes a whole number.
**Requires** `Dialect.total` and `Dialect.floored` that are exact, a value of each row within its argument's bounds
(`dpsql.engines.sql.clamp`), groups that are coded before pairs are formed (`Coded.in_rows`), and rows with an owner
that is not NULL (`dpsql.engines.sql.relations`).
**Checked by** `tests/properties/test_vector_clip.py`, `tests/engines/test_vector_engines.py`, and the planted bugs
"a norm of floats", "the clip rounds down below zero", "the clip is forgotten" and "raw scales".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from dpsql.engines.sql.dialect import Dialect
from dpsql.sensitivity.argument import Argument
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.clip import BUCKETS, CELL_BITS, CLIP_BITS, Norm, Vector, largest_in, norms_of
from dpsql.sensitivity.statistics import Part

SQUARE_BITS = 2 * (CLIP_BITS + 1)
ROUNDED_UP = 1 + 2.0**-40


@dataclass(frozen=True, slots=True)
class Cells:
    """The vector of a unit in SQL: for the place of each of its statistics, the exponent that scales it; the most of a
    cell; in which norm it is measured; and whether a unit has one group.
    """

    arguments: tuple[Argument, ...]
    parts: dict[int, Part]
    exponents: dict[int, int]
    most: int
    norm: Norm
    one_group: bool

    @property
    def names(self) -> list[str]:
        """What its columns are called."""
        return [f"z{place}" for place in self.parts]

    @property
    def bits(self) -> int:
        """The bits of the largest cell."""
        return self.most.bit_length()


def clipped_cells(bounded: Bounded) -> Cells:
    """The vector of the main release, on the grid of its clip."""
    assert bounded.vector is not None and bounded.clip is not None
    return _cells(bounded, bounded.vector, bounded.clip.exponents, bounded.clip.bound)


def searched_cells(bounded: Bounded) -> Cells:
    """The only vector of a search, in units of norms."""
    [of] = bounded.clipped
    return _cells(bounded, of.vector, of.vector.scales, 1 << CELL_BITS)


def _cells(bounded: Bounded, vector: Vector, exponents: Sequence[int | None], most: int) -> Cells:
    chosen = {place: exponent for place, exponent in enumerate(exponents) if exponent is not None}
    parts = {place: bounded.statistics[place].part for place in chosen}
    return Cells(bounded.arguments, parts, chosen, most, vector.norm, vector.one_group)


def tightened(bounded: Bounded) -> Bounded:
    """The release with rows clamped to where their cells would be cut, where a row is all of its unit.

    **Theorem.** No cell changes. **Proof.** Only an argument is clamped of which y = v is all that is asked, with
    z = ⌊v/2^k⌋ for k > 0. The clamp takes v to the nearer end of [−C·2^k, (C+1)·2^k − 1], if it is outside, and there z
    is the end of [−C, C] to which it would be cut. An end is a whole number of steps, so a value above it is rounded to
    it or beyond.
    **Requires** a clamp that keeps its ends (`dpsql.engines.sql.clamp`). **Checked by**
    `tests/properties/test_vector_clip.py`.
    """
    assert bounded.clip is not None
    made = list(bounded.arguments)
    for statistic, exponent in zip(bounded.statistics, bounded.clip.exponents, strict=True):
        part = statistic.part
        alone = sum(each.part.argument == part.argument for each in bounded.statistics) == 1
        if exponent is not None and exponent < 0 and alone and (part.alpha, part.beta) == (1, 0):
            it, (low, high) = made[part.argument], _ends(exponent, bounded.clip.bound)
            if it.lower <= high and it.upper >= low:
                made[part.argument] = replace(it, lower=max(it.lower, low), upper=min(it.upper, high))
    return replace(bounded, arguments=tuple(made))


def _ends(exponent: int, most: int) -> tuple[int, int]:
    """The least and the largest y of which the cell is not cut."""
    if exponent >= 0:
        return -(most >> exponent), most >> exponent
    return -(most << -exponent), ((most + 1) << -exponent) - 1


def cell(dialect: Dialect, y: str, exponent: int, most: int, within: tuple[int, int] | None = None) -> str:
    """The cell z = ⌊y·2**exponent⌋ cut to [−most, most], of a whole number y that is known to lie `within` two ends.

    **Theorem.** It is that number, in 64 bits, and nothing overflows, whichever branch is evaluated first. **Proof.**
    For an exponent of at least 0, y·2^e > C if and only if y > ⌊C/2^e⌋, and below 0 likewise. What is left has at most
    as many bits as C; `attempted` gives NULL for what does not fit 32 or 64 bits, whose product with 2^e is taken in a
    type that holds it; where C/2^e is below 1, what is left is 0. For a negative exponent, ⌊y/2^k⌋ > C if and only if
    y ≥ (C + 1)·2^k, and ⌊y/2^k⌋ < −C if and only if y < −C·2^k.
    **Requires** C below 2⁵³, exponents above −64, and a y of 64 bits or of the widest type.
    **Checked by** `tests/properties/test_vector_clip.py`, and the planted bug "raw scales".
    """
    low, high = _ends(exponent, most)
    if high == 0:
        inside = "0"
    elif exponent <= 0:
        inside = dialect.attempted(dialect.floored(y, -exponent) if exponent else y, "HUGEINT", "BIGINT")
    else:
        bits, narrow = (31, "INTEGER") if high < 2**31 else (63, "BIGINT")
        factor = dialect.cast(str(1 << exponent), "BIGINT" if bits + exponent < 63 else "HUGEINT")
        inside = f"{dialect.attempted(y, 'HUGEINT', narrow)} * {factor}"
    if within is None or within[0] < low or within[1] > high:
        ends = _whole(dialect, high), _whole(dialect, low)
        inside = f"CASE WHEN {y} > {ends[0]} THEN {most} WHEN {y} < {ends[1]} THEN -{most} ELSE {inside} END"
    return dialect.cast(inside, "BIGINT")


def _whole(dialect: Dialect, number: int) -> str:
    return str(number) if abs(number) < 2**63 else dialect.wide(f"'{number}'")


def of_row(dialect: Dialect, cells: Cells, place: int, y: str) -> str:
    """The cell of a row that is all of its unit, of a whole number y that is not NULL."""
    part = cells.parts[place]
    it = cells.arguments[part.argument]
    ends = [part.alpha * end + part.beta for end in (it.lower, it.upper)] if part.alpha else [part.beta]
    within = min(0, *ends), max(0, *ends)
    return cell(dialect, dialect.cast(y, "BIGINT"), cells.exponents[place], cells.most, within)


def of_rows(dialect: Dialect, cells: Cells, rows: str, kept: Sequence[str]) -> str:
    """The cells of each row beside the columns that are kept, where a row is all of its unit."""

    def y(part: Part) -> str:
        value = f"v{part.argument}"
        if cells.arguments[part.argument].expression is None:
            return str(part.beta)
        if not part.alpha:
            return f"CASE WHEN {value} IS NOT NULL THEN {part.beta} ELSE 0 END"
        if (part.alpha, part.beta) == (1, 0):
            return f"coalesce({value}, 0)"
        return f"coalesce({part.alpha} * {dialect.cast(value, 'BIGINT')} + ({part.beta}), 0)"

    numbers = [f"{y(part)} AS y{place}" for place, part in cells.parts.items() if not part.units]
    table = f"SELECT {', '.join([*kept, *numbers])} FROM ({rows}{dialect.fence}) AS r"
    return _scaled(dialect, cells, table, kept, lambda place: of_row(dialect, cells, place, f"y{place}"))


def of_pairs(dialect: Dialect, cells: Cells, rows: str, names: Sequence[str]) -> str:
    """The cells of each unit in each of its groups."""

    def y(part: Part) -> str:
        argument, value = cells.arguments[part.argument], f"v{part.argument}"
        total = f"coalesce({dialect.total(value, bits=argument.magnitude.bit_length())}, 0)"
        count = f"count({'*' if argument.expression is None else value})"
        terms = [(part.alpha, total), (part.beta, count)]
        return " + ".join(x if factor == 1 else f"{dialect.wide(str(factor))} * {x}" for factor, x in terms if factor)

    kept = ["u", *names]
    numbers = [f"{y(part)} AS y{place}" for place, part in cells.parts.items() if not part.units]
    pairs = f"SELECT {', '.join([*kept, *numbers])} FROM ({rows}) AS r GROUP BY {', '.join(kept)}"
    return _scaled(dialect, cells, pairs, kept, lambda i: cell(dialect, f"y{i}", cells.exponents[i], cells.most))


def _scaled(dialect: Dialect, cells: Cells, table: str, kept: Sequence[str], z: Callable[[int], str]) -> str:
    """The cells z of a table of numbers y; of a group that a unit is in, y is 1 where units are counted."""
    listed = list(kept)
    for place, part in cells.parts.items():
        exponent = cells.exponents[place]
        one = dialect.cast(str(min(1 << exponent, cells.most) if exponent >= 0 else 0), "BIGINT")
        listed.append(f"{one if part.units else z(place)} AS z{place}")
    return f"SELECT {', '.join(listed)} FROM ({table}) AS y"


# the clip -------------------------------------------------------------------------------------------------------------


def clipped_rows(dialect: Dialect, cells: Cells, table: str, kept: Sequence[str]) -> str:
    """Vectors that lie in one row each, clipped."""
    if len(cells.parts) == 1:
        return table
    if cells.norm == "l2":
        power = " + ".join(f"{z} * {z}" for z in cells.names)
        power = dialect.wide(power) if SQUARE_BITS + len(cells.parts).bit_length() > 62 else f"({power})"
    else:
        power = f"({' + '.join(f'abs({z})' for z in cells.names)})"
    columns, divisor, fence = [*kept, *cells.names], _divisor(dialect, cells), dialect.fence
    measured = f"SELECT {', '.join([*columns, f'{power} AS power'])} FROM ({table}{fence}) AS c"
    bounded = f"SELECT {', '.join([*columns, f'{divisor} AS n'])} FROM ({measured}{fence}) AS m"
    shrunk = [f"{_shrunk(dialect, cells.most, z)} AS {z}" for z in cells.names]
    return f"SELECT {', '.join([*kept, *shrunk])} FROM ({bounded}{fence}) AS b"


def norms(dialect: Dialect, cells: Cells, others: Sequence[str] = ()) -> str:
    """The table `w` over the pairs `p`: for each unit the divisor of its clip, NULL where it is left alone."""
    power = _power(dialect, cells)
    listed = ", ".join(["u", *others, f"{power} AS power"])
    measured = f"SELECT {listed} FROM p GROUP BY u"
    kept = [other.rsplit(" AS ", 1)[-1] for other in others]
    return f"SELECT {', '.join(['u', *kept, f'{_divisor(dialect, cells)} AS n'])} FROM ({measured}) AS m"


def clipped_pairs(dialect: Dialect, cells: Cells, names: Sequence[str]) -> str:
    """The totals by group of the pairs `p`, each unit clipped by its divisor in `w`."""
    listed = [*names, *totals(dialect, cells, lambda z: _shrunk(dialect, cells.most, z))]
    group = f" GROUP BY {', '.join(names)}" if names else ""
    return f"SELECT {', '.join(listed)} FROM p JOIN w USING (u){group}"


def totals(dialect: Dialect, cells: Cells, value: Callable[[str], str] = str) -> list[str]:
    """The totals of clipped cells: `t` and the place of each."""
    return [f"{dialect.total(value(f'z{place}'), bits=CLIP_BITS + 1)} AS t{place}" for place in cells.parts]


def _power(dialect: Dialect, cells: Cells) -> str:
    """The exact sum of squares, or of absolute values, over the cells of a unit."""
    if cells.norm == "l1":
        return " + ".join(dialect.total(f"abs({z})", bits=cells.bits) for z in cells.names)
    return " + ".join(_squares(dialect, z, cells.bits) for z in cells.names)


def _squares(dialect: Dialect, z: str, bits: int) -> str:
    if 2 * bits <= 62:
        return dialect.total(f"{z} * {z}", bits=2 * bits)
    return dialect.total(f"{dialect.wide(z)} * {z}")


def _divisor(dialect: Dialect, cells: Cells) -> str:
    """N, of a unit with the column `power`; NULL where its norm is within the bound."""
    if cells.norm == "l1":
        return f"CASE WHEN power > {cells.most} THEN {dialect.cast('power', 'BIGINT')} END"
    root = f"floor(sqrt({dialect.cast('power', 'DOUBLE')}) * {dialect.double(ROUNDED_UP)})"
    above = dialect.cast(root, "BIGINT")
    return f"CASE WHEN power > {_whole(dialect, cells.most**2)} THEN {above} + 1 END"


def _shrunk(dialect: Dialect, most: int, z: str) -> str:
    """sign(z)·⌊|z|·C/N⌋ by the column `n`, or z where that is NULL."""
    quotient = dialect.cast(dialect.quotient(f"(abs({z}) * {most})", "n"), "BIGINT")
    return f"CASE WHEN n IS NULL THEN {z} WHEN {z} < 0 THEN -{quotient} ELSE {quotient} END"


# the search -----------------------------------------------------------------------------------------------------------


def histogram(dialect: Dialect, cells: Cells, table: str, width: int, *, alone: bool) -> str:
    """The units by the bucket `g` of their norm: their number times what each adds `t0`, and their spread `t1`.

    `width` is the number of cells of a vector; with `alone` a row of the table is all of its unit.
    """
    adds, single = norms_of(cells.norm, width), alone and len(cells.parts) == 1
    lengths = " + ".join(f"abs({z})" if alone else dialect.total(f"abs({z})", bits=cells.bits) for z in cells.names)
    squares = " + ".join(f"{dialect.wide(z)} * {z}" if alone else _squares(dialect, z, cells.bits) for z in cells.names)
    norm: Norm = "l1" if single else cells.norm
    shown, sums = [f"{bucket(dialect, norm)} AS g"], [f"count(*) * {adds.count} AS t0"]
    if adds.spread:
        shown.append(f"{'0' if single else _spread(dialect, adds.spread, width)} AS share")
        sums.append(f"{dialect.total('share', bits=adds.spread.bit_length())} AS t1")
    listed = [f"{lengths if norm == 'l1' else squares} AS power", f"{lengths} AS len"]
    units = f"SELECT {', '.join(listed)} FROM ({table}{dialect.fence}) AS c{'' if alone else ' GROUP BY u'}"
    placed = f"SELECT {', '.join(shown)} FROM ({units}{dialect.fence}) AS n WHERE power > 0"
    return f"SELECT {', '.join(['g', *sums])} FROM ({placed}) AS b GROUP BY g"


def bucket(dialect: Dialect, norm: Norm) -> str:
    """The bucket of a unit with the column `power`, by about seven comparisons."""
    ends = [largest_in(h) if norm == "l1" else 1 << h for h in range(BUCKETS - 1)]

    def among(first: int, last: int) -> str:
        if first == last:
            return str(first)
        middle = (first + last) // 2
        end = _whole(dialect, ends[middle])
        return f"CASE WHEN power <= {end} THEN {among(first, middle)} ELSE {among(middle + 1, last)} END"

    return among(0, BUCKETS - 1)


def _spread(dialect: Dialect, most: int, width: int) -> str:
    """⌊b·t⌋ for t = (‖z‖₁/‖z‖₂ − 1)/(√cells − 1), cut to [0, 1]."""
    ratio = f"{dialect.cast('len', 'DOUBLE')} / sqrt({dialect.cast('power', 'DOUBLE')})"
    scaled = f"({ratio} - 1) * {dialect.double(most / (sqrt(width) - 1))}"
    cut = f"CASE WHEN {scaled} >= {most} THEN {most} WHEN {scaled} > 0 THEN floor({scaled}) ELSE 0 END"
    return dialect.cast(cut, "BIGINT")
