"""The ledger: a durable, append-only, hash-chained account of what a dataset has spent."""

from dpsql.budget.ledger.chained_ledger import ChainedLedger, named
from dpsql.budget.ledger.locations import create_ledger, open_ledger

__all__ = ["ChainedLedger", "create_ledger", "named", "open_ledger"]
