"""A query that reads results of its own below an aggregate: one price, one charge, one replay, and no half answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.answers.notes import INNER
from dpsql.errors import InternalError

AVERAGE = "SELECT count(*) FROM t WHERE x > (SELECT avg(x) FROM t)"
TABLE = "SELECT count(*) FROM t JOIN (SELECT k, avg(x) AS m FROM t GROUP BY k) AS a USING (k) WHERE x > m"


def policy(**budget: Any) -> dict[str, Any]:
    columns = {"x": {"min": 0, "max": 10}, "k": {"values": ["a", "b"]}, "w": {}}
    return {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 5, "delta": 1e-6, **budget},
        "tables": {"t": {"unit": "id", "max_rows_per_unit": 3, "columns": columns}, "p": {"public": True}},
    }


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as raw:
        raw.execute(
            "CREATE TABLE t AS SELECT i AS id, i % 10 AS x, ['a', 'b'][i % 2 + 1] AS k, 'w' AS w FROM range(500) r(i)"
        )
        raw.execute("CREATE TABLE p AS SELECT * FROM (VALUES ('a', 1), ('b', 2), ('b', 3)) AS v(k, y)")
        yield raw


@pytest.fixture
def db(database: duckdb.DuckDBPyConnection) -> Iterator[dpsql.Connection]:
    with dpsql.connect(database, policy=policy(), ledger=":memory:", analyst="ana") as made:
        yield made


def charges(db: dpsql.Connection) -> int:
    return len([entry for entry in db.ledger.log() if entry.kind == "charge"])


@pytest.mark.parametrize("sql", [AVERAGE, TABLE])
def test_one_price_one_charge_and_a_free_replay(db: dpsql.Connection, sql: str) -> None:
    told = db.explain(sql, epsilon=0.5)
    first = db.query(sql, epsilon=0.5)
    assert first.cost == told.cost
    assert first.cost.epsilon == 0.5
    assert charges(db) == 1
    for again in (sql, f"{sql} -- once more"):
        second = db.query(again, epsilon=0.5)
        assert second.replayed
        assert second.cost.epsilon == 0
        assert second.fetchall() == first.fetchall()
    assert charges(db) == 1


def test_explain_shows_the_stages_and_touches_no_data(db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(db.engine), "run", lambda *_: pytest.fail("explain ran a release"))
    told = db.explain(AVERAGE)
    assert [release.stage for release in told.releases] == [1, 2]
    assert "stage 1 of 2, all in one price" in str(told)
    assert [(each.name, each.public) for each in told.nested] == [("_n0", False)]
    assert charges(db) == 0


def test_too_little_budget_for_all_of_it_answers_none_of_it(
    database: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dpsql.connect(database, policy=policy(epsilon=0.8, delta=0), ledger=":memory:", analyst="ana") as db:
        db.query("SELECT count(*) FROM t", epsilon=0.5)
        monkeypatch.setattr(type(db.engine), "run", lambda *_: pytest.fail("a release ran without a charge"))
        with pytest.raises(dpsql.BudgetExceeded):
            db.query(AVERAGE, epsilon=0.5)
        assert charges(db) == 1


def test_after_the_charge_every_stage_runs(database: duckdb.DuckDBPyConnection) -> None:
    """The whole budget, and no more, is enough for all stages: none is charged by itself."""
    with dpsql.connect(database, policy=policy(epsilon=0.5, delta=0), ledger=":memory:", analyst="ana") as db:
        assert len(db.query(AVERAGE, epsilon=0.5)) == 1
        assert db.query(AVERAGE, epsilon=0.5).replayed


def test_a_result_that_is_used_twice_is_made_once(db: dpsql.Connection) -> None:
    twice = "WITH a AS (SELECT k, avg(x) AS m FROM t GROUP BY k) SELECT count(*) FROM t JOIN a USING (k) WHERE x > m AND x < (SELECT max(m) FROM a)"
    assert len(db.explain(twice).releases) == 2
    copied = "SELECT count(*) FROM t WHERE x > (SELECT avg(x) FROM t) AND x < (SELECT avg(x) FROM t) + 2"
    assert len(db.explain(copied).releases) == 2
    apart = "SELECT count(*) FROM t WHERE x > (SELECT avg(x) FROM t) AND k IN (SELECT k FROM t GROUP BY k HAVING avg(x) > (SELECT avg(x) FROM t))"
    whole, paid = db.explain(apart, epsilon=0.5).cost, db.query(apart, epsilon=0.5).cost
    assert paid.rho < whole.rho, "the average occurs twice, and is charged once"


def test_equal_outer_releases_over_equal_results_are_made_once(db: dpsql.Connection) -> None:
    """Two stages that turn out to be the same release, which was not known when they were paid for."""
    both = f"SELECT ({AVERAGE}), ({AVERAGE.replace('avg(x) FROM t', 'avg(x) + 0 FROM t')})"
    [(one, two)] = db.query(both, epsilon=1).fetchall()
    assert one == two


def test_an_accuracy_is_refused_and_the_way_out_works(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.InterfaceError) as caught:
        db.query(AVERAGE, accuracy=dpsql.Within(100))
    assert "write its answer as a constant" in (caught.value.hint or "")
    assert charges(db) == 0
    db.query("SELECT count(*) FROM t WHERE x > 4.5", accuracy=dpsql.Within(100))


def test_the_error_bars_say_what_they_leave_out(db: dpsql.Connection) -> None:
    assert INNER in db.query(AVERAGE, epsilon=0.5).notes
    assert INNER not in db.query("SELECT count(*) FROM t WHERE x > (SELECT max(y) FROM p)", epsilon=0.5).notes
    assert db.query(AVERAGE, epsilon=0.5).intervals().shape == (1, 2)


def test_a_result_that_cannot_be_computed_is_paid_for_once(db: dpsql.Connection) -> None:
    """What fails above the inner aggregate hangs on what was released; asked again, it fails before a charge."""
    failing = "SELECT count(*) FROM t WHERE x > (SELECT CAST('n' || count(*) AS INTEGER) FROM t)"
    for _ in range(2):
        with pytest.raises(dpsql.ParseError):
            db.query(failing, epsilon=0.5)
        assert charges(db) == 1


def test_another_bump_of_the_data_is_another_result(db: dpsql.Connection) -> None:
    assert not db.query(AVERAGE, epsilon=0.5).replayed
    db.ledger.bump("another", "steward")
    assert not db.query(AVERAGE, epsilon=0.5).replayed


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT count(*) FROM t WHERE x > (SELECT x FROM t)", "aggregate inside"),
        ("SELECT count(*) FROM t WHERE x > (SELECT avg(x) FROM t GROUP BY k)", "without GROUP BY"),
        ("SELECT count(*) FROM t AS o WHERE x > (SELECT avg(x) FROM t AS i WHERE i.x < o.x)", "equalities"),
        ("SELECT count(*) FROM t AS o WHERE x > (SELECT x FROM t AS i WHERE i.k = o.k)", "aggregate in it"),
        ("SELECT count(*) FROM t WHERE x > (SELECT y FROM p WHERE p.k = t.k)", "aggregate in it"),
        ("SELECT count(*) FROM t WHERE x > (SELECT list(m) FROM (SELECT avg(x) AS m FROM t GROUP BY k))", "cast it"),
        ("WITH a AS (SELECT k, avg(x) AS m FROM t GROUP BY k) SELECT count(*) FROM t WHERE x > (WITH a AS (SELECT 1 AS m) SELECT max(m) FROM a)", "rename one"),
    ],
)  # fmt: skip
def test_a_refusal_comes_before_a_charge_and_has_a_way_out(db: dpsql.Connection, sql: str, says: str) -> None:
    with pytest.raises(dpsql.Error) as caught:
        db.query(sql)
    assert says in (caught.value.hint or "")
    assert charges(db) == 0


def test_the_hint_for_a_value_without_bounds_can_be_followed(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.UnboundedColumn) as caught:
        db.query("SELECT sum(x - (SELECT avg(x) FROM t)) FROM t")
    clamped = "sum(least(greatest(x - (SELECT AVG(x) FROM t), 0), 1000))"
    assert clamped in (caught.value.hint or "")
    db.query(f"SELECT {clamped} FROM t")


def test_a_release_has_no_mark_before_what_it_reads_is_named(db: dpsql.Connection) -> None:
    """Else an answer from one nested result would be replayed where another was read."""
    first, second = db.prepare(AVERAGE, epsilon=0.5, delta=1e-7).bill.releases
    archive = db.accounts.archive(db.dataset)
    assert archive.mark(first)
    with pytest.raises(InternalError, match="before what it reads was named"):
        archive.mark(second)


@pytest.mark.parametrize("inner", ["SELECT count(*) / 100 AS n FROM t", "SELECT y AS n FROM p"])
def test_a_subquery_of_in_has_names_of_its_own(db: dpsql.Connection, inner: str) -> None:
    """Its WITH is read once: twice, the second found the results of the first in place of tables."""
    told = db.query(f"SELECT count(*) FROM t WHERE x IN (WITH r AS ({inner}) SELECT max(n) FROM r)", epsilon=4)
    assert told.cost.epsilon == 4
    assert charges(db) == 1


PER_KEY = "(SELECT count(*) FROM t WHERE t.k = p.k)"


def test_a_value_for_each_row_adds_no_column_to_a_star(db: dpsql.Connection) -> None:
    for star in ("p.*", "*"):
        made = db.query(f"SELECT {star}, (SELECT sum(x) FROM t WHERE t.k = p.k) AS s FROM p ORDER BY y")
        assert made.columns == ("k", "y", "s")
        assert [row[:2] for row in made.fetchall()] == [("a", 1), ("b", 2), ("b", 3)]
        assert all(isinstance(value, int) for _, _, value in made.fetchall())


def test_a_value_for_each_row_leaves_other_joins_as_they_are(db: dpsql.Connection) -> None:
    sql = f"SELECT p.y, q.y, {PER_KEY} AS n FROM p JOIN p AS q ON p.k = q.k AND p.y < q.y"
    [(one, two, n)] = db.query(sql, epsilon=2).fetchall()
    assert (one, two) == (2, 3) and n == pytest.approx(250, abs=25)
