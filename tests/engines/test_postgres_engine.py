"""PostgreSQL as the engine: what counts as a table, what is believed, one snapshot, and what happens when it fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import engine_server
import psycopg
import pytest
import yaml
from typer.testing import CliRunner

import dpsql
from dpsql.accounts import Accounts
from dpsql.audit.traces import trace, traced
from dpsql.budget.pricing import price_release
from dpsql.cancellation import ClientTask
from dpsql.engines.base import Resources
from dpsql.engines.open_engine import open_engine
from dpsql.engines.postgres.engine import PostgresEngine
from dpsql.engines.postgres.server_session import open_session
from dpsql.errors import EngineError, InterfaceError, PolicyError, UnsupportedQuery
from dpsql.expressions.types import from_engine
from dpsql.interfaces.cli.main import app
from dpsql.policy import Policy, load_policy
from dpsql.sensitivity.bound import norm_search
from dpsql.server_address import read_server

pytestmark = pytest.mark.skipif(engine_server.absent() is not None, reason=str(engine_server.absent()))
NUMBERS = count()
SHOP = """
CREATE TABLE customers (id integer PRIMARY KEY, age integer, region text);
CREATE TABLE orders (customer_id integer, number bigint PRIMARY KEY, amount double precision, note text);
CREATE TABLE stores (name text PRIMARY KEY, size integer);
INSERT INTO customers SELECT i, 20 + i % 50, (ARRAY['north', 'south'])[1 + i % 2] FROM generate_series(1, 200) AS g(i);
INSERT INTO orders SELECT 1 + i % 200, i, i % 100, 'n' || i % 5 FROM generate_series(1, 600) AS g(i);
INSERT INTO stores SELECT 's' || i, i FROM generate_series(1, 10) AS g(i);
"""
POLICY: dict[str, Any] = {
    "dataset": "shop", "search": False, "budget": {"epsilon": 100, "delta": "1e-3"},
    "limits": {"epsilon": 10, "delta": "1e-6"},
    "tables": {
        "customers": {
            "unit": "id", "unique": True,
            "columns": {"age": {"min": 0, "max": 100}, "region": {"values": ["north", "south"], "nulls": False}},
        },
        "orders": {"unit": "customer_id", "max_rows_per_unit": 5, "columns": {"amount": {"min": 0, "max": 100}, "note": {}}},
        "stores": {"public": True},
    },
}  # fmt: skip
COUNT = "SELECT count(*) AS n FROM customers"
SLOW = "SELECT count(*) FROM orders o JOIN stores s ON sin(o.amount) * cos(s.size) > 2"


def database(script: str) -> str:
    """The address of a fresh database."""
    name = f"shop{next(NUMBERS)}"
    with engine_server.server().connect() as admin:
        admin.execute(f"CREATE DATABASE {name}")
    with engine_server.server().connect(name) as raw:
        raw.execute(script)
    return engine_server.server().address(name)


def asked(address: str, script: str) -> list[tuple[Any, ...]]:
    """What somebody else does to the database."""
    with psycopg.connect(address, autocommit=True) as raw:
        cursor = raw.execute(script)
        return cursor.fetchall() if cursor.description else []


def connected(address: str, **more: Any) -> dpsql.Connection:
    return dpsql.connect(address, policy=POLICY, ledger=":memory:", **{"steward": True, **more})


@pytest.fixture
def shop() -> Iterator[tuple[str, dpsql.Connection]]:
    address = database(SHOP)
    with connected(address) as db:
        yield address, db


def described(script: str, role: str | None = None) -> PostgresEngine:
    address = database(script)
    if role is not None:
        address = address.replace("steward:" + address.split("steward:")[1].split("@")[0], f"{role}:secret")
    engine = open_engine(address, Resources())
    assert isinstance(engine, PostgresEngine)
    return engine


def facts(script: str, tables: dict[str, Any]) -> set[tuple[str, str]]:
    policy = load_policy({"dataset": "d", "search": False, "budget": {"epsilon": 1}, "tables": tables})
    assert isinstance(policy, Policy)
    engine = described(script)
    found = set(engine.constraints(policy))
    engine.close()
    return found


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        ("UNIQUE (b, a)", True),
        ("PRIMARY KEY (a, b)", True),
        ("UNIQUE (b)", True),
        ("UNIQUE NULLS NOT DISTINCT (a, b)", True),
        ("UNIQUE (a, b, id)", False),
        ("UNIQUE (a, b) DEFERRABLE", False),
        ("CHECK (a < b)", False),
    ],
)
def test_a_key_of_several_columns_holds_by_a_constraint_on_them(constraint: str, holds: bool) -> None:
    script = f"CREATE TABLE t (id integer, a integer, b integer, {constraint})"
    index = "CREATE UNIQUE INDEX ON t (a, b) WHERE id > 3"
    tables = {"t": {"unit": "id", "unique": ["a", "b"], "columns": {"a": {}, "b": {}}}}
    assert (("t", 'key:["a", "b"]') in facts(f"{script}; {index}", tables)) == holds


# the doors ------------------------------------------------------------------------------------------------------------


def test_an_address_is_a_database(shop: tuple[str, dpsql.Connection]) -> None:
    address, _ = shop
    with connected(address, steward=False) as db:
        result = db.query("SELECT region, count(*) AS n, avg(age) AS a FROM customers GROUP BY region", epsilon=5)
        assert [row[0] for row in result.fetchall()] == ["north", "south"]
        assert all(90 < row[1] < 110 and 40 < row[2] < 50 for row in result.fetchall())
        assert db.query("SELECT max(size) FROM stores").fetchall() == [(10,)]
        assert db.query("SELECT s.name, t.n FROM stores s JOIN (SELECT note, count(*) AS n FROM orders GROUP BY note) t "
                        "ON t.note = s.name", epsilon=1).columns == ("name", "n")  # fmt: skip


def test_the_command_line_takes_an_address(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    address, run = database(SHOP), CliRunner()
    drafted = run.invoke(app, ["init", address, "--policy", "draft.yaml"])
    assert drafted.exit_code == 0, drafted.output
    assert engine_server.PASSWORD not in drafted.output and "p4ss" not in drafted.output
    draft = (tmp_path / "draft.yaml").read_text()
    assert "unit: id" in draft and "unique: true   # by a constraint" in draft
    assert "'1'" in (tmp_path / "draft.observed.yaml").read_text()
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    checked = run.invoke(app, ["check", address])
    assert checked.exit_code == 0, checked.output
    assert "each unit has at most one row" in checked.output
    answered = run.invoke(app, ["query", address, COUNT, "--epsilon", "5", "--format", "csv"])
    assert answered.exit_code == 0, answered.output
    assert (tmp_path / "shop.ledger").exists()
    explained = run.invoke(app, ["explain", address, COUNT, "--sql"])
    assert '"public"."customers"' in explained.output, explained.output


def test_a_dict_policy_needs_a_named_ledger(shop: tuple[str, dpsql.Connection]) -> None:
    with pytest.raises(InterfaceError, match="where should the ledger be"):
        dpsql.connect(shop[0], policy=POLICY)


@pytest.mark.parametrize("wrong", ["password", "database", "port"])
def test_a_door_that_does_not_open_says_so_without_the_password(wrong: str) -> None:
    server = engine_server.server()
    address = {
        "password": server.address(password="not-the-word"), "database": server.address("nowhere"),
        "port": server.address().replace(f":{server.port}", ":1"),
    }[wrong]  # fmt: skip
    with pytest.raises(InterfaceError) as refusal:
        connected(address)
    said = str(refusal.value) + repr(refusal.value.__cause__) + repr(refusal.value.__context__)
    assert "cannot be reached" in said and "not-the-word" not in said and "p4ss" not in said and "steward" not in said


@pytest.mark.parametrize(
    "written", ["x/s3cret", "x?s3cret", "x@s3cret/y", "x:s3cret@y", "s3cret#/y", "x%s3cret", "s3cret/1"]
)
def test_a_password_that_is_no_part_of_a_url_is_in_no_message(written: str) -> None:
    """It is often pasted as it is, and then read as a host, a port or a database."""
    with pytest.raises(InterfaceError) as refusal:
        connected(f"postgresql://ana:{written}@127.0.0.1:1/db")
    said = repr(refusal.value) + str(refusal.value.hint) + repr(refusal.value.__cause__) + repr(vars(refusal.value))
    assert "s3cret" not in said


# what is a table --------------------------------------------------------------------------------------------------------


def test_only_plain_tables_are_tables() -> None:
    """Views and foreign tables may mix people's rows; of a tree of tables a row would be seen twice."""
    engine = described("""
        CREATE TABLE plain (id integer, "Odd Name" text, d jsonb, e point);
        CREATE VIEW seen AS SELECT * FROM plain;
        CREATE MATERIALIZED VIEW kept AS SELECT * FROM plain;
        CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w;
        CREATE FOREIGN TABLE far (id integer) SERVER s;
        CREATE TABLE parent (id integer PRIMARY KEY); CREATE TABLE child () INHERITS (parent);
        CREATE TABLE parts (id integer, day date) PARTITION BY RANGE (day);
        CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
        CREATE TABLE mixed (id integer, day date) PARTITION BY RANGE (day);
        CREATE FOREIGN TABLE part2 PARTITION OF mixed FOR VALUES FROM ('2020-01-01') TO ('2021-01-01') SERVER s;
        CREATE TABLE "Twice" (id integer); CREATE TABLE twice (id integer);
        CREATE TABLE twins (a integer, "A" integer, b integer);
        CREATE SCHEMA other; CREATE TABLE other.hidden (id integer);
    """)
    assert set(engine.schema()) == {"plain", "parts", "twins"}
    assert engine.schema()["plain"] == {"id": "INTEGER", "Odd Name": "VARCHAR", "d": "jsonb", "e": "point"}
    assert engine.schema()["twins"] == {"b": "INTEGER"}
    engine.close()


