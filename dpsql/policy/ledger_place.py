"""Where the ledger of a policy is, unless somebody names another place."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.policy.mistake import wrong
from dpsql.policy.scalars import show

if TYPE_CHECKING:
    from dpsql.policy.model import Policy

_ADDRESS = re.compile(r"postgres(ql)?://", re.IGNORECASE)
_SECRET = re.compile(r"//[^/?#]*:[^/?#]*@|[?&](ssl)?password=", re.IGNORECASE)


def read_place(value: object) -> str | None:
    """A file, or the address of a database; a policy is read by many, so it holds no password, nor is one shown."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise wrong(f"{show(value)} is no place of a ledger", "write a file name, or postgresql://user@host/database")
    if _ADDRESS.match(value) and _SECRET.search(value):
        raise wrong(
            "the address of the ledger holds a password",
            "leave it out, and keep it in a password file (~/.pgpass) or in PGPASSWORD where dpsql runs",
        )
    return value


def ledger_place(
    policy: Policy, file: str | os.PathLike[str] | None, named: str | os.PathLike[str] | None = None
) -> str | Path | None:
    """The one that was named; else the policy's own, which is beside its file unless it is an address; else
    `<dataset>.ledger` there; None where the policy is no file and names none.
    """
    if named is not None:
        return named if isinstance(named, str) else Path(named)
    own = policy.ledger
    if own is not None and (_ADDRESS.match(own) or own == ":memory:"):
        return own
    if file is None:
        return own
    return Path(file).parent / (f"{policy.dataset}.ledger" if own is None else own)
