"""Write the tables of a world to files, with different libraries and in random layouts, and open them as dpsql does."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpsql.audit.world import Raw, StoredTable, World, load, text_of
from dpsql.engines.base import Engine
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.policy import Policy, fold
from dpsql.policy.check import constraint_facts
from dpsql.policy.column_types import column_types
from dpsql.policy.database_catalog import quote

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How the rows of a table are laid out in files; a writer ignores the options that it does not have.

    `plain` is an option of each writer's own: Arrow gives a table in memory instead of a file, pandas writes NumPy's
    floats (NaN for NULL) instead of Arrow's, and pyarrow writes a page index.
    """

    files: int = 1
    rows_per_group: int = 1_000
    dictionary: bool = True
    statistics: bool = True
    bloom: bool = False
    plain: bool = False

    @classmethod
    def drawn(cls, rng: random.Random) -> FileLayout:
        """A random layout: row groups of a few rows, or one for all rows."""
        return cls(
            rng.choice((1, 1, 1, 2, 3)),
            rng.choice((1, 3, 8, 1_000, 1_000)),
            rng.random() < 0.5,
            rng.random() < 0.85,
            rng.random() < 0.5,
            rng.random() < 0.4,
        )

    def __str__(self) -> str:
        yes = {"dictionary": self.dictionary, "statistics": self.statistics, "Bloom": self.bloom, "plain": self.plain}
        named = [name for name, there in yes.items() if there]
        return ", ".join([f"{self.files} files", f"{self.rows_per_group} rows a group", *named])


# writers --------------------------------------------------------------------------------------------------------------

BLOOM = 64
"""The number of distinct values that a Bloom filter is sized for; the default of a million takes a megabyte."""
Write = Callable[["pa.Table", Path, FileLayout], None]


def _pyarrow(table: pa.Table, path: Path, layout: FileLayout) -> None:
    from pyarrow import parquet

    bloom = {
        c: {"ndv": BLOOM}
        for c, t in zip(table.column_names, table.schema.types, strict=True)
        if _may_have_bloom_filter(t)
    }
    parquet.write_table(
        table, path, row_group_size=layout.rows_per_group, use_dictionary=layout.dictionary,
        write_statistics=layout.statistics, write_page_index=layout.statistics and layout.plain,
        **({"bloom_filter_options": bloom} if layout.bloom and _writes_bloom_filters() else {}),
    )  # fmt: skip


def _writes_bloom_filters() -> bool:
    """Whether this version of pyarrow writes Bloom filters."""
    from inspect import signature

    from pyarrow import parquet

    return "bloom_filter_options" in signature(parquet.write_table).parameters


def _may_have_bloom_filter(type_: Any) -> bool:
    import pyarrow as pa

    return not pa.types.is_boolean(type_)


def _polars(table: pa.Table, path: Path, layout: FileLayout) -> None:
    import polars as pl

    frame = pl.DataFrame(table)
    if layout.dictionary:
        frame = frame.with_columns(pl.col(pl.String).cast(pl.Categorical))
    frame.write_parquet(path, row_group_size=layout.rows_per_group, statistics=layout.statistics)


def _pandas(table: pa.Table, path: Path, layout: FileLayout) -> None:
    import pandas as pd
    import pyarrow as pa

    def typed(type_: Any) -> Any:
        return None if layout.plain and pa.types.is_floating(type_) else pd.ArrowDtype(type_)

    table.to_pandas(types_mapper=typed).to_parquet(
        path, index=False, row_group_size=layout.rows_per_group, use_dictionary=layout.dictionary,
        write_statistics=layout.statistics,
    )  # fmt: skip


def _arrow(table: pa.Table, path: Path, layout: FileLayout) -> None:
    from pyarrow import feather

    feather.write_feather(_coded(table, layout), str(path), chunksize=layout.rows_per_group)


def _coded(table: pa.Table, layout: FileLayout) -> pa.Table:
    """The table, with its texts dictionary-encoded if the layout says so."""
    import pyarrow as pa

    if not layout.dictionary:
        return table
    texts = [i for i, type_ in enumerate(table.schema.types) if pa.types.is_string(type_)]
    for i in texts:
        table = table.set_column(i, table.column_names[i], table.column(i).combine_chunks().dictionary_encode())
    return table


