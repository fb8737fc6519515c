"""A made-up clinic for the scripts beside this one: a database file and its policy, in a folder."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb

POLICY = """
dataset: clinic
budget: {epsilon: 5, delta: 1e-6, analysts: {ana: {epsilon: 3}}}
limits: {epsilon: 1}
tables:
  patients:
    unit: id
    unique: true
    columns: {age: {min: 0, max: 110}, ward: {values: [heart, skin, eyes], nulls: false}}
  wards: {public: true}
"""

TABLES = """
CREATE TABLE patients AS
  SELECT range AS id, (range * 37 % 90)::INTEGER AS age, ['heart', 'skin', 'eyes'][range % 3 + 1] AS ward
  FROM range(3000);
CREATE TABLE wards AS SELECT * FROM (VALUES ('heart', 40), ('skin', 25), ('eyes', 10)) AS v(ward, beds);
"""


def make(folder: Path | None = None) -> Path:
    """The database file; `policy.yaml` and the ledger stand beside it."""
    folder = folder or Path(tempfile.mkdtemp())
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    with duckdb.connect(str(folder / "clinic.duckdb")) as database:
        database.execute(TABLES)
    return folder / "clinic.duckdb"


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
