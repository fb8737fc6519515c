"""Reuse of releases from the ledger: the same release, or an earlier one of the same sub-plan that shows all of it.

A release belongs to a *family*: the same data version, relation and set of keys. What differs within a family, the
aggregates and the portion of the budget, is its *recipe*, which is kept with it: from relation and recipe the earlier
release is planned, bounded, priced and emitted again, and it is the stored one only if the fingerprint is the same.

**Theorem (part).** If the recipe's release has every aggregate that is asked, or statistics from which it is computed,
its noisy table is a private answer to what is asked now, at no cost to the dataset.
**Proof.** Reading some columns and rows of a released table is post-processing. The relation and the keys are the same
(`dpsql.plan.canonical`), so the stored statistics are sums over the same rows in the same groups, bounded by the same
policy; COUNT, SUM and AVG of one argument are functions of its two statistics (`dpsql.answers.estimation`). A value
that was chosen (MEDIAN, MIN, MODE, …) answers the same aggregate and no other.

**Theorem (groups).** Let the filter asked now have a further conjunct E that reads nothing but public keys, TRUE on
every key that is listed now. Then the rows of each listed group are the same with and without E.
**Proof.** All rows of a listed group agree with the list on the keys' values, since only NULL also stands for values
outside it, and no NULL is listed for a key that E reads; so E is TRUE on all of these rows, and no conjunct but E was
dropped. Keys of type DOUBLE, where 0 and -0 share a group, are left out.

**What may differ.** A unit that owns more rows than the policy counts is down-weighted once for a whole release, by all
of its rows there. Where the earlier release has more groups or aggregates, its weight may be smaller than that of a
fresh answer, and clamps are those of the earlier release. Both are answers within the policy's own bounds; the notes
of the result say which one was given.
**Requires** that the ledger keeps releases by version, family and fingerprint (`dpsql.answers.reuse`), and a canonical
form in which equal families have equal rows (`dpsql.plan.canonical`).
**Checked by** `tests/unit/session/test_replay_parts.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from dpsql.answers.noise_stage import RELEASE, Released
from dpsql.answers.serialize import deserialize
from dpsql.bounds import infer
from dpsql.bounds.domain import RowDomains, finite
from dpsql.budget import Ledger, RelatedRelease, ReleaseDetails, StoredRelease
from dpsql.budget.fingerprint import fingerprint
from dpsql.budget.pricing import Portion, Priced, charge_of, price_release
from dpsql.errors import Error, InternalError
from dpsql.expressions.expression import Call, Column, Expression, columns_of, order, read, write
from dpsql.expressions.types import BOOLEAN, Kind
from dpsql.plan.builder.selection_aggregates import chooses
from dpsql.plan.canonical import describe_relation, split, without, write_aggregate
from dpsql.plan.catalog import Catalog
from dpsql.plan.nodes.relation import Aggregate, Item, Relation
from dpsql.plan.nodes.released_scan import released_in
from dpsql.plan.plan import Release
from dpsql.sensitivity.bound import Bounded, bound, settle
from dpsql.sensitivity.clip import Clip
from dpsql.sensitivity.clip_choice import ClipChoice
from dpsql.sensitivity.group_keys import Key
from dpsql.sensitivity.statistics import Source

MOST_TRIED = 20
OF_MORE = (
    "answered from an earlier release that has more columns at the same price, so its noise is larger than that of a"
    " fresh answer: ask for a larger epsilon to get one"
)
OF_MORE_GROUPS = (
    "answered from an earlier release of more groups: the limit per unit was applied to its rows in all of those groups"
)


@dataclass(frozen=True, slots=True)
class Reused:
    """A release that need not be made: what is shown of the stored one, its mark, and what to know about it."""

    released: Released
    stored: StoredRelease
    mark: bytes
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Archive:
    """The ledger's releases of one version of the data, as one analyst may see them."""

    ledger: Ledger
    emit: Callable[[Priced], str]
    dataset: str
    version: str
    catalog: Catalog
    analyst: str | None
    keep: timedelta | None
    purpose: str | None = None

    def mark(self, priced: Priced) -> bytes:
        """The fingerprint of a release; one that reads nested results says which."""
        if any(scan.digest is None for scan in released_in(priced.bounded.release.source)):
            raise InternalError("a release was to be marked before what it reads was named")
        return fingerprint(priced, self.emit(priced), self.version, self.dataset)

    def about(self, priced: Priced, *, alone: bool) -> ReleaseDetails:
        """What a new release is kept with; one that stands `alone` answers nothing but itself."""
        release, charge = priced.bounded.release, charge_of([priced])
        assert charge is not None
        if alone:
            return ReleaseDetails(b"", {}, charge)
        return ReleaseDetails(family(release, release.source, self.version, self.dataset), recipe_of(priced), charge)

    def find(self, priced: Priced, mark: bytes) -> Reused | None:
        """The very release, exactly as before; else the most accurate one that shows all of it.

        A release that was priced for an accuracy is answered by itself only: a part may be less accurate.
        """
        stored = self.ledger.find(mark, self.keep)
        if stored is not None:
            return Reused(deserialize(stored.payload, priced), stored, mark)
        return None if priced.portion.exact else self._covering(priced)

    def best(self, priced: Priced) -> Reused | None:
        """The most accurate release that shows all of it, at whatever price, if it costs the analyst nothing."""
        return self._covering(priced, own=True)

    def _covering(self, priced: Priced, *, own: bool = False) -> Reused | None:
        """The most accurate relative that shows all of it.

        Another's clip tells what their search found, and counting the release would not count the search: such a
        release is had by its very mark only, after the same search was counted.
        """
        ways = list(wider(priced.bounded))
        families = [family(priced.bounded.release, way.relation, self.version, self.dataset) for way in ways]
        kept = zip(ways, self.ledger.relatives(families, self.analyst, self.keep, self.purpose), strict=True)
        offered = [
            (way, each)
            for way, relatives in kept
            for each in relatives
            if not (each.owed and (own or searched(each.recipe)))
        ]
        likely = [(way, each) for way, each in offered if may_answer(priced, each.recipe)]
        likely.sort(key=lambda pair: -min(portion_of(pair[1].recipe).parts))
        return next((f for way, each in likely[:MOST_TRIED] if (f := self._part(priced, way, each)) is not None), None)

    def _part(self, asked: Priced, way: Wider, relative: RelatedRelease) -> Reused | None:
        """The part that is asked of an earlier release, if it is what its recipe says and costs the analyst no more.

        Another's release may have been dearer than what is asked now; an analyst is never counted more than that.
        """
        made = self._made_again(asked, way, relative)
        if made is None or not covers(asked, made) or (relative.owed and made.price > asked.price):
            return None
        stored = self.ledger.find(relative.fingerprint, self.keep, relative.number)
        if stored is None:
            return None
        notes = [OF_MORE] if min(made.portion.parts) < min(asked.portion.parts) else []
        notes += [OF_MORE_GROUPS] if way.dropped and made.bounded.rule in ("clip", "vector") else []
        return Reused(part_of(asked, deserialize(stored.payload, made)), stored, relative.fingerprint, tuple(notes))

    def _made_again(self, asked: Priced, way: Wider, relative: RelatedRelease) -> Priced | None:
        """The earlier release as it would be planned for this analyst, if that is the one that was made.

        It may read columns that do not exist for this analyst, or no longer: then it shows nothing here, and whatever
        the planner would say of it is not for these eyes.
        """
        if not readable(way.relation, relative.recipe):
            return None
        try:
            made = replanned(asked, way.relation, relative.recipe, self.catalog)
            return made if self.mark(made) == relative.fingerprint else None
        except (Error, LookupError, ValueError):
            return None


