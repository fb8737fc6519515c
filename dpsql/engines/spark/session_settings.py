"""A session of dpsql's own beside the caller's: the same cluster and catalogue, other settings and temporary views."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dpsql.errors import InterfaceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.bucketing.enabled": "false",
    "spark.sql.sources.v2.bucketing.enabled": "false",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.runtimeFilter.semiJoinReduction.enabled": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.groupByAliases": "true",
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "false",
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    "spark.sql.legacy.integralDivide.returnBigint": "true",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.codegen.useIdInClassName": "false",
    "spark.sql.optimizer.excludedRules": "",
    "spark.sql.adaptive.optimizer.excludedRules": "",
}
"""What the emitted SQL relies on, whatever the caller's session says: arithmetic that does not raise, moments in UTC,
ancient dates that are read as they stand, rows that are looked at and not left out by what a file's statistics,
buckets or a filter of hashes say about many of them (one unit's row would decide about another's), and one way to
read its words. (Programs that do not have the number of their stage in their name are compiled once, and not anew
whenever the stages of a query are done in another order.)"""

CARRIED = (
    "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled", "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.adaptive.autoBroadcastJoinThreshold", "spark.sql.files.maxPartitionBytes",
    "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode",
)  # fmt: skip
"""What the caller's session says about how the work is done; it has no say in what comes of it."""


def own_session(session: SparkSession) -> SparkSession:
    """A session with `SETTINGS` in the catalogue and database that the caller's session is in."""
    own = session.newSession()
    carried = {name: session.conf.get(name, None) for name in CARRIED}
    for name, value in {**carried, **SETTINGS}.items():
        if value is not None:
            own.conf.set(name, value)
    own.catalog.setCurrentCatalog(session.catalog.currentCatalog())
    own.catalog.setCurrentDatabase(session.catalog.currentDatabase())
    return own


def require_running(session: SparkSession) -> None:
    """Refuse, before anything is charged, where the session was stopped."""
    if not runs(session):
        raise InterfaceError("the Spark session was stopped", hint="connect again, with a session that runs")


def runs(session: SparkSession) -> bool:
    """Whether the session's context and its Java process still run."""
    try:
        context = session.sparkContext._jsc
        return context is not None and not context.sc().isStopped()
    except Exception:
        return False


def forget_the_dead() -> None:
    """PySpark keeps the line to a process of Java that was killed, and would ask it for ever: let it start another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None or process.poll() is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


_QUIET = threading.local()


class _Filter(logging.Filter):
    """Keeps what PySpark and Py4J would log of dpsql's own queries, with values in it, out of the program's log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_QUIET, "on", False)


_FILTER = _Filter()


@contextmanager
def quietly() -> Iterator[None]:
    """While this lasts, PySpark logs nothing of this thread."""
    for name in ("SQLQueryContextLogger", "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_FILTER)
    _QUIET.on = True
    try:
        yield
    finally:
        _QUIET.on = False
