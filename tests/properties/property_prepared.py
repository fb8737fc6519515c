"""Worlds whose tables are prepared before they are asked: every copy with the same salt, as of one steward."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsql.audit.world import World, load
from dpsql.budget import open_ledger
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.interfaces.steward_tasks import orders_of
from dpsql.plan.at_rest import PreparedCopy, recipe
from dpsql.policy import load_policy
from dpsql.session import Connection

COPY_SALT = b"of the copies"
_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
"""Gone when the process ends."""


@dataclass(frozen=True)
class PreparedWorld(World):
    """A world that is opened as a file, with copies of the tables that the policy prepares."""

    def open(self, *, steward: bool = False, analyst: str | None = None) -> Connection:
        """A connection to a file of its own, prepared."""
        _FOLDERS.append(tempfile.TemporaryDirectory(prefix="dpsql-prepared-"))
        folder = Path(_FOLDERS[-1].name)
        _store(self, folder / "world.duckdb")
        engine = DuckDBEngine(folder / "world.duckdb", copies=folder / "world.prepared")
        ledger = open_ledger(folder / "world.ledger", self.policy.dataset)
        db = Connection(engine, self.endless, ledger, None, steward=True)
        made = engine.prepare(orders_of(db), COPY_SALT, lambda *_: None)
        for each in made.tables:
            fact = PreparedCopy(recipe(db.policy, each.table), made.content, made.stamp).fact
            ledger.record_fact(each.table, fact, db.data_version())
        db.release()
        engine = DuckDBEngine(folder / "world.duckdb", copies=folder / "world.prepared")
        return Connection(engine, self.endless, ledger, None if steward else analyst or "analyst", steward=steward)


def _store(world: World, path: Path) -> None:
    with load(world.tables) as raw:
        raw.execute(f"ATTACH '{path}' AS stored")
        raw.execute("COPY FROM DATABASE memory TO stored")


def prepared(world: World, mode: str | None, *tables: str) -> World:
    """The world with copies of these tables; without a mode, the world as a file only."""
    said: dict[str, Any] = world.policy.model_dump()
    for name in tables:
        said["tables"][name]["prepare"] = mode
    return PreparedWorld(world.name, load_policy(said), world.tables)
