"""Joins under names of their own: after stored tables where several have a column, and never after aliases."""

from __future__ import annotations

import pytest
from test_join_nodes import AA, II, OO, ORDERS, OWNED, PEOPLE, PP, above, eq, part, unique

from dpsql.expressions.expression import Column
from dpsql.expressions.types import BIGINT, BOOLEAN, TEXT
from dpsql.expressions.typing import call, literal
from dpsql.plan.canonical import _table, renamed_inner, renamed_outer
from dpsql.plan.nodes.joins import inner_join, outer_join
from dpsql.plan.nodes.relation import Item, JoinSide, Relation
from dpsql.plan.nodes.unary import filtered, projected

ALL = ("id", "oid", "total", "area", "kind")


def test_a_column_that_one_table_has_keeps_its_name_and_others_are_called_after_their_table() -> None:
    made, columns = renamed_inner(inner_join([PP, OO], [OWNED, above("o.total", 3)], unique), lambda r: r.table)  # type: ignore[attr-defined]
    assert [f.name for f in made.fields] == ["orders.id", "oid", "total", "area", "kind", "people.id", "age", "place"]
    assert {old: new.name for old, new in columns.items()} == {  # type: ignore[attr-defined]
        "p.id": "people.id", "p.age": "age", "p.place": "place", "o.id": "orders.id", "o.oid": "oid",
        "o.total": "total", "o.area": "area", "o.kind": "kind",
    }  # fmt: skip
    assert [p.relation for p in made.parts] == [ORDERS, PEOPLE]  # type: ignore[attr-defined]
    assert [p.names for p in made.parts] == [
        ("orders.id", "oid", "total", "area", "kind"),
        ("people.id", "age", "place"),
    ]  # type: ignore[attr-defined]
    assert made.lookups == {1}  # type: ignore[attr-defined]
    assert {str(c) for c in made.conditions} == {str(c) for c in (  # type: ignore[attr-defined]
        call("eq", BOOLEAN, Column(BIGINT, name="orders.id"), Column(BIGINT, name="people.id")),
        call("gt", BOOLEAN, Column(BIGINT, name="total"), literal(3)),
    )}  # fmt: skip


def test_a_table_joined_with_itself_tells_its_columns_apart() -> None:
    other = part(ORDERS, "q")
    condition = call("eq", BOOLEAN, Column(BIGINT, name="o.id"), Column(BIGINT, name="q.id"))
    made, _ = renamed_inner(inner_join([OO, other], [condition], unique), lambda r: "same")
    assert [f.name for f in made.fields] == [*(f"orders.{n}" for n in ALL), *(f"orders.{n}'" for n in ALL)]


@pytest.mark.parametrize(
    ("name", "new"),
    [("area", "area"), ("a.area", "area"), ("area'", "area"), ("shown", "shown"), ("my area", "my area")],
)
def test_a_name_that_the_planner_gave_stays_and_one_with_an_alias_does_not(name: str, new: str) -> None:
    side = JoinSide(AA.relation, (name, "a.country"))
    made, columns = renamed_inner(inner_join([side], [], unique), lambda r: "")
    assert [f.name for f in made.fields] == [new, "country"]
    assert columns[name] == Column(TEXT, name=new)


def test_names_are_told_apart_in_any_case() -> None:
    upper = projected(PEOPLE, [Item("ID", Column(BIGINT, name="id"))])
    condition = call("eq", BOOLEAN, Column(BIGINT, name="x.ID"), Column(BIGINT, name="p.id"))
    made, _ = renamed_inner(inner_join([PP, JoinSide(upper, ("x.ID",))], [condition], unique), lambda r: "")
    assert [f.name for f in made.fields] == ["people.id", "age", "place", "people.ID'"]


@pytest.mark.parametrize("full", [False, True])
def test_an_outer_join_has_new_names_in_its_sides_its_condition_and_its_merged_columns(full: bool) -> None:
    merged = [("id", "p.id", "o.id")] if full else []
    join = outer_join(PP, OO, full, OWNED, merged, unique)
    made, columns = renamed_outer(join)
    names = ["people.id", "age", "place", "orders.id", "oid", "total", "area", "kind"]
    assert [f.name for f in made.fields] == [*names, *(["id"] if full else [])]
    assert made.left == JoinSide(PEOPLE, ("people.id", "age", "place"))  # type: ignore[attr-defined]
    assert made.right == JoinSide(ORDERS, ("orders.id", "oid", "total", "area", "kind"))  # type: ignore[attr-defined]
    assert made.merged == ((("id", "people.id", "orders.id"),) if full else ())  # type: ignore[attr-defined]
    assert str(made.condition).count("people.id") == str(made.condition).count("orders.id") == 1  # type: ignore[attr-defined]
    assert columns["p.age"] == Column(BIGINT, name="age")


@pytest.mark.parametrize(
    ("relation", "table"),
    [
        (PEOPLE, "people"),
        (filtered(ORDERS, call("gt", BOOLEAN, Column(BIGINT, name="total"), literal(3))), "orders"),
        (projected(PEOPLE, [Item("n", Column(BIGINT, name="age"))]), "people"),
        (inner_join([OO, II], [eq("o.oid", "i.oid")], unique), "orders"),
        (inner_join([II, OO], [eq("o.oid", "i.oid")], unique), "items"),
        (outer_join(OO, PP, False, OWNED, (), unique), "orders"),
        (Relation((), False, 1, False), "rows"),
    ],
)
def test_the_table_of_a_relation_is_the_first_that_it_reads(relation: Relation, table: str) -> None:
    assert _table(relation) == table