@dataclass(frozen=True, slots=True)
class FileWriter:
    """A library that writes files with this ending, and the extra of dpsql that installs it.

    DuckDB and CSV have no `write`: their files are not made from an Arrow table.
    """

    ending: str
    write: Write | None = None
    package: str | None = None
    extra: str = ""

    @property
    def installed(self) -> bool:
        """Whether the library is installed."""
        return self.package is None or find_spec(self.package) is not None


WRITERS: dict[str, FileWriter] = {
    "Parquet by pyarrow": FileWriter("parquet", _pyarrow, "pyarrow", "arrow"),
    "Parquet by polars": FileWriter("parquet", _polars, "polars", "polars"),
    "Parquet by pandas": FileWriter("parquet", _pandas, "pyarrow", "arrow"),
    "Parquet by DuckDB": FileWriter("parquet"),
    "Arrow": FileWriter("arrow", _arrow, "pyarrow", "arrow"),
    "CSV": FileWriter("csv"),
}


def installed_writers(ending: str | None = None, among: Iterable[str] = WRITERS) -> tuple[str, ...]:
    """The names of the installed writers; only of those whose files have this ending, if one is given."""
    named = {name: WRITERS[name] for name in among}
    return tuple(name for name, each in named.items() if each.installed and ending in (None, each.ending))


def absent_writers() -> tuple[str, ...]:
    """The writers that are not installed, with the command that installs each."""
    return tuple(f"{n} (pip install 'dpsql[{each.extra}]')" for n, each in WRITERS.items() if not each.installed)


