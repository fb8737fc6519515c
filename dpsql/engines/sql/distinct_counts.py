"""COUNT(DISTINCT x) in SQL: each unit's own pairs of group and value, cut to its bound, and then the values together.

Only units that have more pairs than they may keep are sorted. Why a cap bounds the count is the theorem of
`dpsql.sensitivity.distinct`; this is that the SQL keeps to it.

**Theorem.** The emitted query counts, in each group, the different values of the union of sets K_u, one for each unit,
of which each has at most `most` pairs (group, value), or with `squared` numbers of pairs in each group of which the sum
of squares is at most `most`, and depends on the rows of u and the salt alone.
**Proof.** `p` has each pair of a unit once, with values of one spelling (`one_zero`) and without NULL. A unit is in
`many` by its own rows in `p` only, and then keeps the first of its pairs in the order of (hash, pair), which is total
since pairs differ: `most` of them, or those with `place` ≤ `most`. There the i-th pair of a group adds 2i − 1 to the
`place` of itself and all that follow, and 1 + 3 + … + (2n − 1) = n²: so `place` is the sum of squares up to the pair,
in whole numbers, and grows. Any other unit is within `most`, and keeps all its pairs. Both parts are put together
before values of different units meet, in `count(DISTINCT x)`. By rule `row` or `single_row` a unit has one row,
hence one pair. Where all pairs of a unit are in one group, n² ≤ C² is n ≤ C.
**Theorem (norms).** `numbers` has for each unit and group of it the number of its different values, before any is left
out. **Proof.** `p` has each pair once.
**Requires** a unit that is not NULL and one spelling for equal units (`dpsql.engines.sql.relations`), and an engine
that evaluates `p` alike each time: its rows are a function of the data, in no order.
**Checked by** `tests/properties/test_distinct.py`, and the planted bugs "distinct values are counted before the cap",
"the cap of distinct values is one too many" and "a unit that is just over the cap keeps all its values"; and by
`tests/properties/test_distinct_norms.py`, with the planted bug "distinct pairs are kept before the norm".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.from_item import From
from dpsql.engines.sql.key_codes import Coded
from dpsql.expressions.types import DOUBLE
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.clip import Clip
from dpsql.sensitivity.distinct import most_values
from dpsql.sensitivity.statistics import Part


def distinct_totals(bounded: Bounded, source: From, keys: Coded, salt: str) -> list[str]:
    """For each COUNT(DISTINCT) a query with the groups and the column `c` and the argument's number."""
    owned = not (bounded.release.source.by_row or bounded.release.source.single)
    clips = {each.clip.members: each.clip for each in bounded.clipped if each.clip is not None}
    made = []
    for place, part in ((place, s.part) for place, s in enumerate(bounded.statistics) if s.part.distinct):
        clip, pairs = clips.get((place,)), _pairs(bounded, part, source, keys, owned=owned)
        most = Most(part.row, False) if clip is None else _most(clip, one_group=all(k.attribute for k in bounded.keys))
        names = shown_names(keys)
        kept = _kept(keys.dialect, pairs, names, most, salt) if owned else pairs
        listed = [*names, f"count(DISTINCT x) AS c{part.argument}"]
        made.append(f"SELECT {', '.join(listed)} FROM ({kept}) AS k{_group(names)}")
    return made


def numbers(bounded: Bounded, source: From, keys: Coded) -> str:
    """The number `z0` of different values of each unit in each of its groups, of the only argument of a release."""
    names = shown_names(keys)
    pairs = _pairs(bounded, bounded.statistics[0].part, source, keys, owned=True)
    listed = ["u", *names]
    return f"SELECT {', '.join(listed)}, count(*) AS z0 FROM ({pairs}) AS p{_group(listed)}"


@dataclass(frozen=True, slots=True)
class Most:
    """What a unit may keep: so many pairs, or with `squared` numbers in each group whose squares have this sum."""

    most: int
    squared: bool


def _most(clip: Clip, *, one_group: bool) -> Most:
    most = most_values(clip)
    if clip.norm == "l2" and one_group:
        return Most(isqrt(most), squared=False)
    return Most(most, squared=clip.norm == "l2")


def _group(names: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(names)}" if names else ""


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


def _kept(dialect: Dialect, pairs: str, names: Sequence[str], most: Most, salt: str) -> str:
    """The pairs that each unit may keep, those of the least hash."""
    listed, many = ", ".join([*names, "x"]), "SELECT 1 FROM many WHERE many.u = p.u"
    hashed = dialect.scrambled(salt, ["u", *names, "x"])
    if most.squared:
        numbers = f"SELECT u, count(*) AS n FROM p{_group(['u', *names])}"
        squares = dialect.total(f"{dialect.wide('n')} * n")
        over = f"SELECT u FROM ({numbers}) AS n GROUP BY u HAVING {squares} > {most.most}"
        chosen = _by_squares(dialect, f"SELECT u, {listed}, {hashed} AS h FROM p WHERE EXISTS ({many})", names)
    else:
        over = f"SELECT u FROM p GROUP BY u HAVING count(*) > {most.most}"
        place = f"row_number() OVER (PARTITION BY u ORDER BY {hashed}, {listed}) AS place"
        chosen = f"SELECT {listed}, {place} FROM p WHERE EXISTS ({many})"
    return (
        f"WITH p AS {dialect.kept}({pairs}), many AS ({over}), chosen AS ({chosen}) "
        f"SELECT {listed} FROM p WHERE NOT EXISTS ({many}) "
        f"UNION ALL SELECT {listed} FROM chosen WHERE place <= {most.most}"
    )


def _by_squares(dialect: Dialect, hashed: str, names: Sequence[str]) -> str:
    """Pairs with the sum of squares, over groups, of the numbers of a unit's pairs up to each of them."""
    listed = ", ".join([*names, "x"])
    each = f"row_number() OVER (PARTITION BY {', '.join(['u', *names])} ORDER BY h, x) AS i"
    window = f" OVER (PARTITION BY u ORDER BY h, {listed} ROWS UNBOUNDED PRECEDING)"
    place = dialect.total(f"2 * {dialect.cast('i', 'BIGINT')} - 1", window, bits=43)
    return f"SELECT {listed}, {place} AS place FROM (SELECT u, {listed}, h, {each} FROM ({hashed}) AS h) AS i"
