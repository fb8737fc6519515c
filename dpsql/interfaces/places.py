"""Where the policy of a database is, unless somebody says so."""

from __future__ import annotations

from pathlib import Path


def policy_beside(database: str) -> Path:
    """Beside the file; for a database server, in this folder."""
    return Path("policy.yaml") if "://" in database else Path(database).parent / "policy.yaml"