def test_types_go_by_duckdbs_names() -> None:
    engine = described("""
        CREATE TYPE mood AS ENUM ('bad', 'good');
        CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
        CREATE TABLE t (a smallint, b integer, c bigint, d real, e double precision, f numeric, g numeric(9,2), h numeric(39,0),
          i numeric(5,-2), j boolean, k text, l varchar(5), m char(3), n uuid, o date, p timestamp(3), q timestamptz, r mood, s positive)
    """)
    assert list(engine.schema()["t"].values()) == [
        "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(1000,500)", "DECIMAL(9,2)", "DECIMAL(1000,500)",
        "DECIMAL(1000,500)", "BOOLEAN", "VARCHAR", "VARCHAR", "VARCHAR", "UUID", "DATE", "TIMESTAMP",
        "TIMESTAMP WITH TIME ZONE", "ENUM()",
    ]  # fmt: skip
    engine.close()


def test_a_table_whose_rows_are_hidden_from_the_role_is_none() -> None:
    """Whether a row is shown may depend on other people's; and without SELECT there is nothing to read."""
    name = f"reader{next(NUMBERS)}"
    engine = described(
        f"CREATE ROLE {name} LOGIN PASSWORD 'secret';"
        "CREATE TABLE open (id integer); CREATE TABLE shut (id integer); CREATE TABLE filtered (id integer);"
        f"ALTER TABLE filtered ENABLE ROW LEVEL SECURITY; GRANT SELECT ON open, filtered TO {name};",
        role=name,
    )
    assert set(engine.schema()) == {"open"}
    engine.close()


