"""What may be opened: a session, a master's address, or either with a mapping of names to DataFrames and Parquet."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dpsql.engines.open_engine import of_pyspark
from dpsql.engines.spark.session_settings import forget_the_dead, own_session, require_running, runs
from dpsql.engines.spark.table_files import (
    Watched,
    infers_types,
    read_fragile,
    read_parquet,
    relation_of,
    roots_of,
    source_of,
)
from dpsql.engines.spark.type_names import spark_type, stored_type
from dpsql.errors import InterfaceError
from dpsql.expressions.types import SPELLINGS, Kind, from_engine
from dpsql.policy import Policy
from dpsql.policy.column_types import stated_types
from dpsql.policy.identifiers import fold
from dpsql.steward_log import failed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAIN = {"LocalRelation", "LogicalRDD", "LogicalRelation", "HiveTableRelation", "DataSourceV2Relation", "Range",
          "SubqueryAlias", "ResolvedHint"}  # fmt: skip
T = TypeVar("T")
_OF_ROWS = {"LocalRelation", "LogicalRDD"}
"""What may have been made of rows, without a schema."""
_AS_THEY_ARE = {"VARCHAR", SPELLINGS, "FLOAT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP"}
"""Types that Spark chooses only where it rounds no value and moves none by its clock."""
_ONE_TEXT = {Kind.INTEGER, Kind.BOOLEAN, Kind.DATE}
"""What Python and Spark write alike."""
_CONSTANT = {"LocalRelation", "Range"}
"""What is written in a plan itself."""

_TURN = threading.Lock()
_STARTED: dict[str, int] = {}
"""How many connections use the context that dpsql started, by the identifier of its application."""


class Opened:
    """dpsql's own session, and the tables that were named (None: those of the catalogue)."""

    def __init__(self, source: Any, policy: Policy | None = None) -> None:
        given, tables = _split(source)
        self._application: str | None = None
        session = self._started(given) if isinstance(given, str) else given
        require_running(session)
        self.session = own_session(session)
        self.files: list[Watched] = []
        self._readable: dict[tuple[str, ...], bool] = {}
        self.tables = None if tables is None else [self._place(name, table, policy) for name, table in tables.items()]

    def schema(self) -> dict[str, dict[str, str]]:
        """The columns of the tables, by folded name. A view may mix the rows of different units, so it is no table.

        Nor is what each scan asks anew (a database behind JDBC, messages, partitions that the catalogue knows): the
        scans of one statement must agree.
        """
        names = self.tables
        if names is None:
            listed = self.session.catalog.listTables()
            names = [t.name for t in listed if not t.isTemporary and t.tableType in ("MANAGED", "EXTERNAL")]
            names = [name for name in names if self._is_table(name)]
        return {fold(name): _columns(self.session, name) for name in names}

    def _is_table(self, name: str) -> bool:
        """Does a table of the catalogue list its files once, and can all that it has be read? (That is tried once.)"""
        table = self.session.table(_called(name))
        found = relation_of(table)
        roots = [] if found is None else roots_of(found)
        tried = (name, *roots, table.schema.simpleString())
        if roots and tried not in self._readable:
            self._readable[tried] = _reads(table)
        return bool(roots) and self._readable[tried]

    def _place(self, name: str, table: Any, policy: Policy | None) -> str:
        """A DataFrame, or the Parquet files of a path, as a temporary view of dpsql's own session."""
        if isinstance(table, str | os.PathLike):
            read_parquet(self.session, name, str(table), policy).createOrReplaceTempView(_called(name))
            self.files.append(Watched(self.session, [str(table)]))
            return name
        if not of_pyspark(table):
            raise InterfaceError(f"{name} is neither a Spark DataFrame nor a path", hint="give either, for every table")
        _require_plain(name, _classic(table))
        relation = relation_of(table)
        if relation is not None and relation.partitionSchema().size():
            raise InterfaceError(
                f"the files of the DataFrame {name} are partitioned, and Spark chose types by the names of directories",
                hint="give the path: the policy says which types its partitions have",
            )
        if relation is not None and infers_types(relation) and not _is_public(name, policy):
            raise InterfaceError(
                f"Spark chose the types of the DataFrame {name} by its rows, which analysts would see",
                hint="name them, session.read.schema('person INT, amount DOUBLE').csv(…), or write Parquet",
            )
        self._copy(name, _typed(name, table, policy)).createOrReplaceTempView(_called(name))
        return name

    def _copy(self, name: str, frame: DataFrame) -> Any:
        """The rows of a frame as they are now, in dpsql's own session: a program or a server could give others later.

        What is constant need not be copied.

        **Theorem.** Each scan of it gives the same rows, whatever the caller's session says or does afterwards.
        **Proof.** The executors keep the rows; a part that was lost with its executor is an error, and never computed
        again. The plan over them is new and knows their types only: it has no files, whose statistics or buckets could
        be believed, no list of files that the caller's session refreshes, nothing that the caller cached, and none of
        the caller's settings.
        **Requires** that blocks of an RDD without lineage are not computed again (`localCheckpoint`), and dpsql's own
        session (`dpsql.engines.spark.session_settings`).
        **Checked by** `tests/engines/test_spark.py`.
        """
        own = self.session._jsparkSession
        if source_of(frame).getClass().getSimpleName() in _CONSTANT:
            jvm = self.session.sparkContext._jvm
            assert jvm is not None
            return jvm.org.apache.spark.sql.classic.Dataset.ofRows(own, frame._jdf.queryExecution().analyzed())
        kept = _tried(name, lambda: frame.localCheckpoint(eager=True))._jdf
        rows = kept.queryExecution().analyzed().rdd()
        return own.internalCreateDataFrame(rows, kept.schema().asNullable(), False)

    def close(self) -> None:
        """Stop the context if dpsql started it and nobody else uses it."""
        with _TURN:
            if self._application is None:
                return
            _STARTED[self._application] -= 1
            if not _STARTED[self._application] and runs(self.session):
                self.session.stop()
            self._application = None

    def _started(self, master: str) -> SparkSession:
        try:
            from pyspark.sql import SparkSession
        except ImportError:
            raise InterfaceError("Spark is not installed here", hint="pip install 'dpsql[spark]'") from None
        with _TURN:
            forget_the_dead()
            running = SparkSession.getActiveSession()
            if running is None:
                builder = SparkSession.builder.master(master).appName("dpsql")
                for name, value in _settings(master).items():
                    builder = builder.config(name, value)
                running = _begun(builder, master)
                _STARTED[running.sparkContext.applicationId] = 0
            context = running.sparkContext
            if context.master != master:
                raise InterfaceError(
                    f"this process has a Spark session already, of {context.master}",
                    hint="stop it, or pass it: dpsql.connect(session, …)",
                )
            if context.applicationId in _STARTED:
                self._application = context.applicationId
                _STARTED[context.applicationId] += 1
            return running