# which earlier releases show all of a new one -------------------------------------------------------------------------


MOST_COMBINATIONS = 1_000
MOST_DROPPED = 4
_RELEASE = RELEASE.take()
_EXACT_KINDS = {Kind.INTEGER, Kind.BOOLEAN, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP}

Recipe = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wider:
    """A relation with the same rows in every group that is asked for, and the conjuncts that it leaves out."""

    relation: Relation
    dropped: tuple[Expression, ...]


def family(release: Release, relation: Relation, version: str, dataset: str) -> bytes:
    """The mark of all releases with this relation and the keys of this release, in any order."""
    base, asked = split(relation)
    keys = sorted(order(key.expression) for key in release.keys)
    text = json.dumps([dataset, version, describe_relation(base), [write(c) for c in asked], keys])
    return hashlib.sha256(text.encode()).digest()


def recipe_of(priced: Priced) -> Recipe:
    """What, beside the relation, this release was made from."""
    release, portion = priced.bounded.release, priced.portion
    return {
        "aggregates": [write_aggregate(a) for a in release.aggregates],
        "keys": [write(k.expression) for k in release.keys],
        "mechanism": portion.mechanism,
        "portion": [str(portion.whole), str(portion.tail), *map(str, portion.parts)],
        **({"clips": [asdict(c.clip) for c in made if c.clip is not None]} if (made := priced.bounded.clipped) else {}),
    }


