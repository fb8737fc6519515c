"""The JSON schema of a policy, for editors that complete and check YAML: every key with what it means.

The schema is wider than the policy: it accepts every valid file, and `load_policy` refuses contradictions as well.
"""

from __future__ import annotations

import warnings
from typing import Any

from pydantic.json_schema import PydanticJsonSchemaWarning

from dpsql.policy.model import Policy
from dpsql.policy.policy_values import TYPES, WINDOWS

_EPSILON = "Epsilon, greater than 0."
_DELTA = "Delta, from 0 to 0.01; choose it far below 1 / number of units."
_EVERY = "The calendar window (UTC) after which this account starts afresh. Without it the cap is for ever."
_NUMBER = {"type": ["number", "string"]}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_SIZE = {"type": ["integer", "string", "null"]}
_BOUND = {"type": ["number", "string", "null"]}
_WINDOW = {"enum": [*WINDOWS, None]}
_ROWS = {"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}, {"type": "null"}]}

_KEYS: dict[str, dict[str, tuple[str, dict[str, Any] | None]]] = {
    "Policy": {
        "dataset": (
            "The name of the account in the ledger. Keep it for every copy and version of the same data.",
            None,
        ),
        "ledger": ("Where the ledger is: a file, or postgresql://… without a password.", None),
        "budget": ("The caps on everything that is ever released, for all analysts together.", None),
        "limits": ("The most that one query may ask for.", None),
        "replay": (
            "Whether an earlier release is returned again at no cost: true, false, or {keep: 30 days}.",
            {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/Replay"}]},
        ),
        "defaults": ("What a query costs, and how it is answered, unless it says otherwise.", None),
        "search": ("Whether private searches find the bounds and limits that the policy leaves open.", None),
        "tables": ("The tables that analysts may use, by name. Other tables do not exist for them.", None),
        "views": ("Queries that analysts may read like tables, by name.", None),
    },
    "Budget": {
        "epsilon": (_EPSILON, _NUMBER),
        "delta": (_DELTA, _NUMBER),
        "analysts": ("The analysts who may connect, by name. If none is listed, everyone may.", None),
    },
    "AnalystBudget": {
        "epsilon": ("The analyst's cap on epsilon; the dataset's if left out.", {"type": ["number", "string", "null"]}),
        "delta": ("The analyst's cap on delta; the dataset's if left out.", {"type": ["number", "string", "null"]}),
        "every": (_EVERY, _WINDOW),
        "tables": (
            "The tables that the analyst may use: a list, or a mapping from each table to its columns or `all`.",
            {
                "anyOf": [
                    _TEXTS,
                    {"type": "object", "additionalProperties": {"anyOf": [_TEXTS, {"const": "all"}]}},
                    {"type": "null"},
                ]
            },
        ),
        "purposes": ("Caps for single purposes of the analyst, by name.", None),
    },
    "PurposeBudget": {
        "epsilon": ("The cap on epsilon for this purpose; the analyst's if left out.", _BOUND),
        "delta": ("The cap on delta for this purpose; the analyst's if left out.", _BOUND),
        "every": (_EVERY, _WINDOW),
    },
    "QueryLimits": {
        "epsilon": ("The largest epsilon that one query may ask for.", _NUMBER),
        "delta": ("The largest delta that one query may ask for.", _NUMBER),
        "max_public_keys": (
            "Up to this many combinations of key values are listed in advance. With more, the keys are private: groups "
            "appear above a threshold, and the query needs delta.",
            None,
        ),
        "seconds": ("The longest time that a query may run, in seconds.", None),
        "pad": ("Replies are sent only at multiples of this many seconds, such as 0.25.", _BOUND),
        "memory": ("The memory that the engine may use, such as 2GB.", _SIZE),
        "spill": ("The disk space that the engine may use, such as 10GB.", _SIZE),
    },
    "Defaults": {
        "epsilon": ("The epsilon of a query that does not name one.", _NUMBER),
        "delta": ("The delta of a query that does not name one.", _NUMBER),
        "mechanism": ("The noise: gaussian, laplace, or auto (Gaussian where a delta is allowed).", None),
        "max_rows_per_unit": ("How many rows of a unit count in tables that do not say.", _ROWS),
        "max_groups_per_unit": ("In how many groups a unit counts in tables that do not say.", None),
        "search": ("The epsilon of one private search.", _NUMBER),
    },
    "Replay": {
        "keep": ("How long a release is returned again: 12 hours, 30 days, 2 weeks, or forever.", {"type": "string"})
    },
    "DeclaredTable": {
        "unit": (
            "The column of the privacy unit, `row`, or a path to it such as {customer_id: customers.id}.",
            {"type": ["string", "object", "null"]},
        ),
        "public": ("Whether everyone may see every row. A public table has no unit.", None),
        "unique": (
            "true: each unit has one row. Otherwise the columns of a key, or a list of keys.",
            {"type": ["boolean", "array"]},
        ),
        "max_rows_per_unit": ("How many rows of a unit count, or `auto` for a private search.", _ROWS),
        "max_groups_per_unit": ("In how many groups a unit counts.", None),
        "prepare": ("How `dpsql prepare` makes a copy that is bounded at rest: weigh or keep.", None),
        "columns": ("The columns that analysts may use, by name.", None),
    },
    "DeclaredColumn": {
        "min": ("The smallest value: a number, a date or a timestamp. Smaller values are raised to it.", _BOUND),
        "max": ("The largest value: a number, a date or a timestamp. Larger values are lowered to it.", _BOUND),
        "values": (
            "All values of the column, or {from: table.column} to take them from a public table.",
            {"anyOf": [{"type": "array", "minItems": 1}, {"type": "object"}, {"type": "null"}]},
        ),
        "bounds": ("auto: a private search finds the bounds.", None),
        "nulls": ("Whether the column may contain NULL.", None),
        "type": (f"The type of a column whose source has none: {', '.join(TYPES)}, or decimal(18, 2).", None),
        "minmax": ("policy: MIN and MAX return the declared bounds.", None),
        "randomized": ("The column was collected with randomized response.", None),
    },
    "Randomized": {"epsilon": ("The epsilon of the randomized response.", _NUMBER)},
    "DeclaredView": {"sql": ("The SELECT statement of the view.", None)},
}
"""For each model and key: what it means, and the type in a file where the model's own is not what a file may say."""


def policy_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a policy file.

    >>> policy_schema()["properties"]["dataset"]["type"]
    'string'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        schema = Policy.model_json_schema()
    for name, definition in {"Policy": schema, **schema["$defs"]}.items():
        described = {
            key: _described(found, name, key) for key, found in definition["properties"].items() if key in _KEYS[name]
        }
        definition["properties"] = described
    _allow_short_forms(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "dpsql policy"}


def _described(found: dict[str, Any], model: str, key: str) -> dict[str, Any]:
    text, form = _KEYS[model][key]
    kept = {"default": found["default"]} if form is not None and found.get("default") is not None else {}
    own = {name: value for name, value in found.items() if name not in ("title", "description")}
    return {**(own if form is None else {**form, **kept}), "description": text}


def _allow_short_forms(schema: dict[str, Any]) -> None:
    """A key without a value means an empty mapping, and a view may be its SQL alone."""
    models = schema["$defs"]
    mappings = [
        (schema, "tables"), (schema, "views"), (models["Budget"], "analysts"), (models["AnalystBudget"], "purposes"),
    ]  # fmt: skip
    for model, key in mappings:
        item = model["properties"][key].pop("additionalProperties")
        other = {"type": "string"} if key == "views" else {"type": "null"}
        model["properties"][key] |= {"additionalProperties": {"anyOf": [item, other]}, "type": ["object", "null"]}
    columns = models["DeclaredTable"]["properties"]["columns"]
    item = columns.pop("anyOf")[0]["additionalProperties"]
    columns |= {"type": ["object", "null"], "additionalProperties": {"anyOf": [item, {"type": "null"}]}}
    for key in ("limits", "defaults"):
        found = schema["properties"][key]
        reference = {"$ref": found.pop("$ref")}
        found["anyOf"] = [reference, {"type": "null"}]
