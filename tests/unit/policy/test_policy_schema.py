"""The JSON schema of a policy: complete, described, and wide enough for every form that a policy may have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpsql.policy import load_policy, policy_schema
from dpsql.policy import model as models

POLICY: dict[str, Any] = {
    "dataset": "shop",
    "budget": {
        "epsilon": 10,
        "delta": "1e-6",
        "analysts": {
            "ana": {"epsilon": 3, "every": "month", "tables": {"orders": ["amount"], "customers": "all"}},
            "bob": None,
        },
    },
    "limits": {"epsilon": 2, "memory": "2GB", "seconds": 60},
    "replay": {"keep": "30 days"},
    "defaults": None,
    "tables": {
        "customers": {"unit": "id", "unique": True, "columns": {"age": {"min": 18, "max": 110}, "note": None}},
        "orders": {
            "unit": {"customer_id": "customers.id"},
            "max_rows_per_unit": "auto",
            "columns": {
                "amount": {"min": 0, "max": 500},
                "status": {"values": ["paid", "open"]},
                "placed": {"min": "2020-01-01"},
            },
        },
        "stores": {"public": True},
    },
    "views": {"paid": "SELECT amount FROM orders WHERE status = 'paid'"},
}


def definitions() -> dict[str, Any]:
    schema = policy_schema()
    return {"Policy": schema, **schema["$defs"]}


def test_each_key_of_each_section_is_there_with_a_description() -> None:
    for name, definition in definitions().items():
        declared = {key for key, field in getattr(models, name).model_fields.items() if not field.exclude}
        assert set(definition["properties"]) == declared, name
        assert all(found["description"].endswith(".") for found in definition["properties"].values()), name
        assert definition["additionalProperties"] is False, name


def test_the_schema_is_json_and_names_no_number_that_json_lacks() -> None:
    assert json.loads(json.dumps(policy_schema(), allow_nan=False)) == policy_schema()


def test_a_policy_in_all_its_short_forms_is_valid() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    load_policy(POLICY)
    jsonschema.Draft202012Validator.check_schema(policy_schema())
    jsonschema.Draft202012Validator(policy_schema()).validate(POLICY)


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": None},
        {"budgets": {}},
        {"search": "yes"},
        {"budget": {"delta": 0}},
        {"tables": {"t": {"units": "id"}}},
    ],
)
def test_a_misspelt_key_or_a_wrong_type_is_found(change: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert not jsonschema.Draft202012Validator(policy_schema()).is_valid(POLICY | change)