def portion_of(recipe: Recipe) -> Portion:
    """The portion of the budget that the earlier release had."""
    whole, tail, *parts = map(Fraction, recipe["portion"])
    return Portion(recipe["mechanism"], whole, tuple(parts), tail)


def searched(recipe: Recipe) -> bool:
    """Was a clip of it chosen by a search for norms?"""
    return any(clip["choice"] is not None for clip in _clips(recipe))


def _clips(recipe: Recipe) -> Sequence[Mapping[str, Any]]:
    """Its clips, as they are written; there was one at most, and under another name."""
    written: Sequence[Mapping[str, Any]] = recipe.get("clips", [recipe["clip"]] if "clip" in recipe else [])
    return written


def wider(asked: Bounded) -> Iterator[Wider]:
    """The relation itself, and those without some of the conjuncts on public keys."""
    yield Wider(asked.release.source, ())
    droppable = [c for c in split(asked.release.source)[1] if asked.public and _on_keys(c, asked.keys)]
    sizes = range(1, len(droppable) + 1) if len(droppable) <= MOST_DROPPED else [len(droppable)]
    for size in sizes:
        for dropped in combinations(droppable, size):
            yield Wider(without(asked.release.source, dropped), dropped)


def may_answer(asked: Priced, recipe: Recipe) -> bool:
    """Whether it was made at the asked price or more, and from the same arguments: a cheap first test."""
    portion, wanted = portion_of(recipe), asked.portion
    if portion.mechanism != wanted.mechanism or portion.whole < wanted.whole or portion.tail < asked.tail:
        return False
    made = [json.dumps(argument) for _, argument, *_ in recipe["aggregates"]]
    arguments = [None if a.argument is None else write(a.argument) for a in asked.bounded.release.aggregates]
    return all(argument is None or json.dumps(argument) in made for argument in arguments)


def readable(relation: Relation, recipe: Recipe) -> bool:
    """Does the relation still have every column that the earlier release read?"""
    written = [argument for _, argument, *_ in recipe["aggregates"] if argument is not None] + list(recipe["keys"])
    return all(relation.offers(read(each)) for each in written)


def replanned(asked: Priced, relation: Relation, recipe: Recipe, catalog: Catalog) -> Priced:
    """The earlier release, as it was planned and priced."""
    release, portion = asked.bounded.release, portion_of(recipe)
    names = {order(key.expression): key.name for key in release.keys}
    keys = [read(written) for written in recipe["keys"]]
    earlier = replace(
        release,
        source=relation,
        keys=tuple(Item(names[order(key)], key) for key in keys),
        aggregates=tuple(map(_read_aggregate, recipe["aggregates"])),
    )
    bounded = bound(earlier, portion.mechanism, catalog)
    for clip in _clips(recipe) if bounded.clipped else ():
        bounded = settle(bounded, _read_clip(clip))
    return price_release(bounded, portion)


def _read_clip(written: Mapping[str, Any]) -> Clip:
    choice = written["choice"]
    made = None if choice is None else ClipChoice(**choice)
    return Clip(written["norm"], written["bound"], tuple(written["exponents"]), made, written.get("ranked"))


def _read_aggregate(written: Sequence[Any]) -> Aggregate:
    """The inverse of `write_aggregate`."""
    function, argument, distinct, *at = written
    return Aggregate(function, None if argument is None else read(argument), distinct, *map(Fraction, at))


def covers(asked: Priced, made: Priced) -> bool:
    """Has the earlier release every group that is asked, and what every aggregate is computed from?"""
    wanted, had = asked.bounded, made.bounded
    listed = {key.name: frozenset(key.values or ()) for key in had.keys}
    same = wanted.public == had.public and (wanted.selection is None) == (had.selection is None)
    groups = same and all(frozenset(k.values or ()) <= listed[k.name] for k in wanted.keys)
    return groups and all(_source(aggregate, had) is not None for aggregate in wanted.release.aggregates)


