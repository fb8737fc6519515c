"""DB-API: cursors, parameters, types. The price is a keyword, a hint in the SQL, or `SET dpsql.epsilon = 0.5`."""

from __future__ import annotations

from clinic import make

import dpsql

path = make()
with dpsql.connect(path, policy=path.with_name("policy.yaml"), analyst="ana") as db, db.cursor() as cursor:
    cursor.execute("SELECT ward, count(*) AS n FROM patients WHERE age > :low GROUP BY ward", {"low": 40}, epsilon=0.5)
    print([(name, type_) for name, type_, *_ in cursor.description or ()])
    for ward, n in cursor:
        print(ward, n)
    print(cursor.result.cost if cursor.result else "")
