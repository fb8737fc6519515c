"""What the steward declares: the policy file, its draft from a database, and the check of its facts."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpsql.policy.ledger_place import ledger_place
from dpsql.policy.load import load_policy, parse_policy
from dpsql.policy.model import (
    AnalystBudget,
    Budget,
    Caps,
    Column,
    Defaults,
    ForeignKey,
    Limits,
    Policy,
    PurposeBudget,
    Table,
)
from dpsql.policy.names import Names, fold
from dpsql.policy.scalars import Bound, Value, to_decimal

if TYPE_CHECKING:
    from dpsql.policy.check import Finding, check_facts, constraint_facts
    from dpsql.policy.draft import Draft, draft_policy, write_draft

__all__ = [
    "AnalystBudget",
    "Bound",
    "Budget",
    "Caps",
    "Column",
    "Defaults",
    "Draft",
    "Finding",
    "ForeignKey",
    "Limits",
    "Names",
    "Policy",
    "PurposeBudget",
    "Table",
    "Value",
    "check_facts",
    "constraint_facts",
    "draft_policy",
    "fold",
    "ledger_place",
    "load_policy",
    "parse_policy",
    "to_decimal",
    "write_draft",
]

_STEWARD = {
    "Draft": "draft",
    "Finding": "check",
    "check_facts": "check",
    "constraint_facts": "check",
    "draft_policy": "draft",
    "write_draft": "draft",
}


def __getattr__(name: str) -> Any:
    """The steward's commands are loaded when they are used."""
    if name not in _STEWARD:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"dpsql.policy.{_STEWARD[name]}"), name)
