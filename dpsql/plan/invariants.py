"""The second lock of the plan: every fact that switches enforcement off is derived once more, from the leaves up.

A node states facts about its rows (`by_row`, `single`, `rows_per_unit`, which fields are attributes or determine the
owner, which parts of a join are looked up). The planner computes them while it builds the node. Here they are computed
a second time, by other code, from the facts of the node's children alone, and a node that states more is refused. So
one wrong line of the planner costs an answer, and never a sensitivity.

**Theorem.** If `check_facts` accepts a relation, every fact that it states holds on all databases on which the verified
facts of the catalogue hold. **Proof.** By induction over the relation. A leaf states what the catalogue says of its
table, and nothing more. For every other node `derive` gives facts that follow from facts of its children, which hold by
induction: · a filter, EXISTS and a mark keep each row or leave it out, so what holds of the rows still holds; a
condition on a number that no two rows of a unit share leaves at most as many rows as it admits numbers; · a projection
computes a field from one row: it is an attribute if everything that it reads is; a bare column keeps its label, and a
key all of whose columns are shown is still one; · a grouping by the unit and attributes has one row per unit; if a key
determines the owner, the keys name one row; · an inner join has, for each combination of its roots' rows, at most one
row of every part that is looked up (`_follows`): each column of its key is equated to what is there already or holds
the owner, who is known, or it has one row per unit; a key of every root names a combination of their rows, hence one
row of the join; · an outer join adds rows to the left side's only where a row has several matches, or in a FULL join;
where one side matches once, each pair is counted by a row of the other side, and what matches nothing is counted by
itself. A key of the left side names one row where that matches once, and else together with a key of the right side,
for what matches nothing is NULL in some field of it (of a FULL join therefore not the key without fields); · a union
has the rows of its parts, so one row per unit only where each row is a unit; · a window function that reads the whole
of a unit's rows gives all of them the same value. A stated fact is implied by the derived one (`_check`). **Requires**
a catalogue made of verified facts (`make_catalog`), and the keys of released tables
(`dpsql.plan.builder.nested_queries`). **Checked by** `tests/unit/plan/test_invariants.py`: false facts are planted in
every kind of node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import prod

from dpsql.expressions.expression import Call, Column, Expression, Literal, columns_of
from dpsql.expressions.types import Kind
from dpsql.plan.catalog import Catalog, PrivateTable, PublicTable
from dpsql.plan.nodes.joins import Inner, Outer, equations
from dpsql.plan.nodes.relation import UNIT, Item, JoinSide, PublicScan, Relation, Scan, require, same_owner
from dpsql.plan.nodes.released_scan import ReleasedScan
from dpsql.plan.nodes.semi_joins import Exists, ExistsColumn
from dpsql.plan.nodes.unary import Filter, Project, UnitGroup
from dpsql.plan.nodes.union import UnionAll
from dpsql.plan.nodes.windows import CHOSEN, WindowCall, Windowed
from dpsql.plan.normal_form import conjuncts

MOST_KEYS = 64
"""A key that is shown under several names is followed under so many combinations of them."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What holds of a relation's rows on any data.

    `labels` says how a field determines the owner wherever it is not NULL; `padded` are fields that an outer join may
    have made NULL. `keys` are sets of fields that name at most one row, `numbers` fields whose value no two rows of a
    unit share; `stored` is the public table behind the rows, and its column for each field that is one.
    """

    public: bool = False
    by_row: bool = False
    single: bool = False
    rows: int = 1
    attributes: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    padded: frozenset[str] = frozenset()
    keys: frozenset[frozenset[str]] = frozenset()
    numbers: frozenset[str] = frozenset()
    stored: tuple[str, Mapping[str, str]] | None = None

    def alike(self, expression: Expression) -> bool:
        """Whether all rows of a unit have the same value of it."""
        return self.single or self.by_row or columns_of(expression) <= self.attributes

    def owned(self, expression: Expression) -> bool:
        """Whether it is a plain column that determines the owner on every row."""
        return isinstance(expression, Column) and expression.name in self.labels and expression.name not in self.padded

    def has_key(self, columns: frozenset[str], catalog: Catalog) -> bool:
        """Do these fields name at most one row?"""
        if any(key <= columns for key in self.keys):
            return True
        if self.stored is None:
            return False
        table, names = self.stored
        found = frozenset(names[c] for c in columns if c in names)
        return bool(found) and catalog.public.unique(table, found)

    def shown(self, names: Mapping[str, Collection[str]]) -> Facts:
        """The same rows with other names for their fields; a field may get several names, or none."""
        keys = (islice(product(*(names.get(c, ()) for c in sorted(key))), MOST_KEYS) for key in self.keys)
        stored = self.stored and (self.stored[0], {n: c for f, c in self.stored[1].items() for n in names.get(f, ())})
        return replace(
            self,
            attributes=frozenset(n for f in self.attributes for n in names.get(f, ())),
            labels={n: label for f, label in self.labels.items() for n in names.get(f, ())},
            padded=frozenset(n for f in self.padded for n in names.get(f, ())),
            keys=frozenset(frozenset(each) for variants in keys for each in variants),
            numbers=frozenset(n for f in self.numbers for n in names.get(f, ())),
            stored=stored,
        )


def check_facts(relation: Relation, catalog: Catalog) -> None:
    """Refuse a relation that states more of its rows, or of the rows below it, than follows from the catalogue."""
    _Check(catalog).of(relation)


class _Check:
    """The facts of each node, derived once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self._known = catalog, dict[int, Facts]()

    def of(self, relation: Relation) -> Facts:
        """The derived facts of a node that states no more than them."""
        if id(relation) not in self._known:
            found = self._derive(relation)
            if found.single or found.by_row:
                found = replace(found, attributes=frozenset(f.name for f in relation.fields))
            _compare(relation, found)
            self._known[id(relation)] = found
        return self._known[id(relation)]

    def part(self, part: JoinSide) -> Facts:
        """The facts of a side of a join, under the names of the join."""
        names = {f.name: (n,) for f, n in zip(part.relation.fields, part.names, strict=True)}
        return self.of(part.relation).shown(names)

    def _derive(self, relation: Relation) -> Facts:
        match relation:
            case Scan():
                return _scan(relation, self._catalog)
            case PublicScan():
                return _public(relation, self._catalog)
            case ReleasedScan(key=key):
                return Facts(public=True, keys=frozenset() if key is None else frozenset({key}))
            case Filter(source=Relation() as source, condition=Expression() as condition):
                return _filtered(self.of(source), conjuncts(condition))
            case Project(source=Relation() as source, items=items):
                return _projected(self.of(source), items)
            case UnitGroup(source=Relation() as source, keys=keys):
                return _grouped(self.of(source), keys)
            case Exists(source=Relation() as source, inner=JoinSide() as inner):
                self.part(inner)
                return self.of(source)
            case ExistsColumn(
                source=Relation() as source, inner=JoinSide() as inner, condition=Expression() as condition
            ):
                self.part(inner)
                return _marked(self.of(source), columns_of(condition) - set(inner.names), relation.mark)
            case Windowed(source=Relation() as source, calls=calls):
                return _windowed(self.of(source), calls)
            case UnionAll(parts=parts):
                return _united(relation, [self.of(part) for part in parts])
            case Inner(parts=parts):
                return self._inner(relation, [self.part(part) for part in parts])
            case Outer(left=JoinSide() as left, right=JoinSide() as right):
                return self._outer(relation, left, right)
        return Facts(rows=relation.rows_per_unit)

    # joins ----------------------------------------------------------------------------------------------------------

    def _inner(self, join: Inner, parts: Sequence[Facts]) -> Facts:
        roots = [facts for number, facts in enumerate(parts) if number not in join.lookups]
        private = any(not facts.public for facts in parts)
        require(bool(roots) and (not private or any(not facts.public for facts in roots)), "a join without roots")
        require(self._follows(join, parts), "a part of a join that is not looked up")
        return Facts(
            public=not private,
            by_row=any(facts.by_row for facts in parts),
            single=all(facts.single and not facts.public for facts in roots),
            rows=prod(facts.rows for facts in roots if not facts.public),
            attributes=self._agreed(join, parts),
            labels={name: label for facts in parts for name, label in facts.labels.items()},
            padded=frozenset().union(*(facts.padded for facts in parts)),
            keys=_all_of([facts.keys for facts in roots]),
        )

    def _follows(self, join: Inner, parts: Sequence[Facts]) -> bool:
        """Whether each part that counts as looked up is found through the parts before it."""
        there = set(range(len(parts))) - join.lookups
        waiting = set(join.lookups)
        while waiting:
            names = frozenset(name for number in there for name in join.parts[number].names)
            unit = any(not parts[number].public for number in there)
            found = {
                number
                for number in waiting
                if self._met_once(parts[number], unit, _equated(join.parts[number], join.conditions, names))
            }
            if not found:
                return False
            there, waiting = there | found, waiting - found
        return True

    def _met_once(self, facts: Facts, owned: bool, equal: frozenset[str]) -> bool:
        """Whether a part has at most one row for these fields and, with `owned`, for a row of the same owner."""
        if owned and not facts.public:
            equal |= {n for n, label in facts.labels.items() if label == UNIT and n not in facts.padded}
            return facts.single or facts.has_key(equal, self._catalog)
        return facts.has_key(equal, self._catalog)

    def _agreed(self, join: Inner, parts: Sequence[Facts]) -> frozenset[str]:
        """The fields on which all rows of a unit agree: private attributes, and public rows that those look up."""
        agreed = frozenset(name for facts in parts if not facts.public for name in facts.attributes)
        waiting = [number for number, facts in enumerate(parts) if facts.public]
        while True:
            found = [
                number
                for number in waiting
                if parts[number].has_key(_equated(join.parts[number], join.conditions, agreed), self._catalog)
            ]
            if not found:
                return agreed
            agreed |= {name for number in found for name in join.parts[number].names}
            waiting = [number for number in waiting if number not in found]

    def _outer(self, join: Outer, left: JoinSide, right: JoinSide) -> Facts:
        one, two = self.part(left), self.part(right)
        assert join.condition is not None
        conditions = conjuncts(join.condition)
        linked = one.single and two.single and not two.public and _units_only(conditions, one, two)
        once = self._met_once(two, not one.public, _equated(right, conditions, frozenset(left.names)))
        back = self._met_once(one, not two.public, _equated(left, conditions, frozenset(right.names)))
        require(once or not join.once, "a side of a join that matches more than once")
        pairs, alone = one.rows * two.rows, one.rows + two.rows
        if two.public or (once and not join.full):
            rows = one.rows
        elif once or back:
            rows = alone if join.full else min(pairs, alone)
        else:
            rows = max(pairs, alone) if join.full else pairs
        single = one.single and (linked if join.full else once)
        labels = {**one.labels, **two.labels, **_merged(join, left, right, one, two)}
        return Facts(
            public=one.public,
            by_row=one.by_row,
            single=single,
            rows=1 if single else rows,
            attributes=(frozenset() if join.full else one.attributes)
            | {name for name, _, _ in join.merged if labels.get(name) == UNIT},
            labels=labels,
            padded=one.padded | two.padded | set(right.names) | (set(left.names) if join.full else set()),
            keys=frozenset(k for k in _all_of([one.keys, *([] if join.once else [two.keys])]) if k or not join.full),
        )


