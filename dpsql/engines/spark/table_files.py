"""Tables of Spark that are files: their types, and whether they are still what they were when they were opened.

**Theorem.** Each scan of a named table gives the same rows, also the two scans of one statement (a unit's weight is
computed from one, and applied to the other), and which rows of a unit it gives depends on no other unit. **Proof.**
What is read is either a copy (`dpsql.engines.spark.open`) or the files that dpsql's own session listed once: whoever
writes to a file changes its length or its time, which are compared before and after each statement, and the answer is
dropped if they differ. Files that are added are not read. The session believes neither the statistics of a file, by
which Spark would leave out groups of rows in which it expects none (NaN, -0.0 and rounded ends deceive it), nor its
buckets (`dpsql.engines.spark.session_settings`). A row is the same whichever of its columns a scan needs, for its
format keeps each column by itself, and no option has a say in how rows are read: text that drops or marks malformed
rows does so by the columns that it was asked for, and an option may leave out what cannot be read.
**Requires** of a catalogue's tables that nobody writes to them in the middle of a statement otherwise than by adding
and removing files (Spark lists them once for each statement, and a file that is gone fails it), and that files which
come after a connection was opened hold no moments and no decimals that Spark cannot read: it writes none itself.
(Where the catalogue knows a table's partitions each scan may ask for them anew, so it is no table here.)
**Checked by** `tests/engines/test_spark.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dpsql.engines.spark.type_names import spark_type
from dpsql.errors import InterfaceError
from dpsql.policy import Policy
from dpsql.policy.column_types import column_types
from dpsql.policy.identifiers import fold
from dpsql.steward_log import failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
_BY_COLUMN = ("ParquetFileFormat", "OrcFileFormat")
_BY_ROWS = ("JsonFileFormat", "XmlFileFormat")
_OWN = "dpsql"
"""An option that nobody else gives: what the caller's session cached of the same files is not taken for them."""

_WHERE = {"path", "paths", "basepath", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter",
          "mergeschema", "compression", "serialization.format", _OWN}  # fmt: skip
"""Options that say which files are listed or how they are written, and nothing of how their rows are read."""
_STATUS = re.compile(r"path=(.*?); isDirectory=\w+; length=(\d+);.*? modification_time=(\d+);")


class FilesChanged(Exception):
    """Files of a table were changed or are gone since they were opened."""


class Watched:
    """Files at some places, and what the file system said of them when they were listed first."""

    def __init__(self, session: SparkSession, roots: Sequence[str]) -> None:
        found = session.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(roots))
        self._index = relation_of(found).location()
        self._first = self._listed()

    def require_same(self) -> None:
        """Refuse if one of the files is gone or changed; new ones are allowed."""
        self._index.refresh()
        if not self._first <= self._listed():
            raise FilesChanged

    def _listed(self) -> frozenset[tuple[str, ...]]:
        files = self._index.allFiles()
        found = _STATUS.findall(files.mkString("\n"))
        if len(found) != files.size():
            raise FilesChanged
        return frozenset(found)


@contextmanager
def unchanged(files: Sequence[Watched]) -> Iterator[None]:
    """Check before and after that the files are the same, so that all reads inside saw them unchanged."""
    for each in files:
        each.require_same()
    yield
    for each in files:
        each.require_same()


def source_of(frame: DataFrame) -> Any:
    """The node of Spark's plan from which a frame reads its rows as they are."""
    node = frame._jdf.queryExecution().analyzed()
    while node.children().size() == 1:
        node = node.children().apply(0)
    return node


def relation_of(frame: DataFrame) -> Any:
    """The list of files that a frame reads; None if it reads something else."""
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

    node = source_of(frame)
    if node.getClass().getSimpleName() != "LogicalRelation":
        return None
    gateway, found = frame.sparkSession.sparkContext._gateway, node.relation()
    return found if is_instance_of(gateway, found, _FILES) else None


def roots_of(relation: Any) -> list[str]:
    """The places of the files that a relation lists itself and of which each scan reads the same rows; else nothing."""
    index, options = relation.location(), relation.options().keys().mkString("\n")
    if (
        index.getClass().getSimpleName() != "InMemoryFileIndex"  # a catalogue, or a log of changes, lists them
        or relation.fileFormat().getClass().getSimpleName() not in _BY_COLUMN
        or not _WHERE.issuperset(options.lower().split("\n"))
    ):
        return []
    roots = index.rootPaths()
    return [roots.apply(i).toString() for i in range(roots.size())]


def read_parquet(session: SparkSession, table: str, path: str, policy: Policy | None) -> DataFrame:
    """The Parquet files of a path, whose columns fit together. What stands in the names of directories is text.

    It becomes what the policy says: Spark would choose a type by the names that it finds, and a type is seen by
    analysts.
    """
    try:
        found = session.read.option("mergeSchema", "true").option(_OWN, uuid4().hex).parquet(path)
        if not roots_of(relation := relation_of(found)):
            raise InterfaceError("the files are listed by something else, or not read by column")
        names = list(relation.partitionSchema().fieldNames())
        types = (None if policy is None else column_types(policy, table, names)) or {}
        read = [_read(name, types.get(fold(name), "VARCHAR") if name in names else None) for name in found.columns]
        made = found.selectExpr(*read)
        read_fragile(made)
    except Exception as problem:
        failed("the data cannot be opened", problem)
        made, gone = None, _is_gone(problem)
    if made is None:
        if gone:
            raise InterfaceError(f"there are no files of the table {table} at {path}", hint="check the path")
        raise InterfaceError(
            f"the files of the table {table} cannot be read as a table",
            hint="give a path to whole Parquet files that have the same columns, of the same types;"
            " of other files give a DataFrame, such as session.read.csv(path, header=True)",
        )
    return made


def _is_gone(problem: Exception) -> bool:
    """Whether nothing was at the path. Only the class of Spark's error is looked at."""
    condition = getattr(problem, "getCondition", None)
    return callable(condition) and condition() == "PATH_NOT_FOUND"


def infers_types(relation: Any) -> bool:
    """Were the types of text files chosen by looking at their rows? (Of JSON and XML nobody can tell.)"""
    options, format_ = relation.options().mkString("\n").lower(), relation.fileFormat().getClass().getSimpleName()
    return format_ in _BY_ROWS or "inferschema -> true" in options


def read_fragile(frame: DataFrame) -> None:
    """Read timestamps and wide decimals once: those that do not fit Spark's types fail now, not in some queries."""
    fragile = [_quoted(f.name) for f in frame.schema.fields if _is_fragile(f.dataType.simpleString())]
    if fragile:
        frame.where(f"xxhash64({', '.join(fragile)}) = 0").count()


def _is_fragile(type_: str) -> bool:
    wide = re.match(r"decimal\((\d+)", type_)
    return type_.startswith("timestamp") or (wide is not None and int(wide[1]) > 18)


def _read(name: str, type_: str | None) -> str:
    return _quoted(name) if type_ is None else f"try_cast({_quoted(name)} AS {spark_type(type_)}) AS {_quoted(name)}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
