"""Joins as nodes, made by hand: what each requires, what is an attribute of the owner, and how many rows a unit has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dpsql.bounds.domain import Domain, finite, interval
from dpsql.errors import InternalError
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Type, from_engine
from dpsql.expressions.typing import call, literal
from dpsql.plan.join import Exists, Inner, Outer, Part, equations, first_of, owner_groups, share_owner, whole
from dpsql.plan.normal import conjunction
from dpsql.plan.relate import filtered, known_of
from dpsql.plan.relate_joins import existing, joined, matches_once, outer_joined, renamed
from dpsql.plan.relation import UNIT, Field, PublicScan, Relation, Scan

SMALL = from_engine("INTEGER")
assert SMALL is not None


def private(name: str, *fields: Field, rows: int = 1, single: bool = False, **more: Any) -> Scan:
    return Scan(fields, False, rows, single, table=name, unit="id", unit_type=BIGINT, **more)


def unit(name: str = "id", type_: Type = BIGINT) -> Field:
    return Field(name, type_, Domain(), attribute=True, owner=UNIT)


PEOPLE = private("people", unit(), Field("age", BIGINT, interval(18, 90)), Field("place", TEXT, Domain()), single=True)
ORDERS = private(
    "orders", unit(), Field("oid", BIGINT, Domain(), owner="orders.oid"), Field("total", BIGINT, interval(0, 10)),
    Field("area", TEXT, Domain()), Field("kind", TEXT, Domain(), attribute=True), rows=9, keys=("oid",),
)  # fmt: skip
ITEMS = private(
    "items", Field("oid", BIGINT, Domain(), owner="orders.oid"), Field("qty", BIGINT, interval(1, 3)), rows=20
)
VISITS = Scan((Field("page", TEXT, Domain()),), True, 1, False, table="visits")
CLICKS = Scan((Field("page", TEXT, Domain()),), True, 1, False, table="clicks")
AREAS = PublicScan((Field("area", TEXT, Domain()), Field("country", TEXT, Domain())), False, 1, False, "areas")
STORES = PublicScan((Field("store", TEXT, Domain()), Field("area", TEXT, Domain())), False, 1, False, "stores")


def unique(table: str, columns: frozenset[str]) -> bool:
    """What is verified of the public tables: each area stands once in `areas`."""
    return table == "areas" and "area" in columns


def part(relation: Relation, alias: str) -> Part:
    return Part(relation, tuple(f"{alias}.{f.name}" for f in relation.fields))


P, O, I, V, A, S = (
    part(r, n) for r, n in ((PEOPLE, "p"), (ORDERS, "o"), (ITEMS, "i"), (VISITS, "v"), (AREAS, "a"), (STORES, "s"))
)


def column(name: str) -> Column:
    for each in (P, O, I, V, A, S):
        for field in each.fields:
            if field.name == name:
                return Column(field.type, name=name)
    raise KeyError(name)


def eq(one: str, two: str) -> Expression:
    return call("eq", BOOLEAN, column(one), column(two))


def above(name: str, number: int) -> Expression:
    return call("gt", BOOLEAN, column(name), literal(number))


def fields(*parts: Part) -> tuple[Field, ...]:
    return tuple(f for each in parts for f in each.fields)


OWNED = eq("p.id", "o.id")
TRUE = conjunction([])


# owners -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "shared"),
    [
        ([OWNED], True),
        ([eq("o.id", "p.id")], True),
        ([above("p.age", 3), OWNED], True),
        ([call("and", BOOLEAN, above("p.age", 3), OWNED)], True),
        ([call("or", BOOLEAN, above("p.age", 3), OWNED)], False),
        ([eq("p.age", "o.total")], False),
        ([eq("p.age", "o.id")], False),
        ([eq("p.id", "o.oid")], False),
        ([eq("p.id", "p.id")], False),
        ([eq("o.id", "o.id")], False),
        ([call("eq", BOOLEAN, column("p.id"), call("add", BIGINT, column("o.id"), literal(0)))], False),
        ([call("ge", BOOLEAN, column("p.id"), column("o.id"))], False),
        ([call("is_not_distinct", BOOLEAN, column("p.id"), column("o.id"))], False),
        ([], False),
    ],
)
def test_two_rows_have_one_owner_where_columns_that_name_the_owner_are_equal(
    conditions: list[Expression], shared: bool
) -> None:
    assert share_owner(P, O, conditions) == share_owner(O, P, conditions) == shared


def test_units_are_compared_in_one_type_or_as_whole_numbers() -> None:
    for type_, shared in ((BIGINT, True), (SMALL, True), (TEXT, False), (DOUBLE, False)):
        other = Part(private("t", unit(type_=type_)), ("t.id",))
        condition = call("eq", BOOLEAN, column("p.id"), Column(type_, name="t.id"))
        assert share_owner(P, other, [condition]) == shared


def test_both_sides_of_each_equality_are_told() -> None:
    both = call("and", BOOLEAN, OWNED, call("and", BOOLEAN, above("p.age", 3), eq("o.oid", "i.oid")))
    pairs = [(column("p.id"), column("o.id")), (column("o.oid"), column("i.oid"))]
    assert list(equations([both])) == pairs
    assert list(equations([above("p.age", 3), OWNED])) == pairs[:1]


def test_private_parts_are_together_where_a_chain_of_equalities_leads_from_one_to_the_other() -> None:
    assert owner_groups([P, O, I, A], []) == [[P], [O], [I]]
    assert owner_groups([P, O, I], [OWNED]) == [[P, O], [I]]
    [group] = owner_groups([P, I, O], [OWNED, eq("i.oid", "o.oid")])
    assert sorted(p.names[0] for p in group) == ["i.oid", "o.id", "p.id"]
    assert owner_groups([A, S], [eq("a.area", "s.area")]) == []


# parts ------------------------------------------------------------------------------------------------------------------


def test_a_part_has_a_name_for_each_field() -> None:
    for names in ((), ("a",), ("a", "b", "c", "d")):
        with pytest.raises(InternalError, match="a name for each field"):
            Part(PEOPLE, names)
    assert [f.name for f in P.fields] == ["p.id", "p.age", "p.place"]
    assert [replace(f, name=g.name) for f, g in zip(P.fields, PEOPLE.fields, strict=True)] == list(PEOPLE.fields)
    assert P.own(frozenset({"p.age", "p.id", "o.id"})) == {"age", "id"}
    assert P.private and not A.private
    assert whole(PEOPLE).names == ("id", "age", "place")


@pytest.mark.parametrize(
    ("one", "two", "kind"), [(BIGINT, BIGINT, "integer"), (BIGINT, DOUBLE, "double"), (DATE, TIMESTAMP, "timestamp")]
)
def test_the_column_that_using_makes_is_the_first_that_is_not_null(one: Type, two: Type, kind: str) -> None:
    made = first_of(Field("x", one, Domain()), Field("y", two, Domain()))
    assert (str(made)[:8].lower(), made.type.kind.value) == ("coalesce", kind)


# inner joins ------------------------------------------------------------------------------------------------------------


def inner(parts: Sequence[Part], conditions: Sequence[Expression], **changes: Any) -> Inner:
    given: dict[str, Any] = {"fields": fields(*parts), "by_row": False, "rows_per_unit": 1, "single": False}
    return Inner(**(given | {"parts": tuple(parts), "conditions": tuple(conditions)} | changes))


@pytest.mark.parametrize(
    ("parts", "conditions", "changes", "says"),
    [
        ([P, O], [OWNED], {}, None),
        ([P, O], [], {}, "across owners"),
        ([P, O], [eq("p.age", "o.total")], {}, "across owners"),
        ([P, O, I], [OWNED], {}, "across owners"),
        ([P, O, I], [OWNED, eq("o.oid", "i.oid")], {}, None),
        ([P, A], [], {}, None),
        ([A, S], [], {}, None),
        ([P, P], [], {}, "each field of a join once"),
        ([P, Part(AREAS, ("P.ID", "a.country"))], [], {}, "each field of a join once"),
        ([P, O], [OWNED], {"fields": fields(O, P)}, "each field of a join once"),
        ([P, O], [OWNED], {"fields": fields(P)}, "each field of a join once"),
        ([P], [eq("p.id", "o.id")], {}, "reads what is not there"),
        ([P], [column("p.age")], {}, "reads what is not there"),
        ([V], [], {"by_row": True}, None),
        ([V], [], {"by_row": False}, "multiplied"),
        ([V, A], [], {"by_row": True}, "multiplied"),
        ([V, A], [], {"by_row": True, "lookups": frozenset({1})}, None),
        ([V, A], [], {"by_row": True, "lookups": frozenset({0})}, "multiplied"),
        ([V, A, S], [], {"by_row": True, "lookups": frozenset({1})}, "multiplied"),
        ([V, A, S], [], {"by_row": True, "lookups": frozenset({1, 2})}, None),
        ([A, V], [], {"by_row": True, "lookups": frozenset({0})}, None),
    ],
)  # fmt: skip
def test_an_inner_join_is_made_only_of_rows_of_one_owner(
    parts: list[Part], conditions: list[Expression], changes: dict[str, Any], says: str | None
) -> None:
    if says is None:
        assert inner(parts, conditions, **changes).public == all(not p.private for p in parts)
    else:
        with pytest.raises(InternalError, match=says):
            inner(parts, conditions, **changes)


def test_a_row_that_is_a_unit_meets_no_other_private_row_even_of_one_owner() -> None:
    both = [Part(replace(each.relation, by_row=True), each.names) for each in (P, O)]
    for parts in (both, [both[0], O], [P, both[1]]):
        with pytest.raises(InternalError, match="a row that is a unit joined"):
            inner(parts, [OWNED], by_row=True)


@pytest.mark.parametrize(
    ("parts", "conditions", "rows", "single", "lookups"),
    [
        ([P], [], 1, True, set()),
        ([O], [], 9, False, set()),
        ([P, O], [OWNED], 9, False, {0}),
        ([O, P], [OWNED], 9, False, {1}),
        ([P, A], [eq("p.place", "a.area")], 1, True, {1}),
        ([P, S], [eq("p.place", "s.area")], 1, False, set()),
        ([P, A], [eq("p.place", "a.country")], 1, False, set()),
        ([O, A], [eq("o.area", "a.area")], 9, False, {1}),
        ([O, I], [eq("o.oid", "i.oid")], 20, False, {0}),
        ([O, I], [eq("o.id", "o.id"), eq("o.oid", "i.oid"), above("o.total", 3)], 20, False, {0}),
    ],
)
def test_a_unit_has_as_many_rows_as_those_parts_make_that_are_not_looked_up(
    parts: list[Part], conditions: list[Expression], rows: int, single: bool, lookups: set[int]
) -> None:
    made = joined(parts, conditions, unique)
    assert (made.rows_per_unit, made.single, made.lookups, made.by_row) == (rows, single, lookups, False)
    assert made.parts == tuple(parts) and made.conditions == tuple(conditions)


def test_two_tables_of_many_rows_multiply() -> None:
    other = Part(ORDERS, tuple(f"q.{f.name}" for f in ORDERS.fields))
    condition = call("eq", BOOLEAN, column("o.id"), Column(BIGINT, name="q.id"))
    assert joined([O, other], [condition], unique).rows_per_unit == 81


def test_a_row_that_is_a_unit_stays_one_where_it_looks_something_up() -> None:
    made = joined([V, A], [eq("v.page", "a.area")], unique)
    assert made.by_row and made.lookups == {1}
    with pytest.raises(InternalError, match="multiplied"):
        joined([V, S], [eq("v.page", "s.area")], unique)


@pytest.mark.parametrize(
    ("parts", "conditions", "attributes"),
    [
        ([O], [], {"o.id", "o.kind"}),
        ([P, O], [OWNED], {"p.id", "p.age", "p.place", "o.id", "o.kind"}),
        ([P, A], [eq("p.place", "a.area")], {"p.id", "p.age", "p.place", "a.area", "a.country"}),
        ([O, A], [eq("o.area", "a.area")], {"o.id", "o.kind"}),
        ([O, A], [eq("o.kind", "a.area")], {"o.id", "o.kind", "a.area", "a.country"}),
        ([P, S], [eq("p.place", "s.area")], {"p.id", "p.age", "p.place"}),
        ([O, A, S], [eq("o.kind", "a.area"), eq("a.country", "s.store")], {"o.id", "o.kind", "a.area", "a.country"}),
    ],
)
def test_what_the_owner_decides_is_an_attribute_and_what_is_looked_up_by_it(
    parts: list[Part], conditions: list[Expression], attributes: set[str]
) -> None:
    made = joined(parts, conditions, unique)
    assert {f.name for f in made.fields if f.attribute} == attributes


def test_a_chain_of_lookups_is_followed_from_the_owner_to_its_end() -> None:
    every = [O, A, S]
    conditions = [eq("o.kind", "s.store"), eq("s.area", "a.area")]
    made = joined(every, conditions, lambda table, columns: unique(table, columns) or "store" in columns)
    assert {f.name for f in made.fields if f.attribute} >= {"a.area", "a.country", "s.store", "s.area"}
    assert made.lookups == {1, 2}


def test_equalities_narrow_both_of_their_sides() -> None:
    link = eq("o.oid", "i.oid")
    for conditions, total in (([link, eq("i.qty", "o.total")], (1, 3)), ([link], (0, 10))):
        made = joined([O, I], conditions, unique)
        assert (made.field("o.total").domain.lower, made.field("o.total").domain.upper) == total
        assert (made.field("i.qty").domain.lower, made.field("i.qty").domain.upper) == (1, 3)
        known = known_of(replace(made, fields=fields(O, I))).columns["o.total"]
        assert (known.lower, known.upper) == total


# outer joins ------------------------------------------------------------------------------------------------------------


def outer(left: Part | None, right: Part | None, condition: Expression | None, **changes: Any) -> Outer:
    made = fields(*(each for each in (left, right) if each is not None))
    given: dict[str, Any] = {"fields": made, "by_row": False, "rows_per_unit": 1, "single": False}
    return Outer(**(given | {"left": left, "right": right, "condition": condition} | changes))


AREA = eq("o.area", "a.area")


@pytest.mark.parametrize(
    ("left", "right", "condition", "changes", "says"),
    [
        (P, O, OWNED, {}, None),
        (P, O, OWNED, {"full": True}, None),
        (P, O, TRUE, {}, "across owners"),
        (P, O, TRUE, {"full": True}, "across owners"),
        (P, O, eq("p.age", "o.total"), {}, "across owners"),
        (O, A, AREA, {}, None),
        (O, A, AREA, {"full": True}, "rows without owner kept"),
        (A, O, AREA, {}, "rows without owner kept"),
        (A, O, AREA, {"full": True}, "rows without owner kept"),
        (A, S, TRUE, {}, None),
        (A, S, TRUE, {"full": True}, None),
        (None, O, TRUE, {}, "outer join"),
        (P, None, TRUE, {}, "outer join"),
        (P, O, None, {}, "outer join"),
        (P, Part(ORDERS, ("P.ID", *O.names[1:])), TRUE, {}, "each field of a join once"),
        (P, O, OWNED, {"fields": fields(O, P)}, "each field of a join once"),
        (P, O, OWNED, {"fields": fields(P)}, "each field of a join once"),
        (P, O, OWNED, {"merged": (("id", "p.id", "o.id"),)}, "each field of a join once"),
        (P, O, OWNED, {"merged": (("id", "p.id", "o.id"),), "fields": (*fields(P, O), unit())}, None),
        (P, O, eq("p.id", "i.oid"), {}, "reads what is not there"),
        (V, A, TRUE, {"by_row": True}, "multiplied"),
        (V, A, TRUE, {"by_row": True, "once": True}, None),
    ],
)  # fmt: skip
def test_an_outer_join_keeps_no_row_without_an_owner(
    left: Part | None, right: Part | None, condition: Expression | None, changes: dict[str, Any], says: str | None
) -> None:
    if says is None:
        assert left is not None
        assert outer(left, right, condition, **changes).public == (not left.private)
    else:
        with pytest.raises(InternalError, match=says):
            outer(left, right, condition, **changes)


ONE = Part(private("ones", unit(), Field("n", BIGINT, interval(0, 5)), single=True), ("r.id", "r.n"))
IS_ONE = call("eq", BOOLEAN, column("p.id"), Column(BIGINT, name="r.id"))
MANY_ONE = call("eq", BOOLEAN, column("o.id"), Column(BIGINT, name="r.id"))
MORE = call("and", BOOLEAN, IS_ONE, call("gt", BOOLEAN, Column(BIGINT, name="r.n"), literal(2)))


@pytest.mark.parametrize(
    ("left", "right", "condition", "full", "rows", "single", "once"),
    [
        (P, A, eq("p.place", "a.area"), False, 1, True, True),
        (P, S, eq("p.place", "s.area"), False, 1, False, False),
        (O, A, AREA, False, 9, False, True),
        (O, S, eq("o.area", "s.area"), False, 9, False, False),
        (P, O, OWNED, False, 9, False, False),
        (O, P, OWNED, False, 9, False, True),
        (P, O, OWNED, True, 10, False, False),
        (O, P, OWNED, True, 10, False, True),
        (P, ONE, IS_ONE, False, 1, True, True),
        (P, ONE, IS_ONE, True, 1, True, True),
        (P, ONE, MORE, False, 1, True, True),
        (P, ONE, MORE, True, 2, False, True),
        (O, ONE, MANY_ONE, False, 9, False, True),
        (O, ONE, MANY_ONE, True, 10, False, True),
        (I, O, eq("i.oid", "o.oid"), False, 20, False, True),
        (O, I, eq("i.oid", "o.oid"), False, 180, False, False),
        (O, I, eq("i.oid", "o.oid"), True, 180, False, False),
        (I, O, eq("i.oid", "o.oid"), True, 29, False, True),
    ],
)  # fmt: skip
def test_how_many_rows_a_unit_has_in_an_outer_join(
    left: Part, right: Part, condition: Expression, full: bool, rows: int, single: bool, once: bool
) -> None:
    made = outer_joined(left, right, full, condition, (), unique)
    assert (made.rows_per_unit, made.single, made.once) == (rows, single, once)
    assert matches_once(left, right, condition, unique) == once
    assert (made.left, made.right, made.full, made.condition, made.by_row) == (left, right, full, condition, False)


def test_the_side_that_may_be_missing_is_padded_and_the_other_is_as_it_was() -> None:
    for full in (False, True):
        made = outer_joined(P, O, full, call("and", BOOLEAN, OWNED, above("o.total", 3)), (), unique)
        for field, before in zip(made.fields, fields(P, O), strict=True):
            padded = full or field.name.startswith("o.")
            assert (field.padded, field.domain.nullable) == (padded, padded or before.domain.nullable)
            assert field.attribute == (not padded)
            assert (field.owner, field.type) == (before.owner, before.type)
        total = made.field("o.total").domain
        assert (total.lower, total.upper) == ((0, 10) if full else (4, 10))


@pytest.mark.parametrize(
    ("one", "two", "owner", "attribute", "nullable"),
    [
        (unit(), unit(), UNIT, True, True),
        (replace(unit(), domain=interval(1, 5, nullable=False)), replace(unit(), domain=interval(3, 9, nullable=False)), UNIT, True, False),
        (replace(unit(), domain=interval(1, 5, nullable=False)), unit(), UNIT, True, True),
        (unit(), replace(unit(), domain=interval(1, 5, nullable=False)), UNIT, True, True),
        (unit(), replace(unit(), padded=True), None, False, True),
        (replace(unit(), padded=True), unit(), None, False, True),
        (replace(unit(), owner="t.k"), replace(unit(), owner="t.k"), "t.k", False, True),
    ],
)  # fmt: skip
def test_a_merged_column_names_the_owner_where_both_of_its_sides_do(
    one: Field, two: Field, owner: str | None, attribute: bool, nullable: bool
) -> None:
    left = Part(private("l", replace(one, name="id"), unit("own"), rows=2), ("l.id", "l.own"))
    right = Part(private("r", replace(two, name="id"), unit("own"), rows=3), ("r.id", "r.own"))
    condition = call("eq", BOOLEAN, Column(BIGINT, name="l.own"), Column(BIGINT, name="r.own"))
    made = outer_joined(left, right, True, condition, [("id", "l.id", "r.id")], unique)
    merged = made.field("id")
    assert (merged.owner, merged.attribute, merged.domain.nullable) == (owner, attribute, nullable)
    assert made.merged == (("id", "l.id", "r.id"),) and not merged.padded
    if not nullable:
        assert (merged.domain.lower, merged.domain.upper) == (1, 9)


def test_a_merged_column_of_two_kinds_may_be_null_since_one_may_not_hold_the_other() -> None:
    days = Field("d", DATE, interval(0, 9, nullable=False))
    left = Part(private("l", unit(), days), ("l.id", "l.d"))
    stamps = replace(days, type=TIMESTAMP)
    for other, nullable in ((days, False), (stamps, True)):
        right = Part(private("r", unit(), other), ("r.id", "r.d"))
        condition = call("eq", BOOLEAN, Column(BIGINT, name="l.id"), Column(BIGINT, name="r.id"))
        made = outer_joined(left, right, True, condition, [("d", "l.d", "r.d")], unique)
        assert made.field("d").domain.nullable == nullable


# EXISTS -----------------------------------------------------------------------------------------------------------------

PERSON = call("eq", BOOLEAN, Column(BIGINT, name="id"), column("o.id"))
IN_AREA = call("eq", BOOLEAN, Column(TEXT, name="place"), column("a.area"))


@pytest.mark.parametrize(
    ("source", "inner", "condition", "says"),
    [
        (PEOPLE, O, PERSON, None),
        (PEOPLE, A, IN_AREA, None),
        (PEOPLE, A, TRUE, None),
        (AREAS, S, TRUE, None),
        (PEOPLE, O, TRUE, "across owners"),
        (PEOPLE, O, call("eq", BOOLEAN, Column(BIGINT, name="age"), column("o.total")), "across owners"),
        (AREAS, O, call("eq", BOOLEAN, Column(TEXT, name="area"), column("o.area")), "across owners"),
        (PEOPLE, A, call("eq", BOOLEAN, Column(TEXT, name="nowhere"), column("a.area")), "reads what is not there"),
        (PEOPLE, Part(AREAS, ("ID", "a.country")), TRUE, "reads what is not there"),
        (None, A, TRUE, "EXISTS"),
        (PEOPLE, None, TRUE, "EXISTS"),
        (PEOPLE, A, None, "EXISTS"),
    ],
)
def test_exists_reads_the_row_public_rows_and_those_of_the_same_owner(
    source: Relation | None, inner: Part | None, condition: Expression | None, says: str | None
) -> None:
    def made() -> Exists:
        return Exists(() if source is None else source.fields, False, 1, True, source, inner, condition)

    if says is None:
        assert source is not None and made().public == source.public
    else:
        with pytest.raises(InternalError, match=says):
            made()


@pytest.mark.parametrize("negated", [False, True])
def test_what_exists_says_of_a_row_holds_where_it_was_met(negated: bool) -> None:
    older = call("gt", BOOLEAN, Column(BIGINT, name="age"), literal(30))
    source = filtered(PEOPLE, call("lt", BOOLEAN, Column(BIGINT, name="age"), literal(60)))
    made = existing(source, O, call("and", BOOLEAN, PERSON, older), negated=negated)
    age = made.field("age").domain
    assert (age.lower, age.upper) == ((18, 59) if negated else (31, 59))
    assert (made.negated, made.single, made.rows_per_unit, made.by_row) == (negated, True, 1, False)
    assert [f.name for f in made.fields] == ["id", "age", "place"]
    assert (made.source, made.inner) == (source, O)


def test_a_part_whose_fields_keep_their_names_is_its_relation() -> None:
    assert renamed(whole(PEOPLE), unique) is PEOPLE
    made = renamed(P, unique)
    assert isinstance(made, Inner) and made.parts == (P,) and made.single and made.conditions == ()


@pytest.mark.parametrize("values", [("n",), ("n", "s")])
def test_a_domain_that_is_listed_is_narrowed_to_what_both_sides_list(values: tuple[str, ...]) -> None:
    listed = PublicScan((Field("area", TEXT, finite(values, TEXT, nullable=False)),), False, 1, False, "areas")
    other = Part(listed, ("a.area",))
    made = joined([O, other], [call("eq", BOOLEAN, column("o.area"), Column(TEXT, name="a.area"))], unique)
    assert made.field("o.area").domain.values == values and not made.field("o.area").domain.nullable
