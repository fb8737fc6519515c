"""The folder that all doors open: a database of canaries, its policy, and a ledger that must stay empty."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from dpsql.audit.fuzz.canaries import policy, stored
from dpsql.session import Connection, connect

ANALYST = "ana"


@contextmanager
def prepared() -> Iterator[Path]:
    """`canaries.duckdb` and `policy.yaml` in a folder of their own."""
    declared = policy()
    declared["budget"] = {**declared["budget"], "analysts": {ANALYST: {"epsilon": 10}}}
    with TemporaryDirectory() as folder, stored() as database:
        shutil.copy(database, Path(folder) / "canaries.duckdb")
        (Path(folder) / "policy.yaml").write_text(yaml.safe_dump(declared))
        yield Path(folder)


def entered(folder: Path) -> Connection:
    """The analyst's own connection."""
    return connect(folder / "canaries.duckdb", policy=folder / "policy.yaml", analyst=ANALYST)


def charges(folder: Path) -> list[str]:
    """What was charged so far: the texts of the queries."""
    with connect(folder / "canaries.duckdb", policy=folder / "policy.yaml", steward=True) as db:
        return [str(entry) for entry in db.ledger.log() if entry.kind == "charge"]
