"""The contribution bound of a release: which rule holds, what it claims, and what the emitted SQL must enforce."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, isqrt, prod, sqrt

from dpsql.bounds import infer
from dpsql.bounds.domain import Domain, finite, intersect
from dpsql.errors import PolicyError
from dpsql.expressions.expression import Literal
from dpsql.expressions.types import integer
from dpsql.plan.at_rest import bounded_at_rest
from dpsql.plan.builder.selection_aggregates import chooses
from dpsql.plan.catalog import Catalog
from dpsql.plan.invariants import check_facts
from dpsql.plan.nodes.relation import Aggregate, scans_in, unbounded
from dpsql.plan.nodes.released_scan import released_in
from dpsql.plan.plan import Release
from dpsql.plan.typical_ranges import columns_behind, typical_range
from dpsql.sensitivity.argument import Argument, counted
from dpsql.sensitivity.choice import Choice, Histogram
from dpsql.sensitivity.choice_layout import lay_out_choices
from dpsql.sensitivity.claim import Claim, one_coordinate
from dpsql.sensitivity.clip import (
    BUCKETS,
    CELL_BITS,
    CLIP_BITS,
    MEAN_CUT,
    RATE_CUT,
    ROW_BITS,
    Clip,
    ClippedVector,
    Norm,
    Vector,
    clip_at,
    norms_of,
)
from dpsql.sensitivity.disjoint_branches import joined
from dpsql.sensitivity.distinct import distinct_cap, listed_values, most_values, values_limit
from dpsql.sensitivity.group_keys import Key, make_keys
from dpsql.sensitivity.quantile_tree import Tree
from dpsql.sensitivity.selection import Selection, existing_groups, select_keys
from dpsql.sensitivity.statistics import Layout, Part, Source, lay_out
from dpsql.sensitivity.unit_weight import WEIGHT_BITS, Term, Weight

RARE = 2
"""The exponent of the scale of what may be rare."""
PRIVATE_GROUPS = 100
"""How many groups a clip is chosen for where their number is not public."""
MAX_RELEASED = 2**20
"""The most private keys that one release shows; it bounds how many coordinates the floor to a grid can touch."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A vector of integers, one per group: α·Σ + β·n of one argument, on `grid`, with the claim of the rule."""

    name: str
    part: Part
    grid: Fraction
    claim: Claim


@dataclass(frozen=True, slots=True)
class Bounded:
    """A release with everything that the noise and the emitted SQL need to know.

    By the rule `vector` it has a `vector` of all that is added up, and once it has a price the `clip` of that. The
    different values of each COUNT(DISTINCT x) may be a vector too: `clipped` has them all. By the rule `norms` it is
    the search for the norms of one of them: `searched` is the release that it is for, with that vector alone.
    """

    release: Release
    rule: str
    keys: tuple[Key, ...]
    arguments: tuple[Argument, ...]
    statistics: tuple[Statistic, ...]
    shares: tuple[tuple[tuple[int, ...], Claim], ...]
    sources: tuple[Source, ...]
    weight: Weight | None
    selection: Selection | None
    histograms: tuple[Histogram, ...] = ()
    choices: tuple[Choice, ...] = ()
    trees: tuple[Tree, ...] = ()
    clipped: tuple[ClippedVector, ...] = ()
    searched: Bounded | None = None

    @property
    def vector(self) -> Vector | None:
        """The vector of all that is added up, if it is clipped as one."""
        return next((each.vector for each in self.clipped if not each.vector.distinct), None)

    @property
    def clip(self) -> Clip | None:
        """The clip of that vector, once it is known."""
        return next((each.clip for each in self.clipped if not each.vector.distinct), None)

    @property
    def public(self) -> bool:
        """Are all keys known in advance?"""
        return all(key.values is not None for key in self.keys)


