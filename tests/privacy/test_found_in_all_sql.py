"""Each break that the review of nested results, sets, searches and functions found, as a test of what closes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.budget import open_ledger
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.policy import load_policy
from dpsql.policy.searched_subjects import Subject
from dpsql.session import Connection

BUDGET = {"epsilon": 10_000, "delta": 1e-6}
VISITS = {
    "visits": {"unit": "row", "columns": {"x": {"min": 0, "max": 100}}},
    "stores": {"public": True},
}


def database(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def connect(source: Any, tables: dict[str, Any], **options: Any) -> dpsql.Connection:
    policy = {"dataset": "d", "search": False, "budget": BUDGET, "replay": False, "tables": tables}
    return dpsql.connect(source, policy=policy, ledger=":memory:", **(options or {"steward": True}))


@pytest.fixture
def visits(tmp_path: Path) -> Iterator[dpsql.Connection]:
    path = database(
        tmp_path / "visits.duckdb",
        "CREATE TABLE visits AS SELECT i::DOUBLE AS x FROM range(20) r(i)",
        "CREATE TABLE stores AS SELECT i::INTEGER AS id FROM range(50) r(i)",
    )
    with connect(path, VISITS) as db:
        yield db


def test_a_released_key_that_is_read_with_less_precision_is_no_key(visits: dpsql.Connection) -> None:
    """Fifty wide decimals, all different, are one DOUBLE: a row that looks them up would become fifty."""
    step = "CAST('0.0000000000000000000000001' AS DECIMAL(38,25))"
    inner = f"SELECT CAST(10 AS DECIMAL(38,25)) + id * {step} AS k, count(*) AS c FROM stores GROUP BY 1"
    with pytest.raises(dpsql.UnsupportedQuery, match="multiply"):
        visits.explain(f"SELECT count(*) FROM visits v JOIN ({inner}) n ON v.x = n.k")
    [plain] = visits.explain(
        "SELECT count(*) FROM visits v JOIN (SELECT id::DOUBLE AS k, count(*) AS c FROM stores GROUP BY 1) n ON v.x = n.k"
    ).releases
    assert plain.rule == "row"


@pytest.mark.parametrize("ends", ["-1e308, 1e308", "0, 1e400", "-1e308, 5, 20"])
def test_a_bar_whose_width_overflows_on_some_rows_is_refused(visits: dpsql.Connection, ends: str) -> None:
    with pytest.raises(dpsql.Error, match=r"1e15|beyond the largest number"):
        visits.explain(f"SELECT count(*) FROM visits WHERE bar(x, {ends}) = 'x'")
    assert visits.explain("SELECT count(*) FROM visits WHERE bar(x, -1e15, 1e15, 100) = 'x'").releases


AUTO = {"t": {"unit": "u", "unique": True, "columns": {"x": {"bounds": "auto"}, "y": {"bounds": "auto"}, "b": {}}}}


def live(unit: str = "INTEGER PRIMARY KEY") -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t(u {unit}, x DOUBLE, y DOUBLE, b TINYINT)")
    connection.execute("INSERT INTO t SELECT i, i % 50, 5, 1 FROM range(1000) r(i)")
    return connection


def test_a_search_does_not_rely_on_a_constraint_that_is_gone() -> None:
    """The steward's catalogue, over which searches are planned, was remembered while others could alter tables."""
    data = live()
    with connect(data, AUTO) as db:
        plan, _ = db.searches.search(Subject("t", "y"))
        assert all("UnitGroup" not in repr(release.source) for release in plan.releases)
        data.execute("DROP TABLE t")
        data.execute(
            "CREATE TABLE t AS SELECT (i // 10)::INTEGER AS u, 1.0 AS x, 5.0 AS y, 1::TINYINT AS b FROM range(90) r(i)"
        )
        db.explain("SELECT count(*) FROM t")
        plan, _ = db.searches.search(Subject("t", "y"))
        assert all("UnitGroup" in repr(release.source) for release in plan.releases)