def _compare(relation: Relation, found: Facts) -> None:
    """Refuse a node that states more than what was derived."""
    name = type(relation).__name__
    require(relation.public == found.public, f"{name}: whether its rows have owners")
    require(relation.by_row == found.by_row, f"{name}: whether rows are units")
    require(found.single or not relation.single, f"{name}: one row per unit is not proved")
    require(found.public or relation.rows_per_unit >= found.rows, f"{name}: rows per unit")
    for each in relation.fields:
        require(not each.attribute or each.name in found.attributes, f"{name}: an attribute is not proved")
        require(each.owner is None or found.labels.get(each.name) == each.owner, f"{name}: an owner is not proved")
        require(each.owner is None or each.padded or each.name not in found.padded, f"{name}: an owner may be missing")


# one rule for each kind of node -------------------------------------------------------------------------------


def _scan(scan: Scan, catalog: Catalog) -> Facts:
    """The facts of the catalogue; the scan must read the table by the same path and rely on no other key."""
    table = catalog.find(scan.table)
    require(isinstance(table, PrivateTable), "a private table that the catalogue does not have")
    assert isinstance(table, PrivateTable)
    known = table.scan
    same = (scan.unit, scan.path, scan.unit_type, scan.copy) == (known.unit, known.path, known.unit_type, known.copy)
    there = {f.name for f in scan.fields} <= {f.name for f in known.fields}
    require(same and there and set(scan.keys) <= set(known.keys), "a private table read in another way")
    labels = {f.name: f.owner for f in known.fields if f.owner is not None}
    return Facts(
        by_row=known.by_row,
        single=known.single,
        rows=scan.rows_per_unit,
        attributes=frozenset(f.name for f in known.fields if f.attribute),
        labels=labels,
        keys=known.keys,
    )


