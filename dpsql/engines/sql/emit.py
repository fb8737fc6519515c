"""Write the SQL of a priced release: one query that returns integers only.

The shape follows the rule: `row`, `single_row` and `at_rest` aggregate the rows as they are; `one_group` first adds up
each unit; `clip` gives each unit a weight and joins it back (no window function); private keys also get their selection
weight. Where a copy has the units with too many rows apart, only those are weighed. By the rule `vector` each unit is
clipped as a whole, and by the rule `norms` it is counted by its norm (`dpsql.engines.sql.vector_clip`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from dpsql.budget.pricing import Priced
from dpsql.engines.sql import vector_clip
from dpsql.engines.sql.clamp import clamped, on_steps, pieces
from dpsql.engines.sql.dialect import Dialect, Site
from dpsql.engines.sql.distinct_counts import distinct_totals, numbers, shown_names
from dpsql.engines.sql.from_item import From
from dpsql.engines.sql.key_codes import Coded, code_keys
from dpsql.engines.sql.relations import relation_sql
from dpsql.expressions.expression import Column, columns_of
from dpsql.plan.at_rest import reading
from dpsql.plan.nodes.relation import Relation, Scan
from dpsql.sensitivity.at_rest_rule import parts_at_rest
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.selection import Selection
from dpsql.sensitivity.unit_weight import WEIGHT_BITS, Term

ONE = 1 << WEIGHT_BITS
LIMIT = 2**62
"""Totals are clamped to this before they leave the engine; it moves nothing real, and a clamp never adds distance."""


def emit(priced: Priced, site: Site, salt: str) -> str:
    """The SQL of one release, which adds up or selects something: key columns (or one code `g` for public keys), then
    one integer per statistic.
    """
    bounded = priced.bounded
    if bounded.searched is not None:
        listed = ["g", *_statistics(site.dialect, priced)]
        return f"SELECT {', '.join(listed)} FROM ({_norms(bounded.searched, site)}) AS z"
    source, keys = _base(bounded, site)
    names = shown_names(keys)
    different = distinct_totals(bounded, source, keys, salt)
    totals = [_bounded(bounded, site, salt)] if _totals(bounded) or not different else []
    selected = [] if bounded.selection is None else ["selected"]
    if selected and bounded.public:
        selected = [f"{site.dialect.cast('coalesce(selected, 0)', 'BIGINT')} AS selected"]
    listed = [*names, *selected, *_statistics(site.dialect, priced)]
    together = _together(site.dialect, bounded, names, totals, different)
    return f"SELECT {', '.join(listed)} FROM ({together}) AS z"


def _bounded(bounded: Bounded, site: Site, salt: str) -> str:
    """All that is added up, each unit within its bound.

    **Theorem.** Where a copy has the units with too many rows apart, the totals are those of the table itself.
    **Proof.** By the theorem "apart" (`dpsql.plan.at_rest`) each unit's rows are in one part. In `within` a unit has at
    most `rows` rows, so its number of rows is at most that, its total at most rows · M, and its weight one: its rows
    count as they are, in units of 2**-WEIGHT_BITS. In `over` its weight is computed from the same rows as ever.
    **Requires** terms on rows only: not on groups. **Checked by** `tests/properties/test_at_rest.py`.
    """
    apart = parts_at_rest(bounded)
    if apart is None:
        read = on_steps(_over(bounded, read_by(bounded)))
        return _added(read, *_base(read, site, owned=bounded.rule != "at_rest"), salt)
    within, over = (on_steps(_over(bounded, source)) for source in apart)
    source, keys = _base(within, site, owned=False)
    names, totals = shown_names(keys), _totals(bounded)
    scaled = ", ".join([*names, *(f"{site.dialect.wide(total)} * {ONE} AS {total}" for total in totals)])
    plain, weighed = _plain(within, source, keys), _added(over, *_base(over, site), salt)
    union = f"SELECT {scaled} FROM ({plain}) AS i UNION ALL SELECT {', '.join([*names, *totals])} FROM ({weighed}) AS o"
    sums = [f"{site.dialect.total(total)} AS {total}" for total in totals]
    return f"SELECT {', '.join([*names, *sums])} FROM ({union}) AS b{_group(names)}"


def _over(bounded: Bounded, source: Relation) -> Bounded:
    return replace(bounded, release=replace(bounded.release, source=source))


def _added(bounded: Bounded, source: From, keys: Coded, salt: str) -> str:
    """All that is added up over rows or units, by the rule that bounds it."""
    match bounded.rule:
        case "row" | "single_row" | "at_rest":
            return _plain(bounded, source, keys)
        case "vector":
            return _vector(bounded, source, keys, salt)
        case "one_group":
            return _one_group(bounded, source, keys)
        case _ if bounded.selection is not None or any(s.part.units for s in bounded.statistics):
            return _clip_pairs(bounded, source, keys, salt)
    return _clip_rows(bounded, source, keys)


def _together(
    dialect: Dialect, bounded: Bounded, names: Sequence[str], totals: Sequence[str], different: Sequence[str]
) -> str:
    """Tables of the same groups side by side; a column is in one of them only, so adding it up changes nothing."""
    if len(totals) + len(different) == 1:
        return [*totals, *different][0]
    added = _totals(bounded)
    counts = [f"c{s.part.argument}" for s in bounded.statistics if s.part.distinct]
    owners = [*([added] if totals else []), *([count] for count in counts)]
    union = " UNION ALL ".join(
        f"SELECT {', '.join([*names, *(_or_null(dialect, c, own) for c in [*added, *counts])])} FROM ({table}) AS t"
        for table, own in zip([*totals, *different], owners, strict=True)
    )
    sums = [f"{dialect.total(column)} AS {column}" for column in [*added, *counts]]
    if bounded.selection is not None:
        sums[0] = f"{_selected_total(dialect, 'selected')} AS selected"
    return f"SELECT {', '.join([*names, *sums])} FROM ({union}) AS a{_group(names)}"


def _or_null(dialect: Dialect, column: str, own: Sequence[str]) -> str:
    """A column of a table, or NULL under its name."""
    return column if column in own else f"{dialect.cast('NULL', 'HUGEINT')} AS {column}"


def _selected_total(dialect: Dialect, column: str) -> str:
    return dialect.cast(f"coalesce({dialect.total(column)}, 0)", "BIGINT")


def _base(bounded: Bounded, site: Site, *, owned: bool = True) -> tuple[From, Coded]:
    """The rows and their keys; of a copy in which all rows have owners, these need not be found."""
    arguments = [a.expression for a in bounded.arguments if a.expression is not None]
    needed = frozenset().union(*map(columns_of, [*(k.expression for k in bounded.keys), *arguments]))
    source = relation_sql(bounded.release.source, needed, site, owned=owned)
    return source, code_keys(bounded, source)


def read_by(bounded: Bounded) -> Relation:
    """What a release reads: by rule `at_rest` the copy."""
    source = bounded.release.source
    return reading(source, "within") if bounded.rule == "at_rest" else source


def _statistics(dialect: Dialect, priced: Priced) -> list[str]:
    """α·Σ + β·n, of which α or β is not zero, floored to the noise grid."""
    listed = []
    for number, (statistic, noised) in enumerate(zip(priced.bounded.statistics, priced.noised, strict=True)):
        part = statistic.part
        if number in _clipped(priced.bounded):
            total = dialect.wide(f"coalesce(t{number}, 0)")
        elif not part.weighed:
            steps = _steps(priced.bounded, number)
            total = f"coalesce({'units' if part.units else f'c{part.argument}'}, 0)"
            total = dialect.wide(total) if steps == 1 else f"({dialect.wide(str(steps))} * {total})"
        else:
            terms = [f"{dialect.wide(str(factor))} * coalesce({name}{part.argument}, 0)"
                     for factor, name in ((part.alpha, "s"), (part.beta, "n")) if factor]  # fmt: skip
            total = f"({' + '.join(terms)})"
        floored = dialect.floored(total, noised.shift) if noised.shift else total
        listed.append(f"{dialect.cast(f'greatest(least({floored}, {LIMIT}), -{LIMIT})', 'BIGINT')} AS z{number}")
    return listed


def _steps(bounded: Bounded, number: int) -> int:
    """How many steps of the grid a different value is."""
    clips = [each.clip for each in bounded.clipped if each.vector.distinct and each.clip is not None]
    return next((1 << (clip.exponents[number] or 0) for clip in clips if number in clip.members), 1)


def _clipped(bounded: Bounded) -> Collection[int]:
    """The statistics that are totals of clipped vectors, or of norms."""
    if bounded.searched is not None:
        return range(len(bounded.statistics))
    return () if bounded.vector is None else bounded.vector.members


def _needs(bounded: Bounded) -> list[tuple[int, bool, bool]]:
    """For each argument: is its sum needed, is its count needed (by a statistic)?"""
    parts = [s.part for s in bounded.statistics if s.part.weighed]
    return [(i, any(p.alpha for p in parts if p.argument == i), any(p.beta for p in parts if p.argument == i))
            for i in dict.fromkeys(p.argument for p in parts)]  # fmt: skip


def _value(bounded: Bounded, index: int, source: From, *, summed: bool, otherwise: str = "NULL") -> str:
    """The argument of a row as an integer; where it has none NULL, or what else adds nothing to a sum."""
    argument = bounded.arguments[index]
    if argument.expression is None:
        return "1"
    value = source.render(argument.expression)
    if summed:
        return clamped(source.dialect, argument, value, otherwise=otherwise)
    if argument.domain.nan:
        return f"CASE WHEN {value} <= {source.dialect.double(math.inf)} THEN 1 END"
    return f"CASE WHEN {value} IS NOT NULL THEN 1 END"


def _group(names: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(names)}" if names else ""


def _totals(bounded: Bounded) -> list[str]:
    """The names of the exact totals, as they are added up."""
    names = ["selected"] if bounded.selection is not None else []
    if bounded.vector is not None:
        return [*names, *(f"t{place}" for place in bounded.vector.members)]
    names += ["units"] if any(s.part.units for s in bounded.statistics) else []
    for index, sums, counts in _needs(bounded):
        names += [f"s{index}"] if sums else []
        names += [f"n{index}"] if counts else []
    return names


def _plain(bounded: Bounded, source: From, keys: Coded) -> str:
    """Rules `row`, `single_row` and `at_rest`: one pass over the rows.

    Keys are grouped by place: GROUP BY a name would take a stored column of that name before the key.
    """
    if source.dialect.scans_by_piece and _is_column_sum(bounded):
        return _column_sum(bounded, source)
    listed, dialect = [*keys.listed, *_per_unit(bounded)], source.dialect
    for index, sums, counts in _needs(bounded):
        argument = bounded.arguments[index]
        value = _value(bounded, index, source, summed=sums, otherwise="NULL" if counts else "0")
        if sums:
            listed.append(f"{dialect.total(value, bits=_bits(bounded, index))} AS s{index}")
        if counts:
            listed.append(f"count({'*' if argument.expression is None else value}) AS n{index}")
    places = [str(i + 1) for i in range(len(keys.names))]
    totals = f"SELECT {', '.join(listed)} FROM {source.source}{source.conditions}{_group(places)}"
    return keys.mapped(totals, _totals(bounded))


def _is_column_sum(bounded: Bounded) -> bool:
    """Is all that is asked the SUM of one stored column?"""
    needs, plain = _needs(bounded), isinstance(bounded.release.source, Scan)
    if bounded.keys or len(bounded.statistics) != 1 or len(needs) != 1 or not plain:
        return False
    [(index, sums, counts)] = needs
    return sums and not counts and isinstance(bounded.arguments[index].expression, Column)


def _column_sum(bounded: Bounded, source: From) -> str:
    """A scan for each piece of the clamp in place of CASE, which costs more than the sum itself.

    The conditions are on a stored column, so DuckDB checks them while it reads, and leaves out the scan where its
    statistics exclude them: of values that keep to their bounds only one scan is left.
    """
    [(index, _, _)], [name] = _needs(bounded), _totals(bounded)
    argument = bounded.arguments[index]
    assert argument.expression is not None
    dialect = source.dialect
    cell = (
        str if bounded.vector is None else partial(vector_clip.of_row, dialect, vector_clip.clipped_cells(bounded), 0)
    )
    inside, *outside = pieces(dialect, argument, source.render(argument.expression))
    scans = [(dialect.total(cell(inside.result), bits=_bits(bounded, index)), inside.condition)]
    scans += [(f"count(*) * {dialect.wide(cell(p.result))}", p.condition) for p in outside if p.result != "0"]
    union = " UNION ALL ".join(
        f"SELECT {total} AS s FROM {source.source} WHERE {' AND '.join([*source.where, condition])}"
        for total, condition in scans
    )
    return f"SELECT {dialect.total('s')} AS {name} FROM ({union}) AS p"


def _per_unit(bounded: Bounded) -> list[str]:
    """What each unit adds once, where a row is a unit."""
    listed = [f"count(*) * {bounded.selection.one} AS selected"] if bounded.selection is not None else []
    return listed + (["count(*) AS units"] if any(s.part.units for s in bounded.statistics) else [])


def _rows(bounded: Bounded, source: From, keys: Coded, *, zero: Collection[int] = (), owned: bool = True) -> str:
    """Each row as its unit, its keys, and its integers: of some arguments zero where a row has none."""
    listed = [*([f"{source.unit} AS u"] if owned else []), *keys.listed]
    for i, sums, _ in _valued(bounded):
        value = _value(bounded, i, source, summed=sums, otherwise="0" if i in zero else "NULL")
        listed.append(f"{value} AS v{i}")
    return f"SELECT {', '.join(listed)} FROM {source.source}{source.conditions}"


def _valued(bounded: Bounded) -> list[tuple[int, bool, bool]]:
    """What is needed of the arguments that have a value of their own in each row."""
    return [need for need in _needs(bounded) if bounded.arguments[need[0]].expression is not None]


def _summed_only(bounded: Bounded, terms: Sequence[Term]) -> set[int]:
    """The arguments of which nobody asks in how many rows they are, so that zero does for NULL, and costs less."""
    counted = {argument for term in terms if term.kind == "count" for argument in (term.argument, *term.others)}
    return {index for index, _, counts in _valued(bounded) if not counts and index not in counted}


def _bits(bounded: Bounded, index: int) -> int:
    """The bits of what a row adds, without its sign."""
    return bounded.arguments[index].magnitude.bit_length()


def _values(bounded: Bounded) -> list[str]:
    return [f"v{index}" for index, _, _ in _valued(bounded)]


def _pairs(dialect: Dialect, bounded: Bounded, rows: str, names: Sequence[str]) -> str:
    """Each (unit, group) with its exact sums and counts."""
    listed = ["u", *names, "count(*) AS n"]
    for index, sums, _ in _needs(bounded):
        if bounded.arguments[index].expression is None:
            continue
        listed += [f"{dialect.total(f'v{index}', bits=_bits(bounded, index))} AS s{index}"] if sums else []
        listed.append(f"count(v{index}) AS n{index}")
    return f"SELECT {', '.join(listed)} FROM ({rows}) AS r GROUP BY {', '.join(['u', *names])}"


def _weight(dialect: Dialect, terms: Sequence[Term], total: dict[str, str]) -> str:
    """W = min(1, cap/T) in units of 2**-WEIGHT_BITS, rounded down, over all terms."""
    weights = []
    for term in terms:
        t = total[term.kind].format(i=term.argument)
        if term.others:
            each = [t, *(total[term.kind].format(i=other) for other in term.others)]
            t = f"({' + '.join(f'coalesce({one}, 0)' for one in each)})"
        less = dialect.cast(dialect.quotient(dialect.wide(str(term.cap << WEIGHT_BITS)), t), "BIGINT")
        weights.append(f"CASE WHEN {t} > {term.cap} THEN {less} ELSE {ONE} END")
    return weights[0] if len(weights) == 1 else f"least({', '.join(weights)})"


def _weighted(dialect: Dialect, bounded: Bounded, *, rows: bool) -> list[str]:
    """The totals of the weighted statistics, over rows or over (unit, group) pairs."""
    listed = []
    for index, sums, counts in _needs(bounded):
        whole = bounded.arguments[index].expression is None
        if sums:
            value, wide = f"{'v' if rows else 's'}{index}", bounded.arguments[index].magnitude >= 2**32
            value, bits = dialect.wide(value) if wide else value, _bits(bounded, index) + WEIGHT_BITS
            listed.append(f"{dialect.total(f'{value} * w', bits=bits if rows and not wide else None)} AS s{index}")
        if counts and rows:
            weight = "w" if whole else f"CASE WHEN v{index} IS NOT NULL THEN w END"
            listed.append(f"{dialect.total(weight, bits=ONE.bit_length())} AS n{index}")
        elif counts:
            weight = f"{dialect.wide('n' if whole else f'n{index}')} * w"
            listed.append(f"{dialect.total(weight)} AS n{index}")
    return listed


def _one_group(bounded: Bounded, source: From, keys: Coded) -> str:
    """Rule `one_group`: add up each unit, weigh the totals, add up the units."""
    dialect = source.dialect
    listed = [*keys.names, *_per_unit(bounded), *_weighted(dialect, bounded, rows=False)]
    pairs = _pairs(dialect, bounded, _rows(bounded, source, keys), keys.names)
    if bounded.weight is not None and bounded.weight.terms:
        w = _weight(dialect, bounded.weight.terms, {"rows": "n", "count": "n{i}", "sum": "abs(s{i})"})
        pairs = f"SELECT *, {w} AS w FROM ({pairs}) AS u"
    totals = f"SELECT {', '.join(listed)} FROM ({pairs}) AS p{_group(keys.names)}"
    return keys.mapped(totals, _totals(bounded))


def _vector(bounded: Bounded, source: From, keys: Coded, salt: str) -> str:
    """Rule `vector`: the cells of each unit, clipped together, and added up by group."""
    by_row = bounded.release.source.by_row or bounded.release.source.single
    bounded = vector_clip.tightened(bounded) if by_row else bounded
    dialect, cells = source.dialect, vector_clip.clipped_cells(bounded)
    if by_row and dialect.scans_by_piece and _is_column_sum(bounded):
        return _column_sum(bounded, source)
    rows = _rows(bounded, source, keys, zero=_summed_only(bounded, ()), owned=not by_row)
    if not (by_row or cells.one_group):
        rows, names = keys.in_rows(rows, ["u", *_values(bounded)])
        groups = [] if bounded.selection is None else ["count(*) AS groups"]
        pairs = vector_clip.of_pairs(dialect, cells, rows, names)
        head = f"WITH p AS ({pairs}), w AS ({vector_clip.norms(dialect, cells, groups)})"
        added = vector_clip.clipped_pairs(dialect, cells, names)
        return _beside_selected(dialect, bounded, names, head, added, salt)
    made = (vector_clip.of_rows if by_row else vector_clip.of_pairs)(dialect, cells, rows, keys.names)
    clipped = vector_clip.clipped_rows(dialect, cells, made, keys.names)
    selected = [f"count(*) * {bounded.selection.one} AS selected"] if bounded.selection is not None else []
    listed = [*keys.names, *selected, *vector_clip.totals(dialect, cells)]
    return keys.mapped(f"SELECT {', '.join(listed)} FROM ({clipped}) AS p{_group(keys.names)}", _totals(bounded))


def _norms(searched: Bounded, site: Site) -> str:
    """Rule `norms`: the units of a release by the norms of their vectors, before they are clipped."""
    [of], dialect = searched.clipped, site.dialect
    source, keys = _base(searched, site)
    cells = vector_clip.searched_cells(searched)
    if of.vector.distinct:
        table = numbers(searched, source, keys)
        return vector_clip.histogram(dialect, cells, table, of.vector.cells, alone=cells.one_group)
    by_row = searched.release.source.by_row or searched.release.source.single
    rows = _rows(searched, source, keys, zero=_summed_only(searched, ()), owned=not by_row)
    rows, names = keys.in_rows(rows, [*([] if by_row else ["u"]), *_values(searched)])
    made = (
        vector_clip.of_rows(dialect, cells, rows, ()) if by_row else vector_clip.of_pairs(dialect, cells, rows, names)
    )
    return vector_clip.histogram(dialect, cells, made, of.vector.cells, alone=by_row or cells.one_group)


def _clip_rows(bounded: Bounded, source: From, keys: Coded) -> str:
    """Rule `clip`: a weight per unit from its own rows, joined back to them (recomputed: cheaper than keeping them)."""
    assert bounded.weight is not None
    dialect, terms = source.dialect, bounded.weight.terms
    rows = _rows(bounded, source, keys, zero=_summed_only(bounded, terms))
    total = dialect.total("abs(v{i})", bits=max((_bits(bounded, i) for i, _, _ in _valued(bounded)), default=1))
    w = _weight(dialect, terms, {"rows": "count(*)", "count": "count(v{i})", "sum": total})
    listed = [*keys.names, *_weighted(dialect, bounded, rows=True)]
    totals = (
        f"WITH c AS {dialect.recomputed}({rows}), w AS (SELECT u, {w} AS w FROM c GROUP BY u) "
        f"SELECT {', '.join(listed)} FROM {dialect.weighed('c')}{_group(keys.names)}"
    )
    return keys.mapped(totals, _totals(bounded))


def _clip_pairs(bounded: Bounded, source: From, keys: Coded, salt: str) -> str:
    """Rule `clip` over (unit, group) pairs: where groups are counted or private keys selected."""
    dialect = source.dialect
    totals = {"rows": "sum(n)", "groups": "count(*)", "count": "sum(n{i})", "sum": dialect.total("abs(s{i})")}
    terms = bounded.weight.terms if bounded.weight is not None else ()
    w = f", {_weight(dialect, terms, totals)} AS w" if terms else ""
    rows, names = keys.in_rows(_rows(bounded, source, keys), ["u", *_values(bounded)])
    units = f"{dialect.total('w', bits=ONE.bit_length())} AS units"
    listed = [*names, *([units] if any(s.part.units for s in bounded.statistics) else [])]
    listed += _weighted(dialect, bounded, rows=False)
    head = (
        f"WITH p AS ({_pairs(dialect, bounded, rows, names)}), w AS (SELECT u, count(*) AS groups{w} FROM p GROUP BY u)"
    )
    added = f"SELECT {', '.join(listed)} FROM p JOIN w USING (u){_group(names)}"
    return _beside_selected(dialect, bounded, names, head, added, salt)


def _beside_selected(dialect: Dialect, bounded: Bounded, names: Sequence[str], head: str, added: str, salt: str) -> str:
    """Totals over the pairs `p` and units `w` of a WITH clause, and for private keys their selection beside them."""
    if bounded.selection is None:
        return f"{head} {added}"
    sums = _totals(bounded)[1:]
    shown = [*names, f"{_selected_total(dialect, 'weight')} AS selected"]
    shown += [f"{dialect.total(total)} AS {total}" for total in sums]
    beside = ", ".join([*names, f"{dialect.cast('NULL', 'BIGINT')} AS weight", *sums])
    chosen = ", ".join([*names, "weight", *(_or_null(dialect, total, ()) for total in sums)])
    both = f"SELECT {beside} FROM ({added}) AS a UNION ALL SELECT {chosen} FROM q"
    selected = _selected(dialect, bounded.selection, names, salt)
    return f"{head}, {selected}, t AS ({both}) SELECT {', '.join(shown)} FROM t{_group(names)}"


def _selected(dialect: Dialect, selection: Selection, names: Sequence[str], salt: str) -> str:
    """The table `q`: the groups to which each unit gives weight, `selection.groups` of them at most, least hash first.

    Without weights each unit gives to all of its groups, so much that its norm is that of one.
    Sorting is what costs, so where hashes are numbers a unit with many groups first drops those whose hash is above a
    bound of its own: three times as many as it may keep are left, and eight. With a chance below 0.002% too few are
    left, and it gives less.
    """
    listed = ", ".join(names)
    if not selection.weights:
        groups = dialect.cast("groups", "DOUBLE")
        share = f"{dialect.double(selection.one)} / {groups if selection.norm == 'l1' else f'sqrt({groups})'}"
        weight = dialect.cast(f"floor({share})", "BIGINT")
        return f"q AS (SELECT {listed}, {weight} AS weight FROM p JOIN w USING (u))"
    kept = f"row_number() OVER (PARTITION BY u ORDER BY h, {listed}) <= {selection.groups}"
    weight = dialect.pick(selection.weights, f"least(groups, {selection.groups})")
    reach = dialect.reach("groups", 3 * selection.groups + 8)
    near = "" if reach is None else " WHERE h <= reach"
    order = dialect.scrambled(salt, ["u", *names])
    return (
        f"r AS (SELECT u, groups, {reach or '0'} AS reach FROM w), "
        f"h AS (SELECT u, groups, reach, {listed}, {order} AS h FROM p JOIN r USING (u)), "
        f"q AS (SELECT {listed}, CASE WHEN {kept} THEN {weight} ELSE 0 END AS weight FROM h{near})"
    )
