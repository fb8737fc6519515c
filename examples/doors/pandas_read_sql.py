"""pandas.read_sql over a connection; over a SQLAlchemy engine it works the same, without pandas' warning."""

from __future__ import annotations

import warnings

import pandas as pd
from clinic import make

import dpsql

warnings.filterwarnings("ignore", "pandas only supports SQLAlchemy")
path = make()
with dpsql.connect(path, policy=path.with_name("policy.yaml"), analyst="ana") as db:
    query = "SELECT /*+ epsilon(0.5) */ ward, count(*) AS n FROM patients WHERE age > ? GROUP BY ward"
    print(pd.read_sql(query, db, params=[40], index_col="ward"))