def _public(scan: PublicScan, catalog: Catalog) -> Facts:
    """Rows without owner, and the keys of the catalogue; other keys are checked on demand (`has_key`)."""
    table = catalog.find(scan.table)
    require(isinstance(table, PublicTable), "a table read as public")
    assert isinstance(table, PublicTable)
    require(scan.keys <= table.keys, "a public table with other keys")
    return Facts(public=True, keys=table.keys, stored=(scan.table, {f.name: f.name for f in scan.fields}))


def _filtered(source: Facts, conditions: Sequence[Expression]) -> Facts:
    """The rows that are left; a condition on a number leaves at most as many of a unit as it admits numbers."""
    admitted = [n for c in conditions if (n := _numbers_admitted(c, source.numbers)) is not None]
    rows = min([source.rows, *admitted])
    return replace(source, rows=rows, single=source.single or 1 in admitted)


def _numbers_admitted(condition: Expression, numbers: frozenset[str]) -> int | None:
    """How many of 1, 2, 3, … satisfy a condition of the form `number = c`, `IN (…)`, `<= c` or `< c`; at least 1."""
    match condition:
        case Call(op="eq", args=(Column(name=name), Literal(value=int()))) if name in numbers:
            return 1
        case Call(op="in", args=(Column(name=name), *listed)) if name in numbers:
            return len(listed) if all(isinstance(each, Literal) for each in listed) else None
        case Call(op="le", args=(Column(name=name), Literal(value=int() as most))) if name in numbers:
            return max(1, most)
        case Call(op="lt", args=(Column(name=name), Literal(value=int() as end))) if name in numbers:
            return max(1, end - 1)
    return None


