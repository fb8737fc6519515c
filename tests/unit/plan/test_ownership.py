"""Whose rows a table has: along verified foreign keys only, and by columns that are read one to one."""

from __future__ import annotations

from typing import Any

import pytest

import dpsql
from dpsql.expressions.types import BIGINT
from dpsql.plan.nodes.relation import UNIT, Step
from dpsql.plan.ownership import labels_of, one_to_one, path_to_unit, stored_column, unverified
from dpsql.policy import Policy, load_policy

TABLES: dict[str, Any] = {
    "people": {"unit": "person", "columns": {"household": {}}},
    "orders": {"unit": {"buyer": "people.household"}, "columns": {"oid": {}}},
    "items": {"unit": {"oid": "orders.oid"}, "columns": {"iid": {}}},
    "parts": {"unit": {"item": "items.iid"}, "columns": {"n": {}}},
    "cards": {"unit": {"owner": "people.person"}, "columns": {"c": {}}},
}
SCHEMA = {
    "people": {"person": "BIGINT", "household": "BIGINT"},
    "orders": {"buyer": "BIGINT", "oid": "BIGINT"},
    "items": {"oid": "BIGINT", "iid": "VARCHAR"},
    "parts": {"item": "VARCHAR", "n": "INTEGER"},
    "cards": {"owner": "BIGINT", "c": "INTEGER"},
}


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy({"dataset": "d", "search": False, "budget": {"epsilon": 1, "delta": 1e-6}, "tables": TABLES})


def _facts(policy: Policy, *tables: str) -> frozenset[tuple[str, str]]:
    return frozenset((name, policy.tables[name].unit.fact) for name in tables)  # type: ignore[union-attr]


def test_every_step_of_a_path_must_be_verified(policy: Policy) -> None:
    steps = ("orders", "items", "parts")
    assert not unverified("parts", policy, _facts(policy, *steps))
    for missing in steps:
        assert unverified("parts", policy, _facts(policy, *(each for each in steps if each != missing)))
    assert not unverified("people", policy, frozenset())
    assert not unverified("cards", policy, frozenset())


def test_a_path_leads_to_the_column_that_names_the_owner(policy: Policy) -> None:
    assert path_to_unit("parts", policy, SCHEMA) == (
        (Step("item", "items", "iid"), Step("oid", "orders", "oid"), Step("buyer", "people", "household")),
        "person",
    )
    assert path_to_unit("cards", policy, SCHEMA) == ((), "owner")
    assert path_to_unit("people", policy, SCHEMA) == ((), "person")


def test_keys_of_different_types_lead_nowhere(policy: Policy) -> None:
    other = {**SCHEMA, "items": {"oid": "INTEGER", "iid": "VARCHAR"}}
    with pytest.raises(dpsql.PolicyError, match="different types"):
        path_to_unit("parts", policy, other)


@pytest.mark.parametrize(
    ("engine_type", "told_apart"),
    [("BIGINT", True), ("VARCHAR", True), ("DATE", True), ("TIMESTAMP", True), ("DECIMAL(9,2)", True), ("DOUBLE", True),
     ("TIMESTAMP_NS", False), ("TIMESTAMP_MS", False), ("timestamp_s", False), ("DECIMAL(38,10)", False), ("BLOB", False)],
)  # fmt: skip
def test_a_key_is_a_column_whose_values_are_told_apart(policy: Policy, engine_type: str, told_apart: bool) -> None:
    assert one_to_one(engine_type) == told_apart
    facts = _facts(policy, "orders", "items", "parts")
    labels, keys = labels_of("orders", policy, facts, {"buyer": engine_type, "oid": engine_type})
    if told_apart:
        assert labels == {"oid": "orders.oid", "buyer": "people.household"}
        assert keys == {frozenset({"oid"})}
        assert path_to_unit("people", policy, {"people": {"person": engine_type}})[1] == "person"
    else:
        assert (labels, keys) == ({}, frozenset())
        with pytest.raises(dpsql.PolicyError):
            path_to_unit("people", policy, {"people": {"person": engine_type}})


def test_a_column_is_a_key_only_where_the_link_to_it_is_verified(policy: Policy) -> None:
    assert labels_of("orders", policy, frozenset(), SCHEMA["orders"]) == ({"buyer": "people.household"}, frozenset())
    assert labels_of("people", policy, _facts(policy, "cards"), SCHEMA["people"]) == (
        {"person": UNIT}, frozenset({frozenset({"person"})}),
    )  # fmt: skip
    assert labels_of("cards", policy, frozenset(), SCHEMA["cards"]) == ({"owner": UNIT}, frozenset())


def test_a_column_is_found_in_any_case_as_it_is_stored() -> None:
    stored = {"Other": "VARCHAR", "Oid": "BIGINT"}
    assert stored_column("t", "oID", stored) == ("Oid", BIGINT)
    with pytest.raises(dpsql.PolicyError, match=r"tables\.t\.columns\.odi: the table has no column odi") as caught:
        stored_column("t", "odi", stored)
    assert caught.value.hint == "did you mean Oid? columns: Other, Oid"
    with pytest.raises(dpsql.PolicyError, match=r"tables\.t\.unit: the table has no column nothing") as caught:
        stored_column("t", "nothing", stored, unit=True)
    assert caught.value.hint == "columns: Other, Oid"
    with pytest.raises(dpsql.PolicyError, match=r"tables\.t\.columns\.b: a column of type BLOB cannot be queried"):
        stored_column("t", "b", {"b": "BLOB"})


def test_a_unit_column_that_is_not_there_is_said_to_be_the_unit(policy: Policy) -> None:
    with pytest.raises(dpsql.PolicyError, match=r"tables\.people\.unit: the table has no column person"):
        path_to_unit("people", policy, {"people": {"household": "BIGINT"}})
