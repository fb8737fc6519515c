"""Notes to the analyst: what the error bars of an answer do not cover, and how its rows were chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dpsql.answers.chosen_values import choice_notes, few_notes
from dpsql.answers.missing_groups import left_out
from dpsql.answers.noise_stage import Released
from dpsql.answers.plain_words import grouped_by, in_words, unit_noun
from dpsql.budget.pricing import Priced
from dpsql.expressions.expression import columns_of
from dpsql.plan.nodes.relation import Relation, scans_in
from dpsql.plan.nodes.unary import Filter, UnitGroup
from dpsql.plan.plan import Plan, Release
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.clip import Clip, ClippedVector
from dpsql.sensitivity.clip_checks import ClipCheck

NOBODY = "no group had enough people to be shown: ask for fewer groups, or at a larger price"
FITTED = "totals and their parts were fitted to each other (they agree up to rounding), which makes both more exact"
INNER = "the error bars leave out the noise of the results that are read below the aggregate"
EMPTY = "all groups that are possible are listed, also those without rows"
SHOWN = 3
"""The most lines of notes below an answer."""


def first_notes(notes: Sequence[str], more: str) -> list[str]:
    """The notes as at most so many lines; the last one says how to see the others."""
    if len(notes) <= SHOWN:
        return list(notes)
    return [*notes[: SHOWN - 1], f"{len(notes) - SHOWN + 1} more notes: {more}"]


def _rows(count: int) -> str:
    return f"{count} row{'s' if count != 1 else ''}"


def _cut(bounded: Bounded) -> list[str]:
    """A note where a bound relies on how many rows of a unit count, as those of counts and sums per unit do."""
    expressions = [a.expression for a in bounded.arguments if a.expression is not None]
    expressions += [histogram.grid.expression for histogram in bounded.histograms]
    expressions += [key.expression for key in bounded.keys]
    limits = {column for e in expressions for column in columns_of(e) if _per_unit(bounded.release.source, column)}
    rows = _base(bounded.release.source)
    if not limits or rows is None or rows.source is None:
        return []
    listed, many, noun = " and ".join(sorted(limits)), rows.source.rows_per_unit, unit_noun(rows.source)
    return [f"{listed} of one {noun.one}: at most {_rows(many)} count, and a group beyond that is NULL"]


def _per_unit(relation: Relation, column: str) -> bool:
    """Is the column a count or sum over one unit's rows?"""
    group = _base(relation)
    return group is not None and any(n == column and a.function in ("count", "sum") for n, a in group.aggregates)


def _base(relation: Relation) -> UnitGroup | None:
    while isinstance(relation, Filter) and relation.source is not None:
        relation = relation.source
    return relation if isinstance(relation, UnitGroup) else None


def _different(bounded: Bounded) -> list[str]:
    """How many values of one unit COUNT(DISTINCT) takes, where no search tells."""
    found = [c.clip.members for c in bounded.clipped if c.clip is not None and c.clip.choice is not None]
    by_unit = [] if bounded.rule in ("row", "single_row") else list(enumerate(bounded.statistics))
    parts = [s.part for place, s in by_unit if s.part.distinct and (place,) not in found]
    each = {e: part.row for part in parts if (e := bounded.arguments[part.argument].expression) is not None}
    where = "" if bounded.rule == "one_group" else ", in all groups together"
    noun = unit_noun(bounded.release.source)
    return [f"at most {cap} different {in_words(what)} of one {noun.one} count{where}" for what, cap in each.items()]


def _noted(bounded: Bounded) -> Sequence[ClippedVector]:
    """The clips that get a note: one for choices says nothing that the note of a clipped sum does not say."""
    return [each for each in bounded.clipped if each.vector.ranked is None] or bounded.clipped


def _clip_notes(bounded: Bounded, clip: Clip | None) -> list[str]:
    """What the clip of a vector did, in a sentence."""
    if clip is None or clip.choice is None:
        return []
    noun = unit_noun(bounded.release.source)
    if not clip.choice.found:
        return [
            f"there were too few {noun.many} to find out how much one of them adds, so the limit for each is a guess"
        ]
    reduced = f"about {clip.choice.above:,.0f}" if clip.choice.above >= 0.5 else "hardly any"
    if clip.choice.wider:
        return [
            "the limit of what one unit adds was found for the same query with fewer conditions, where"
            f" {reduced} of about {clip.choice.units:,.0f} units add more: error bars allow for these"
        ]
    return [
        f"{reduced} of about {clip.choice.units:,.0f} {noun.many} add more than the limit that was found, and count "
        f"less: the error bars allow for that, but not for a few {noun.many} that add very much more"
    ]