def test_a_session_may_only_read(shop: tuple[str, dpsql.Connection]) -> None:
    engine = shop[1].engine
    assert isinstance(engine, PostgresEngine)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), engine._snapshot() as session:
        session.execute("DELETE FROM public.customers")
    with engine._snapshot() as session:
        assert session.execute("SHOW default_transaction_read_only").fetchall() == [("on",)]
    assert asked(shop[0], "SELECT count(*) FROM customers") == [(200,)]


# what is believed -------------------------------------------------------------------------------------------------------


def test_constraints_that_hold_are_facts() -> None:
    script = """
        CREATE TABLE people (id integer PRIMARY KEY, mail text UNIQUE);
        CREATE TABLE cards (person integer REFERENCES people (id), number text);
    """
    tables = {"people": {"unit": "id", "unique": True}, "cards": {"unit": {"person": "people.id"}}}
    assert facts(script, tables) == {
        ("people", "unique:id"),
        ("people", "owned"),
        ("cards", "foreign_key:person->people.id"),
    }


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE people (id integer UNIQUE DEFERRABLE)",
        "CREATE TABLE people (id integer); CREATE UNIQUE INDEX ON people (id) WHERE id > 3",
        "CREATE TABLE people (id integer, other integer, UNIQUE (id, other))",
        "CREATE TABLE people (id numeric UNIQUE)",
        "CREATE COLLATION lax (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
        "CREATE TABLE people (id text COLLATE lax UNIQUE)",
    ],
)
def test_constraints_that_may_not_hold_are_none(script: str) -> None:
    """Deferred ones, partial ones, and keys that are read as fewer values than are stored."""
    assert facts(script, {"people": {"unit": "id", "unique": True}}) == set()


