"""A migration in the middle of a query: before any of its statements, or while one runs.

Either all releases of the query are exact answers from one state of the data, or nothing is released.

Each kind of change is tried here at the steps that are dangerous.
`PYTHONPATH=.:tests python tests/engines/test_postgres_migrations.py`
tries each at each step of the query, and prints what became of it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import engine_server
import psycopg
import pytest
from unlocked import unsealed

import dpsql
from dpsql.accounts import Accounts
from dpsql.engines.postgres import engine as under_test
from dpsql.engines.postgres.engine import PostgresEngine
from dpsql.engines.postgres.server_session import open_session
from dpsql.engines.sealed import Exact
from dpsql.errors import EngineError

pytestmark = pytest.mark.skipif(engine_server.absent() is not None, reason=str(engine_server.absent()))
NUMBERS = count()
CLINIC = """
CREATE TYPE mood AS ENUM ('bad', 'good', 'fine');
CREATE TABLE people (id integer PRIMARY KEY, other integer DEFAULT 1, age integer, mood mood DEFAULT 'good');
CREATE TABLE visits (person integer REFERENCES people (id), number integer PRIMARY KEY, cost integer, spare integer);
CREATE TABLE parts (id integer PRIMARY KEY, age integer) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);
CREATE TABLE part2 (id integer PRIMARY KEY, age integer, CHECK (id BETWEEN 1000 AND 1999));
INSERT INTO people SELECT i, 1, 30, 'good' FROM generate_series(1, 50) AS g(i);
INSERT INTO visits SELECT 1 + i % 50, i, 10, 20 FROM generate_series(1, 100) AS g(i);
INSERT INTO parts SELECT i, 30 FROM generate_series(1, 50) AS g(i);
INSERT INTO part2 SELECT i, 30 FROM generate_series(1000, 1999) AS g(i);
CREATE TABLE more_people (LIKE people); INSERT INTO more_people SELECT 1, 1, 30, 'good' FROM generate_series(1, 1000);
CREATE TABLE more_visits (LIKE visits); INSERT INTO more_visits SELECT 1, i, 90, 1 FROM generate_series(1, 1000) g(i);
CREATE SCHEMA shadow;
CREATE TABLE shadow.people AS SELECT * FROM more_people;
CREATE TABLE shadow.visits AS SELECT * FROM more_visits;
CREATE TABLE shadow.parts AS SELECT * FROM part2;
CREATE FUNCTION odd(mood) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT 'bad'$$;
GRANT USAGE ON SCHEMA public, shadow TO PUBLIC;
"""
POLICY: dict[str, Any] = {
    "dataset": "clinic", "search": False, "budget": {"epsilon": 100000, "delta": "1e-3"},
    "limits": {"epsilon": 10, "delta": "1e-6"},
    "replay": False,
    "tables": {
        "people": {"unit": "id", "unique": True, "columns": {"age": {"min": 0, "max": 100},
                                                              "mood": {"values": ["bad", "good"], "nulls": False}}},
        "visits": {"unit": "person", "max_rows_per_unit": 5, "columns": {"cost": {"min": 0, "max": 100}}},
        "parts": {"unit": "id", "unique": True, "columns": {"age": {"min": 0, "max": 100}}},
    },
}  # fmt: skip
QUERY = """SELECT a.n, b.s, c.n FROM (SELECT count(*) AS n FROM people WHERE mood = 'good') a,
(SELECT sum(cost) AS s FROM visits) b, (SELECT count(*) AS n FROM parts) c"""
MIGRATIONS = {
    "a child is added": "ALTER TABLE more_people INHERIT people",
    "a child is created": "CREATE TABLE child () INHERITS (people); INSERT INTO child TABLE more_people",
    "children of all": "ALTER TABLE more_people INHERIT people; ALTER TABLE more_visits INHERIT visits",
    "the unit is renamed": "ALTER TABLE visits RENAME person TO gone; ALTER TABLE visits RENAME spare TO person",
    "a column is renamed": "ALTER TABLE visits RENAME cost TO gone; ALTER TABLE visits RENAME spare TO cost",
    "a constraint is dropped": "ALTER TABLE people DROP CONSTRAINT people_pkey CASCADE; INSERT INTO people TABLE more_people",
    "a constraint is deferrable": "ALTER TABLE people DROP CONSTRAINT people_pkey CASCADE; ALTER TABLE people ADD UNIQUE (id) DEFERRABLE",
    "a table is swapped": "ALTER TABLE people RENAME TO gone; ALTER TABLE more_people RENAME TO people",
    "another table is swapped": "ALTER TABLE visits RENAME TO gone; ALTER TABLE more_visits RENAME TO visits",
    "schemas are swapped": "ALTER SCHEMA public RENAME TO gone; ALTER SCHEMA shadow RENAME TO public",
    "a partition is attached": "ALTER TABLE parts ATTACH PARTITION part2 FOR VALUES FROM (1000) TO (2000)",
    "a row moves into a partition": "DELETE FROM parts WHERE id = 50; UPDATE part2 SET age = 1 WHERE id = 1000;"
    "ALTER TABLE parts ATTACH PARTITION part2 FOR VALUES FROM (1000) TO (2000)",
    "a partition is detached": "ALTER TABLE parts DETACH PARTITION part1",
    "a label is renamed": "ALTER TYPE mood RENAME VALUE 'good' TO 'worse'",
    "labels are swapped": "ALTER TYPE mood RENAME VALUE 'good' TO 'x'; ALTER TYPE mood RENAME VALUE 'bad' TO 'good'",
    "a type is cast otherwise": "CREATE CAST (mood AS text) WITH FUNCTION odd(mood)",
    "a type changes": "ALTER TABLE visits ALTER cost TYPE numeric USING cost * 2",
    "a view takes its place": "ALTER TABLE people RENAME TO gone; CREATE VIEW people AS SELECT * FROM more_people",
    "rows are hidden": "ALTER TABLE people ENABLE ROW LEVEL SECURITY; ALTER TABLE people FORCE ROW LEVEL SECURITY",
    "rows are removed": "TRUNCATE people, visits; TRUNCATE parts",
    "a column is dropped": "ALTER TABLE visits DROP cost",
    "a table is dropped": "DROP TABLE visits",
    "it moves to another schema": "DROP TABLE shadow.visits; ALTER TABLE visits SET SCHEMA shadow",
    "triggers are off": "ALTER TABLE visits DISABLE TRIGGER ALL; INSERT INTO visits VALUES (999, 999, 10, 20)",
    "a rewrite": "VACUUM FULL people; VACUUM FULL visits; VACUUM FULL part1",
    "rights are revoked": "REVOKE ALL ON visits FROM CURRENT_USER",
    "a partition is detached meanwhile": "ALTER TABLE parts DETACH PARTITION part1 CONCURRENTLY",
    "a label is added": "ALTER TYPE mood ADD VALUE 'best' BEFORE 'bad'",
    "a rule": "CREATE RULE none AS ON INSERT TO people DO INSTEAD NOTHING",
    "a policy": "CREATE POLICY p ON people USING (id > 25); ALTER TABLE people ENABLE ROW LEVEL SECURITY",
    "a partition is emptied": "TRUNCATE part1",
    "an order on disk": "CLUSTER people USING people_pkey",
    "its indexes again": "REINDEX TABLE people",
    "its indexes again, meanwhile": "REINDEX TABLE CONCURRENTLY people",
    "a unique index": "CREATE UNIQUE INDEX one ON visits (number)",
    "a computed column": "ALTER TABLE visits DROP cost; ALTER TABLE visits ADD cost integer GENERATED ALWAYS AS (spare * 2) STORED",
    "a column with a default": "ALTER TABLE people ADD more integer DEFAULT 5",
    "a table is made anew": "DROP TABLE visits; CREATE TABLE visits AS SELECT * FROM more_visits",
    "a materialised view": "ALTER TABLE people RENAME TO gone; CREATE MATERIALIZED VIEW people AS SELECT * FROM more_people",
    "it is no longer logged": "ALTER TABLE visits SET UNLOGGED",
    "functions of the same names": "CREATE FUNCTION public.short(text, integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT 'x'$$;"
    "CREATE FUNCTION public.same(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$SELECT false$$;"
    "CREATE OPERATOR public.= (LEFTARG = integer, RIGHTARG = integer, FUNCTION = public.same)",
    "a foreign partition": "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w;"
    "CREATE TABLE free (id integer NOT NULL, age integer) PARTITION BY RANGE (id);"
    "CREATE FOREIGN TABLE far PARTITION OF free FOR VALUES FROM (1) TO (2) SERVER s",
}  # fmt: skip
EXACT = [(50,), (1000 << 23,), (50,)]
"""What they add up, before noise, in the order in which they run."""


@pytest.fixture(scope="module")
def database() -> str:
    name = f"clinic{next(NUMBERS)}"
    with engine_server.server().connect() as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return engine_server.server().address(name)


@pytest.fixture
def address(database: str) -> str:
    return restored(database)


def restored(address: str) -> str:
    """The same database as it was."""
    with psycopg.connect(address, autocommit=True) as raw:
        raw.execute("SET client_min_messages = error; DROP FOREIGN DATA WRAPPER IF EXISTS w CASCADE")
        raw.execute("DROP SCHEMA IF EXISTS public, shadow, gone CASCADE")
        raw.execute(f"CREATE SCHEMA public; {CLINIC}")
    return address


def migrate(address: str, script: str) -> bool:
    """What somebody else does; a change that would have to wait for the query is given up, and then this is false."""
    with psycopg.connect(address, autocommit=True) as raw, suppress(psycopg.errors.LockNotAvailable):
        raw.execute("SET lock_timeout = '20ms'")
        alone = "VACUUM" in script or "CONCURRENTLY" in script
        for each in script.split(";") if alone else [script]:
            raw.execute(each)
        return True
    return False


class Watched:
    """A session whose statements are counted once the query was charged; before one of them something happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.happening: dict[int, Any] = {}
        self.statements, self.charged, self.released = 0, False, list[tuple[int, ...]]()
        self.locks, self.reads = list[int](), list[int]()
        reserve, run = Accounts.charge, PostgresEngine.run

        def opened(*args: Any) -> Any:
            session, schemas = open_session(*args)
            execute = session.execute

            def counted(*words: Any) -> Any:
                if self.charged:
                    self.statements += 1
                    if str(words[0]).startswith("LOCK"):
                        self.locks.append(self.statements)
                    if isinstance(words[0], bytes):
                        self.reads.append(self.statements)
                    if (happens := self.happening.get(self.statements)) is not None:
                        happens()
                return execute(*words)

            session.execute = counted  # type: ignore[method-assign, assignment]
            return session, schemas

        def charged(*args: Any) -> Any:
            entry = reserve(*args)
            self.charged = True
            return entry

        def ran(*args: Any) -> Exact:
            exact = run(*args)
            self.released.append(tuple(int(v) for values in unsealed(exact).values for v in values))
            return exact

        monkeypatch.setattr(under_test, "open_session", opened)
        monkeypatch.setattr(Accounts, "charge", charged)
        monkeypatch.setattr(PostgresEngine, "run", ran)

    def ask(self, db: dpsql.Connection, sql: str = QUERY) -> list[tuple[int, ...]] | None:
        """The exact integers of all releases; None if nothing was released."""
        for seen in (self.released, self.locks, self.reads):
            seen.clear()
        self.statements, self.charged = 0, False
        try:
            db.query(sql, epsilon=1, mechanism="laplace")
        except EngineError as failure:
            assert str(failure) == str(EngineError())
            return None
        finally:
            self.charged = False
        return list(self.released)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    yield Watched(monkeypatch)


