"""Writing copies that are bounded at rest: the theorems are in `dpsql.plan.at_rest`.

A copy is written under another name, in a directory that only the steward can enter, and gets its name when it is whole
and on disk. The rows are taken in portions of units, so that memory stays bounded and the bar moves.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import duckdb

from dpsql.budget.ledger.durable_files import sync_file
from dpsql.engines.base import Resources
from dpsql.engines.duckdb.dialect import COPY, DUCKDB
from dpsql.engines.sql.clamp import steps_name, steps_of, steps_sql
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.relations import relation_sql
from dpsql.errors import InterfaceError
from dpsql.plan.nodes.relation import Copy, Scan

# the file with prepared copies ----------------------------------------------------------------------------------------
# The file with prepared copies: attached read-only beside the data, and known by its stamp and its content.


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


PORTION = 5_000_000
"""About so many rows are sorted at once."""
Told = Callable[[str, int, int], None]
"""What is being done, and how many steps of how many are behind."""


@dataclass(frozen=True, slots=True)
class Order:
    """A table to be copied, and how."""

    scan: Scan
    copy: Copy


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a table, exactly: for the steward's eyes only. `rows` are those that have an owner."""

    table: str
    rows: int
    over_units: int
    over_rows: int
    left_out: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """The copies that were written, and by what their file is known again."""

    tables: tuple[Written, ...]
    content: str
    stamp: str


def write_copies(
    data: duckdb.DuckDBPyConnection,
    site: Site,
    orders: Sequence[Order],
    path: Path,
    salt: bytes,
    limits: Resources,
    told: Told,
) -> Prepared:
    """Write the copies of all tables into one new file, which takes the place of an earlier one at once or not at all.

    `data` is a connection of the steward's own, from which all tables can be read by their bare names.
    """
    with _room(path.parent) as room:
        _settle(data, limits, room / "spill")
        draft = room / "copies"
        data.execute(f"ATTACH {DUCKDB.text(str(draft))} AS {COPY}")
        for part in ("within", "over"):
            data.execute(f"CREATE SCHEMA {COPY}.{part}")
        written = [_Writer(data, site, order, salt.hex(), told).write() for order in orders]
        data.execute(f"DETACH {COPY}")
        draft.chmod(0o600)
        sync_file(draft)
        content, number = content_of(draft), draft.stat().st_ino
        draft.replace(path)
        sync_file(path.parent)
    stamp = stamp_of(path)
    if not stamp.endswith(f":{number}"):
        raise InterfaceError(f"somebody else wrote {path} meanwhile", hint="run `dpsql prepare` again, once")
    return Prepared(tuple(written), content, stamp)


def _settle(data: duckdb.DuckDBPyConnection, limits: Resources, spill: Path) -> None:
    """As much memory as the policy allows, and what does not fit beside the copy."""
    if limits.memory is not None:
        data.execute(f"SET memory_limit = '{limits.memory}B'")
    data.execute(f"SET temp_directory = {DUCKDB.text(str(spill))}")
    data.execute("SET preserve_insertion_order = false")


