"""Parquet files whose statistics or Bloom filters are false: the pages of one file, and what is said of another."""

from __future__ import annotations

import io
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet


def write_false(path: Path, stored: pa.Table, claimed: pa.Table) -> Path:
    """The rows of one table, with what would be said of another whose pages are as long."""
    parts = []
    for table in (stored, claimed):
        file = io.BytesIO()
        pyarrow.parquet.write_table(
            table, file, use_dictionary=False, compression="none", row_group_size=1000, write_page_index=True
        )
        content = file.getvalue()
        footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        parts.append((content[:footer], content[footer:]))
    (pages, _), (other, said) = parts
    assert len(pages) == len(other)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pages + said)
    return path


def write_false_filters(path: Path, stored: pa.Table, claimed: pa.Table, column: str) -> Path:
    """The rows of one table without statistics, with Bloom filters for another whose pages are as long."""
    parts = []
    for table in (stored, claimed):
        file = io.BytesIO()
        pyarrow.parquet.write_table(
            table, file, use_dictionary=False, compression="none", write_statistics=False,
            bloom_filter_options={column: {"ndv": 100}},
        )  # fmt: skip
        with duckdb.connect() as data:
            path.write_bytes(file.getvalue())
            asked = f"SELECT min(bloom_filter_offset) FROM parquet_metadata('{path}')"
            [(first,)] = data.execute(asked).fetchall()
        parts.append((file.getvalue()[:first], file.getvalue()[first:]))
    (pages, _), (other, said) = parts
    assert len(pages) == len(other)
    path.write_bytes(pages + said)
    return path