def bound(release: Release, mechanism: str, catalog: Catalog) -> Bounded:
    """Infer domains, lay out the statistics, and choose the rule that bounds them, by facts that were checked again."""
    check_facts(release.source, catalog)
    known = release.source.row_domains()
    named = [
        (
            k.name,
            k.expression,
            _listed(release, k.name, infer(k.expression, known)),
            release.source.is_attribute(k.expression),
        )
        for k in release.keys
    ]
    keys = tuple(
        replace(key, null_declared=bool(catalog.nulls.intersection(columns_behind(key.expression, release.source))))
        for key in make_keys(named, catalog.max_public_keys)
    )
    domains: list[Domain | None] = []
    for aggregate in release.aggregates:
        domain = None if aggregate.argument is None else infer(aggregate.argument, known)
        if domain is not None and aggregate.function in ("sum", "avg") and not domain.bounded:
            assert aggregate.argument is not None
            raise unbounded(aggregate.function, aggregate.argument)
        domains.append(domain)
    asked = list(zip(release.aggregates, domains, strict=True))
    added = [(a, d) for a, d in asked if not chooses(a)]
    ranges = [d for _, d in added]
    plain = replace(release, aggregates=tuple(a for a, _ in added))
    clips = catalog.searches and not any(released_in(release.source))
    usual = [None if a.argument is None else typical_range(a.argument, release.source) for a in plain.aggregates]
    layout = lay_out(plain.aggregates, ranges, mechanism, _caps(plain, ranges, keys), usual if clips else None)
    ruled = _with_choices(with_rule(release, keys, layout, mechanism), asked, mechanism)
    if clips and _clipped(ruled, layout):
        ruled = _as_vector(ruled, layout, mechanism)
    elif bounded_at_rest(release.source) is None:
        layout = joined(layout, one_row=ruled.rule in ("row", "single_row"))
        ruled = _with_choices(with_rule(release, keys, layout, mechanism), asked, mechanism)
    if not clips:
        return ruled
    with_values = _with_values(ruled, zip(layout.sources, plain.aggregates, ranges, strict=True), mechanism)
    return _ranked(with_values, mechanism)


def _with_choices(bounded: Bounded, asked: Sequence[tuple[Aggregate, Domain | None]], mechanism: str) -> Bounded:
    """The release with the choices and trees of what is asked beside its statistics."""
    choosing = [(a, d) for a, d in asked if d is not None and chooses(a)]
    groups = _size(bounded.keys) if bounded.public else None
    made = lay_out_choices(bounded.release, choosing, bounded.rule, groups, mechanism)
    added, chosen = iter(bounded.sources), iter(made.sources)
    sources = tuple(next(chosen) if chooses(a) else next(added) for a, _ in asked)
    return replace(bounded, sources=sources, histograms=made.histograms, choices=made.choices, trees=made.trees)


def _caps(release: Release, domains: Sequence[Domain | None], keys: tuple[Key, ...]) -> list[int | None]:
    """For each COUNT(DISTINCT) the most values of one unit; None where it counts the units themselves."""
    source, groups = release.source, _groups_of_unit(keys)
    return [
        None if source.is_unit(a.argument) else distinct_cap(source, a.argument, domain, groups)
        for a, domain in zip(release.aggregates, domains, strict=True)
        if a.distinct and a.argument is not None and domain is not None
    ]


def _groups_of_unit(keys: tuple[Key, ...]) -> int | None:
    """The number of groups that a unit may be in; None if unknown."""
    private = any(key.values is None for key in keys)
    return 1 if all(key.attribute for key in keys) else None if private else _size(keys)


def _listed(release: Release, key: str, inferred: Domain) -> Domain:
    """A key's domain, inside what public tables say of it."""
    said = dict(release.listed).get(key)
    return inferred if said is None else intersect(inferred, said)