@pytest.mark.parametrize(
    "weakened",
    [
        "ALTER TABLE cards ADD FOREIGN KEY (person) REFERENCES people (id) NOT VALID",
        "ALTER TABLE cards ADD FOREIGN KEY (person) REFERENCES people (id) DEFERRABLE",
        "ALTER TABLE cards ADD FOREIGN KEY (person) REFERENCES people (id); ALTER TABLE cards DISABLE TRIGGER ALL",
    ],
)
def test_foreign_keys_that_may_not_hold_are_none(weakened: str) -> None:
    script = f"CREATE TABLE people (id integer PRIMARY KEY); CREATE TABLE cards (person integer); {weakened}"
    tables = {"people": {"unit": "id"}, "cards": {"unit": {"person": "people.id"}}}
    assert ("cards", "foreign_key:person->people.id") not in facts(script, tables)


def test_a_foreign_key_that_one_partition_does_not_keep_is_none() -> None:
    script = """
        CREATE TABLE people (id integer PRIMARY KEY);
        CREATE TABLE cards (person integer REFERENCES people (id), number integer) PARTITION BY RANGE (number);
        CREATE TABLE one PARTITION OF cards FOR VALUES FROM (0) TO (9);
    """
    tables = {"people": {"unit": "id"}, "cards": {"unit": {"person": "people.id"}}}
    held = ("cards", "foreign_key:person->people.id")
    assert held in facts(script, tables)
    assert held not in facts(f"{script}; ALTER TABLE one DISABLE TRIGGER ALL", tables)


def test_a_foreign_key_to_a_table_of_another_schema_is_none() -> None:
    """`people` means the table of the first schema on the path: the constraint is about another."""
    script = """
        CREATE SCHEMA later; CREATE TABLE later.people (id integer PRIMARY KEY);
        CREATE TABLE later.cards (person integer REFERENCES later.people (id));
        DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, later', current_database()); END$$;
    """
    tables = {"people": {"unit": "id"}, "cards": {"unit": {"person": "people.id"}}}
    held = ("cards", "foreign_key:person->people.id")
    assert held in facts(script, tables)
    assert held not in facts(f"{script}; CREATE TABLE public.people (id integer PRIMARY KEY)", tables)


def test_a_number_that_is_not_read_one_to_one_is_no_unit() -> None:
    """Two people whose numbers differ in the twentieth digit would be one."""
    policy = {**POLICY, "tables": {"people": {"unit": "id"}}}
    with (
        dpsql.connect(database("CREATE TABLE people (id numeric)"), policy=policy, ledger=":memory:") as db,
        pytest.raises(PolicyError, match="cannot be a unit"),
    ):
        db.query("SELECT count(*) FROM people")


LAX = "CREATE COLLATION lax (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"