def connected(address: str) -> dpsql.Connection:
    return dpsql.connect(address, policy=POLICY, ledger=":memory:")


def outcome(address: str, watched: Watched, db: dpsql.Connection, kind: str, step: int) -> str | None:
    """What becomes of a query with a change before one of its statements; None if it has not as many."""
    done: list[bool] = []
    watched.happening = {step: lambda: done.append(migrate(address, MIGRATIONS[kind]))}
    during = watched.ask(db)
    watched.happening = {}
    try:
        if not done:
            assert during == EXACT
            return None
        if during is None:
            return "noticed"
        if during == EXACT:
            return "harmless" if done == [True] else "waited"
        assert during == watched.ask(db), f"{kind} before statement {step}"
        return "new state"
    finally:
        if done == [True] or "CONCURRENTLY" in MIGRATIONS[kind]:
            restored(address)


@pytest.mark.parametrize("kind", MIGRATIONS)
def test_a_migration_before_a_dangerous_statement_of_a_query(address: str, watched: Watched, kind: str) -> None:
    """Before the lock, where every change can be made; and between the description and what reads the rows."""
    with connected(address) as db:
        assert watched.ask(db) == EXACT
        steps = [watched.locks[0], watched.reads[0], watched.reads[-1]]
        assert steps[0] < steps[1] < steps[2]
        made = [outcome(address, watched, db, kind, step) for step in steps]
        assert None not in made and "new state" not in made[1:]


