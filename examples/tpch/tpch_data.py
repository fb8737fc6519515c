"""The tables of TPC-H as a DuckDB file: made by tpchgen-cli, once for each scale."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

TABLES = ("customer", "orders", "lineitem", "part", "supplier", "partsupp", "nation", "region")
GENERATOR = "tpchgen-cli"


class NoGenerator(Exception):
    """The program that makes the data is not installed."""

    def __init__(self) -> None:
        super().__init__(f"{GENERATOR}, which makes the data, is not installed: pip install {GENERATOR}")


def generator() -> str:
    """Where the generator is: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name(GENERATOR)
    found = str(beside) if beside.is_file() else shutil.which(GENERATOR)
    if found is None:
        raise NoGenerator
    return found


def make_database(folder: Path, scale: float) -> Path:
    """The database of that scale in the folder; it is made if it is not there, and appears only when it is whole."""
    database = folder / f"tpch-{scale:g}.duckdb"
    if database.is_file():
        return database
    program = generator()
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as scratch:
        subprocess.run(  # noqa: S603 - the program is the generator, its arguments are ours
            [program, "parquet", "-s", f"{scale:g}", "--quiet", f"--output-dir={scratch}"], check=True
        )
        unfinished = Path(scratch) / database.name
        with duckdb.connect(str(unfinished)) as connection:
            for table in TABLES:
                connection.execute(f"CREATE TABLE {table} AS FROM '{Path(scratch) / table}.parquet'")
        unfinished.replace(database)
    return database


def open_plain(database: Path) -> duckdb.DuckDBPyConnection:
    """Plain DuckDB on the same file, to compare with."""
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{database}' AS tpch (READ_ONLY); USE tpch")
    return connection