@pytest.mark.parametrize(
    ("script", "tables"),
    [
        ("CREATE TABLE people (id text COLLATE lax, age integer)", {"people": {"unit": "id"}}),
        ("CREATE TABLE people (id varchar(9) COLLATE lax PRIMARY KEY)", {"people": {"unit": "id", "unique": True}}),
        ("CREATE TABLE homes (id text COLLATE lax PRIMARY KEY, house integer);"
         "CREATE TABLE people (home text COLLATE lax REFERENCES homes (id))",
         {"homes": {"unit": "house", "columns": {"id": {}}}, "people": {"unit": {"home": "homes.id"}}}),
        ("CREATE TABLE homes (id text PRIMARY KEY, house text COLLATE lax);"
         "CREATE TABLE people (home text REFERENCES homes (id))",
         {"homes": {"unit": "house", "columns": {"id": {}}}, "people": {"unit": {"home": "homes.id"}}}),
    ],
)  # fmt: skip
def test_an_id_with_several_spellings_is_no_unit(script: str, tables: dict[str, Any]) -> None:
    """`ann`, `Ann`, `aNN` and `ANN` are one person to the database: each would be a unit of its own."""
    address = database(LAX + script)
    with (
        dpsql.connect(address, policy={**POLICY, "tables": tables}, ledger=":memory:") as db,
        pytest.raises((PolicyError, UnsupportedQuery), match=r"several spellings for one unit|not verified"),
    ):
        db.query("SELECT count(*) FROM people")


def test_other_texts_are_compared_byte_by_byte_whatever_their_collation() -> None:
    """A key or a filter is a function of the row alone, so its spelling is its value."""
    script = "CREATE TABLE people (id integer PRIMARY KEY, name text COLLATE lax); INSERT INTO people VALUES (1, 'ann'), (2, 'Ann')"
    tables = {"people": {"unit": "id", "unique": True, "columns": {"name": {"values": ["ann", "Ann"], "nulls": False}}}}
    with dpsql.connect(
        database(LAX + script), policy={**POLICY, "tables": tables}, ledger=":memory:", steward=True
    ) as db:
        [release] = trace(db, "SELECT name, count(*) FROM people GROUP BY name", salt=b"s", mechanism="laplace")
        assert list(release.statistics[0].values) == [1, 1]


def test_types_with_an_equality_of_their_own_are_not_seen() -> None:
    """Those of extensions (citext), of domains, and ENUMs that somebody's function casts; `char` loses its blanks."""
    engine = described("""
        CREATE TYPE mood AS ENUM ('bad', 'good'); CREATE DOMAIN lax AS text CHECK (VALUE <> '');
        CREATE TYPE pair AS (a integer, b integer);
        CREATE FUNCTION odd(mood) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''bad''';
        CREATE CAST (mood AS text) WITH FUNCTION odd(mood);
        CREATE TABLE t (id char(3), a mood, b lax, c pair, d interval, e "char", f name, g integer[]);
    """)
    known = {name for name, type_ in engine.schema()["t"].items() if from_engine(type_) is not None}
    assert known == {"id"}
    with engine._snapshot() as session:
        assert session.execute("SELECT CAST(CAST('a  ' AS char(3)) AS text) = 'a'").fetchall() == [(True,)]
    engine.close()


def test_a_text_however_long_fails_no_query(shop: tuple[str, dpsql.Connection]) -> None:
    """PostgreSQL stores 1 GB in a text, and allocates no more than that at once: TRIM takes eight bytes for a letter."""
    address, db = shop
    asked(address, "UPDATE orders SET note = repeat('x', 135000000) WHERE number = 1")
    [release] = trace(db, "SELECT count(*) FROM orders WHERE trim(note) = 'n1'", salt=b"s")
    assert len(release.statistics) == 1


def test_what_is_not_computed_is_refused_before_anything_is_charged(shop: tuple[str, dpsql.Connection]) -> None:
    """Also where a query reads another's result, and where bounds have to be searched for first."""
    address, _ = shop
    tables = {
        **POLICY["tables"],
        "orders": {"unit": "customer_id", "columns": {"amount": {"bounds": "auto"}, "note": {}}},
    }
    not_computed = "regexp_matches(note, 'n[12]')"
    with dpsql.connect(address, policy={**POLICY, "tables": tables}, ledger=":memory:") as db:
        for sql in (
            f"SELECT count(*) FROM orders WHERE {not_computed}",
            f"SELECT sum(amount) FROM orders WHERE {not_computed}",
            f"SELECT count(*) FROM orders WHERE {not_computed} AND 3 < (SELECT count(*) FROM customers)",
        ):
            with pytest.raises(UnsupportedQuery, match="REGEXP_MATCHES is not computed by this database"):
                db.query(sql)
        assert db.budget().dataset.spent.epsilon == 0