def test_a_column_whose_type_was_altered_is_clamped_as_what_it_is_now() -> None:
    """A TINYINT needs no clamp to [-128, 127]; the BIGINT that it became does."""
    data = live("INTEGER")
    with connect(data, {"t": {"unit": "row", "columns": {"b": {"min": -128, "max": 127}}}}) as db:
        sql = "SELECT sum(abs(b)) FROM t"
        [before] = dpsql.audit.trace(db, sql, salt=b"salt", mechanism="laplace")
        data.execute("ALTER TABLE t ALTER b TYPE BIGINT")
        data.execute("UPDATE t SET b = 100000 WHERE u = 3")
        [after] = dpsql.audit.trace(db, sql, salt=b"salt", mechanism="laplace")
    moved = abs(before.statistics[0].values[0] - after.statistics[0].values[0])
    assert moved <= (before.statistics[0].l1 or 0)


def test_what_another_analyst_searched_for_is_shown_only_after_it_was_counted() -> None:
    policy = {
        "dataset": "d",
        "search": False,
        "budget": {**BUDGET, "analysts": {"ana": {"epsilon": 100}, "ben": {"epsilon": 100}}},
        "defaults": {"search": 10},
        "tables": {"t": {"unit": "u", "columns": {"x": {"bounds": "auto"}}}},
    }
    data, sql, ledger = live(), "SELECT sum(x) FROM t", open_ledger(":memory:", "d")
    ana, ben = (
        Connection(DuckDBEngine(data), load_policy(policy), ledger, who, steward=False) for who in ("ana", "ben")
    )
    for each in (ana, ben):
        each.engine.version = lambda: "one"  # type: ignore[method-assign]
    found = ana.explain(sql).releases[0].statistics[0].bounds
    ana.query(sql, epsilon=1)
    assert ana.explain(sql).releases[0].statistics[0].bounds != found
    assert ben.explain(sql).releases[0].statistics[0].bounds == found
    assert ben.budget().analyst.spent.epsilon == 0  # type: ignore[union-attr]
    answer = ben.query(sql, epsilon=1)
    assert ben.explain(sql).releases[0].statistics[0].bounds == ana.explain(sql).releases[0].statistics[0].bounds
    assert any("counted once" in note for note in answer.notes)
    again = ben.query("SELECT sum(x) + 1 FROM t", epsilon=1)
    assert not any("counted once" in note for note in again.notes)


@pytest.mark.parametrize("cast", ["x::regclass = 5", "round(x::mood) > 1", "x::public.mood > 1"])
def test_a_cast_to_a_type_of_postgresql_alone_is_refused_and_no_crash(visits: dpsql.Connection, cast: str) -> None:
    with pytest.raises(dpsql.Error, match=r"cast|round"):
        visits.explain(f"SELECT count(*) FROM visits WHERE {cast}", dialect="postgres")