def owner_notes(releases: Iterable[Release]) -> tuple[str, ...]:
    """Which rows nobody counts: those without an owner, where neither the policy nor the schema rules them out."""
    missing: dict[str, list[str]] = {}
    for scan in dict.fromkeys(scan for release in releases for scan in scans_in(release.source)):
        if scan.unowned is not None:
            missing.setdefault(scan.unowned, []).append(scan.table)
    return tuple(
        f"rows of {' and '.join(dict.fromkeys(tables))} {_without(column)} are not counted"
        for column, tables in missing.items()
    )


def _without(column: str) -> str:
    return f"whose {column} is missing" if column else "that lead to nobody"


def notes_of(releases: Iterable[Priced], checks: Sequence[ClipCheck] = ()) -> tuple[str, ...]:
    """What the error bars do not cover, in words; the checks, which measure just that, have nothing to add."""
    notes = []
    measured = {check.bounded.release.name for check in checks}
    for priced in releases:
        bounded = priced.bounded
        if bounded.release.name in measured:
            continue
        noun = unit_noun(bounded.release.source)
        clamped = [h.grid.argument for h in bounded.histograms if h.grid.argument is not None]
        for argument in (*bounded.arguments, *clamped):
            if argument.expression is not None and argument.declared and argument.lower != argument.upper:
                low, high = (float(x * argument.grid) for x in (argument.lower, argument.upper))
                notes.append(f"values of {in_words(argument.expression)} outside [{low:g}, {high:g}] are clamped")
        notes += [*choice_notes(priced), *_cut(bounded)]
        weighed = any(each.term is not None and each.clipped is None for each in bounded.histograms)
        if weighed or (bounded.weight is not None and bounded.weight.terms):
            rows, table = bounded.release.source.rows_per_unit, bounded.release.table
            notes.append(f"a {noun.one} with more than {_rows(rows)} of {table} counts as one with {rows}")
        if bounded.rule == "at_rest":
            kept, table = _rows(bounded.release.source.rows_per_unit), bounded.release.table
            notes.append(f"of a {noun.one} with more than {kept} of {table} the prepared copy has {kept}, at random")
        notes += [note for each in _noted(bounded) for note in _clip_notes(bounded, each.clip)]
        notes += _different(bounded)
        if priced.threshold is not None:
            notes.append(f"groups of few {noun.many} are not shown")
    return tuple(dict.fromkeys(notes))


def inner_notes(plan: Plan) -> tuple[str, ...]:
    """What error bars leave out where an aggregate reads results that have noise of their own."""
    return (INNER,) if any(nested.plan.releases for nested in plan.nested) else ()


def table_notes(plan: Plan, released: Mapping[str, Released], fitted: Mapping[str, Released]) -> tuple[str, ...]:
    """What follows from the released tables: totals that were fitted to their parts, and groups that are not shown."""
    missing = dict.fromkeys(grouped_by(key.expression) for table in released.values() for key in left_out(table))
    few = [note for table in released.values() for note in few_notes(table)]
    cut = plan.finishing.args.get("limit") is not None or not any(output.noisy for output in plan.outputs)
    listed = any(table.keys and table.priced.selection is None for table in released.values())
    return (
        *few,
        *([EMPTY] if listed and cut else []),
        *([FITTED] if _agree(plan, fitted) else []),
        *(f"no group is shown for a missing {name}: such rows, if any, are too few to tell" for name in missing),
    )


def _agree(plan: Plan, fitted: Mapping[str, Released]) -> bool:
    """Was every statistic of totals and parts fitted? An earlier release may have other ones."""
    families = ({member.release for member in family.members} for family in plan.families)
    names = {name for releases in families if len(releases) > 1 for name in releases}
    return bool(names) and all(fitted[name].spread and max(fitted[name].spread) < 1 for name in names)


def nobody_notes(released: Mapping[str, Released]) -> tuple[str, ...]:
    """A note where a query has private keys and no group was shown; it follows from what was released."""
    hidden = any(table.priced.threshold is not None and not table.keys for table in released.values())
    return (NOBODY,) if hidden else ()
