"""Opening DuckDB: a database, or frames and files, locked before the first query, and limited in memory and disk.

What is opened here is locked for good. A connection that the caller passes in stays the caller's: nothing of its
database is changed, and only the cursors that dpsql makes of it are settled.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import duckdb

from dpsql.engines.base import Resources
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.object_columns import require_types
from dpsql.engines.duckdb.prepare import attach
from dpsql.engines.duckdb.register_tables import register_files, register_table, require_dtypes
from dpsql.engines.duckdb.table_files import Files, is_path, label_of, list_files
from dpsql.errors import InterfaceError
from dpsql.policy import Policy
from dpsql.policy.column_types import column_types, stated_types
from dpsql.steward_log import failed

LOCKED: dict[str, str | bool | int | float | list[str]] = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
SETTINGS = {"TimeZone": "Etc/UTC", "ieee_floating_point_ops": True, "integer_division": False, "default_collation": ""}
"""What the emitted SQL relies on: dates in UTC, arithmetic that does not raise, text compared byte by byte."""

_OPENING = threading.Lock()
_SPILLS: list[tempfile.TemporaryDirectory[str]] = []
"""Private directories for what does not fit into memory; they are removed when the process ends."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Placed:
    """Tables in memory and from files, with the version of the files (of frames, one of its own), and their stamps."""

    connection: duckdb.DuckDBPyConnection
    label: str
    files: tuple[tuple[Files, object], ...] = ()

    @property
    def lasting(self) -> bool:
        """Are they all files, which have a version?"""
        return self.label.startswith("files:")


@dataclass(frozen=True, slots=True)
class Opened:
    """A locked connection, the label of the data that it has, and the stamp of the prepared copies beside them."""

    connection: duckdb.DuckDBPyConnection
    label: str
    copies: str | None = None


def open_file(path: Path, limits: Resources, copies: Path | None = None) -> Opened:
    """The file, read-only, and the label of the version that was opened: its time stamp.

    A process that has the file open already shares it, also after another file was put in its place. So the label is
    kept with the open database, and is never that of a file which nobody here has read; and so is the copies' stamp.
    """
    if not path.is_file():
        raise InterfaceError(f"there is no database file {path}", hint="check the path; it is never created here")
    with _OPENING:
        before = _stamp(path)
        connection = tried(lambda: duckdb.connect(str(path), read_only=True, config=LOCKED))
        if isinstance(connection, Exception):
            raise _unopened(path, connection)
        if _stamp(path) != before:
            connection.close()
            raise InterfaceError(f"the database {path} changed while it was opened", hint="connect again")
        return _lock_once(connection, limits, _label(path), path, copies)


def open_to_copy(path: Path) -> Placed:
    """The file for the steward's `dpsql prepare`: read-only too, beside another that is written."""
    connection, label = duckdb.connect(":memory:", config=LOCKED), _label(path)
    connection.execute(f"ATTACH {DUCKDB.text(str(path))} AS dpsql_source (READ_ONLY)")
    connection.execute("USE dpsql_source")
    settle(connection)
    return Placed(connection, label if label == _label(path) else "")


def _label(path: Path) -> str:
    """The version of a database: when it was written, and how long it is; and the same of its write-ahead log.

    What a writer left in the log when it ended without a checkpoint is read too, and the file does not show it.
    """
    return f"file:{':'.join(f'{changed}:{size}' for changed, size, _ in _stamp(path))}"


def _stamp(path: Path) -> tuple[tuple[int, int, int], ...]:
    """Times, sizes and numbers of the file, and of its log if there is one."""
    log = path.with_name(f"{path.name}.wal")
    found = [each.stat() for each in (path, log) if each.exists()]
    return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)


def open_tables(tables: Mapping[str, Any], limits: Resources, policy: Policy | None = None) -> Placed:
    """An in-memory database over data frames, Arrow tables and files, one table each; not locked yet."""
    connection = duckdb.connect(":memory:", config=LOCKED)
    _limit(connection, limits)
    settle(connection)
    files = tuple(list_files(name, table) for name, table in tables.items() if is_path(table))
    stamped = tuple((each, each.stamp) for each in files)
    label = f"frames:{uuid4()}" if len(files) < len(tables) or any(f.remote for f in files) else label_of(files)
    for each in files:
        _placed(partial(register_files, connection, each, _types(policy, each)), f"the files of the table {each.table}")
    for name, table in tables.items():
        if not is_path(table):
            types = None if policy is None else stated_types(policy, name)
            if types is not None:
                require_types(name, table, types)
            require_dtypes(connection, name, table)
            _placed(partial(register_table, connection, name, table, types), f"the frame {name}")
    if any(each.stamp != stamp for each, stamp in stamped):
        connection.close()
        raise InterfaceError("the files changed while they were opened", hint="connect again")
    return Placed(connection, label, stamped)