def _begun(builder: Any, master: str) -> SparkSession:
    try:
        return builder.getOrCreate()  # type: ignore[no-any-return]
    except Exception as problem:
        failed("a Spark session cannot be started", problem)
    raise InterfaceError(
        f"no Spark session can be started at {master}",
        hint="check the address, spark://host:7077 or local[4], that the master runs, and that Java 17 is installed",
    )


def _settings(master: str) -> dict[str, str]:
    """Of a session that dpsql starts: no bars among the answers; and on this machine nothing that others reach."""
    quiet = {"spark.ui.showConsoleProgress": "false"}
    if not master.startswith("local"):
        return quiet
    alone = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    return {**quiet, **alone}


def _split(source: Any) -> tuple[Any, Mapping[str, Any] | None]:
    """The session (or the master's address) and the tables of a source."""
    if isinstance(source, Mapping):
        frame = next(value for value in source.values() if of_pyspark(value))
        given, tables = _classic(frame).sparkSession, source
    else:
        given, tables = source if isinstance(source, tuple) else (source, None)
        if tables is not None and not isinstance(tables, Mapping):
            raise InterfaceError(
                "a Spark session comes with a mapping of names to Parquet paths and DataFrames",
                hint='write dpsql.connect((session, {"orders": "/data/orders"}), …)',
            )
    return given if isinstance(given, str) else _classic(given), tables


def _classic(value: Any) -> Any:
    if ".connect." in type(value).__module__:
        raise InterfaceError(
            "a Spark Connect session cannot be used: dpsql needs a session of its own beside it",
            hint="give the address of the master, or a session made with SparkSession.builder.master(…)",
        )
    return value


def _columns(session: SparkSession, name: str) -> dict[str, str]:
    """The columns of a table; of two that differ in their case only neither could be meant."""
    fields = session.table(f"`{name.replace('`', '``')}`").schema.fields
    names = [fold(field.name) for field in fields]
    return {f.name: stored_type(f.dataType.simpleString()) for f in fields if names.count(fold(f.name)) == 1}