# one state of the data --------------------------------------------------------------------------------------------------


def counted(db: dpsql.Connection) -> int:
    return int(trace(db, COUNT, salt=b"s", mechanism="laplace")[0].statistics[0].values[0])


def test_the_releases_of_a_query_read_one_snapshot(shop: tuple[str, dpsql.Connection]) -> None:
    address, db = shop
    before = counted(db)
    with db.engine.together():
        assert counted(db) == before
        asked(address, "INSERT INTO customers VALUES (1000, 30, 'north')")
        assert counted(db) == before
    assert counted(db) > before


def test_several_choices_from_one_scan_read_what_a_nested_query_released(shop: tuple[str, dpsql.Connection]) -> None:
    """Both have a WITH clause: that of the scan, and that of the nested results."""
    _, db = shop
    sql = "SELECT median(amount), max(amount) FROM orders WHERE amount < (SELECT 10 * avg(age) FROM customers)"
    [(middle, most)] = db.query(sql, epsilon=5, mechanism="laplace").fetchall()
    assert 30 < middle < 70
    assert most > 80


def test_the_planner_does_not_write_out_each_use_of_a_unit_s_vector() -> None:
    """PostgreSQL puts definitions in place of the columns of a subquery: a clip reads them 1,000 times and more."""
    address = database(SHOP)
    sql = "SELECT region, regr_slope(age, least(age, 40)) FILTER (WHERE age > 30) FROM customers GROUP BY region"
    with dpsql.connect(address, policy={**POLICY, "search": True}, ledger=":memory:", steward=True) as db:
        [priced] = db.prepare(sql).bill.releases
        search = price_release(norm_search(priced.bounded, priced.bounded.clipped[0].vector), priced.portion)
        session, _ = open_session(read_server(address), Resources())
        for each in (priced, search):
            [text] = db.engine.statements(each, b"salt")
            planned = "\n".join(line for (line,) in session.execute(f"EXPLAIN VERBOSE {text}".encode()).fetchall())
            assert 0 < planned.count("age") < 20 * text.count("age")
        session.close()


