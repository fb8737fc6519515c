"""The catalogue: what exists for an analyst, and whose rows are whose."""

from __future__ import annotations

import duckdb
import pandas as pd
import pytest

import dpsql

BUDGET = {"epsilon": 10, "delta": 1e-6}


def connect(tables: dict[str, object], frames: dict[str, pd.DataFrame]) -> dpsql.Connection:
    return dpsql.connect(
        frames,
        policy={"dataset": "d", "search": False, "budget": BUDGET, "tables": tables},
        ledger=":memory:",
        steward=True,
    )


def test_a_path_that_leads_through_a_row_anywhere_is_not_taken_for_the_unit() -> None:
    tables = {
        "people": {"unit": "household_id", "max_rows_per_unit": 1, "columns": {"id": {}}},
        "cards": {"unit": {"person_id": "people.id"}, "max_rows_per_unit": 1},
        "buys": {
            "unit": {"person_id": "cards.person_id"},
            "max_rows_per_unit": 1,
            "columns": {"amount": {"min": 0, "max": 10}},
        },
    }
    ids = list(range(100))
    frames = {
        "people": pd.DataFrame({"household_id": [1] * 100, "id": ids}),
        "cards": pd.DataFrame({"person_id": ids}),
        "buys": pd.DataFrame({"person_id": ids, "amount": [10.0] * 100}),
    }
    with connect(tables, frames) as db:
        for sql in ("SELECT count(*) FROM cards", "SELECT sum(amount) FROM buys"):
            with pytest.raises(dpsql.UnsupportedQuery, match="through another table"):
                db.query(sql)
        assert db.explain("SELECT count(*) FROM people").releases[0].rule == "one_group"


def test_a_path_that_names_the_unit_itself_is_the_unit() -> None:
    tables = {
        "people": {"unit": "id", "columns": {"id": {}}},
        "buys": {"unit": {"Person": "people.ID"}, "max_rows_per_unit": 1, "columns": {"amount": {"min": 0, "max": 10}}},
    }
    frames = {
        "people": pd.DataFrame({"id": [1, 2]}),
        "buys": pd.DataFrame({"person": [1, 1, 2], "amount": [10.0, 10.0, 10.0]}),
    }
    with connect(tables, frames) as db:
        [release] = dpsql.audit.trace(db, "SELECT sum(amount) FROM buys", salt=b"s")
        statistic = release.statistics[0]
        assert float(statistic.values[0] * statistic.grid) == pytest.approx(20)


def test_a_column_of_an_unknown_type_is_named() -> None:
    frames = {"t": pd.DataFrame({"u": [1], "when": [pd.Timedelta("1s")]})}
    with (
        connect({"t": {"unit": "u", "columns": {"when": {}}}}, frames) as db,
        pytest.raises(dpsql.PolicyError, match=r"t\.columns\.when"),
    ):
        db.query("SELECT count(*) FROM t")


def test_too_few_arguments_are_an_error_of_ours() -> None:
    with connect({"t": {"unit": "u", "columns": {"s": {}}}}, {"t": pd.DataFrame({"u": [1], "s": ["a"]})}) as db:
        for call in ("replace(s, 'a')", "substring(s)", "round()", "date_trunc('month')", "strpos(s)"):
            with pytest.raises(dpsql.Error):
                db.query(f"SELECT count(*) FROM t WHERE {call} = 'x'")


def test_unique_is_not_believed_before_it_is_verified() -> None:
    tables = {"t": {"unit": "u", "unique": True, "max_rows_per_unit": 1, "columns": {"x": {"min": 0, "max": 10}}}}
    with connect(tables, {"t": pd.DataFrame({"u": [1, 1, 1], "x": [10.0, 10.0, 10.0]})}) as db:
        assert db.explain("SELECT sum(x) FROM t").releases[0].rule == "one_group"
        [release] = dpsql.audit.trace(db, "SELECT sum(x) FROM t", salt=b"s")
        statistic = release.statistics[0]
        assert float(statistic.values[0] * statistic.grid) <= 10


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"unit": "patientid", "columns": {"age": {}}}, "tables.t.unit: the table has no column patientid"),
        ({"unit": "patient_id", "columns": {"agee": {}}}, "tables.t.columns.agee: the table has no column agee"),
    ],
)
def test_a_misspelt_column_of_the_policy_is_found_where_it_stands(table: dict[str, object], where: str) -> None:
    frames = {"t": pd.DataFrame({"patient_id": [1], "age": [2]})}
    with connect({"t": table}, frames) as db, pytest.raises(dpsql.PolicyError, match=where) as wrong:
        db.query("SELECT count(*) FROM t")
    assert str(wrong.value.hint).startswith("did you mean ") and "columns: patient_id, age" in str(wrong.value.hint)


def test_a_view_of_the_database_is_no_table_and_the_hint_says_so() -> None:
    own = duckdb.connect()
    own.execute("CREATE TABLE visits AS SELECT 1 AS person; CREATE VIEW recent AS SELECT * FROM visits")
    policy = {
        "dataset": "d",
        "search": False,
        "budget": BUDGET,
        "tables": {"recent": {"unit": "person", "columns": {}}},
    }
    steward = dpsql.connect(own, policy=policy, ledger=":memory:", steward=True)
    with steward as db, pytest.raises(dpsql.PolicyError) as wrong:
        db.query("SELECT count(*) FROM recent")
    assert wrong.value.hint == "tables in the database: visits; a view does not count: name the tables behind it"


def test_a_hint_of_a_broken_policy_names_what_is_stored_to_the_steward_only() -> None:
    own = duckdb.connect()
    own.execute("CREATE TABLE visits AS SELECT 1 AS person, 2 AS secret, 3 AS amount")
    columns = {"columns": {"amuont": {"min": 0, "max": 5}}}
    budget = {**BUDGET, "analysts": {"ana": {"epsilon": 1}}}
    policy = {"dataset": "d", "search": False, "budget": budget, "tables": {"visits": {"unit": "person", **columns}}}
    told = {}
    for who in ({"analyst": "ana"}, {"steward": True}):
        with dpsql.connect(own, policy=policy, ledger=":memory:", **who) as db:
            with pytest.raises(dpsql.PolicyError) as wrong:
                db.query("SELECT count(*) FROM visits")
            told[next(iter(who))] = str(wrong.value)
    assert "secret" in told["steward"] and "amount" in told["steward"]
    assert "amuont" in told["analyst"] and "dpsql check" in told["analyst"]
    assert "secret" not in told["analyst"] and "amount" not in told["analyst"]


@pytest.mark.parametrize("column", ["missing", "number"])
def test_values_are_taken_from_a_public_column_of_the_same_type(column: str) -> None:
    tables = {
        "people": {"unit": "id", "columns": {"area": {"values": {"from": f"areas.{column}"}}}},
        "areas": {"public": True},
    }
    frames = {
        "people": pd.DataFrame({"id": [1, 2], "area": ["n", "s"]}),
        "areas": pd.DataFrame({"area": ["n", "s"], "number": [1, 2]}),
    }
    with pytest.raises(dpsql.PolicyError, match="which is not a column of its type"), connect(tables, frames) as db:
        db.explain("SELECT area, count(*) FROM people GROUP BY area")
