"""SQL: the answer, its error bars, what it cost and what is left."""

from __future__ import annotations

from clinic import make

import dpsql

path = make()
with dpsql.connect(path, policy=path.with_name("policy.yaml"), analyst="ana") as db:
    answer = db.query("SELECT ward, count(*) AS n FROM patients WHERE age > ? GROUP BY ward", [40], epsilon=0.5)
    print(answer.df(), answer.intervals(0.95), answer.cost, db.budget(), sep="\n\n")
