"""A priced release as one DuckDB query that returns integers only.

The shape follows the rule: `row` and `single_row` aggregate the rows as they are; `one_group` first adds up each unit;
`clip` gives each unit a weight and joins it back (no window function); private keys also get their selection weight.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.budget.allocate import Priced
from dpsql.engines.duckdb.clamp import clamped, pieces
from dpsql.engines.duckdb.distinct import distinct_totals, shown_names
from dpsql.engines.duckdb.keys import Coded, code_keys
from dpsql.engines.duckdb.literals import literal
from dpsql.engines.duckdb.relations import Schema, relation_sql
from dpsql.engines.duckdb.source import From
from dpsql.expressions.expression import Column, columns_of
from dpsql.expressions.types import TEXT
from dpsql.plan.relation import Scan
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.selection import Selection
from dpsql.sensitivity.weight import WEIGHT_BITS, Term

ONE = 1 << WEIGHT_BITS
LIMIT = 2**62
"""Totals are clamped to this before they leave the engine; it moves nothing real, and a clamp never adds distance."""

HASHES = 2**64 - 1


def emit(priced: Priced, schema: Schema, salt: str) -> str:
    """The SQL of one release: key columns (or one code `g` for public keys), then one integer per statistic."""
    bounded = priced.bounded
    source, keys = _base(bounded, schema)
    names = shown_names(keys)
    different = distinct_totals(bounded, source, keys, salt)
    totals = [_added(bounded, source, keys, salt)] if _totals(bounded) or not different else []
    listed = [*names, *(["selected"] if bounded.selection is not None else []), *_statistics(priced)]
    return f"SELECT {', '.join(listed) or '1'} FROM ({_together(bounded, names, [*totals, *different])})"


def _added(bounded: Bounded, source: From, keys: Coded, salt: str) -> str:
    """All that is added up over rows or units, by the rule that bounds it."""
    match bounded.rule:
        case "row" | "single_row":
            return _plain(bounded, source, keys)
        case "one_group":
            return _one_group(bounded, source, keys)
        case _ if bounded.selection is not None or any(s.part.units for s in bounded.statistics):
            return _clip_pairs(bounded, source, keys, salt)
    return _clip_rows(bounded, source, keys)


def _together(bounded: Bounded, names: Sequence[str], tables: Sequence[str]) -> str:
    """Tables of the same groups side by side; a column is in one of them only, so adding it up changes nothing."""
    if len(tables) == 1:
        return tables[0]
    counts = [f"c{s.part.argument}" for s in bounded.statistics if s.part.distinct]
    added = [f"sum({total}) AS {total}" for total in [*_totals(bounded), *counts]]
    if bounded.selection is not None:
        added[0] = "CAST(coalesce(sum(selected), 0) AS BIGINT) AS selected"
    union = " UNION ALL BY NAME ".join(f"SELECT * FROM ({table})" for table in tables)
    return f"SELECT {', '.join([*names, *added])} FROM ({union}){_group(names)}"


def _base(bounded: Bounded, schema: Schema) -> tuple[From, Coded]:
    arguments = [a.expression for a in bounded.arguments if a.expression is not None]
    needed = frozenset().union(*map(columns_of, [*(k.expression for k in bounded.keys), *arguments]))
    source = relation_sql(bounded.release.source, needed, schema)
    return source, code_keys(bounded, source)


def _statistics(priced: Priced) -> list[str]:
    """α·Σ + β·n, floored to the noise grid."""
    listed = []
    for number, (statistic, noised) in enumerate(zip(priced.bounded.statistics, priced.noised, strict=True)):
        part = statistic.part
        if not part.weighed:
            total = f"coalesce({'units' if part.units else f'c{part.argument}'}, 0)::HUGEINT"
        else:
            terms = [f"{factor}::HUGEINT * coalesce({name}{part.argument}, 0)"
                     for factor, name in ((part.alpha, "s"), (part.beta, "n")) if factor]  # fmt: skip
            total = f"({' + '.join(terms) or '0::HUGEINT'})"
        floored = f"{total} >> {noised.shift}" if noised.shift else total
        listed.append(f"CAST(greatest(least({floored}, {LIMIT}), -{LIMIT}) AS BIGINT) AS z{number}")
    return listed


def _needs(bounded: Bounded) -> list[tuple[int, bool, bool]]:
    """For each argument: is its sum needed, is its count needed (by a statistic)?"""
    parts = [s.part for s in bounded.statistics if s.part.weighed]
    return [(i, any(p.alpha for p in parts if p.argument == i), any(p.beta for p in parts if p.argument == i))
            for i in dict.fromkeys(p.argument for p in parts)]  # fmt: skip


def _value(bounded: Bounded, index: int, source: From, *, summed: bool) -> str:
    """The argument of a row as an integer, NULL where it has none."""
    argument = bounded.arguments[index]
    if argument.expression is None:
        return "1"
    value = source.render(argument.expression)
    if summed:
        return clamped(argument, value)
    if argument.domain.nan:
        return f"CASE WHEN {value} <= CAST('infinity' AS DOUBLE) THEN 1 END"
    return f"CASE WHEN {value} IS NOT NULL THEN 1 END"


def _group(names: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(names)}" if names else ""


def _totals(bounded: Bounded) -> list[str]:
    """The names of the exact totals, as they are added up."""
    names = ["selected"] if bounded.selection is not None else []
    names += ["units"] if any(s.part.units for s in bounded.statistics) else []
    for index, sums, counts in _needs(bounded):
        names += [f"s{index}"] if sums else []
        names += [f"n{index}"] if counts else []
    return names


def _plain(bounded: Bounded, source: From, keys: Coded) -> str:
    """Rules `row` and `single_row`: one pass over the rows.

    Keys are grouped by place: GROUP BY a name would take a stored column of that name before the key.
    """
    if _is_column_sum(bounded):
        return _column_sum(bounded, source)
    listed = [*keys.listed, *_per_unit(bounded)]
    for index, sums, counts in _needs(bounded):
        argument = bounded.arguments[index]
        value = _value(bounded, index, source, summed=sums)
        if sums and not counts and argument.expression is not None:
            listed.append(f"sum({clamped(argument, source.render(argument.expression), otherwise='0')}) AS s{index}")
        elif sums:
            listed.append(f"sum({value}) AS s{index}")
        if counts:
            listed.append(f"count({'*' if argument.expression is None else value}) AS n{index}")
    places = [str(i + 1) for i in range(len(keys.names))]
    totals = f"SELECT {', '.join(listed) or '1'} FROM {source.source}{source.conditions}{_group(places)}"
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
    [(index, _, _)] = _needs(bounded)
    argument = bounded.arguments[index]
    assert argument.expression is not None
    inside, *outside = pieces(argument, source.render(argument.expression))
    scans = [(f"sum({inside.result})", inside.condition)]
    scans += [(f"count(*) * {p.result}::HUGEINT", p.condition) for p in outside if p.result != "0"]
    union = " UNION ALL ".join(
        f"SELECT {total} AS s FROM {source.source} WHERE {' AND '.join([*source.where, condition])}"
        for total, condition in scans
    )
    return f"SELECT sum(s) AS s{index} FROM ({union})"


def _per_unit(bounded: Bounded) -> list[str]:
    """What each unit adds once, where a row is a unit."""
    listed = [f"count(*) * {bounded.selection.one} AS selected"] if bounded.selection is not None else []
    return listed + (["count(*) AS units"] if any(s.part.units for s in bounded.statistics) else [])


def _rows(bounded: Bounded, source: From, keys: Coded) -> str:
    """Each row as its unit, its keys, and its integers."""
    listed = [f"{source.unit} AS u", *keys.listed]
    listed += [f"{_value(bounded, i, source, summed=sums)} AS v{i}" for i, sums, _ in _needs(bounded)
               if bounded.arguments[i].expression is not None]  # fmt: skip
    return f"SELECT {', '.join(listed)} FROM {source.source}{source.conditions}"


def _pairs(bounded: Bounded, rows: str, names: Sequence[str]) -> str:
    """Each (unit, group) with its exact sums and counts."""
    listed = ["u", *names, "count(*) AS n"]
    for index, sums, _ in _needs(bounded):
        if bounded.arguments[index].expression is None:
            continue
        listed += [f"sum(v{index}) AS s{index}"] if sums else []
        listed.append(f"count(v{index}) AS n{index}")
    return f"SELECT {', '.join(listed)} FROM ({rows}) GROUP BY {', '.join(['u', *names])}"


def _weight(terms: Sequence[Term], total: dict[str, str]) -> str:
    """W = min(1, cap/T) in units of 2**-WEIGHT_BITS, rounded down, over all terms."""
    weights = []
    for term in terms:
        t = total[term.kind].format(i=term.argument)
        if term.other is not None:
            t = f"(coalesce({t}, 0) + coalesce({total[term.kind].format(i=term.other)}, 0))"
        weights.append(
            f"CASE WHEN {t} > {term.cap} THEN CAST({term.cap << WEIGHT_BITS}::HUGEINT // {t} AS BIGINT) ELSE {ONE} END"
        )
    return weights[0] if len(weights) == 1 else f"least({', '.join(weights)})"


def _weighted(bounded: Bounded, *, rows: bool) -> list[str]:
    """The totals of the weighted statistics, over rows or over (unit, group) pairs."""
    listed = []
    for index, sums, counts in _needs(bounded):
        whole = bounded.arguments[index].expression is None
        wide = "::HUGEINT" if bounded.arguments[index].magnitude >= 2**32 else ""
        if sums:
            listed.append(f"sum({'v' if rows else 's'}{index}{wide} * w) AS s{index}")
        if counts and rows:
            listed.append(f"sum({'w' if whole else f'CASE WHEN v{index} IS NOT NULL THEN w END'}) AS n{index}")
        elif counts:
            listed.append(f"sum({'n' if whole else f'n{index}'}::HUGEINT * w) AS n{index}")
    return listed


def _one_group(bounded: Bounded, source: From, keys: Coded) -> str:
    """Rule `one_group`: add up each unit, weigh the totals, add up the units."""
    listed = [*keys.names, *_per_unit(bounded), *_weighted(bounded, rows=False)]
    pairs = _pairs(bounded, _rows(bounded, source, keys), keys.names)
    if bounded.weight is not None and bounded.weight.terms:
        w = _weight(bounded.weight.terms, {"rows": "n", "count": "n{i}", "sum": "abs(s{i})"})
        pairs = f"SELECT *, {w} AS w FROM ({pairs})"
    totals = f"SELECT {', '.join(listed) or '1'} FROM ({pairs}){_group(keys.names)}"
    return keys.mapped(totals, _totals(bounded))


def _clip_rows(bounded: Bounded, source: From, keys: Coded) -> str:
    """Rule `clip`: a weight per unit from its own rows, joined back to them (recomputed: cheaper than keeping them)."""
    assert bounded.weight is not None
    w = _weight(bounded.weight.terms, {"rows": "count(*)", "count": "count(v{i})", "sum": "sum(abs(v{i}))"})
    listed = [*keys.names, *_weighted(bounded, rows=True)]
    totals = (
        f"WITH c AS NOT MATERIALIZED ({_rows(bounded, source, keys)}), w AS (SELECT u, {w} AS w FROM c GROUP BY u) "
        f"SELECT {', '.join(listed)} FROM c JOIN w USING (u){_group(keys.names)}"
    )
    return keys.mapped(totals, _totals(bounded))


def _clip_pairs(bounded: Bounded, source: From, keys: Coded, salt: str) -> str:
    """Rule `clip` over (unit, group) pairs: where groups are counted or private keys selected."""
    totals = {"rows": "sum(n)", "groups": "count(*)", "count": "sum(n{i})", "sum": "sum(abs(s{i}))"}
    terms = bounded.weight.terms if bounded.weight is not None else ()
    w = f", {_weight(terms, totals)} AS w" if terms else ""
    rows, names = keys.in_rows(_rows(bounded, source, keys))
    listed = [*names, *(["sum(w) AS units"] if any(s.part.units for s in bounded.statistics) else [])]
    listed += _weighted(bounded, rows=False)
    head = f"WITH p AS ({_pairs(bounded, rows, names)}), w AS (SELECT u, count(*) AS groups{w} FROM p GROUP BY u)"
    added = f"SELECT {', '.join(listed)} FROM p JOIN w USING (u){_group(names)}"
    if bounded.selection is None:
        return f"{head} {added}"
    shown = [*names, "CAST(coalesce(sum(weight), 0) AS BIGINT) AS selected"]
    shown += [f"sum({total}) AS {total}" for total in _totals(bounded)[1:]]
    return (
        f"{head}, {_selected(bounded.selection, names, salt)}, t AS ({added} UNION ALL BY NAME SELECT * FROM q) "
        f"SELECT {', '.join(shown)} FROM t{_group(names)}"
    )


def _selected(selection: Selection, names: Sequence[str], salt: str) -> str:
    """The table `q`: the groups to which each unit gives weight, `selection.groups` of them at most, least hash first.

    Sorting is what costs, so a unit with many groups first drops those whose hash is above a bound of its own: three
    times as many as it may keep are left, and eight. With a chance below 0.002% too few are left, and it gives less.
    """
    few, listed = 3 * selection.groups + 8, ", ".join(names)
    reach = f"CASE WHEN groups > {few} THEN {HASHES} // CAST(groups AS UBIGINT) * {few} ELSE {HASHES} END"
    order = f"hash({literal(salt, TEXT)}, u, {listed})"
    kept = f"row_number() OVER (PARTITION BY u ORDER BY h, {listed}) <= {selection.groups}"
    weight = f"{list(selection.weights)}[least(groups, {selection.groups})]"
    return (
        f"r AS (SELECT u, groups, CAST({reach} AS UBIGINT) AS reach FROM w), "
        f"h AS (SELECT u, groups, reach, {listed}, {order} AS h FROM p JOIN r USING (u)), "
        f"q AS (SELECT {listed}, CASE WHEN {kept} THEN {weight} ELSE 0 END AS weight FROM h WHERE h <= reach)"
    )