def with_rule(release: Release, keys: tuple[Key, ...], layout: Layout, mechanism: str) -> Bounded:
    """The release under the rule that holds for its source and keys.

    **Theorem.** Which rule is taken is a function of the SQL, the policy, the stored types and the verified facts, and
    its claim is sound wherever it is taken.
    **Proof.** All that is asked here (`by_row`, `single`, `rows_per_unit`, what is an attribute, what is listed, which
    copy is read) is a field of the plan, none of which is made from private rows. By cases: a source that is `by_row`
    or `single` has at most one row of a unit (`dpsql.sensitivity.unit_weight`). A copy at rest has at most
    `rows_per_unit` of them, each of which adds to one group, and `at_rest` holds only where all is added up over rows.
    Where every key is an attribute, a unit is in one group, else in any number: `one_group` and `clip`
    (`dpsql.sensitivity.unit_weight`), whose weight the emitted SQL enforces whatever the rows are. Rules are tried from
    the least claim on; as each is sound under its own condition, and conditions are public, so is the first that
    applies.
    **Requires** facts that were derived anew from the leaves (`dpsql.plan.invariants`, called by `bound`), and SQL that
    is emitted by the rule that is named here (`dpsql.engines.sql.emit`).
    **Checked by** `tests/unit/sensitivity/test_bound.py`, `tests/audit/test_neighbours.py`, and the planted bug "one
    group where only some keys are attributes".
    """
    private = any(key.values is None for key in keys)
    counted_units = not private and _counts_units(release, keys)
    one_group = all(key.attribute for key in keys)
    if release.source.by_row or release.source.single:
        return _rule(
            "row" if release.source.by_row else "single_row",
            release,
            keys,
            layout,
            None,
            1,
            select_keys(1, mechanism) if private or counted_units else None,
        )
    reach = 1 if one_group else MAX_RELEASED if private else _size(keys)
    if at_rest(release, layout) and not (private or counted_units):
        return _rule("at_rest", release, keys, layout, None, min(reach, release.source.rows_per_unit), None)
    counted = _groups_counted(release, keys)
    selection = None
    if private or (counted_units and one_group):
        selection = select_keys(1 if one_group else release.groups_per_unit, mechanism)
    elif counted_units:
        selection = existing_groups(_size(keys), mechanism)
    weight = Weight(tuple(_terms(release, layout, None if one_group else counted))) if layout.parts else None
    if weight is not None and any(term.cap >= 2**80 for term in weight.terms):
        raise PolicyError(
            f"max_rows_per_unit of {release.table} times the bound of a row is beyond what can be counted exactly",
            hint="declare fewer rows per unit, or tighter bounds",
        )
    return _rule(
        "one_group" if one_group else "clip",
        release,
        keys,
        layout,
        weight,
        reach,
        selection,
    )


def _counts_units(release: Release, keys: tuple[Key, ...]) -> bool:
    """Does it matter which of the public keys have rows? Not where the query shows all that there can be."""
    groups = prod(len(key.values or ()) for key in keys)
    return bool(keys) and release.existing_beyond is not None and groups > release.existing_beyond


def at_rest(release: Release, layout: Layout) -> bool:
    """Whether everything is a sum over the rows of a copy in which no unit has more rows than its bound."""
    copy = bounded_at_rest(release.source)
    per_unit = [a for a in release.aggregates if a.function in ("min", "max")]
    within = copy is not None and not copy.over and copy.rows <= release.source.rows_per_unit
    return within and not per_unit and all(part.weighed for part in layout.parts)


def _size(keys: tuple[Key, ...]) -> int:
    size = 1
    for key in keys:
        size *= len(key.values or ())
    return max(1, size)


def _groups_counted(release: Release, keys: tuple[Key, ...]) -> int:
    """In how many groups a unit is counted: in all that there are, but for caps that the policy declares.

    A default never cuts anything where keys are public: nothing but the noise depends on their number.
    """
    if any(key.values is None for key in keys):
        return release.groups_per_unit
    if release.groups_capped:
        return min(_size(keys), release.groups_per_unit)
    rows = release.source.rows_per_unit if all(scan.capped for scan in scans_in(release.source)) else None
    return _size(keys) if rows is None else min(_size(keys), rows)


def _terms(release: Release, layout: Layout, groups: int | None) -> list[Term]:
    """What a unit's weight must keep below its cap; `groups` is None where a unit has one group.

    COUNT(*) covers everything: with W ≤ m/rows, each row statistic that adds at most M a row stays below m·M, and so do
    several of which a row adds to one; but where that is only believed, they need a term of their own.
    """
    rows = release.source.rows_per_unit
    terms = [Term("groups", None, groups) for p in layout.parts if p.units and groups is not None]
    plain = [p for p in layout.parts if p.weighed]
    all_rows = any(layout.arguments[p.argument].expression is None for p in plain)
    terms += [Term("rows", None, rows)] if all_rows else []
    shares = layout.believed if all_rows else layout.shares
    together = (sorted({layout.parts[place].argument for place in share}) for share in shares)
    for index, *others in dict.fromkeys(map(tuple, together)):
        mine = [p for p in plain if p.argument in (index, *others)]
        if any(p.beta for p in mine):
            terms.append(Term("count", index, rows, tuple(others)))
        elif mine:
            terms.append(Term("sum", index, rows * layout.arguments[index].magnitude, tuple(others)))
    return terms


def _clipped(bounded: Bounded, layout: Layout) -> bool:
    """Whether the rule `vector` is better than the rule by declared caps.

    A copy that is bounded at rest is read by its own rule, which is why it was made. A unit with one row adds the same
    to every count, so there a clip serves sums only, and not those of flags.
    """
    members = [part for part in layout.parts if not part.distinct]
    if not members or bounded.rule == "at_rest":
        return False
    if bounded.rule in ("row", "single_row"):
        return any(part.alpha and part.row > 1 for part in members)
    return True