@contextmanager
def _room(beside: Path) -> Iterator[Path]:
    """A private directory on the same file system, gone afterwards."""
    room = Path(tempfile.mkdtemp(prefix=".dpsql-prepare-", dir=beside))
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Writer:
    """The copy of one table."""

    data: duckdb.DuckDBPyConnection
    site: Site
    order: Order
    salt: str
    told: Told

    def write(self) -> Written:
        name, copy = self.order.scan.table, self.order.copy
        for part in ("within", *(["over"] if copy.over else [])):
            self.data.execute(f"CREATE TABLE {self.place(part)} AS SELECT {self.named} FROM ({self.rows}) AS r LIMIT 0")
        [(rows,)] = self.data.execute(f"SELECT count(*) FROM {DUCKDB.quote(name)}").fetchall()
        portions = max(1, -(-rows // PORTION))
        self.told(name, 0, portions + 1)
        self.data.execute(
            f"CREATE OR REPLACE TEMP TABLE {OVER} AS SELECT u, count(*) AS n FROM ({self.rows}) AS r GROUP BY u "
            f"HAVING count(*) > {copy.rows}"
        )
        for number in range(portions):
            self.told(name, number + 1, portions + 1)
            self.portion(f"hash(r.u) % {portions} = {number}" if portions > 1 else "true")
        self.told(name, portions + 1, portions + 1)
        [(owned,)] = self.data.execute(f"SELECT count(*) FROM ({self.rows}) AS r").fetchall()
        [(units, many)] = self.data.execute(f"SELECT count(*), coalesce(sum(n), 0)::BIGINT FROM {OVER}").fetchall()
        [(within,)] = self.data.execute(f"SELECT count(*) FROM {self.place('within')}").fetchall()
        return Written(name, owned, units, many, 0 if copy.over else owned - within)

    def portion(self, chosen: str) -> None:
        """The rows of some units: those within their bound as they are, the others apart or cut to it."""
        order = "ORDER BY u"
        self.data.execute(
            f"INSERT INTO {self.place('within')} SELECT {self.columns} FROM ({self.rows}) AS r "
            f"ANTI JOIN {OVER} AS o ON r.u = o.u WHERE {chosen} {order}"
        )
        if self.order.copy.over:
            self.data.execute(
                f"INSERT INTO {self.place('over')} SELECT {self.columns} FROM ({self.rows}) AS r "
                f"SEMI JOIN {OVER} AS o ON r.u = o.u WHERE {chosen} {order}"
            )
            return
        self.data.execute(
            f"INSERT INTO {self.place('within')} SELECT {self.columns} FROM ({self.chosen_rows(chosen)}) AS k {order}"
        )

    def chosen_rows(self, chosen: str) -> str:
        """As many rows of each unit as may be kept: those of the least hash and, of equal hashes, the least.

        Of equal rows any may be taken: nothing tells them apart.
        """
        columns = self.columns
        hashed = DUCKDB.scrambled(self.salt, ["r.u", *(f"r.{c}" for c in columns.split(", "))])
        over = f"SELECT r.*, {hashed} AS h FROM ({self.rows}) AS r SEMI JOIN {OVER} AS o ON r.u = o.u WHERE {chosen}"
        first = f"row_number() OVER (PARTITION BY u ORDER BY h, {columns}) <= {self.order.copy.rows}"
        return f"SELECT * FROM ({over}) AS n QUALIFY {first}"

    def place(self, part: str) -> str:
        return DUCKDB.copied(self.order.scan.table, part)

    @property
    def rows(self) -> str:
        """Each row with its owner `u` and its columns as the planner reads them: equal rows are the same."""
        scan = self.order.scan
        source = relation_sql(scan, frozenset(f.name for f in scan.fields), self.site)
        read = [DUCKDB.settled(source.columns[f.name], f.type) for f in scan.fields]
        read += [steps_sql(DUCKDB, it, source.columns[name]) for name, it in steps_of(scan).items()]
        listed = [f"{source.unit} AS u", *(f"{value} AS c{number}" for number, value in enumerate(read))]
        return f"SELECT {', '.join(listed)} FROM {source.source}{source.conditions}"

    @property
    def names(self) -> list[str]:
        """The columns of the copy: those of the table, and the steps of some."""
        scan = self.order.scan
        return [*(f.name for f in scan.fields), *(steps_name(name, it) for name, it in steps_of(scan).items())]

    @property
    def columns(self) -> str:
        return ", ".join(f"c{number}" for number, _ in enumerate(self.names))

    @property
    def named(self) -> str:
        return ", ".join(f"c{number} AS {DUCKDB.quote(name)}" for number, name in enumerate(self.names))


OVER = "temp.main.dpsql_over"
"""The units that have more rows than they may, and how many."""