def _projected(source: Facts, items: Sequence[Item]) -> Facts:
    names: dict[str, list[str]] = {}
    for item in items:
        if isinstance(item.expression, Column):
            names.setdefault(item.expression.name, []).append(item.name)
    agreed = frozenset(item.name for item in items if source.alike(item.expression))
    return replace(source.shown(names), attributes=agreed)


def _grouped(source: Facts, keys: Sequence[Item]) -> Facts:
    single = all(source.alike(key.expression) for key in keys)
    owned = any(source.owned(key.expression) for key in keys)
    shown = _projected(source, keys)
    return Facts(
        single=single,
        rows=1 if single else source.rows,
        attributes=shown.attributes,
        labels=shown.labels,
        padded=shown.padded,
        keys=frozenset({frozenset(key.name for key in keys)} if owned else ()),
    )


def _marked(source: Facts, read: Collection[str], mark: str) -> Facts:
    agreed = source.single or source.by_row or set(read) <= source.attributes
    return replace(source, attributes=source.attributes | ({mark} if agreed else set()))


def _windowed(source: Facts, calls: Sequence[tuple[str, WindowCall]]) -> Facts:
    """Window values over all rows of a unit are the same on each of them; row numbers occur once each."""
    whole = [(name, call) for name, call in calls if all(source.alike(key) for key in call.partition)]
    agreed = {
        name
        for name, call in whole
        if call.frame.start is None and call.frame.end is None and (call.aggregate or call.function in CHOSEN)
    }
    numbers = {name for name, call in whole if call.function == "row_number"}
    return replace(source, attributes=source.attributes | agreed, numbers=source.numbers | numbers)


