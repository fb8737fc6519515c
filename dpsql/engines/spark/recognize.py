"""Recognize the sources that are opened with Spark, without importing it."""

from __future__ import annotations

from collections.abc import Mapping

MASTERS = ("spark://", "local[")


def is_spark(source: object) -> bool:
    """Whether a source is opened with Spark."""
    if isinstance(source, tuple):
        return len(source) == 2 and is_spark(source[0])
    if isinstance(source, Mapping):
        return any(of_pyspark(value) for value in source.values())
    return source.startswith(MASTERS) if isinstance(source, str) else of_pyspark(source)


def of_pyspark(value: object) -> bool:
    """Whether the value is a session, a DataFrame or another object of PySpark."""
    return type(value).__module__.startswith("pyspark.")
