"""polars.read_database over a connection."""

from __future__ import annotations

import polars as pl
from clinic import make

import dpsql

path = make()
with dpsql.connect(path, policy=path.with_name("policy.yaml"), analyst="ana") as db:
    query = "SELECT ward, count(*) AS n FROM patients WHERE age > ? GROUP BY ward"
    print(pl.read_database(query, db, execute_options={"parameters": [40], "epsilon": 0.5}))