def _as_vector(bounded: Bounded, layout: Layout, mechanism: str) -> Bounded:
    """The release under the rule `vector`, clipped at the limit of the policy until a better clip is known."""
    norm: Norm = "l1" if mechanism == "laplace" else "l2"
    source = bounded.release.source
    scales = _scales(layout)
    rows = 1 if bounded.rule in ("row", "single_row") else source.rows_per_unit
    members = [(part, scale) for part, scale in zip(layout.parts, scales, strict=True) if scale is not None]
    each = [max(1, part.row) * Fraction(2) ** scale for part, scale in members]
    row = sum(each) if norm == "l1" else isqrt(ceil(sum(size**2 for size in each)) - 1) + 1
    limit = float(min(ceil(rows * row), 1 << CELL_BITS))
    groups = _size(bounded.keys) if bounded.public else PRIVATE_GROUPS
    one_group = bounded.rule != "clip"
    declared, closed = all(scan.capped for scan in scans_in(source)), False
    if bounded.public and all(part.units for part, _ in members):
        counted = 1 if one_group else _groups_counted(bounded.release, bounded.keys)
        limit, declared, closed = _most_of_groups(norm, counted), True, one_group or counted == groups
    flags = all(not p.alpha or layout.arguments[p.argument].flag for p, _ in members)
    left = 1.0 if not bounded.release.rates else RATE_CUT if flags else MEAN_CUT
    shape = Vector(norm, scales, groups * len(members), limit, declared, one_group, left)
    vector = replace(shape, private=not bounded.public, closed=closed)
    others = [(share, joint) for share, joint in bounded.shares if not set(vector.members).intersection(share)]
    shares = ((vector.members, bounded.statistics[vector.members[0]].claim), *others)
    made = replace(bounded, rule="vector", weight=None, shares=shares, clipped=(ClippedVector(vector),))
    return settle(made, clip_at(vector, limit), provisional=True)


def _with_values(bounded: Bounded, asked: Iterable[tuple[Source, Aggregate, Domain | None]], mechanism: str) -> Bounded:
    """The release with a vector for each COUNT(DISTINCT x) of which a unit may have several values."""
    source, groups = bounded.release.source, _groups_of_unit(bounded.keys)
    if source.by_row or source.single:
        return bounded
    norm: Norm = "l1" if mechanism == "laplace" else "l2"
    cells = _size(bounded.keys) if bounded.public else PRIVATE_GROUPS
    capped = all(scan.capped for scan in scans_in(source))
    different = {laid.first: (a.argument, domain) for laid, a, domain in asked if laid.form == "distinct"}
    for place, (argument, domain) in different.items():
        assert argument is not None and domain is not None
        limit, listed = values_limit(source, argument, domain, groups, norm)
        if limit > 1:
            scales = tuple(0 if each == place else None for each in range(len(bounded.statistics)))
            values, one_group = listed_values(argument, domain), groups == 1
            vector = Vector(norm, scales, cells, limit, capped or listed, one_group, distinct=True, values=values)
            bounded = replace(bounded, clipped=(*bounded.clipped, ClippedVector(vector)))
            bounded = settle(bounded, clip_at(vector, limit), provisional=True)
    return bounded


def _ranked(bounded: Bounded, mechanism: str) -> Bounded:
    """The release with a vector for what its choices and trees rank: the rows of a unit by group, or its groups."""
    norm: Norm = "l1" if mechanism == "laplace" else "l2"
    source, one_group = bounded.release.source, all(key.attribute for key in bounded.keys)
    cells = _size(bounded.keys) if bounded.public else PRIVATE_GROUPS
    for ranked in dict.fromkeys(each.ranked for each in bounded.histograms if each.term is not None):
        limit, declared = float(source.rows_per_unit), all(scan.capped for scan in scans_in(source))
        closed = False
        if ranked == "groups" and bounded.public:
            counted = _groups_counted(bounded.release, bounded.keys)
            limit, declared, closed = _most_of_groups(norm, counted), True, counted == cells
        limit = min(limit, 2.0 ** (ROW_BITS - 1))
        shape = Vector(norm, (), cells, limit, declared, one_group, ranked=ranked)
        vector = replace(shape, private=not bounded.public, closed=closed)
        bounded = replace(bounded, clipped=(*bounded.clipped, ClippedVector(vector)))
        bounded = settle(bounded, clip_at(vector, limit), provisional=True)
    return bounded


