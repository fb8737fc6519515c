"""Parquet files whose statistics are false: the pages of one file under the footer of another."""

from __future__ import annotations

import io
from pathlib import Path

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
