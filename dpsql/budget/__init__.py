"""The budget: what a query costs, whether it is admitted, and the ledger that remembers."""

from dpsql.budget.accountant import Caps, FilterLimits, Spent, admits, limits, more_like, remaining, spent_as
from dpsql.budget.costs import FREE, Charge, Cost, pure_charge, zcdp_charge
from dpsql.budget.ledger import ChainedLedger, open_ledger
from dpsql.budget.ledger.interface import (
    ErrorBar,
    LastCharge,
    Ledger,
    LogEntry,
    RelatedRelease,
    ReleaseDetails,
    Request,
    Standing,
    StoredRelease,
)
from dpsql.budget.ledger.reservation import Reservation
from dpsql.mechanisms.exact_numbers import UNIT, Number, exact
from dpsql.mechanisms.zcdp_conversion import delta_for, epsilon_for, laplace_rho, pure_rho, rho_for

__all__ = [
    "FREE",
    "UNIT",
    "Caps",
    "ChainedLedger",
    "Charge",
    "Cost",
    "ErrorBar",
    "FilterLimits",
    "LastCharge",
    "Ledger",
    "LogEntry",
    "Number",
    "RelatedRelease",
    "ReleaseDetails",
    "Request",
    "Reservation",
    "Spent",
    "Standing",
    "StoredRelease",
    "admits",
    "delta_for",
    "epsilon_for",
    "exact",
    "laplace_rho",
    "limits",
    "more_like",
    "open_ledger",
    "pure_charge",
    "pure_rho",
    "remaining",
    "rho_for",
    "spent_as",
    "zcdp_charge",
]