def _most_of_groups(norm: Norm, groups: int) -> float:
    """The norm of a unit that is counted in so many groups, a little above, so that rounding cuts nothing."""
    return groups if norm == "l1" else sqrt(groups) * (1 + 2.0**-CLIP_BITS)


def settle(bounded: Bounded, clip: Clip, *, provisional: bool = False) -> Bounded:
    """The release with the claims of a clip, all statistics of its vector as one share.

    A unit is in at most as many groups as the square of its clip has values.
    """
    same = (e for e in bounded.clipped if (e.vector.members, e.vector.ranked) == (clip.members, clip.ranked))
    of = next(same, None)
    if of is None:
        raise LookupError(f"no vector of {bounded.release.name} has the statistics {clip.members}")
    settled = of if provisional else replace(of, clip=clip)
    bounded = replace(bounded, clipped=tuple(settled if each is of else each for each in bounded.clipped))
    if clip.ranked is not None:
        return _with_weights(bounded, clip, "l1" if of.vector.one_group else clip.norm)
    reach = 1 if of.vector.one_group else _size(bounded.keys) if bounded.public else MAX_RELEASED
    if of.vector.distinct:
        reach = min(reach, most_values(clip))
    claim, joint = clip.claim(reach), clip.claim(reach * len(clip.members))
    statistics = tuple(
        replace(each, claim=claim, grid=_own_grid(bounded, each.part) / Fraction(2) ** exponent)
        if exponent is not None
        else each
        for each, exponent in zip(bounded.statistics, clip.exponents, strict=True)
    )
    shares = tuple((share, joint if share == clip.members else other) for share, other in bounded.shares)
    return replace(bounded, statistics=statistics, shares=shares)


def _with_weights(bounded: Bounded, clip: Clip, norm: Norm) -> Bounded:
    """The release with histograms in which what a unit adds to its groups has at most the norm of the clip."""
    histograms = tuple(
        replace(each, most=clip.bound, clipped=norm) if each.term is not None and each.ranked == clip.ranked else each
        for each in bounded.histograms
    )
    made = [histograms[each.histogram] for each in bounded.trees]
    trees = tuple(replace(t, most=h.most, clipped=h.clipped) for t, h in zip(bounded.trees, made, strict=True))
    return replace(bounded, histograms=histograms, trees=trees)


BUCKET = "_k0"


def norm_search(bounded: Bounded, vector: Vector) -> Bounded:
    """The search for the norms of one of the vectors of a release: a histogram of its units, as a release."""
    norms = norms_of(vector.norm, vector.cells)
    listed = tuple(range(BUCKETS))
    bucket = Literal(integer(0, BUCKETS - 1), value=0)
    key = Key(BUCKET, bucket, finite(listed, bucket.type, nullable=False), listed, attribute=True)
    sizes = [("units", norms.count), *([("spread", norms.spread)] if norms.spread else [])]
    parts = [Part(each, 0, 0, 1, size) for each, size in sizes]
    statistics = tuple(Statistic(part.name, part, Fraction(1, part.row), one_coordinate(part.row)) for part in parts)
    number = str(vector.members[0]) if vector.distinct else vector.ranked or ""
    release = replace(bounded.release, name=f"{bounded.release.name}_norms{number}", bars=())
    return Bounded(
        replace(release, keys=(), aggregates=()),
        "norms",
        (key,),
        (counted(None, Domain()),),
        statistics,
        ((tuple(range(len(parts))), norms.claim),),
        (),
        None,
        None,
        searched=_only(replace(bounded, release=release), vector),
    )


def _only(bounded: Bounded, vector: Vector) -> Bounded:
    """The release with one of its vectors; different values and ranks alone, so that it serves whatever is beside."""
    if vector.ranked is not None:
        part = Part(vector.ranked, 0, 0, 1, 1, units=vector.ranked == "groups")
        return replace(
            bounded,
            arguments=(counted(None, Domain()),),
            statistics=(Statistic(part.name, part, Fraction(1), one_coordinate(1)),),
            clipped=(ClippedVector(replace(vector, scales=(0,), ranked=None)),),
            sources=(),
            histograms=(),
            choices=(),
            trees=(),
        )
    if not vector.distinct:
        return replace(bounded, clipped=(ClippedVector(vector),))
    statistic = bounded.statistics[vector.members[0]]
    part = replace(statistic.part, argument=0)
    return replace(
        bounded,
        arguments=(bounded.arguments[statistic.part.argument],),
        statistics=(replace(statistic, part=part),),
        clipped=(ClippedVector(replace(vector, scales=(0,))),),
        sources=(),
    )


