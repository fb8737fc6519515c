"""Top k, GROUP BY ALL and by place, HISTOGRAM: what an analyst writes to see the largest groups."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import dpsql

POLICY = {
    "dataset": "d", "search": False, "budget": {"epsilon": 1e6, "delta": 1e-3},
    "limits": {"epsilon": 1e4},
    "tables": {"t": {"unit": "row", "columns": {"kind": {"values": ["a", "b", "c", "d"]}, "note": {}, "x": {"min": 0, "max": 100}}}},
}  # fmt: skip
SIZES = {"a": 100, "b": 4_000, "c": 2_000, "d": 1_000}


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    rows = ", ".join(f"('{kind}', {size})" for kind, size in SIZES.items())
    with duckdb.connect() as raw:
        raw.execute(
            f"CREATE TABLE t AS SELECT kind, 'n' || kind AS note, (i % 100)::DOUBLE AS x FROM (VALUES {rows}) v(kind, n), "
            "range(n) r(i)"
        )
        with dpsql.connect(raw, policy=POLICY, ledger=":memory:") as made:
            yield made


@pytest.mark.parametrize("order", ["n", "count(*)", "2", "n + 0"])
@pytest.mark.parametrize("key", ["kind", "note"])
def test_the_largest_groups_come_first(db: dpsql.Connection, key: str, order: str) -> None:
    """Public keys, and private ones; the noise is far below the gaps."""
    result = db.query(f"SELECT {key}, count(*) AS n FROM t GROUP BY {key} ORDER BY {order} DESC LIMIT 2", epsilon=50)
    assert [row[0][-1] for row in result.fetchall()] == ["b", "c"]
    assert any("chosen by noisy values" in note for note in result.notes)
    assert len(result.intervals(simultaneous=True)) == 2


def test_a_limit_without_noise_in_its_order_says_nothing(db: dpsql.Connection) -> None:
    explained = db.explain("SELECT kind, count(*) AS n FROM t GROUP BY kind ORDER BY kind LIMIT 2")
    assert not any("chosen by noisy values" in note for note in explained.notes)
    assert "chosen by noisy values" in str(
        db.explain("SELECT kind, count(*) AS n FROM t GROUP BY kind ORDER BY n DESC LIMIT 2")
    )


@pytest.mark.parametrize("group", ["ALL", "1, 2", "kind, 2", "k, big"])
def test_group_by_all_and_by_place(db: dpsql.Connection, group: str) -> None:
    sql = f"SELECT kind AS k, x > 49 AS big, count(*) AS n FROM t GROUP BY {group}"
    assert [k.text for k in db.explain(sql).releases[0].keys] == ["kind", "x > 49"]


def test_histogram_is_refused_with_what_works(db: dpsql.Connection) -> None:
    with pytest.raises(dpsql.Error) as refusal:
        db.explain("SELECT histogram(kind) FROM t")
    assert "SELECT kind, count(*) … GROUP BY kind" in str(refusal.value.hint)
    db.explain("SELECT kind, count(*) FROM t GROUP BY kind")
    db.explain("SELECT width_bucket(x, 0, 100, 10) AS bucket, count(*) FROM t GROUP BY width_bucket(x, 0, 100, 10)")