def part_of(asked: Priced, earlier: Released) -> Released:
    """The rows and columns of the earlier release that are asked for, in the order in which they are asked."""
    wanted, had = asked.bounded, earlier.priced.bounded
    sources = tuple(s for a in wanted.release.aggregates if (s := _source(a, had)) is not None)
    places = [[k.name for k in had.keys].index(key.name) for key in wanted.keys]
    keys = [tuple(row[place] for place in places) for row in earlier.keys]
    rows = list(range(len(keys)))
    if wanted.public:
        at = {key: row for row, key in enumerate(keys)}
        keys = [key for key in product(*(key.values or () for key in wanted.keys)) if key in at]
        rows = [at[key] for key in keys]
    bounded = replace(had, release=wanted.release, keys=wanted.keys, sources=sources)
    noisy, chosen = tuple(v[rows] for v in earlier.noisy), tuple(cells[rows] for cells in earlier.chosen)
    trees = tuple(nodes[rows] for nodes in earlier.trees)
    ends, totals = tuple(cells[rows] for cells in earlier.ends), tuple(each[rows] for each in earlier.totals)
    priced = replace(earlier.priced, bounded=bounded)
    return Released(priced, tuple(keys), noisy, chosen=chosen, trees=trees, ends=ends, totals=totals, by=_RELEASE)


def _source(aggregate: Aggregate, had: Bounded) -> Source | None:
    """Where the earlier release has the answer to an aggregate, if it has one."""
    wanted = json.dumps(write_aggregate(aggregate))
    made = list(zip(had.release.aggregates, had.sources, strict=True))
    same = [source for other, source in made if json.dumps(write_aggregate(other)) == wanted]
    if not same and not aggregate.distinct:
        same = [source for other, source in made if not other.distinct and _tells(had, source, aggregate)]
    return same[0] if same else None


def _tells(had: Bounded, source: Source, aggregate: Aggregate) -> bool:
    """Do the statistics of another aggregate tell this one too? A choice tells nothing but itself."""
    if source.chosen or chooses(aggregate):
        return False
    argument = had.arguments[had.statistics[source.first].part.argument]
    if source.form in ("count", "pair", "centred") and aggregate.function == "count" and aggregate.argument is None:
        return argument.expression is None or not (argument.domain.nullable or argument.domain.nan)
    if source.form not in ("pair", "centred") or argument.expression is None or aggregate.argument is None:
        return False
    return order(argument.expression) == order(aggregate.argument)


def _on_keys(conjunct: Expression, keys: Sequence[Key]) -> bool:
    """Does the conjunct read keys alone, and is it TRUE on each of their listed values?"""
    names = {order(key.expression): key for key in keys}
    shown = _over_keys(conjunct, names)
    used = [key for key in keys if key.name in columns_of(shown)]
    if columns_of(shown) - {key.name for key in used} or not used:
        return False
    lists = [key.values or () for key in used]
    few = len(list(zip(range(MOST_COMBINATIONS + 1), product(*lists), strict=False))) <= MOST_COMBINATIONS
    plain = all(key.expression.type.kind in _EXACT_KINDS and None not in (key.values or ()) for key in used)
    return few and plain and all(_true(shown, used, values) for values in product(*lists))


def _over_keys(expression: Expression, names: Mapping[str, Key]) -> Expression:
    """The expression over the keys' names; a column that is not a key gets a name that no key has."""
    key = names.get(order(expression))
    if key is not None:
        return Column(expression.type, name=key.name)
    if isinstance(expression, Column):
        return replace(expression, name=f"not a key: {expression.name}")
    if isinstance(expression, Call):
        return replace(expression, args=tuple(_over_keys(a, names) for a in expression.args))
    return expression


def _true(condition: Expression, keys: Sequence[Key], values: Sequence[Any]) -> bool:
    points = {k.name: finite((v,), k.expression.type, nullable=False) for k, v in zip(keys, values, strict=True)}
    truth = infer(condition, RowDomains(points))
    return truth.values == (True,) and not truth.nullable and condition.type == BOOLEAN
