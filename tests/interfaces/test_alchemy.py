"""The SQLAlchemy door: Core and ORM, reflection from the policy, prices, refusals."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.ext.automap import automap_base
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import dpsql

registry.register("dpsql", "dpsql.interfaces.sqlalchemy_dialect", "DpsqlDialect")

POLICY = """
dataset: clinic
search: false
budget: {epsilon: 50, delta: 1e-6, analysts: {ana: {epsilon: 40}, bea: {epsilon: 1, tables: {patients: [age], wards: all}}}}
limits: {epsilon: 5}
defaults: {epsilon: 1}
tables:
  patients: {unit: id, unique: true, columns: {age: {min: 0, max: 110, nulls: false}, sex: {values: [f, m]}, born: {min: 1900-01-01, max: 2026-01-01}}}
  stays: {unit: {patient: patients.id}, max_rows_per_unit: 5, columns: {ward: {values: {from: wards.name}, nulls: false}, days: {min: 0, max: 30}, cost: {min: 0, max: 1000}}}
  wards: {public: true}
"""


class Base(DeclarativeBase):
    pass


class Patient(Base):
    __tablename__ = "patients"
    id: Mapped[int] = mapped_column(primary_key=True)
    age: Mapped[int]
    sex: Mapped[str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as own:
        own.execute(
            "CREATE TABLE patients (id INTEGER PRIMARY KEY, age SMALLINT, sex VARCHAR, born DATE, name VARCHAR);"
            "INSERT INTO patients SELECT range, range % 100, ['f', 'm'][range % 2 + 1], DATE '1950-01-01' + (range % 9000)::INTEGER, 'x' FROM range(2000);"
            "CREATE TABLE stays (patient INTEGER REFERENCES patients (id), ward VARCHAR, days INTEGER, cost DECIMAL(10,2), seen TIMESTAMP);"
            "INSERT INTO stays SELECT range % 2000, ['heart', 'skin'][range % 2 + 1], range % 20, range % 900, NULL FROM range(4000);"
            "CREATE TABLE wards (name VARCHAR, beds BIGINT, price DECIMAL(8,2), plan BLOB); INSERT INTO wards VALUES ('heart', 10, 99.50, ''::BLOB), ('skin', 5, 12.25, NULL);"
            "CREATE TABLE secret (x INTEGER); CREATE VIEW v AS SELECT * FROM patients"
        )
    (tmp_path / "policy.yaml").write_text(POLICY)
    return f"dpsql:///{tmp_path}/clinic.duckdb?analyst=ana"


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    made = sa.create_engine(url)
    yield made
    made.dispose()


def test_reflection_is_the_policy_and_nothing_else(engine: sa.Engine) -> None:
    seen = sa.inspect(engine)
    assert seen.get_table_names() == ["patients", "stays", "wards"]
    assert (seen.get_view_names(), seen.get_schema_names(), seen.get_table_names(schema="other")) == ([], ["main"], [])
    assert (
        seen.has_table("patients")
        and seen.has_table("PATIENTS")
        and not seen.has_table("secret")
        and not seen.has_table("v")
    )
    columns = {each["name"]: each for each in seen.get_columns("patients")}
    assert list(columns) == ["id", "age", "sex", "born"]
    assert [str(each["type"]) for each in columns.values()] == ["INTEGER", "SMALLINT", "VARCHAR", "DATE"]
    assert columns["age"]["comment"] == "0 to 110; never NULL" and not columns["age"]["nullable"]
    assert [str(each["type"]) for each in seen.get_columns("wards")] == ["VARCHAR", "BIGINT", "NUMERIC(8, 2)"]
    assert seen.get_pk_constraint("patients")["constrained_columns"] == ["id"]
    keys = [
        (k["constrained_columns"], k["referred_table"], k["referred_columns"]) for k in seen.get_foreign_keys("stays")
    ]
    assert keys == [(["patient"], "patients", ["id"]), (["ward"], "wards", ["name"])]
    assert (
        seen.get_indexes("stays") == seen.get_unique_constraints("stays") == seen.get_check_constraints("stays") == []
    )
    assert "private" in (seen.get_table_comment("stays")["text"] or "")
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("secret", sa.MetaData(), autoload_with=engine)


def test_reflection_shows_an_analyst_their_columns_only(url: str) -> None:
    engine = sa.create_engine(url.replace("=ana", "=bea"))
    seen = sa.inspect(engine)
    assert seen.get_table_names() == ["patients", "wards"]
    assert [each["name"] for each in seen.get_columns("patients")] == ["age"]
    assert seen.get_pk_constraint("patients")["constrained_columns"] == []
    engine.dispose()


def test_core(engine: sa.Engine) -> None:
    tables = sa.MetaData()
    tables.reflect(engine)
    patients, stays, wards = (tables.tables[name] for name in ("patients", "stays", "wards"))
    asked = (
        sa.select(patients.c.sex, sa.func.count().label("n"), sa.func.avg(patients.c.age).label("age"))
        .where(patients.c.age.between(20, 60), patients.c.sex.in_(["f", "m"]))
        .group_by(patients.c.sex).having(sa.func.count() > -1000).order_by(sa.desc("n")).limit(5)
    )  # fmt: skip
    with engine.connect() as connection:
        result = connection.execute(asked)
        rows = result.mappings().all()
        assert sorted(row["sex"] for row in rows) == ["f", "m"] and isinstance(rows[0]["n"], int)
        assert result.context.answer.cost.epsilon == 1 and len(result.context.answer.intervals()) == 2
        again = connection.execute(asked)
        assert again.mappings().all() == rows and again.context.answer.replayed
        joined = sa.select(sa.func.sum(stays.c.days)).join_from(patients, stays).where(patients.c.age > 50)
        assert isinstance(connection.execute(joined).scalar_one(), int)
        money = sa.select(sa.func.sum(stays.c.cost), sa.func.sum(stays.c.cost, type_=sa.Float))
        exact, rough = connection.execute(money).one()
        assert isinstance(exact, Decimal) and isinstance(rough, float)
        assert connection.execute(sa.select(wards).order_by(wards.c.name).offset(1)).all() == [
            ("skin", 5, Decimal("12.25"))
        ]
        assert connection.scalar(sa.text("SELECT beds FROM wards WHERE name = :w"), {"w": "heart"}) == 10
        per = sa.select(stays.c.ward, sa.func.count().label("n")).group_by(stays.c.ward).cte()
        beds = sa.select(wards.c.name, (per.c.n / wards.c.beds).label("r")).join_from(
            per, wards, per.c.ward == wards.c.name
        )
        assert len(connection.execute(beds.order_by(wards.c.name)).all()) == 2
        pattern = (
            sa.select(sa.func.count())
            .select_from(patients)
            .where(patients.c.sex.contains("f") | patients.c.sex.startswith("m"))
        )
        assert isinstance(connection.scalar(pattern), int)


def test_orm(engine: sa.Engine) -> None:
    with Session(engine) as session:
        rows = session.execute(
            sa.select(Patient.sex, sa.func.count(Patient.id)).group_by(Patient.sex).order_by(Patient.sex)
        ).all()
        assert [sex for sex, _ in rows] == ["f", "m"]
        assert isinstance(session.scalar(sa.select(sa.func.avg(Patient.age)).where(Patient.sex == "f")), float)
        assert isinstance(session.query(sa.func.count(Patient.id)).filter(Patient.age > 50).scalar(), int)
        for listing in (sa.select(Patient), sa.select(Patient.age).where(Patient.id == 1)):
            with pytest.raises(sa.exc.NotSupportedError, match="private"):
                session.execute(listing)
        with pytest.raises(sa.exc.NotSupportedError, match="private"):
            session.get(Patient, 1)
        session.add(Patient(id=1, age=1, sex="f"))
        with pytest.raises(sa.exc.NotSupportedError, match="INSERT is not a query"):
            session.commit()


def test_automap(engine: sa.Engine) -> None:
    base = automap_base()
    base.prepare(autoload_with=engine)
    with Session(engine) as session:
        assert isinstance(session.scalar(sa.select(sa.func.count(base.classes.patients.id))), int)


@pytest.mark.parametrize("way", ["statement", "connection", "engine", "hint", "prefix", "setting"])
def test_the_price(engine: sa.Engine, way: str) -> None:
    asked = sa.select(sa.func.count(Patient.id))
    if way == "statement":
        asked = asked.execution_options(epsilon=0.25, mechanism="laplace")
    if way == "hint":
        asked = asked.with_statement_hint("epsilon(0.25)").with_statement_hint("mechanism(laplace)")
    if way == "prefix":
        asked = asked.prefix_with("/*+ epsilon(0.25) mechanism(laplace) */")
    used = engine.execution_options(epsilon=0.25, mechanism="laplace") if way == "engine" else engine
    with used.connect() as connection:
        if way == "connection":
            connection.execution_options(epsilon=0.25, mechanism="laplace")
        if way == "setting":
            connection.exec_driver_sql("SET dpsql.epsilon = 0.25")
            connection.exec_driver_sql("SET dpsql.mechanism = laplace")
        answer = connection.execute(asked).context.answer
        assert (answer.cost.epsilon, answer.mechanism) == (0.25, "laplace")


def test_an_accuracy_is_an_option_too(engine: sa.Engine) -> None:
    asked = sa.select(sa.func.count(Patient.id).label("n")).execution_options(accuracy=dpsql.Within(50))
    with engine.connect() as connection:
        assert 0 < connection.execute(asked).context.answer.cost.epsilon < 1


@pytest.mark.parametrize(
    "statement",
    [
        sa.insert(Patient.__table__).values(id=1), sa.update(Patient.__table__).values(age=1), sa.delete(Patient.__table__), sa.schema.CreateTable(Patient.__table__),
        sa.schema.DropTable(Patient.__table__), sa.text("PRAGMA database_list"),
    ],
)  # fmt: skip
def test_it_only_reads(engine: sa.Engine, statement: sa.Executable) -> None:
    with engine.connect() as connection, pytest.raises(sa.exc.NotSupportedError, match="is not a query") as caught:
        connection.execute(statement)
    assert isinstance(caught.value.orig, dpsql.UnsupportedQuery) and "steward" in (caught.value.orig.hint or "")
    with pytest.raises(sa.exc.NotSupportedError, match="is not a query"):
        sa.Table("new", sa.MetaData(), sa.Column("a", sa.Integer)).create(engine)
    with engine.connect() as connection:
        assert connection.connection.dbapi_connection.budget().dataset.spent.epsilon == 0  # type: ignore[union-attr]


def test_refusals_keep_caret_and_hint(engine: sa.Engine) -> None:
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError) as caught:
        connection.execute(sa.text("SELECT count(*) FROM patients WHERE agee > :a"), {"a": 1})
    assert "^^^^" in str(caught.value) and "did you mean age?" in str(caught.value)


def test_over_budget_is_an_operational_error(engine: sa.Engine) -> None:
    with (
        engine.connect().execution_options(epsilon=5) as connection,
        pytest.raises(sa.exc.OperationalError, match=r"budget|left"),
    ):
        for age in range(10_000):
            connection.execute(sa.select(sa.func.count(Patient.id)).where(Patient.age > age / 100))


def test_pandas_and_polars_over_an_engine(engine: sa.Engine) -> None:
    asked = sa.select(Patient.sex, sa.func.count(Patient.id).label("n")).where(Patient.age > 30).group_by(Patient.sex)
    frame = pd.read_sql(asked, engine)
    assert list(frame.columns) == ["sex", "n"] and frame["n"].dtype == "int64"
    assert pl.read_database(asked, engine).schema["n"] == pl.Int64
    assert len(pd.read_sql_table("wards", engine)) == 2
    with engine.connect() as connection:
        assert connection.execute(asked).context.answer.replayed


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("dpsql:///x.duckdb?policies=y", "no argument policies"),
        ("dpsql://", "needs a database file"),
        ("dpsql://host/x", "three slashes"),
        ("dpsql:///nowhere.duckdb?policy=nowhere.yaml", "nowhere.yaml"),
    ],
)
def test_wrong_urls(url: str, message: str) -> None:
    with pytest.raises((sa.exc.ArgumentError, sa.exc.DBAPIError), match=message):
        sa.create_engine(url).connect()


def test_any_source_by_a_creator() -> None:
    frame = pd.DataFrame({"minutes": [1.0, 2.0] * 50})
    policy = {
        "dataset": "v",
        "search": False,
        "budget": {"epsilon": 1},
        "tables": {"v": {"unit": "row", "columns": {"minutes": {"min": 0, "max": 9}}}},
    }
    db = dpsql.connect({"v": frame}, policy=policy, ledger=":memory:")
    engine = sa.create_engine("dpsql://", creator=lambda: db, poolclass=sa.pool.StaticPool)
    with engine.connect() as connection:
        assert isinstance(connection.scalar(sa.text("SELECT count(*) FROM v")), int)


def test_the_entry_point() -> None:
    project = tomllib.loads((Path(dpsql.__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["sqlalchemy.dialects"]["dpsql"].partition(":")
    assert getattr(import_module(module), name).name == "dpsql"
    assert "sqlalchemy" in project["optional-dependencies"]
