"""Doors for the audit that live among the interfaces: a world, opened for an analyst, SQL in and rows out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from dpsql.audit.settings import Ask, Door
    from dpsql.audit.world import World

MOST = Decimal("0.01")


@contextmanager
def dbapi(world: World) -> Iterator[Ask]:
    """PEP 249: a new cursor for each question."""
    from dpsql.audit.blackbox.observe import opened, remember_integers

    with opened(world) as db:
        remember_integers(db)

        def ask(sql: str) -> list[tuple[Any, ...]]:
            with db.cursor() as cursor:
                return cursor.execute(sql).fetchall()

        yield ask


@contextmanager
def server(world: World) -> Iterator[Ask]:
    """`dpsql serve` in a process of its own, asked by `dpsql://`: TLS, a login, the protocol, a ledger on disk."""
    from dpsql.interfaces.audit_server import PASSWORD, served
    from dpsql.interfaces.client.connection import connect_to

    analyst, dataset = next(iter(world.policy.budget.analysts), "ana"), quote(world.policy.dataset, safe="")
    with TemporaryDirectory() as folder:
        _write(world, Path(folder))
        with (
            served(Path(folder), "world.duckdb", analyst) as (port, _),
            connect_to(f"dpsql://{quote(analyst, safe='')}@127.0.0.1:{port}/{dataset}", password=PASSWORD) as db,
        ):
            yield lambda sql: db.query(sql).fetchall()


def _write(world: World, folder: Path) -> None:
    """The database and a policy whose budget is as endless as a policy may be: no file has a δ above MOST."""
    import yaml

    from dpsql.audit.blackbox.observe import save

    save(world, folder / "world.duckdb")
    said = world.endless.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for part in (said["budget"], said["limits"], *said["budget"].get("analysts", {}).values()):
        part["delta"] = str(min(MOST, Decimal(part.get("delta", 0))))
    (folder / "policy.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")


DOORS: dict[str, Door] = {"the DB-API": dbapi, "the server": server}
