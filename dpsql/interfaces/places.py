"""Where the policy of a database is, unless somebody says so."""

from __future__ import annotations

from pathlib import Path


def policy_beside(database: str) -> Path:
    """Beside the file; for a database server, in this folder."""
    return Path("policy.yaml") if "://" in database else Path(database).parent / "policy.yaml"


def other_ledger(database: str, dataset: str, used: str) -> Path | None:
    """A ledger beside the database file that has the dataset's name and is not the one in use."""
    beside = Path(database).parent / f"{dataset}.ledger"
    return beside if "://" not in database and beside.exists() and beside.resolve() != Path(used).resolve() else None
