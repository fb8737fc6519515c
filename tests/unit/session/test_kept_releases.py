"""Whether the ledger has all releases of a query: only where the policy replays what was paid for."""

from __future__ import annotations

import duckdb
import pytest

import dpsql

SQL = "SELECT count(*) FROM t"


@pytest.mark.parametrize("replay", [True, False])
def test_a_release_is_kept_once_it_was_made_if_the_policy_replays(replay: bool) -> None:
    data = duckdb.connect()
    data.execute("CREATE TABLE t AS SELECT range AS u FROM range(9)")
    policy = {
        "dataset": "d", "search": False, "replay": replay, "budget": {"epsilon": 9},
        "tables": {"t": {"unit": "u", "max_rows_per_unit": 1}},
    }  # fmt: skip
    with dpsql.connect(data, policy=policy, ledger=":memory:") as db:
        prepared = db.prepare(SQL, epsilon=1.0, mechanism="laplace")
        conductor = db.conductor
        assert not conductor.is_kept(prepared)
        db.query(SQL, epsilon=1.0, mechanism="laplace")
        assert conductor.is_kept(prepared) == replay
        assert not conductor.is_kept(db.prepare(SQL, epsilon=2.0, mechanism="laplace"))
