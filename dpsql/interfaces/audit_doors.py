"""The interfaces through which the black-box audit asks an analyst's questions: SQL in, rows out."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dpsql.errors import OperationalError

if TYPE_CHECKING:
    from dpsql.audit.outcome import Ask, Door
    from dpsql.audit.world import World

MAX_DELTA = Decimal("0.01")
"""The largest δ that a policy file may have."""
PASSWORD = "a password for the audit only"  # noqa: S105 - of a server that runs only during the check


@contextmanager
def dbapi(world: World) -> Iterator[Ask]:
    """PEP 249, with a new cursor for each question."""
    from dpsql.audit.blackbox.observations import opened, remember_integers

    with opened(world) as db:
        remember_integers(db)

        def ask(sql: str) -> list[tuple[Any, ...]]:
            with db.cursor() as cursor:
                return cursor.execute(sql).fetchall()

        yield ask


@contextmanager
def server(world: World) -> Iterator[Ask]:
    """`dpsql serve` in a process of its own, asked by `dpsql://`: TLS, a login, the protocol, a ledger on disk."""
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
    """Write the database, and a policy with the largest budget that a policy file may have."""
    import yaml

    from dpsql.audit.blackbox.observations import save

    save(world, folder / "world.duckdb")
    policy = world.endless.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for part in (policy["budget"], policy["limits"], *policy["budget"].get("analysts", {}).values()):
        part["delta"] = str(min(MAX_DELTA, Decimal(part.get("delta", 0))))
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")


@contextmanager
def served(folder: Path, database: str, analyst: str) -> Iterator[tuple[int, int]]:
    """Run `dpsql serve` in a process of its own; gives its port and its process number."""
    start = [sys.executable, "-u", "-m", "dpsql"]
    add = [*start, "user", "add", analyst, "--password-stdin"]
    subprocess.run(add, cwd=folder, input=PASSWORD + "\n", text=True, check=True, capture_output=True)  # noqa: S603
    command, words = [*start, "serve", database, "--port", "0"], {**os.environ, "COLUMNS": "200"}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=words)  # noqa: S603
    assert process.stdout is not None
    try:
        line = next((found for text in process.stdout if (found := re.search(r"on 127\.0\.0\.1:(\d+) ", text))), None)
        if line is None:
            raise OperationalError(f"the server did not start: {(folder / 'server.log').read_text()[-300:]}")
        yield int(line[1]), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


DOORS: dict[str, Door] = {"the DB-API": dbapi, "the server": server}