def unit_of_norms(bounded: Bounded, vector: Vector, place: int) -> Fraction:
    """How much of a statistic is one unit of norms."""
    scale = vector.scales[place] or 0
    return _own_grid(bounded, bounded.statistics[place].part) / Fraction(2) ** scale


def least_of_a_row(bounded: Bounded, vector: Vector) -> float:
    """The least that a row adds to a vector of counts, in units of norms; 0 where values are added up."""
    parts = [(bounded.statistics[place].part, vector.scales[place] or 0) for place in vector.members]
    if any(part.alpha for part, _ in parts):
        return 0.0
    return float(min((2.0**scale for _, scale in parts), default=1.0))


def _own_grid(bounded: Bounded, part: Part) -> Fraction:
    """The size of a step of α·Σ + β·n."""
    return bounded.arguments[part.argument].grid / abs(part.alpha) if part.alpha else Fraction(1)


def _scales(layout: Layout) -> tuple[int | None, ...]:
    """For each statistic the exponent that makes it comparable with the others in one norm.

    A sum is divided by what a typical row adds to it. A count that only an average is divided by counts half: an
    average needs its sum more than its count. (Where a count or a sum is shown too, that would double their error:
    5.4% for 2.7% of orders by category in the demo.) A sum of flags, or the count of a part beside the rest, counts
    four times: it is small, or else its error matters less. Together they are shifted so that the finest steps are
    units of norms, as far as a row then adds at most 2**ROW_BITS of them.
    """
    parts = {
        place: 1 - part.typical.bit_length() if part.alpha else -1 if part.divides else 0
        for place, part in enumerate(layout.parts)
        if not part.distinct
    }
    parts |= {place: RARE for place in parts if layout.parts[place].rare}
    if not parts:
        return (None,) * len(layout.parts)
    finest = -min(parts.values())
    room = min(ROW_BITS - max(1, layout.parts[place].row).bit_length() - scale for place, scale in parts.items())
    shift = min(finest, room)
    return tuple(parts[place] + shift if place in parts else None for place in range(len(layout.parts)))


def _rule(
    name: str,
    release: Release,
    keys: tuple[Key, ...],
    layout: Layout,
    weight: Weight | None,
    reach: int,
    selection: Selection | None,
) -> Bounded:
    bits = WEIGHT_BITS if weight is not None else 0
    groups = _groups_counted(release, keys)
    statistics = tuple(_statistic(p, release, layout, name, bits, reach, groups) for p in layout.parts)
    shares = tuple((share, _joint([statistics[i] for i in share])) for share in layout.shares)
    return Bounded(release, name, keys, layout.arguments, statistics, shares, layout.sources, weight, selection)


def _statistic(
    part: Part, release: Release, layout: Layout, rule: str, bits: int, reach: int, groups: int
) -> Statistic:
    """The claim of one statistic under the rule; the theorems are in `single_row`, `at_rest_rule` and `unit_weight`."""
    grid = layout.arguments[part.argument].grid / abs(part.alpha) if part.alpha else Fraction(1)
    if part.units and rule == "one_group":
        return Statistic(part.name, part, grid, one_coordinate(1))
    if part.distinct:
        spread = Claim(None, part.row, part.row, part.row, min(reach, part.row))
        return Statistic(part.name, part, grid, spread if rule == "clip" else one_coordinate(part.row))
    if part.units and rule == "clip":
        l2 = isqrt((groups << 2 * bits) - 1) + 1
        return Statistic(part.name, part, grid / (1 << bits), Claim(None, 1 << bits, groups << bits, l2, reach))
    size = max(1, part.row) * (1 if rule in ("row", "single_row") else release.source.rows_per_unit) << bits
    several = {"clip": Claim(None, size, size, size, reach), "at_rest": Claim(reach, size, size, size, reach)}
    claim = several.get(rule, one_coordinate(size))
    return Statistic(part.name, part, grid / (1 << bits), claim)


def _joint(statistics: list[Statistic]) -> Claim:
    """The claim on the concatenated vectors of one share: a row adds to both what it adds to one of them at most."""
    first = statistics[0].claim
    if len(statistics) == 1:
        return first
    return Claim(None, first.linf, first.l1, first.l2, first.reach * len(statistics))