def _united(union: UnionAll, parts: Sequence[Facts]) -> Facts:
    """Columns are matched by place: one determines the owner if it does in every part, in the same way."""
    labels, padded = dict[str, str](), set[str]()
    for place, shown in enumerate(union.fields):
        columns = [part.fields[place] for part in union.parts]
        found = {facts.labels.get(column.name) for facts, column in zip(parts, columns, strict=True)}
        label = next(iter(found)) if len(found) == 1 else None
        if label is not None and all(same_owner(columns[0], column) for column in columns):
            labels[shown.name] = label
        if any(column.name in facts.padded for facts, column in zip(parts, columns, strict=True)):
            padded.add(shown.name)
    by_row = all(facts.by_row for facts in parts)
    return Facts(
        by_row=by_row,
        single=by_row,
        rows=1 if by_row else sum(facts.rows for facts in parts),
        attributes=frozenset(name for name, label in labels.items() if label == UNIT and name not in padded),
        labels=labels,
        padded=frozenset(padded),
    )


def _all_of(keys: Sequence[frozenset[frozenset[str]]]) -> frozenset[frozenset[str]]:
    """All combinations of one key from each."""
    ways = islice(product(*(sorted(each, key=sorted) for each in keys)), MOST_KEYS)
    return frozenset(frozenset(name for key in way for name in key) for way in ways)


def _merged(join: Outer, left: JoinSide, right: JoinSide, one: Facts, two: Facts) -> dict[str, str]:
    """USING in a FULL join: whichever side is there names its own owner, if both columns do so in one way."""
    ones, twos = ({f.name: f for f in part.fields} for part in (left, right))
    return {
        name: one.labels[a]
        for name, a, b in join.merged
        if a in one.labels
        and one.labels[a] == two.labels.get(b)
        and same_owner(ones[a], twos[b])
        and not ({a, b} & (one.padded | two.padded))
    }


def _units_only(conditions: Sequence[Expression], one: Facts, two: Facts) -> bool:
    """Is the condition that the owners are equal, and nothing more?"""
    units = {n for facts in (one, two) for n, label in facts.labels.items() if label == UNIT and n not in facts.padded}
    return len(conditions) == 1 and columns_of(conditions[0]) <= units


def _equated(part: JoinSide, conditions: Sequence[Expression], names: frozenset[str]) -> frozenset[str]:
    """The fields of a part that are equal, compared without rounding, to something computed from these names."""
    sides = [side for pair in equations(conditions) for side in (pair, pair[::-1])]
    mine = [(a.name, a, b) for a, b in sides if isinstance(a, Column) and a.name in part.names]
    return frozenset(name for name, a, b in mine if columns_of(b) <= names and _exactly(a, b))


def _exactly(one: Expression, two: Expression) -> bool:
    return one.type == two.type or {one.type.kind, two.type.kind} == {Kind.INTEGER}