@pytest.mark.parametrize(
    "sql", ["count(*), count(*) FILTER (WHERE x > 5)", "avg(x)", "sum(x), sum(x) FILTER (WHERE x > 5)"]
)
def test_the_floor_is_counted_in_every_coordinate_of_a_share(visits: dpsql.Connection, sql: str) -> None:
    """Flooring to a coarser grid costs a step in each coordinate: of a joint claim, in those of all its statistics."""
    [priced] = visits.prepare(f"SELECT {sql} FROM visits", epsilon=1, delta=0, mechanism="laplace").bill.releases
    [(share, claim)] = priced.bounded.shares
    assert len(share) == 2
    assert claim.reach == sum(priced.bounded.statistics[i].claim.reach for i in share)


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT id % 7 AS id, count(*) AS c FROM stores GROUP BY id",
        "SELECT id % 7 AS id, count(*) AS c FROM stores GROUP BY stores.id",
        "SELECT 1 AS id, count(*) AS c FROM stores GROUP BY id",
        "SELECT count(*) AS id, count(*) AS c FROM stores GROUP BY ID",
        "SELECT id % 7 AS id, n AS c FROM (SELECT id, count(*) AS n FROM stores GROUP BY id) GROUP BY id, n",
        "SELECT o.*, id % 7 AS b FROM (SELECT id % 7 AS id, id AS n FROM stores) o GROUP BY 2, 1",
    ],
)
def test_a_name_in_group_by_is_the_stored_column_though_the_list_shows_another_item(
    visits: dpsql.Connection, inner: str
) -> None:
    """What is grouped is not what is shown, so it names no row: this was noticed after the charge only."""
    before = visits.budget().dataset.spent
    with pytest.raises(dpsql.UnsupportedQuery, match="multiply"):
        visits.query(f"SELECT count(*) FROM visits v JOIN ({inner}) n ON round(v.x)::INTEGER = n.id", epsilon=1)
    assert visits.budget().dataset.spent == before


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT id, count(*) AS c FROM stores GROUP BY id",
        "SELECT stores.id, count(*) AS c FROM stores GROUP BY ID",
        "SELECT id % 7 AS k, count(*) AS c FROM stores GROUP BY k",
        "SELECT id % 7 AS id, count(*) AS c FROM stores GROUP BY 1",
        "SELECT id % 7 AS id, count(*) AS c FROM stores GROUP BY id % 7",
    ],
)
def test_what_is_grouped_and_shown_names_one_row(visits: dpsql.Connection, inner: str) -> None:
    name = "k" if "AS k" in inner else "id"
    assert visits.query(f"SELECT count(*) FROM visits v JOIN ({inner}) n ON round(v.x)::INTEGER = n.{name}", epsilon=1)


def test_a_released_table_that_is_not_unique_by_its_key_is_never_looked_up(
    visits: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the planner be wrong about a key, that is noticed before the rows are read."""
    monkeypatch.setattr("dpsql.plan.builder.open_select.grouped_places", lambda node, columns: (0,))
    inner = "SELECT id % 7 AS id, count(*) AS c FROM stores GROUP BY id"
    with pytest.raises(dpsql.Error, match="not unique"):
        visits.query(f"SELECT count(*) FROM visits v JOIN ({inner}) n ON round(v.x)::INTEGER = n.id", epsilon=1)


def test_a_units_own_total_keeps_to_the_range_that_its_type_promises() -> None:
    """What is added up over units needs no clamp, for the total of a unit was clamped to what the policy counts."""
    data = duckdb.connect()
    data.execute("CREATE TABLE t AS SELECT 1::INTEGER AS u, 10::INTEGER AS n FROM range(100)")
    tables = {"t": {"unit": "u", "max_rows_per_unit": 2, "columns": {"u": {}, "n": {"min": 0, "max": 10}}}}
    with connect(data, tables) as db:
        sql = "SELECT sum(s) FROM (SELECT u, sum(n) AS s FROM t GROUP BY u)"
        [release] = dpsql.audit.trace(db, sql, salt=b"salt", mechanism="laplace")
    assert release.rule == "single_row"
    assert release.statistics[0].values == (release.statistics[0].l1,) == (20,)


def test_what_is_one_value_of_a_unit_on_each_side_is_none_in_their_union() -> None:
    data = duckdb.connect()
    for name, key in (("a", "x"), ("b", "y")):
        data.execute(f"CREATE TABLE {name}(u INTEGER PRIMARY KEY, k VARCHAR)")
        data.execute(f"INSERT INTO {name} VALUES (1, '{key}')")
    tables = {name: {"unit": "u", "unique": True, "columns": {"u": {}, "k": {"values": ["x", "y"]}}} for name in "ab"}
    with connect(data, tables) as db:
        sql = "SELECT k, count(*) FROM (SELECT u, k FROM a UNION ALL SELECT u, k FROM b) GROUP BY k"
        [release] = dpsql.audit.trace(db, sql, salt=b"salt", mechanism="laplace")
    assert release.rule == "clip"
    assert sum(release.statistics[0].values) <= (release.statistics[0].l1 or 0)