@pytest.mark.parametrize("kind", ["children of all", "schemas are swapped", "a partition is attached", "labels are swapped",
                                  "a type is cast otherwise", "triggers are off"])  # fmt: skip
def test_a_migration_while_a_statement_runs(
    address: str, watched: Watched, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = under_test._ask

    change = threading.Timer(0.1, migrate, (address, MIGRATIONS[kind]))

    def slowly(session: Any, before: str, text: str) -> Any:
        if change.ident is not None:
            return asked(session, before, text)
        change.start()
        made = asked(session, before, f"SELECT q.* FROM pg_sleep(0.4), ({text}) AS q")
        change.join()
        return made

    monkeypatch.setattr(under_test, "_ask", slowly)
    with connected(address) as db:
        during = watched.ask(db)
        assert during is None or during == EXACT


@pytest.mark.parametrize(
    ("change", "back"),
    [
        ("ALTER SCHEMA public RENAME TO gone; ALTER SCHEMA shadow RENAME TO public",
         "ALTER SCHEMA public RENAME TO shadow; ALTER SCHEMA gone RENAME TO public"),
        ("ALTER TYPE mood RENAME VALUE 'good' TO 'x'; ALTER TYPE mood RENAME VALUE 'bad' TO 'good'",
         "ALTER TYPE mood RENAME VALUE 'good' TO 'bad'; ALTER TYPE mood RENAME VALUE 'x' TO 'good'"),
        ("ALTER TABLE more_people INHERIT people", "ALTER TABLE more_people NO INHERIT people"),
        ("ALTER TABLE parts ATTACH PARTITION part2 FOR VALUES FROM (1000) TO (2000)",
         "ALTER TABLE parts DETACH PARTITION part2 CONCURRENTLY"),
        ("CREATE CAST (mood AS text) WITH FUNCTION odd(mood)", "DROP CAST (mood AS text)"),
    ],
)  # fmt: skip
def test_a_change_that_is_undone_is_noticed_too(address: str, watched: Watched, change: str, back: str) -> None:
    with connected(address) as db:
        assert watched.ask(db) == EXACT
        for read in list(watched.reads):
            for step in (read - 1, read):
                watched.happening = {step: lambda: migrate(address, change), read + 1: lambda: migrate(address, back)}
                during = watched.ask(db)
                watched.happening = {}
                assert during is None or during == EXACT, f"before statement {step}"
                restored(address)


def test_an_index_that_is_true_only_later_is_noticed(address: str, watched: Watched) -> None:
    """The planner believes that no key is there twice, also of rows which the snapshot still sees."""
    with psycopg.connect(address, autocommit=True) as raw:
        raw.execute(
            "CREATE TABLE ills (person integer, code integer); CREATE TABLE pills (person integer, code integer)"
        )
        raw.execute("INSERT INTO ills SELECT i, 1 FROM generate_series(1, 1000) g(i)")
        raw.execute(
            "INSERT INTO pills SELECT i, k FROM generate_series(1, 1000) g(i), generate_series(1, 2) h(k); ANALYZE"
        )
    kept = {"unit": "person", "max_rows_per_unit": 5}
    policy = {**POLICY, "tables": {"ills": kept, "pills": kept}}
    sql = "SELECT count(*) FROM ills JOIN pills ON ills.person = pills.person"
    with dpsql.connect(address, policy=policy, ledger=":memory:") as db:
        before = watched.ask(db, sql)
        happens = "DELETE FROM pills WHERE code = 2; CREATE UNIQUE INDEX one ON pills (person)"
        watched.happening = {watched.reads[0]: lambda: migrate(address, happens)}
        assert watched.ask(db, sql) in (None, before)
        watched.happening = {}
        assert watched.ask(db, sql) not in (None, before)


def test_a_lock_that_is_not_given_in_time_is_the_one_failure(address: str, watched: Watched) -> None:
    policy = {**POLICY, "limits": {**POLICY["limits"], "seconds": 1}}
    with psycopg.connect(address) as other, dpsql.connect(address, policy=policy, ledger=":memory:") as db:
        watched.happening = {1: lambda: other.execute("LOCK TABLE people")}
        began = time.monotonic()
        assert watched.ask(db) is None
        assert time.monotonic() - began < 15
        assert db.budget().dataset.spent.epsilon > 0
        other.rollback()
        watched.happening = {}
        assert watched.ask(db) is not None


def test_a_public_table_that_became_a_view_of_people_is_not_read(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as raw:
        raw.execute("CREATE TABLE stores (size integer); INSERT INTO stores VALUES (1)")
    policy = {**POLICY, "tables": {**POLICY["tables"], "stores": {"public": True}}}
    with dpsql.connect(address, policy=policy, ledger=":memory:") as db:
        engine = db.engine
        assert isinstance(engine, PostgresEngine)
        assert engine.read_public("stores", ["size"]).values["size"].tolist() == [1]
        migrate(address, "ALTER TABLE stores RENAME TO gone; CREATE VIEW stores AS SELECT age AS size FROM people")
        with pytest.raises(EngineError):
            engine.read_public("stores", ["size"])
        assert engine._asked(f'SELECT max("size") FROM {engine._places["stores"]}') is None


def sweep() -> None:
    """Each kind of change before each statement of the query."""
    with engine_server.server().connect() as admin:
        admin.execute("CREATE DATABASE sweep")
    address, total = restored(engine_server.server().address("sweep")), Counter[str]()
    with pytest.MonkeyPatch.context() as patch:
        watched = Watched(patch)
        for kind in MIGRATIONS:
            made = Counter[str]()
            with connected(address) as db:
                while (became := outcome(address, watched, db, kind, made.total() + 1)) is not None:
                    made[became] += 1
            print(f"{kind}: {', '.join(f'{n} {what}' for what, n in sorted(made.items()))}", flush=True)
            total += made
    print(
        f"{len(MIGRATIONS)} kinds, {total.total()} changes: {', '.join(f'{n} {w}' for w, n in sorted(total.items()))}"
    )


if __name__ == "__main__":
    sweep()
