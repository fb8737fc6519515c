"""SQLAlchemy Core: tables reflected from the policy, the price as an execution option."""

from __future__ import annotations

from clinic import make
from sqlalchemy import MetaData, create_engine, func, select

engine = create_engine(f"dpsql:///{make()}?analyst=ana")
tables = MetaData()
tables.reflect(engine)
patients, wards = tables.tables["patients"], tables.tables["wards"]

n = select(patients.c.ward, func.count().label("n")).where(patients.c.age > 40).group_by(patients.c.ward).cte()
per_bed = select(wards.c.ward, (n.c.n / wards.c.beds).label("per_bed")).join_from(n, wards, n.c.ward == wards.c.ward)
with engine.connect() as connection:
    result = connection.execute(per_bed.execution_options(epsilon=0.5))
    print(result.all(), result.context.answer.cost, sep="\n")
engine.dispose()