def open_frames(
    tables: Mapping[str, Any], limits: Resources, policy: Policy | None = None, copies: Path | None = None
) -> tuple[Placed, str | None]:
    """The tables, locked: no other file can be read; and the stamp of the prepared copies beside them."""
    placed = open_tables(tables, limits, policy)
    stamp = None if copies is None else attach(placed.connection, copies)
    read = [path for files, _ in placed.files for path in files.paths if files.format == "parquet"]
    if read:
        listed = ", ".join(map(DUCKDB.text, read))
        placed.connection.execute(f"SET allowed_paths = [{listed}]")
    _lock(placed.connection, "")
    return placed, stamp


def _types(policy: Policy | None, files: Files) -> Mapping[str, str] | None:
    """The types of what comes as text: what the policy says, for private tables; public ones show theirs."""
    return None if policy is None else column_types(policy, files.table, files.partitions)


def _placed(work: Callable[[], None], what: str) -> None:
    if isinstance(tried(work), Exception):
        raise InterfaceError(
            f"{what} cannot be read as a table",
            hint="give whole Parquet, CSV or Arrow files, Arrow tables, or frames whose columns each hold one type",
        )


def settle(connection: duckdb.DuckDBPyConnection) -> None:
    """Put the settings of this session, and of no other, to what the emitted SQL relies on."""
    asked = ", ".join(f"current_setting('{name}')" for name in SETTINGS)
    found = connection.execute(f"SELECT {asked}").fetchall()[0]
    for (name, value), now in zip(SETTINGS.items(), found, strict=True):
        if now == value:
            continue
        done = tried(partial(connection.execute, f"SET SESSION {name} = '{value}'"))
        if isinstance(done, Exception):
            raise InterfaceError(
                f"the database's setting {name} is locked to a value under which answers are not safe",
                hint=f"set it to {value!r} before the configuration is locked",
            )


def remove_spills() -> None:
    """What is written to disk goes, for a process that ends without further ado."""
    for spill in _SPILLS:
        spill.cleanup()


def tried(work: Callable[[], T]) -> T | Exception:
    """What the work gave, or the problem as a value: an error that is raised later carries nothing of it."""
    try:
        return work()
    except (duckdb.Error, ValueError, OSError) as problem:
        failed("the data cannot be opened", problem)
        return problem


def _unopened(path: Path, problem: Exception) -> InterfaceError:
    shared = "different configuration" in str(problem)
    who = "this process has it open already, with other settings" if shared else type(problem).__name__
    return InterfaceError(
        f"the database {path} cannot be opened read-only: {who}",
        hint=f"close {'that connection' if shared else 'other connections that write to it'}, or pass your own: "
        "dpsql.connect(connection, …)",
    )


def _lock_once(
    connection: duckdb.DuckDBPyConnection, limits: Resources, label: str, path: Path, copies: Path | None
) -> Opened:
    """Lock what was opened; where another connection did, with the same limits and copies, the labels that it found."""
    marked = f"{limits.memory} {limits.spill} {copies}"
    [(locked, found)] = connection.execute(
        "SELECT current_setting('lock_configuration'), current_setting('username')"
    ).fetchall()
    if not locked:
        stamp = None if copies is None else attach(connection, copies)
        _limit(connection, limits)
        _lock(connection, f"{label} {stamp} {marked}")
        return Opened(connection, label, stamp)
    earlier, stamp, others = str(found).split(" ", 2)
    if others != marked:
        connection.close()
        raise InterfaceError(
            f"this process has {path} open already, with other limits", hint="close that connection first"
        )
    return Opened(connection, earlier, None if copies is None else stamp)


def _lock(connection: duckdb.DuckDBPyConnection, mark: str) -> None:
    """No files, extensions, settings or temporary files from now on, for this connection and all its cursors.

    DuckDB keeps a user's name for old programs and ignores it; here it holds the label of what was opened. To people at
    a prompt it would show how far it has come with the private rows; in a notebook that lacks the package which draws
    this there is nothing to switch off, and DuckDB refuses to.
    """
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET SESSION enable_progress_bar = false")
    settings = {**SETTINGS, "username": mark, "enable_external_access": False, "lock_configuration": True}
    for name, value in settings.items():
        connection.execute(f"SET GLOBAL {name} = {DUCKDB.text(str(value))}")


def _limit(connection: duckdb.DuckDBPyConnection, limits: Resources) -> None:
    """So much memory, and so much of the disk, in a private directory."""
    settings: dict[str, object] = {}
    if limits.memory is not None:
        settings["memory_limit"] = f"{limits.memory}B"
    if limits.spill is not None:
        _SPILLS.append(tempfile.TemporaryDirectory(prefix="dpsql-spill-", ignore_cleanup_errors=True))
        settings |= {"temp_directory": _SPILLS[-1].name, "max_temp_directory_size": f"{limits.spill}B"}
    for name, value in settings.items():
        connection.execute(f"SET GLOBAL {name} = {DUCKDB.text(str(value))}")