def test_what_others_write_is_seen_by_the_next_query(shop: tuple[str, dpsql.Connection]) -> None:
    address, db = shop
    before = counted(db)
    asked(address, "DELETE FROM orders; DELETE FROM customers WHERE id > 100")
    assert counted(db) * 2 == before


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE customers DROP CONSTRAINT customers_pkey",
        "ALTER TABLE customers ALTER age TYPE numeric",
        "DROP TABLE customers",
    ],
)
def test_a_table_that_changed_since_it_was_planned_is_not_read(
    shop: tuple[str, dpsql.Connection], change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan relies on constraints and types: a change between planning and reading is a failure, and is paid for."""
    address, _ = shop
    db = connected(address, steward=False)
    reserve = Accounts.charge

    def late(self: Accounts, *args: Any) -> Any:
        entry = reserve(self, *args)
        asked(address, change)
        return entry

    monkeypatch.setattr(Accounts, "charge", late)
    with pytest.raises(EngineError) as failure:
        db.query(COUNT, epsilon=1)
    assert str(failure.value).startswith(str(EngineError()).splitlines()[0])
    assert db.budget().dataset.spent.epsilon > 0
    monkeypatch.setattr(Accounts, "charge", reserve)
    if "DROP TABLE" not in change:
        assert db.query(COUNT, epsilon=1)


# settings ---------------------------------------------------------------------------------------------------------------


def test_settings_of_the_server_change_nothing(shop: tuple[str, dpsql.Connection]) -> None:
    address, db = shop
    sql = "SELECT note, count(*), sum(amount / 3) FROM orders WHERE note LIKE 'n%' AND amount < 1e300 GROUP BY note"
    before = repr(trace(db, sql, salt=b"s"))
    name = address.rpartition("/")[2]
    hostile = {
        "DateStyle": "German", "extra_float_digits": "-15", "TimeZone": "Asia/Tokyo", "IntervalStyle": "sql_standard",
        "standard_conforming_strings": "off", "search_path": "pg_catalog, public", "transform_null_equals": "on",
        "default_transaction_isolation": "read committed", "bytea_output": "escape", "jit": "on",
    }  # fmt: skip
    for setting, value in hostile.items():
        asked(address, f"ALTER DATABASE {name} SET {setting} = {value if ',' in value else repr(value)}")
    with connected(address) as again:
        assert repr(trace(again, sql, salt=b"s")) == before


# faults -----------------------------------------------------------------------------------------------------------------


def large(address: str) -> None:
    """Enough rows for a query that takes its time."""
    asked(address, "INSERT INTO stores SELECT 't' || i, i FROM generate_series(1, 40000) AS g(i)")


def test_a_query_that_takes_too_long_is_stopped_and_paid_for(shop: tuple[str, dpsql.Connection]) -> None:
    address, _ = shop
    large(address)
    limited = {**POLICY, "limits": {**POLICY["limits"], "seconds": 1}}
    with dpsql.connect(address, policy=limited, ledger=":memory:") as db:
        began = time.monotonic()
        with pytest.raises(EngineError):
            db.query(SLOW, epsilon=1)
        assert time.monotonic() - began < 30
        assert db.budget().dataset.spent.epsilon > 0
        assert len(db.query(COUNT, epsilon=1)) == 1


def test_a_query_that_nobody_waits_for_is_stopped_and_paid_for(shop: tuple[str, dpsql.Connection]) -> None:
    address, _ = shop
    large(address)
    errand = ClientTask()
    with connected(address, steward=False) as db:
        threading.Timer(1, errand.leave).start()
        with errand.underway(), pytest.raises(EngineError):
            db.query(SLOW, epsilon=1)
        running = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpsql' AND state = 'active' "
            "AND datname = current_database() AND query LIKE '%stores%sin%'"
        )
        assert asked(address, running) == [(0,)]
        assert db.budget().dataset.spent.epsilon > 0
        assert len(db.query(COUNT, epsilon=1)) == 1


def test_a_backend_that_is_killed_in_the_middle(shop: tuple[str, dpsql.Connection]) -> None:
    address, _ = shop
    large(address)
    killer = threading.Thread(target=_kill, args=[address])
    with connected(address, steward=False) as db:
        killer.start()
        with pytest.raises(EngineError) as failure:
            db.query(SLOW, epsilon=1)
        killer.join()
        assert "terminat" not in str(failure.value) and "connection" not in str(failure.value)
        assert db.budget().dataset.spent.epsilon > 0
        assert len(db.query(COUNT, epsilon=1)) == 1


def _kill(address: str) -> None:
    """Once it computes."""
    find = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'dpsql' "
        "AND state = 'active' AND datname = current_database() AND query LIKE '%stores%sin%'"
    )
    for _ in range(200):
        if asked(address, find.replace("%stores%sin%", "SELECT%dpsql_sin%")) != [(0,)]:
            return
        time.sleep(0.05)


def test_a_server_that_stops_and_starts(shop: tuple[str, dpsql.Connection]) -> None:
    server = engine_server.Store()
    try:
        with server.connect() as raw:
            raw.execute(SHOP)
        with connected(server.address(), steward=False) as db:
            db.query(COUNT, epsilon=1)
            server.kill()
            with pytest.raises(EngineError) as failure:
                db.query("SELECT sum(age) FROM customers", epsilon=1)
            assert "127.0.0.1" not in str(failure.value)
            server.start()
            assert len(db.query("SELECT sum(age) FROM customers", epsilon=1)) == 1
    finally:
        server.close()


def test_a_disk_that_is_full_in_the_middle(shop: tuple[str, dpsql.Connection]) -> None:
    """The limit of temporary files stands for the disk."""
    address, _ = shop
    asked(address, "INSERT INTO orders SELECT i, 10000 + i, 1, 'n' || i FROM generate_series(1, 30000) AS g(i)")
    name = address.rpartition("/")[2]
    asked(address, f"ALTER DATABASE {name} SET temp_file_limit = '100kB'; ALTER DATABASE {name} SET work_mem = '64kB'")
    with connected(address, steward=False) as db:
        with pytest.raises(EngineError):
            db.query("SELECT count(DISTINCT note) FROM orders", epsilon=1)
        assert db.budget().dataset.spent.epsilon > 0
        assert len(db.query(COUNT, epsilon=1)) == 1


def test_one_plan_runs_twice(shop: tuple[str, dpsql.Connection]) -> None:
    """The choice of a unit's rows is settled by salt and content."""
    _, db = shop
    prepared = db.prepare("SELECT note, count(*) FROM orders GROUP BY note")
    assert repr(traced(db, prepared, salt=b"a")) == repr(traced(db, prepared, salt=b"a"))


# whether a row is read ------------------------------------------------------------------------------------------------

INDEXES = {
    "btree": "CREATE INDEX ON orders (amount); CREATE INDEX ON orders (customer_id)",
    "hash": "CREATE INDEX ON orders USING hash (amount)",
    "brin": "CREATE INDEX ON orders USING brin (amount) WITH (pages_per_range = 1)",
    "brin, several ranges": "CREATE INDEX ON orders USING brin (amount float8_minmax_multi_ops) WITH (pages_per_range = 1)",
    "brin, Bloom filter": "CREATE INDEX ON orders USING brin (amount float8_bloom_ops) WITH (pages_per_range = 1)",
    "partial": "CREATE INDEX ON orders (customer_id) WHERE amount > 10",
    "check": "ALTER TABLE orders ADD CHECK (amount >= 0 OR amount IS NULL)",
    "statistics": "CREATE STATISTICS pair (dependencies, mcv) ON customer_id, amount FROM orders; ANALYZE orders",
}
READ = (
    "SELECT count(*) FROM orders WHERE amount > 10",
    "SELECT count(*) FROM orders WHERE amount = 0",
    "SELECT count(*) FROM orders WHERE amount <> 5",
    "SELECT count(*) FROM orders WHERE amount BETWEEN 0 AND 9",
    "SELECT count(*) FROM (SELECT customer_id, max(amount) AS m FROM orders GROUP BY customer_id) AS u WHERE m > 10",
    "SELECT count(*) FROM orders JOIN customers ON customers.id = orders.customer_id WHERE amount >= 11",
)


@pytest.mark.parametrize("index", INDEXES)
def test_no_index_and_no_statistics_decide_whether_the_rows_of_others_are_read(index: str) -> None:
    """PostgreSQL puts NaN above all numbers in every index, takes 0 and -0 for equal, and looks at each row again."""
    address = database(
        "CREATE TABLE customers (id integer PRIMARY KEY);"
        "CREATE TABLE orders (customer_id integer, amount double precision);"
        "INSERT INTO customers SELECT i FROM generate_series(1, 1002) AS g(i);"
        "INSERT INTO orders SELECT i, CASE i % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' ELSE (i % 10)::float8 END "
        f"FROM generate_series(1, 1000) AS g(i); {INDEXES[index]}"
    )
    for setting in ("enable_seqscan = off", "constraint_exclusion = on"):
        asked(
            address, f"ALTER ROLE CURRENT_USER IN DATABASE {address.rpartition('/')[2].partition('?')[0]} SET {setting}"
        )
    orders = {"unit": "customer_id", "max_rows_per_unit": 1, "columns": {"amount": {"min": 0, "max": 100}}}
    tables = {"orders": orders, "customers": {"unit": "id", "unique": True}}
    exact = []
    with dpsql.connect(address, policy={**POLICY, "tables": tables}, ledger=":memory:", steward=True) as db:
        for more in ("SELECT", "INSERT INTO orders VALUES (1001, 11)", "INSERT INTO orders VALUES (1002, 0)"):
            asked(address, more)
            found = [trace(db, sql, salt=b"s")[0].statistics[0] for sql in READ]
            exact.append([round(each.values[0] * each.grid) for each in found])
    assert exact[0] == [250, 300, 950, 750, 250, 250]
    assert exact[1] == [251, 300, 951, 750, 251, 251]
    assert exact[2] == [251, 301, 952, 751, 251, 251]
