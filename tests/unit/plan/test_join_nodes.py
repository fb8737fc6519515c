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
from dpsql.plan.nodes.joins import (
    Inner,
    Outer,
    equations,
    first_of,
    inner_join,
    matches_once,
    outer_join,
    owner_groups,
    renamed_side,
    share_owner,
)
from dpsql.plan.nodes.relation import UNIT, Field, JoinSide, PublicScan, Relation, Scan, side_of
from dpsql.plan.nodes.semi_joins import Exists, exists_filter
from dpsql.plan.nodes.unary import filtered
from dpsql.plan.normal_form import conjunction

SMALL = from_engine("INTEGER")
assert SMALL is not None


def private(name: str, *fields: Field, rows: int = 1, single: bool = False, **more: Any) -> Scan:
    return Scan(fields, False, rows, single, table=name, unit="id", unit_type=BIGINT, **more)


def unit(name: str = "id", type_: Type = BIGINT) -> Field:
    return Field(name, type_, Domain(), attribute=True, owner=UNIT)


PEOPLE = private("people", unit(), Field("age", BIGINT, interval(18, 90)), Field("place", TEXT, Domain()), single=True)
ORDERS = private(
    "orders", unit(), Field("oid", BIGINT, Domain(), owner="orders.oid"), Field("total", BIGINT, interval(0, 10)),
    Field("area", TEXT, Domain()), Field("kind", TEXT, Domain(), attribute=True), rows=9, keys=frozenset({frozenset({"oid"})}),
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


def part(relation: Relation, alias: str) -> JoinSide:
    return JoinSide(relation, tuple(f"{alias}.{f.name}" for f in relation.fields))


PP, OO, II, VV, AA, SS = (
    part(r, n) for r, n in ((PEOPLE, "p"), (ORDERS, "o"), (ITEMS, "i"), (VISITS, "v"), (AREAS, "a"), (STORES, "s"))
)


def column(name: str) -> Column:
    for each in (PP, OO, II, VV, AA, SS):
        for field in each.fields:
            if field.name == name:
                return Column(field.type, name=name)
    raise KeyError(name)


def eq(one: str, two: str) -> Expression:
    return call("eq", BOOLEAN, column(one), column(two))


def above(name: str, number: int) -> Expression:
    return call("gt", BOOLEAN, column(name), literal(number))


def fields(*parts: JoinSide) -> tuple[Field, ...]:
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
    assert share_owner(PP, OO, conditions) == share_owner(OO, PP, conditions) == shared


def test_units_are_compared_in_one_type_or_as_whole_numbers() -> None:
    for type_, shared in ((BIGINT, True), (SMALL, True), (TEXT, False), (DOUBLE, False)):
        other = JoinSide(private("t", unit(type_=type_)), ("t.id",))
        condition = call("eq", BOOLEAN, column("p.id"), Column(type_, name="t.id"))
        assert share_owner(PP, other, [condition]) == shared


def test_both_sides_of_each_equality_are_told() -> None:
    both = call("and", BOOLEAN, OWNED, call("and", BOOLEAN, above("p.age", 3), eq("o.oid", "i.oid")))
    pairs = [(column("p.id"), column("o.id")), (column("o.oid"), column("i.oid"))]
    assert list(equations([both])) == pairs
    assert list(equations([above("p.age", 3), OWNED])) == pairs[:1]


def test_private_parts_are_together_where_a_chain_of_equalities_leads_from_one_to_the_other() -> None:
    assert owner_groups([PP, OO, II, AA], []) == [[PP], [OO], [II]]
    assert owner_groups([PP, OO, II], [OWNED]) == [[PP, OO], [II]]
    [group] = owner_groups([PP, II, OO], [OWNED, eq("i.oid", "o.oid")])
    assert sorted(p.names[0] for p in group) == ["i.oid", "o.id", "p.id"]
    assert owner_groups([AA, SS], [eq("a.area", "s.area")]) == []


# parts ------------------------------------------------------------------------------------------------------------------


def test_a_part_has_a_name_for_each_field() -> None:
    for names in ((), ("a",), ("a", "b", "c", "d")):
        with pytest.raises(InternalError, match="a name for each field"):
            JoinSide(PEOPLE, names)
    assert [f.name for f in PP.fields] == ["p.id", "p.age", "p.place"]
    assert [replace(f, name=g.name) for f, g in zip(PP.fields, PEOPLE.fields, strict=True)] == list(PEOPLE.fields)
    assert PP.own(frozenset({"p.age", "p.id", "o.id"})) == {"age", "id"}
    assert PP.private and not AA.private
    assert side_of(PEOPLE).names == ("id", "age", "place")


@pytest.mark.parametrize(
    ("one", "two", "kind"), [(BIGINT, BIGINT, "integer"), (BIGINT, DOUBLE, "double"), (DATE, TIMESTAMP, "timestamp")]
)
def test_the_column_that_using_makes_is_the_first_that_is_not_null(one: Type, two: Type, kind: str) -> None:
    made = first_of(Field("x", one, Domain()), Field("y", two, Domain()))
    assert (str(made)[:8].lower(), made.type.kind.value) == ("coalesce", kind)


# inner joins ------------------------------------------------------------------------------------------------------------


def inner(parts: Sequence[JoinSide], conditions: Sequence[Expression], **changes: Any) -> Inner:
    given: dict[str, Any] = {"fields": fields(*parts), "by_row": False, "rows_per_unit": 1, "single": False}
    return Inner(**(given | {"parts": tuple(parts), "conditions": tuple(conditions)} | changes))


@pytest.mark.parametrize(
    ("parts", "conditions", "changes", "says"),
    [
        ([PP, OO], [OWNED], {}, None),
        ([PP, OO], [], {}, "across owners"),
        ([PP, OO], [eq("p.age", "o.total")], {}, "across owners"),
        ([PP, OO, II], [OWNED], {}, "across owners"),
        ([PP, OO, II], [OWNED, eq("o.oid", "i.oid")], {}, None),
        ([PP, AA], [], {}, None),
        ([AA, SS], [], {}, None),
        ([PP, PP], [], {}, "each field of a join once"),
        ([PP, JoinSide(AREAS, ("P.ID", "a.country"))], [], {}, "each field of a join once"),
        ([PP, OO], [OWNED], {"fields": fields(OO, PP)}, "each field of a join once"),
        ([PP, OO], [OWNED], {"fields": fields(PP)}, "each field of a join once"),
        ([PP], [eq("p.id", "o.id")], {}, "reads what is not there"),
        ([PP], [column("p.age")], {}, "reads what is not there"),
        ([VV], [], {"by_row": True}, None),
        ([VV], [], {"by_row": False}, "multiplied"),
        ([VV, AA], [], {"by_row": True}, "multiplied"),
        ([VV, AA], [], {"by_row": True, "lookups": frozenset({1})}, None),
        ([VV, AA], [], {"by_row": True, "lookups": frozenset({0})}, "multiplied"),
        ([VV, AA, SS], [], {"by_row": True, "lookups": frozenset({1})}, "multiplied"),
        ([VV, AA, SS], [], {"by_row": True, "lookups": frozenset({1, 2})}, None),
        ([AA, VV], [], {"by_row": True, "lookups": frozenset({0})}, None),
    ],
)  # fmt: skip
def test_an_inner_join_is_made_only_of_rows_of_one_owner(
    parts: list[JoinSide], conditions: list[Expression], changes: dict[str, Any], says: str | None
) -> None:
    if says is None:
        assert inner(parts, conditions, **changes).public == all(not p.private for p in parts)
    else:
        with pytest.raises(InternalError, match=says):
            inner(parts, conditions, **changes)


def test_a_row_that_is_a_unit_meets_no_other_private_row_even_of_one_owner() -> None:
    both = [JoinSide(replace(each.relation, by_row=True), each.names) for each in (PP, OO)]
    for parts in (both, [both[0], OO], [PP, both[1]]):
        with pytest.raises(InternalError, match="a row that is a unit joined"):
            inner(parts, [OWNED], by_row=True)


@pytest.mark.parametrize("full", [False, True])
def test_a_row_that_is_a_unit_stands_on_neither_side_of_an_outer_join_with_private_rows(full: bool) -> None:
    left, right = (JoinSide(replace(each.relation, by_row=True), each.names) for each in (PP, OO))
    for sides in ((left, OO), (PP, right), (left, right)):
        with pytest.raises(InternalError, match="a row that is a unit joined"):
            outer(*sides, OWNED, full=full, once=True)


@pytest.mark.parametrize(
    ("parts", "conditions", "rows", "single", "lookups"),
    [
        ([PP], [], 1, True, set()),
        ([OO], [], 9, False, set()),
        ([PP, OO], [OWNED], 9, False, {0}),
        ([OO, PP], [OWNED], 9, False, {1}),
        ([PP, AA], [eq("p.place", "a.area")], 1, True, {1}),
        ([PP, SS], [eq("p.place", "s.area")], 1, False, set()),
        ([PP, AA], [eq("p.place", "a.country")], 1, False, set()),
        ([OO, AA], [eq("o.area", "a.area")], 9, False, {1}),
        ([OO, II], [eq("o.oid", "i.oid")], 20, False, {0}),
        ([OO, II], [eq("o.id", "o.id"), eq("o.oid", "i.oid"), above("o.total", 3)], 20, False, {0}),
    ],
)
def test_a_unit_has_as_many_rows_as_those_parts_make_that_are_not_looked_up(
    parts: list[JoinSide], conditions: list[Expression], rows: int, single: bool, lookups: set[int]
) -> None:
    made = inner_join(parts, conditions, unique)
    assert (made.rows_per_unit, made.single, made.lookups, made.by_row) == (rows, single, lookups, False)
    assert made.parts == tuple(parts) and made.conditions == tuple(conditions)


def test_two_tables_of_many_rows_multiply() -> None:
    other = JoinSide(ORDERS, tuple(f"q.{f.name}" for f in ORDERS.fields))
    condition = call("eq", BOOLEAN, column("o.id"), Column(BIGINT, name="q.id"))
    assert inner_join([OO, other], [condition], unique).rows_per_unit == 81


def test_a_row_that_is_a_unit_stays_one_where_it_looks_something_up() -> None:
    made = inner_join([VV, AA], [eq("v.page", "a.area")], unique)
    assert made.by_row and made.lookups == {1}
    with pytest.raises(InternalError, match="multiplied"):
        inner_join([VV, SS], [eq("v.page", "s.area")], unique)


@pytest.mark.parametrize(
    ("parts", "conditions", "attributes"),
    [
        ([OO], [], {"o.id", "o.kind"}),
        ([PP, OO], [OWNED], {"p.id", "p.age", "p.place", "o.id", "o.kind"}),
        ([PP, AA], [eq("p.place", "a.area")], {"p.id", "p.age", "p.place", "a.area", "a.country"}),
        ([OO, AA], [eq("o.area", "a.area")], {"o.id", "o.kind"}),
        ([OO, AA], [eq("o.kind", "a.area")], {"o.id", "o.kind", "a.area", "a.country"}),
        ([PP, SS], [eq("p.place", "s.area")], {"p.id", "p.age", "p.place"}),
        ([OO, AA, SS], [eq("o.kind", "a.area"), eq("a.country", "s.store")], {"o.id", "o.kind", "a.area", "a.country"}),
    ],
)
def test_what_the_owner_decides_is_an_attribute_and_what_is_looked_up_by_it(
    parts: list[JoinSide], conditions: list[Expression], attributes: set[str]
) -> None:
    made = inner_join(parts, conditions, unique)
    assert {f.name for f in made.fields if f.attribute} == attributes


def test_a_chain_of_lookups_is_followed_from_the_owner_to_its_end() -> None:
    every = [OO, AA, SS]
    conditions = [eq("o.kind", "s.store"), eq("s.area", "a.area")]
    made = inner_join(every, conditions, lambda table, columns: unique(table, columns) or "store" in columns)
    assert {f.name for f in made.fields if f.attribute} >= {"a.area", "a.country", "s.store", "s.area"}
    assert made.lookups == {1, 2}


def test_equalities_narrow_both_of_their_sides() -> None:
    link = eq("o.oid", "i.oid")
    for conditions, total in (([link, eq("i.qty", "o.total")], (1, 3)), ([link], (0, 10))):
        made = inner_join([OO, II], conditions, unique)
        assert (made.field("o.total").domain.lower, made.field("o.total").domain.upper) == total
        assert (made.field("i.qty").domain.lower, made.field("i.qty").domain.upper) == (1, 3)
        known = replace(made, fields=fields(OO, II)).row_domains().columns["o.total"]
        assert (known.lower, known.upper) == total


# outer joins ------------------------------------------------------------------------------------------------------------


def outer(left: JoinSide | None, right: JoinSide | None, condition: Expression | None, **changes: Any) -> Outer:
    made = fields(*(each for each in (left, right) if each is not None))
    given: dict[str, Any] = {"fields": made, "by_row": False, "rows_per_unit": 1, "single": False}
    return Outer(**(given | {"left": left, "right": right, "condition": condition} | changes))


AREA = eq("o.area", "a.area")


@pytest.mark.parametrize(
    ("left", "right", "condition", "changes", "says"),
    [
        (PP, OO, OWNED, {}, None),
        (PP, OO, OWNED, {"full": True}, None),
        (PP, OO, TRUE, {}, "across owners"),
        (PP, OO, TRUE, {"full": True}, "across owners"),
        (PP, OO, eq("p.age", "o.total"), {}, "across owners"),
        (OO, AA, AREA, {}, None),
        (OO, AA, AREA, {"full": True}, "rows without owner kept"),
        (AA, OO, AREA, {}, "rows without owner kept"),
        (AA, OO, AREA, {"full": True}, "rows without owner kept"),
        (AA, SS, TRUE, {}, None),
        (AA, SS, TRUE, {"full": True}, None),
        (None, OO, TRUE, {}, "outer join"),
        (PP, None, TRUE, {}, "outer join"),
        (PP, OO, None, {}, "outer join"),
        (PP, JoinSide(ORDERS, ("P.ID", *OO.names[1:])), TRUE, {}, "each field of a join once"),
        (PP, OO, OWNED, {"fields": fields(OO, PP)}, "each field of a join once"),
        (PP, OO, OWNED, {"fields": fields(PP)}, "each field of a join once"),
        (PP, OO, OWNED, {"merged": (("id", "p.id", "o.id"),)}, "each field of a join once"),
        (PP, OO, OWNED, {"merged": (("id", "p.id", "o.id"),), "fields": (*fields(PP, OO), unit())}, None),
        (PP, OO, eq("p.id", "i.oid"), {}, "reads what is not there"),
        (VV, AA, TRUE, {"by_row": True}, "multiplied"),
        (VV, AA, TRUE, {"by_row": True, "once": True}, None),
    ],
)  # fmt: skip
def test_an_outer_join_keeps_no_row_without_an_owner(
    left: JoinSide | None,
    right: JoinSide | None,
    condition: Expression | None,
    changes: dict[str, Any],
    says: str | None,
) -> None:
    if says is None:
        assert left is not None
        assert outer(left, right, condition, **changes).public == (not left.private)
    else:
        with pytest.raises(InternalError, match=says):
            outer(left, right, condition, **changes)


ONE = JoinSide(private("ones", unit(), Field("n", BIGINT, interval(0, 5)), single=True), ("r.id", "r.n"))
IS_ONE = call("eq", BOOLEAN, column("p.id"), Column(BIGINT, name="r.id"))
MANY_ONE = call("eq", BOOLEAN, column("o.id"), Column(BIGINT, name="r.id"))
MORE = call("and", BOOLEAN, IS_ONE, call("gt", BOOLEAN, Column(BIGINT, name="r.n"), literal(2)))


@pytest.mark.parametrize(
    ("left", "right", "condition", "full", "rows", "single", "once"),
    [
        (PP, AA, eq("p.place", "a.area"), False, 1, True, True),
        (PP, SS, eq("p.place", "s.area"), False, 1, False, False),
        (OO, AA, AREA, False, 9, False, True),
        (OO, SS, eq("o.area", "s.area"), False, 9, False, False),
        (PP, OO, OWNED, False, 9, False, False),
        (OO, PP, OWNED, False, 9, False, True),
        (PP, OO, OWNED, True, 10, False, False),
        (OO, PP, OWNED, True, 10, False, True),
        (PP, ONE, IS_ONE, False, 1, True, True),
        (PP, ONE, IS_ONE, True, 1, True, True),
        (PP, ONE, MORE, False, 1, True, True),
        (PP, ONE, MORE, True, 2, False, True),
        (PP, ONE, call("and", BOOLEAN, IS_ONE, above("p.id", 5)), True, 2, False, True),
        (OO, ONE, MANY_ONE, False, 9, False, True),
        (OO, ONE, MANY_ONE, True, 10, False, True),
        (II, OO, eq("i.oid", "o.oid"), False, 20, False, True),
        (OO, II, eq("i.oid", "o.oid"), False, 29, False, False),
        (OO, II, eq("i.oid", "o.oid"), True, 29, False, False),
        (II, OO, eq("i.oid", "o.oid"), True, 29, False, True),
    ],
)  # fmt: skip
def test_how_many_rows_a_unit_has_in_an_outer_join(
    left: JoinSide, right: JoinSide, condition: Expression, full: bool, rows: int, single: bool, once: bool
) -> None:
    made = outer_join(left, right, full, condition, (), unique)
    assert (made.rows_per_unit, made.single, made.once) == (rows, single, once)
    assert matches_once(left, right, condition, unique) == once
    assert (made.left, made.right, made.full, made.condition, made.by_row) == (left, right, full, condition, False)


def test_the_side_that_may_be_missing_is_padded_and_the_other_is_as_it_was() -> None:
    for full in (False, True):
        made = outer_join(PP, OO, full, call("and", BOOLEAN, OWNED, above("o.total", 3)), (), unique)
        for field, before in zip(made.fields, fields(PP, OO), strict=True):
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
    left = JoinSide(private("l", replace(one, name="id"), unit("own"), rows=2), ("l.id", "l.own"))
    right = JoinSide(private("r", replace(two, name="id"), unit("own"), rows=3), ("r.id", "r.own"))
    condition = call("eq", BOOLEAN, Column(BIGINT, name="l.own"), Column(BIGINT, name="r.own"))
    made = outer_join(left, right, True, condition, [("id", "l.id", "r.id")], unique)
    merged = made.field("id")
    assert (merged.owner, merged.attribute, merged.domain.nullable) == (owner, attribute, nullable)
    assert made.merged == (("id", "l.id", "r.id"),) and not merged.padded
    if not nullable:
        assert (merged.domain.lower, merged.domain.upper) == (1, 9)


def test_a_merged_column_of_two_kinds_may_be_null_since_one_may_not_hold_the_other() -> None:
    days = Field("d", DATE, interval(0, 9, nullable=False))
    left = JoinSide(private("l", unit(), days), ("l.id", "l.d"))
    stamps = replace(days, type=TIMESTAMP)
    for other, nullable in ((days, False), (stamps, True)):
        right = JoinSide(private("r", unit(), other), ("r.id", "r.d"))
        condition = call("eq", BOOLEAN, Column(BIGINT, name="l.id"), Column(BIGINT, name="r.id"))
        made = outer_join(left, right, True, condition, [("d", "l.d", "r.d")], unique)
        assert made.field("d").domain.nullable == nullable


# EXISTS -----------------------------------------------------------------------------------------------------------------

PERSON = call("eq", BOOLEAN, Column(BIGINT, name="id"), column("o.id"))
IN_AREA = call("eq", BOOLEAN, Column(TEXT, name="place"), column("a.area"))


@pytest.mark.parametrize(
    ("source", "inner", "condition", "says"),
    [
        (PEOPLE, OO, PERSON, None),
        (PEOPLE, AA, IN_AREA, None),
        (PEOPLE, AA, TRUE, None),
        (private("one", unit()), JoinSide(private("two", unit()), ("o.id",)), PERSON, None),
        (AREAS, SS, TRUE, None),
        (PEOPLE, OO, TRUE, "across owners"),
        (PEOPLE, OO, call("eq", BOOLEAN, Column(BIGINT, name="age"), column("o.total")), "across owners"),
        (AREAS, OO, call("eq", BOOLEAN, Column(TEXT, name="area"), column("o.area")), "across owners"),
        (PEOPLE, AA, call("eq", BOOLEAN, Column(TEXT, name="nowhere"), column("a.area")), "reads what is not there"),
        (PEOPLE, JoinSide(AREAS, ("ID", "a.country")), TRUE, "reads what is not there"),
        (None, AA, TRUE, "EXISTS"),
        (PEOPLE, None, TRUE, "EXISTS"),
        (PEOPLE, AA, None, "EXISTS"),
    ],
)
def test_exists_reads_the_row_public_rows_and_those_of_the_same_owner(
    source: Relation | None, inner: JoinSide | None, condition: Expression | None, says: str | None
) -> None:
    def made() -> Exists:
        return Exists(() if source is None else source.fields, False, 1, True, source, inner, condition)

    if says is None:
        assert source is not None and made().public == source.public and not made().negated
    else:
        with pytest.raises(InternalError, match=says):
            made()


@pytest.mark.parametrize("negated", [False, True])
def test_what_exists_says_of_a_row_holds_where_it_was_met(negated: bool) -> None:
    older = call("gt", BOOLEAN, Column(BIGINT, name="age"), literal(30))
    source = filtered(PEOPLE, call("lt", BOOLEAN, Column(BIGINT, name="age"), literal(60)))
    made = exists_filter(source, OO, call("and", BOOLEAN, PERSON, older), negated=negated)
    age = made.field("age").domain
    assert (age.lower, age.upper) == ((18, 59) if negated else (31, 59))
    assert (made.negated, made.single, made.rows_per_unit, made.by_row) == (negated, True, 1, False)
    assert [f.name for f in made.fields] == ["id", "age", "place"]
    assert (made.source, made.inner) == (source, OO)


def test_a_part_whose_fields_keep_their_names_is_its_relation() -> None:
    assert renamed_side(side_of(PEOPLE), unique) is PEOPLE
    made = renamed_side(PP, unique)
    assert isinstance(made, Inner) and made.parts == (PP,) and made.single and made.conditions == ()


@pytest.mark.parametrize("values", [("n",), ("n", "s")])
def test_a_domain_that_is_listed_is_narrowed_to_what_both_sides_list(values: tuple[str, ...]) -> None:
    listed = PublicScan((Field("area", TEXT, finite(values, TEXT, nullable=False)),), False, 1, False, "areas")
    other = JoinSide(listed, ("a.area",))
    made = inner_join([OO, other], [call("eq", BOOLEAN, column("o.area"), Column(TEXT, name="a.area"))], unique)
    assert made.field("o.area").domain.values == values and not made.field("o.area").domain.nullable


def test_what_is_said_of_an_expression_is_known_of_a_side_that_keeps_its_names_and_its_rows() -> None:
    double = call("mul", BIGINT, Column(BIGINT, name="total"), Column(BIGINT, name="oid"))
    said = filtered(ORDERS, call("le", BOOLEAN, double, literal(8)))
    told = said.row_domains().refinements
    assert told
    owned = call("eq", BOOLEAN, Column(BIGINT, name="id"), column("p.id"))
    assert inner_join([side_of(said), PP], [owned], unique).row_domains().refinements == told
    assert inner_join([PP, side_of(said)], [owned], unique).row_domains().refinements == told
    assert inner_join([part(said, "o"), PP], [OWNED], unique).row_domains().refinements == {}
    assert outer_join(side_of(said), PP, False, owned, (), unique).row_domains().refinements == told
    assert outer_join(side_of(said), PP, True, owned, (), unique).row_domains().refinements == {}
    assert outer_join(PP, side_of(said), False, owned, (), unique).row_domains().refinements == {}
    assert outer_join(part(said, "o"), PP, False, OWNED, (), unique).row_domains().refinements == {}


def test_a_table_of_one_column_looks_up_by_it() -> None:
    assert matches_once(VV, AA, eq("v.page", "a.area"), unique)
    assert not matches_once(VV, SS, eq("v.page", "s.area"), unique)
    assert outer_join(VV, AA, False, eq("v.page", "a.area"), (), unique).by_row
