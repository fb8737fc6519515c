"""The file with prepared copies: attached read-only beside the data, and known by its stamp and its content."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import duckdb

from dpsql.engines.duckdb.dialect import COPY, DUCKDB

BLOCK = 1 << 22


def stamp_of(path: Path) -> str:
    """What the file system says of a file, nothing if there is none; whoever writes to the file changes it.

    The time of the last change of the file's own entry (ctime) cannot be set back, unlike that of its content.
    """
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}"


def content_of(path: Path) -> str:
    """A digest of the whole file, read once."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def content_while(path: Path, stamp: str) -> str:
    """The digest of the file that has this stamp; nothing if the file is another by now, or becomes one meanwhile."""
    if not stamp or stamp_of(path) != stamp:
        return ""
    found = content_of(path)
    return found if stamp_of(path) == stamp else ""


def attach(connection: duckdb.DuckDBPyConnection, path: Path) -> str:
    """Attach the copies: the stamp of the file that was opened, or nothing where there is none.

    A file that was put there meanwhile, or that cannot be read, gives no stamp, so no copy in it is believed.
    """
    before = stamp_of(path)
    if not before:
        return ""
    try:
        connection.execute(f"ATTACH {DUCKDB.text(str(path))} AS {COPY} (READ_ONLY)")
    except duckdb.Error:
        return "unreadable"
    return before if before == stamp_of(path) else "changed"
