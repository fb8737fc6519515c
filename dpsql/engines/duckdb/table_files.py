"""Tables that are files: which files make a table, of which version, and with which partitions.

A table is a file, a directory with all files below it, or a pattern. What is listed once is what is read: files that
come later belong to the next connection. Names that begin with a dot or an underscore are no data.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal, TypeGuard, TypeVar
from urllib.parse import unquote

from dpsql.errors import InterfaceError
from dpsql.policy import fold

Found = TypeVar("Found")
Format = Literal["parquet", "csv", "arrow"]
_FORMATS: dict[str, Format] = {
    ".parquet": "parquet", ".parq": "parquet", ".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".tsv.gz": "csv",
    ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow",
}  # fmt: skip
NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""What stands for NULL in the name of a partition."""
REMEMBERED = 1024
"""So many versions of tables are remembered in one process."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a table, in order; `partitions` are the columns that stand in the names of their directories."""

    table: str
    paths: tuple[str, ...]
    format: Format
    partitions: tuple[str, ...] = ()
    remote: bool = False

    @property
    def stamp(self) -> tuple[tuple[str, int, int, int], ...]:
        """What changes when one of them is written to, exchanged or gone."""
        return tuple(_stamp(path) for path in self.paths) if not self.remote else ()


def remember(known: dict[object, Found], stamp: object, found: Found) -> None:
    """Keep what was found out about files, by their stamp; when there are too many, the oldest is forgotten."""
    known[stamp] = found
    while len(known) > REMEMBERED:
        known.pop(next(iter(known)), None)


def is_path(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Does it name files?"""
    return isinstance(source, str | os.PathLike)


def label_of(tables: Iterable[Files]) -> str:
    """The version of some tables: a digest of the names, sizes and times of their files, and of nothing in them."""
    digest = blake2b(digest_size=16)
    for files in sorted(tables, key=lambda each: each.table):
        base = os.path.commonpath([str(Path(path).parent) for path in files.paths])
        for path, size, changed, _ in files.stamp:
            digest.update(f"{fold(files.table)}\0{os.path.relpath(path, base)}\0{size}\0{changed}\n".encode())
    return f"files:{digest.hexdigest()}"


def tables_in(where: Path, wanted: Iterable[str]) -> dict[str, str]:
    """Where the tables of a policy are in a directory: each a directory or file of its name; or the one that it is."""
    entries = {fold(name): path for name, path in tables_found(where).items()}
    if not entries.keys() & set(map(fold, wanted)):
        entries = {fold(where.resolve().name): str(where)}
    return {name: entries[fold(name)] for name in wanted if fold(name) in entries}


def tables_found(where: Path) -> dict[str, str]:
    """All that a directory has: a table for each file of data, and for each directory, by its name."""
    listed = [where] if where.is_file() else [each for each in sorted(where.iterdir()) if _is_data(each)]
    return {_stem(each): str(each) for each in listed}


def is_lake(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Is it a directory, or a file of data, and no database?"""
    if not is_path(source) or "://" in str(source):
        return False
    path = Path(source)
    return path.is_dir() or (_format(path.name) is not None and path.is_file())


def list_files(table: str, where: str | os.PathLike[str]) -> Files:
    """The files of a table, as they are now."""
    if "://" in str(where):
        found = _format(str(where)) or "parquet"
        return Files(table, (str(where),), found, remote=True)
    paths = _listed(Path(where).absolute())
    formats = {_format(path.name) for path in paths}
    if not paths or None in formats:
        raise InterfaceError(
            f"there are no data files for the table {table} at {where}",
            hint=f"name a file, a directory or a pattern; data files end in {', '.join(_FORMATS)}",
        )
    if len(formats) > 1:
        raise InterfaceError(
            f"the files of the table {table} have several formats: {', '.join(sorted(map(str, formats)))}",
            hint="keep one format for each table, or name the files by a pattern such as orders/**/*.parquet",
        )
    [format_] = formats
    assert format_ is not None
    return Files(table, tuple(map(str, paths)), format_, _partitions(table, paths))


def partition_values(path: str) -> Mapping[str, str]:
    """The columns that stand in the names of a file's directories, as DuckDB reads them: `…/year=2024/x.parquet`."""
    pairs = [part.partition("=") for part in Path(path).parent.parts if "=" in part]
    return {unquote(name): unquote(value) for name, _, value in pairs}


def _partitions(table: str, paths: Iterable[Path]) -> tuple[str, ...]:
    keys = {tuple(partition_values(str(path))) for path in paths}
    if len(keys) > 1:
        raise InterfaceError(
            f"the files of the table {table} have different partitions",
            hint="give every file the same directories, as in orders/year=2024/month=1/data.parquet",
        )
    return keys.pop()


def _listed(where: Path) -> list[Path]:
    if where.is_dir():
        below = (path for path in where.rglob("*") if _format(path.name) is not None)
        return sorted(path for path in below if path.is_file() and not _hidden(path.relative_to(where)))
    if where.is_file():
        return [where]
    matched = (Path(path) for path in glob.glob(str(where), recursive=True))  # noqa: PTH207
    return sorted(path for path in matched if path.is_file() and not path.name.startswith((".", "_")))


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _is_data(path: Path) -> bool:
    return not _hidden(Path(path.name)) and (path.is_dir() or _format(path.name) is not None)


def _stem(path: Path) -> str:
    suffix = _suffix(path.name)
    return path.name[: len(path.name) - len(suffix)] if suffix and path.is_file() else path.name


def _format(file: str) -> Format | None:
    return _FORMATS.get(_suffix(file))


def _suffix(file: str) -> str:
    """The known ending of a file's name, whatever its case; empty if it has none. (None of them ends in another.)"""
    return next((each for each in _FORMATS if file.lower().endswith(each)), "")


def _stamp(path: str) -> tuple[str, int, int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return path, -1, -1, -1
    return path, found.st_size, found.st_mtime_ns, found.st_ino
