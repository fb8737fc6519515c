"""Rows that are shown because of their noisy values: ORDER BY with LIMIT, HAVING, QUALIFY, WHERE above the aggregate.

A row that was chosen for its noisy value lies too high (or low) more often than not: the largest of equal groups is all
noise. Its interval allows for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain
from math import nextafter

from sqlglot import exp

from dpsql.budget.pricing import Priced
from dpsql.plan.plan import Output, Plan
from dpsql.policy.identifiers import fold

Columns = frozenset[str]
"""Noisy columns of releases and families in the finishing SQL, such as `_r0._a1`."""
CHOSEN = "these rows were chosen by noisy values"
BARRED = f"{CHOSEN}: the error bars allow for that, but a row near the edge may be here by chance"
UNBARRED = f"{CHOSEN}, so a row near the edge may be here by chance"


def chosen_notes(plan: Plan) -> tuple[str, ...]:
    """Said where noise decides which rows there are."""
    barred = BARRED if any(output.noisy for output in plan.outputs) else UNBARRED
    return (barred,) if choosing_columns(plan) else ()


def confidence_of_each(confidence: float, shown: int, candidates: int) -> float:
    """The confidence of each interval so that those of rows which were chosen by their noisy values hold together.

    **Theorem.** Of the rows that an answer shows, the expected share whose intervals miss is at most 1 − c: of a fixed
    number of first rows (LIMIT), whatever the noises have to do with each other, and of rows above a limit (HAVING) if
    those of different rows are independent.
    **Proof.** Let R of m rows be shown, each with an interval of confidence 1 − (1 − c)·R/m. With R fixed, at most
    m·(1 − c)·R/m = R·(1 − c) of all m intervals miss in expectation, so no more of those shown do. A row above a limit
    is shown by its own noise alone, so R − 1 counts the others, independently of it: it misses, for R = r, with
    probability at most (1 − c)·r/m · P(R = r), and adds 1/r of that to the share. Summed over r and the m rows that is
    1 − c (Benjamini and Yekutieli 2005).
    **Requires** intervals that are right for one row (`dpsql.answers.error_bars`).
    **Checked by** `tests/bench/chosen_rows.py` and its small edition in `tests/unit/release/test_chosen_rows.py`.
    """
    each = 1 - (1 - confidence) * min(1.0, max(1, shown) / max(1, candidates))
    return min(each, nextafter(1.0, 0.0))


# what rows are chosen by ----------------------------------------------------------------------------------------------


def choosing_columns(plan: Plan) -> Columns:
    """The noisy columns by whose values the finishing SQL chooses rows."""
    read = _named(plan)
    return _union(_read(column, plan, read) for clause in _clauses(plan.finishing) for column in clause)


def reads_of(output: Output, plan: Plan) -> Columns:
    """The noisy columns that a column of the answer is computed from."""
    if output.formula is None:
        return _named(plan).get(fold(output.name), frozenset())
    return _union(_read(column, plan, {}) for column in output.formula[1].find_all(exp.Column))


def noises_of(columns: Columns, priced: Mapping[str, Priced]) -> frozenset[tuple[str, str, int]]:
    """The statistics, choices and trees whose noise columns carry; `priced` has one release of each table."""
    noises = set()
    for table, _, name in (column.partition(".") for column in columns):
        source = priced[table].bounded.sources[int(name[2:])]
        kind, places = (source.form, [source.first]) if source.chosen else ("", source.statistics)
        noises |= {(table, kind, place) for place in places}
    return frozenset(noises)


def _clauses(query: exp.Expr) -> Iterator[Iterable[exp.Column]]:
    """The columns of each clause that drops rows; an order drops some where a LIMIT follows."""
    for select in query.find_all(exp.Query):
        for clause in map(select.args.get, ("where", "having", "qualify", "distinct")):
            if isinstance(clause, exp.Expr):
                yield clause.find_all(exp.Column)
        order = select.args.get("order")
        if order is not None and (select.args.get("limit") or select.args.get("offset")):
            yield order.find_all(exp.Column)
            for place in (each.this for each in order.expressions if isinstance(each.this, exp.Literal)):
                yield chain(*(item.find_all(exp.Column) for item in select.selects[int(place.name) - 1 :][:1]))
    for join in query.find_all(exp.Join):
        yield chain(*(each.find_all(exp.Column) for each in (join.args.get("on"),) if each is not None))


def _named(plan: Plan) -> dict[str, Columns]:
    """The noisy columns behind each name that the finishing SQL gives: of all SELECTs that give it."""
    everything = _union(_read(column, plan, {}) for column in plan.finishing.find_all(exp.Column))
    named = {
        fold(column.name): everything
        for alias in plan.finishing.find_all(exp.TableAlias)
        for column in alias.args.get("columns") or ()
    }
    items = [item for select in plan.finishing.find_all(exp.Select) for item in select.expressions]
    before: dict[str, Columns] | None = None
    while named != before:
        before = dict(named)
        for item in items:
            found = _union(_read(column, plan, named) for column in item.find_all(exp.Column))
            if found:
                named[fold(item.alias_or_name)] = named.get(fold(item.alias_or_name), frozenset()) | found
    return named


def _read(column: exp.Column, plan: Plan, named: Mapping[str, Columns]) -> Columns:
    """What a column reads: an aggregate, an error bar of some, or what a name stands for."""
    table, name = column.table, column.name
    if not (table.startswith("_") and name.startswith(("_a", "_b"))):
        return named.get(fold(name), frozenset())
    if name.startswith("_a"):
        return frozenset([f"{table}.{name}"])
    member = plan.family(table).members[0].release
    [bar] = [release.bars[int(name[2:])] for release in plan.releases if release.name == member]
    return frozenset(f"{table}.{each.name}" for each in bar.expression.find_all(exp.Column) if each.name[:2] == "_a")


def _union(sets: Iterable[Columns]) -> Columns:
    return reduce(frozenset.union, sets, frozenset())
