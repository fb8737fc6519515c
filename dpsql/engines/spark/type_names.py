"""Spark's names for the types that emitted SQL computes with, and dpsql's names for the types that Spark stores."""

from __future__ import annotations

from dpsql.expressions.types import SPELLINGS

_NAMES = {"INTEGER": "INT", "HUGEINT": "DECIMAL(38,0)", "VARCHAR": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ"}
_STORED = {
    "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT",
    "float": "FLOAT", "double": "DOUBLE", "string": "VARCHAR", "date": "DATE", "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
MOST = 10**38
"""Whole numbers below it fit DECIMAL(38,0), Spark's widest exact type."""


def spark_type(name: str) -> str:
    """Spark's name for a type of `dpsql.engines.sql.sql_types`."""
    return _NAMES.get(name, name)


def stored_type(type_: str) -> str:
    """The name under which dpsql knows a stored type; one that it does not know keeps its own, and is not seen.

    A text is a text whatever its collation and its declared length: it is read byte by byte.
    """
    type_ = type_.lower()
    if type_.startswith("string collate ") and not type_.endswith(" utf8_binary"):
        return SPELLINGS
    if type_.startswith(("string collate ", "varchar(", "char(")):
        return "VARCHAR"
    return _STORED.get(type_, type_.upper())
