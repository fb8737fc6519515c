"""An empty PostgreSQL with the policy's tables: what clients ask of a catalogue is answered there.

BI tools, drivers and psql ask `pg_catalog` hundreds of different questions, in PostgreSQL's own SQL, and read the
answers in its binary forms. A catalogue of our own would be a copy of PostgreSQL that is never complete; this one is
PostgreSQL itself. **Theorem.** No answer of the catalogue depends on private data. **Proof.** The server that gives it
holds tables without rows, made from the policy and the engine's column types alone, and has no way to the engine.
**Checked by** `tests/server/test_catalogue.py`, which looks for rows, estimates and hidden names.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpsql.interfaces.server.wheel import postgres

READER = "analyst"
_REVOKED = (
    "pg_sleep(double precision)", "pg_sleep_for(interval)", "pg_sleep_until(timestamp with time zone)",
    "pg_terminate_backend(integer, bigint)", "pg_cancel_backend(integer)", "lo_create(oid)", "lo_creat(integer)",
    "lo_from_bytea(oid, bytea)", "pg_advisory_lock(bigint)", "pg_advisory_lock(integer, integer)",
    "pg_advisory_xact_lock(bigint)", "pg_advisory_xact_lock(integer, integer)",
    "pg_notify(text, text)",
)  # fmt: skip
_SETTINGS = {
    "default_transaction_read_only": "on", "statement_timeout": "5s", "lock_timeout": "1s", "work_mem": "4MB",
    "temp_file_limit": "16MB", "idle_in_transaction_session_timeout": "30s",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Described:
    """A table as clients see it: its columns with PostgreSQL's types and a line about each."""

    name: str
    columns: tuple[tuple[str, str, str], ...]
    about: str


class Shadow:
    """One empty database with these tables; it is started when it is made, and gone when it is closed."""

    def __init__(self, dataset: str, tables: Sequence[Described]) -> None:
        self.database = dataset
        self._folder = Path(tempfile.mkdtemp(prefix="dpsql-", dir=_short()))
        self._server: Any = postgres()(self._folder / "pg", cleanup_mode="delete", postgres_version=16)
        self._server.psql(_cluster(dataset))
        self._run(_tables(tables))
        self._run(_limits(dataset))
        self.socket = str(next(self._sockets()))
        self.settings = self._show()

    def _sockets(self) -> Any:
        folders = [Path(str(self._server.get_postmaster_info().socket_dir)), self._folder / "pg"]
        return (path for folder in folders for path in folder.glob(".s.PGSQL.*") if not path.name.endswith(".lock"))

    def _run(self, sql: str) -> None:
        self._server.psql(f"\\c {_quote(self.database)}\n{sql}")

    def _show(self) -> Mapping[str, str]:
        said = self._server.psql("\\t on\n\\a\nSHOW server_version;")
        return {"server_version": said.strip().splitlines()[-1].strip()}

    def close(self) -> None:
        """Stop it and remove its files."""
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def view_of(tables: Sequence[Described]) -> str:
    """A name for what an analyst sees: those who see the same share one catalogue."""
    return hashlib.sha256(repr(tables).encode()).hexdigest()


def _short() -> str | None:
    """Sockets have short names only."""
    return "/tmp" if Path("/tmp").is_dir() else None  # noqa: S108


def _cluster(dataset: str) -> str:
    return (
        "ALTER SYSTEM SET track_activities = off;\nALTER SYSTEM SET track_counts = off;\n"
        "ALTER SYSTEM SET max_connections = 100;\nSELECT pg_reload_conf();\n"
        f"CREATE ROLE {READER} LOGIN NOINHERIT CONNECTION LIMIT 64;\n"
        f"CREATE DATABASE {_quote(dataset)};\n"
        f"REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC;\n"
        + "".join(f"ALTER ROLE {READER} SET {name} = '{value}';\n" for name, value in _SETTINGS.items())
    )


def _limits(dataset: str) -> str:
    return (
        f"REVOKE ALL ON DATABASE {_quote(dataset)} FROM PUBLIC;\n"
        f"GRANT CONNECT ON DATABASE {_quote(dataset)} TO {READER};\n"
        f"GRANT USAGE ON SCHEMA public TO {READER};\nGRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER};\n"
        + "".join(f"REVOKE ALL ON FUNCTION {each} FROM PUBLIC;\n" for each in _REVOKED)
    )


def _tables(tables: Sequence[Described]) -> str:
    lines = []
    for table in tables:
        name = _quote(table.name)
        columns = ", ".join(f"{_quote(column)} {type_}" for column, type_, _ in table.columns)
        lines.append(f"CREATE TABLE {name} ({columns});")
        lines.append(f"COMMENT ON TABLE {name} IS {_text(table.about)};")
        lines += [
            f"COMMENT ON COLUMN {name}.{_quote(column)} IS {_text(about)};"
            for column, _, about in table.columns
            if about
        ]
    return "\n".join(lines)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "E'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ") + "'"