# a world on files -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileTables:
    """Opens the tables of a world as files: `writers` names the writer of each table, and `layout` is for all of them.

    `able` are the writers that can hold the columns: other ones are drawn from these (`written_again`). The facts that
    constraints of the tables guarantee are taken as verified, as by `dpsql check`.
    """

    policy: Policy
    writers: Mapping[str, str]
    layout: FileLayout = FileLayout()
    able: tuple[str, ...] = tuple(WRITERS)

    def __call__(self, tables: Mapping[str, StoredTable]) -> Engine:
        folder = TemporaryDirectory(prefix="dpsql-audit-", ignore_cleanup_errors=True)
        with load(tables) as raw:
            facts = constraint_facts(raw, self.policy)
            sources = {name: self._source(raw, name, stored, Path(folder.name)) for name, stored in tables.items()}
        return _FileEngine(sources, self.policy, frozenset((fold(table), fact) for table, fact in facts), folder)

    def _source(self, raw: Raw, name: str, stored: StoredTable, folder: Path) -> Any:
        """What dpsql opens as this table: a directory of files, or a table in memory."""
        writer, place = WRITERS[self.writers[name]], folder / name
        place.mkdir()
        parts = [(start, place / f"{part}.{writer.ending}") for part, start in enumerate(self._parts(stored))]
        size = -(-len(stored.rows) // len(parts))
        if writer.ending == "csv":
            for start, path in parts:
                _write_csv(stored, stored.rows[start : start + size], path)
        elif writer.write is None:
            for start, path in parts:
                limit = "" if len(parts) == 1 else f" LIMIT {size} OFFSET {start}"
                raw.execute(_copy(f"{_selected(name, stored)}{limit}", path, self.layout))
        else:
            table = raw.sql(_selected(name, stored)).to_arrow_table()
            if writer.ending == "arrow" and self.layout.plain:
                return _coded(table, self.layout)
            for start, path in parts:
                writer.write(table if len(parts) == 1 else table.slice(start, size), path, self.layout)
        return place

    def _parts(self, stored: StoredTable) -> Sequence[int]:
        """Where each file begins; every file has rows, if there are any."""
        size = -(-len(stored.rows) // self.layout.files)
        return range(0, len(stored.rows), size) if size else [0]


def _selected(name: str, stored: StoredTable) -> str:
    """All columns of a table; an ENUM is written as text."""
    listed = [
        f"{quote(c)}::VARCHAR AS {quote(c)}" if type_.upper().startswith("ENUM") else quote(c)
        for c, type_ in stored.columns.items()
    ]
    return f"SELECT {', '.join(listed)} FROM {quote(name)}"


def _copy(rows: str, path: Path, layout: FileLayout) -> str:
    options = ["FORMAT parquet", f"ROW_GROUP_SIZE {layout.rows_per_group}"]
    options += [f"DICTIONARY_SIZE_LIMIT {10_000 if layout.dictionary else 0}"]
    options += [f"WRITE_BLOOM_FILTER {str(layout.bloom).lower()}"]
    return f"COPY ({rows}) TO {DUCKDB.text(str(path))} ({', '.join(options)})"


def _write_csv(stored: StoredTable, rows: Sequence[Sequence[object]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        written = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        written.writerow(stored.columns)
        written.writerows([(text_of(cell) or "").replace("\0", "0") for cell in row] for row in rows)


class _FileEngine(DuckDBEngine):
    """DuckDB over files that it removes when it is closed; `facts` are those of the world's constraints."""

    def __init__(
        self,
        sources: Mapping[str, Any],
        policy: Policy,
        facts: frozenset[tuple[str, str]],
        folder: TemporaryDirectory[str],
    ) -> None:
        self._folder, self._facts = folder, facts
        super().__init__(sources, policy=policy)

    def constraints(self, policy: object) -> frozenset[tuple[str, str]]:
        return self._facts

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def on_files(world: World, writer: str, rng: random.Random) -> World:
    """The world with its private tables in files of one writer, and its public ones in files of that or another."""
    public = {n: rng.choice((writer, rng.choice(installed_writers()))) for n in world.tables if n not in world.owners}
    return _written(world, dict.fromkeys(world.owners, writer) | public, FileLayout.drawn(rng))


def written_again(world: World, rng: random.Random) -> World:
    """A steward's world in another layout, its Parquet by another writer; a world in a database stays as it is."""
    if not isinstance(world.engine, FileTables):
        return world
    able, endings = world.engine.able, {name: WRITERS[by].ending for name, by in world.engine.writers.items()}
    by_ending = {ending: rng.choice(installed_writers(ending, able)) for ending in sorted(set(endings.values()))}
    return _written(world, {name: by_ending[ending] for name, ending in endings.items()}, FileLayout.drawn(rng))


def unable(tables: Mapping[str, StoredTable], policy: Policy, writer: str) -> str:
    """The columns whose types a writer's files change, or the tables if it cannot write them; empty if it can."""
    bare = {name: replace(stored, constraints=()) for name, stored in tables.items()}
    try:
        with closing(FileTables(policy, dict.fromkeys(tables, writer))(bare)) as engine:
            found = {name: {fold(c): t for c, t in engine.schema()[fold(name)].items()} for name in tables}
    except Exception:
        return ", ".join(tables)
    if writer == "CSV":
        return ""
    wrong = [
        f"{name}.{column}"
        for name, stored in tables.items()
        for column, type_ in stored.columns.items()
        if found[name].get(fold(column)) != type_ and not type_.startswith("ENUM")
    ]
    return ", ".join(wrong)


def writers_of(world: World) -> tuple[str, ...]:
    """The writers of the private tables; none for a world in a database."""
    if not isinstance(world.engine, FileTables):
        return ()
    return tuple(dict.fromkeys(world.engine.writers[name] for name in world.owners))


def _written(world: World, writers: Mapping[str, str], layout: FileLayout) -> World:
    engine = FileTables(world.policy, writers, layout)
    named = f"{world.name} as {', '.join(sorted(set(writers.values())))} ({layout})"
    tables = {name: _typed(world.policy, name, t, writers[name]) for name, t in world.tables.items()}
    return replace(world, name=named, tables=tables, engine=engine)


def _typed(policy: Policy, name: str, stored: StoredTable, writer: str) -> StoredTable:
    """The types that dpsql finds: those of a private CSV file are the policy's."""
    types = column_types(policy, name) if writer == "CSV" else None
    if types is None:
        return stored
    return replace(stored, columns={c: types.get(fold(c), "VARCHAR") for c in stored.columns})


__all__ = [
    "WRITERS",
    "FileLayout",
    "FileTables",
    "absent_writers",
    "installed_writers",
    "on_files",
    "unable",
    "writers_of",
    "written_again",
]