def _called(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _typed(name: str, frame: DataFrame, policy: Policy | None) -> DataFrame:
    """A private frame that was made of rows, with the types of the policy: its own may have come from the rows.

    Whether a schema was given to `createDataFrame` cannot be seen. **Theorem.** The types, and the value of each row,
    do not depend on other rows. **Proof.** A value goes through its text, of which there may be two: that which Python
    gives it where another row made a text of the column, and that which Spark gives the column's own type. `_through`
    takes both for the same value; what does not fit is NULL. Where a text is wanted, a column whose texts may differ is
    refused, in the steward's sight; where a timestamp is wanted, any, unless Python and Spark have one clock. Columns
    that the policy does not name are left out. **Requires** that no decimal that is declared as a double has more than
    18 places. **Checked by** `tests/engines/test_spark.py`.
    """
    types = None if policy is None else stated_types(policy, name)
    if types is None or source_of(frame).getClass().getSimpleName() not in _OF_ROWS:
        return frame
    fields = [field for field in frame.schema.fields if fold(field.name) in types]
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    chosen = [_read_as(name, f.name, stored_type(f.dataType.simpleString()), types[fold(f.name)], zone) for f in fields]
    return frame.selectExpr(*chosen)


def _read_as(table: str, column: str, stored: str, wanted: str | None, zone: str) -> str:
    """A column in the type of the policy."""
    known, stated = from_engine(stored), None if wanted is None else from_engine(wanted)
    if stated is None:
        raise InterfaceError(
            f"the types of the DataFrame {table} may come from its rows, and the policy states none for {column}",
            hint=f"write `{column}: {{type: text}}` in the policy (or integer, double, decimal(18, 2), boolean, date, "
            "timestamp; `values`, `min` and `max` also do), or write the DataFrame as Parquet and give the path",
        )
    if stated.kind is Kind.TIMESTAMP and not _one_clock(zone):
        raise InterfaceError(
            f"{column} of the DataFrame {table} is a timestamp by Python's clock, and Spark has another, {zone}",
            hint="set spark.sql.session.timeZone to the time zone of this machine, or write Parquet and give the path",
        )
    if known is not None and known.kind is stated.kind and stored in _AS_THEY_ARE:
        return _called(column)
    if stated.kind is Kind.TEXT and (known is None or known.kind not in _ONE_TEXT):
        raise InterfaceError(
            f"the policy says that {column} of the DataFrame {table} is text, but it is not",
            hint="convert the column, write the DataFrame as Parquet and give the path",
        )
    return f"{_through(f'CAST({_called(column)} AS STRING)', stated.kind, str(wanted))} AS {_called(column)}"


def _through(text: str, kind: Kind, wanted: str) -> str:
    """The value of a text, also of another that Python or Spark writes for the same value; NULL if there is none.

    Of decimals Spark keeps 18 places where it chose the type, so that is where all are rounded first. A date has no
    time: which day a moment falls on depends on the clock.
    """
    if kind is Kind.DECIMAL:
        return f"try_cast(try_cast({text} AS DECIMAL(38,18)) AS {spark_type(wanted)})"
    if kind is Kind.INTEGER:
        number = f"try_cast({text} AS DECIMAL(38,18))"
        return f"try_cast(CASE WHEN {number} % 1 = 0 THEN {number} END AS {spark_type(wanted)})"
    if kind is Kind.DATE:
        return f"try_cast(CASE WHEN {text} RLIKE '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}$' THEN {text} END AS DATE)"
    return f"try_cast({text} AS {'TIMESTAMP' if kind is Kind.TIMESTAMP else spark_type(wanted)})"


def _one_clock(zone: str) -> bool:
    """Whether Python's local time agrees with that time zone."""
    try:
        there = ZoneInfo(zone)
    except (ValueError, ZoneInfoNotFoundError):
        return False
    moments = range(0, 2**31, 2**23)
    return all(datetime.fromtimestamp(t) == datetime.fromtimestamp(t, there).replace(tzinfo=None) for t in moments)


def _is_public(name: str, policy: Policy | None) -> bool:
    tables = {} if policy is None else {fold(each): table for each, table in policy.tables.items()}
    return fold(name) in tables and tables[fold(name)].public


def _reads(table: DataFrame) -> bool:
    try:
        read_fragile(table)
    except Exception as problem:
        failed("the data cannot be opened", problem)
        return False
    return True


def _tried(name: str, work: Callable[[], T]) -> T:
    """A frame that Spark made, or an error without Spark's text, which would show rows."""
    try:
        return work()
    except Exception as problem:
        failed("the data cannot be opened", problem)
    raise InterfaceError(f"the DataFrame {name} cannot be read as a table", hint="the steward's log has the details")


def _require_plain(name: str, frame: DataFrame) -> None:
    """A frame is a table if it is stored: what is still to be computed could mix units, or fail on some rows.

    **Theorem.** Reading a plain frame gives the rows of its source, each once, and evaluates no expression of Spark.
    **Proof.** Its plan has only sources and, above them, choices of columns: `Project` whose expressions are columns or
    columns under another name. What a source does to give its rows (an RDD of a program's own, a database behind JDBC)
    is the steward's, and is done once (`Opened._copy`).
    **Requires** Spark's analysed plan, before any rule rewrites it; a kind of node that is not listed in `_PLAIN` is
    refused.
    **Checked by** `tests/engines/test_spark.py`.
    """
    node = frame._jdf.queryExecution().analyzed()
    while True:
        kind, children = node.getClass().getSimpleName(), node.children()
        if kind == "Project" and _is_choice(node):
            node = children.apply(0)
        elif kind in _PLAIN and children.size() <= 1:
            if not children.size():
                return
            node = children.apply(0)
        else:
            raise InterfaceError(
                f"the DataFrame {name} is still to be computed ({kind}), and could mix the rows of different people",
                hint="write it to files first, df.write.parquet(…), and give the path",
            )


def _is_choice(project: Any) -> bool:
    listed = project.projectList()
    expressions = [listed.apply(i) for i in range(listed.size())]
    named = [e.child() if e.getClass().getSimpleName() == "Alias" else e for e in expressions]
    return all(e.getClass().getSimpleName() == "AttributeReference" for e in named)
