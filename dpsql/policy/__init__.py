"""What the steward declares: the policy file, its draft from a database, and the check of its facts."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpsql.policy.identifiers import Names, fold
from dpsql.policy.load import ledger_location, load_policy, parse_policy
from dpsql.policy.model import (
    AnalystBudget,
    Budget,
    DeclaredCaps,
    DeclaredColumn,
    DeclaredTable,
    Defaults,
    ForeignKey,
    Policy,
    PurposeBudget,
    QueryLimits,
)
from dpsql.policy.policy_values import Bound, Value, to_decimal

if TYPE_CHECKING:
    from dpsql.policy.check import PolicyFinding, check_facts, constraint_facts
    from dpsql.policy.draft import PolicyDraft, draft_policy, write_draft
    from dpsql.policy.json_schema import policy_schema

__all__ = [
    "AnalystBudget",
    "Bound",
    "Budget",
    "DeclaredCaps",
    "DeclaredColumn",
    "DeclaredTable",
    "Defaults",
    "ForeignKey",
    "Names",
    "Policy",
    "PolicyDraft",
    "PolicyFinding",
    "PurposeBudget",
    "QueryLimits",
    "Value",
    "check_facts",
    "constraint_facts",
    "draft_policy",
    "fold",
    "ledger_location",
    "load_policy",
    "parse_policy",
    "policy_schema",
    "to_decimal",
    "write_draft",
]

_STEWARD = {
    "PolicyDraft": "draft",
    "PolicyFinding": "check",
    "check_facts": "check",
    "constraint_facts": "check",
    "draft_policy": "draft",
    "policy_schema": "json_schema",
    "write_draft": "draft",
}


def __getattr__(name: str) -> Any:
    """The steward's commands are loaded when they are used."""
    if name not in _STEWARD:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"dpsql.policy.{_STEWARD[name]}"), name)
