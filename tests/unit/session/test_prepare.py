"""`dpsql prepare`: what is written, who can read it, and when it is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from typer.testing import CliRunner

import dpsql
from dpsql.audit import trace
from dpsql.engines.duckdb import prepare as writing
from dpsql.engines.sql.clamp import STEPS
from dpsql.interfaces import steward_tasks
from dpsql.interfaces.cli.main import app
from dpsql.plan.at_rest import PreparedCopy, copies_of, recipe
from dpsql.plan.catalog import Refused
from dpsql.plan.nodes.relation import Copy
from dpsql.policy import load_policy

SUM = "SELECT kind, sum(amount) AS s FROM orders GROUP BY kind"
ROWS = 10


def policy(mode: str | None = "weigh", rows: int = ROWS, **columns: Any) -> dict[str, Any]:
    table: dict[str, Any] = {
        "unit": "customer",
        "max_rows_per_unit": rows,
        "columns": {"kind": {"values": ["a", "b"]}, "amount": {"min": 0, "max": 500}, **columns},
    }
    return {
        "dataset": "shop",
        "search": False,
        "budget": {"epsilon": 1000, "delta": "1e-6"},
        "limits": {"epsilon": 1000},
        "tables": {"orders": table | ({"prepare": mode} if mode else {})},
    }


def made(folder: Path, mode: str | None = "weigh") -> Path:
    """A shop: 40 customers within their bound, two with 100 rows each, some rows of nobody."""
    with duckdb.connect(str(folder / "shop.duckdb")) as data:
        data.execute(
            "CREATE TABLE orders AS SELECT (range % 40)::INTEGER AS customer, ['a', 'b'][1 + range % 2] AS kind, "
            "(range % 300)::DOUBLE AS amount, 'secret' AS note FROM range(200)"
        )
        data.execute("INSERT INTO orders SELECT 100 + range % 2, 'a', range % 7, '' FROM range(200)")
        data.execute("INSERT INTO orders SELECT NULL, 'a', 1, '' FROM range(9)")
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy(mode)))
    return folder / "shop.duckdb"


def opened(path: Path, said: dict[str, Any] | None = None, **words: Any) -> dpsql.Connection:
    ledger = path.parent / "shop.ledger"
    return dpsql.connect(path, policy=said or path.parent / "policy.yaml", ledger=ledger, **words)


def prepared(path: Path, said: dict[str, Any] | None = None) -> tuple[writing.Written, ...]:
    with opened(path, said, steward=True) as db:
        return steward_tasks.prepare(db, lambda *_: None)


def test_the_steward_sees_what_became_of_the_rows(tmp_path: Path) -> None:
    path = made(tmp_path)
    assert prepared(path) == (writing.Written("orders", 400, 2, 200, 0),)
    assert prepared(path, policy("keep")) == (writing.Written("orders", 400, 2, 200, 180),)


def test_the_copy_has_the_policys_columns_only_and_is_the_stewards(tmp_path: Path) -> None:
    path = made(tmp_path)
    prepared(path)
    copy = tmp_path / "shop.prepared"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir() if "prepare" in each.name) == ["shop.prepared"]
    with duckdb.connect(str(copy), read_only=True) as data:
        columns = data.execute("SELECT DISTINCT column_name FROM duckdb_columns() WHERE NOT internal").fetchall()
        assert {column.partition(STEPS)[0] for (column,) in columns} == {"customer", "kind", "amount"}
        assert sum(STEPS in column for (column,) in columns) == 1
        assert data.execute('SELECT count(*), count(DISTINCT customer) FROM within."orders"').fetchall() == [(200, 40)]
        assert data.execute('SELECT count(*), count(DISTINCT customer) FROM over."orders"').fetchall() == [(200, 2)]


def test_a_unit_keeps_as_many_rows_as_it_may(tmp_path: Path) -> None:
    path = made(tmp_path)
    prepared(path, policy("keep"))
    with duckdb.connect(str(tmp_path / "shop.prepared"), read_only=True) as data:
        kept = data.execute('SELECT customer, count(*) FROM within."orders" GROUP BY 1').fetchall()
    assert max(count for _, count in kept) == ROWS and len(kept) == 42


@pytest.mark.parametrize("mode", ["weigh", "keep"])
@pytest.mark.parametrize("portion", [300, 150, 50])
def test_a_copy_that_is_written_in_portions_has_every_row_once(
    tmp_path: Path, mode: str, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two, three and nine of them; which rows a unit keeps is the salt's choice, how many is not."""
    path, found = made(tmp_path), []
    for size in (10**6, portion):
        monkeypatch.setattr(writing, "PORTION", size)
        told = prepared(path, policy(mode))
        with duckdb.connect(str(tmp_path / "shop.prepared"), read_only=True) as data:
            parts = ["within", "over"] if mode == "weigh" else ["within"]
            counts = [data.execute(f'SELECT customer, count(*) FROM {p}."orders" GROUP BY 1').fetchall() for p in parts]
        found.append((told, [sorted(each) for each in counts]))
    assert found[0] == found[1]


@pytest.mark.parametrize("isolate", [False, True])
def test_answers_are_read_from_the_copy(tmp_path: Path, isolate: bool) -> None:
    path = made(tmp_path)
    prepared(path)
    with opened(path, isolate=isolate) as db:
        assert "dpsql_prepared" in db.explain(SUM).sql
        answer = dict(db.query(SUM, epsilon=900).fetchall())
        assert abs(answer["a"] + answer["b"] - 20_497) < 1_500  # 19,900 within, and two units of 597 in all


def test_a_copy_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    with opened(made(tmp_path)) as db, pytest.raises(dpsql.Error, match="there is none yet") as refusal:
        db.query(SUM)
    assert "dpsql prepare" in (refusal.value.hint or "")


def _changed_data(path: Path) -> None:
    with duckdb.connect(str(path)) as data:
        data.execute("INSERT INTO orders VALUES (1, 'a', 5, '')")


def _bumped(path: Path) -> None:
    with opened(path, steward=True) as db:
        db.ledger.bump("tuesday", "steward")


def _edited(path: Path) -> None:
    copy = path.parent / "shop.prepared"
    with duckdb.connect(str(copy)) as data:
        data.execute('INSERT INTO within."orders" FROM within."orders"')


def _exchanged(path: Path) -> None:
    """Another file of the same size, with the times of the first: only its own entry tells."""
    copy = path.parent / "shop.prepared"
    before, content = copy.stat(), bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_changed_data, "another version of the data"),
        (_bumped, "another version of the data"),
        (_edited, "not the one that was prepared"),
        (_exchanged, "not the one that was prepared"),
    ],
)
def test_a_stale_copy_is_refused_until_it_is_prepared_again(tmp_path: Path, change: Any, said: str) -> None:
    path = made(tmp_path)
    prepared(path)
    change(path)
    with opened(path) as db, pytest.raises(dpsql.Error, match=said):
        db.query(SUM)
    prepared(path)
    with opened(path) as db:
        assert db.query(SUM, epsilon=1).columns == ("kind", "s")


def test_a_bump_is_seen_by_a_connection_that_is_open(tmp_path: Path) -> None:
    path = made(tmp_path)
    prepared(path)
    with opened(path) as db:
        db.query(SUM, epsilon=1)
        _bumped(path)
        with pytest.raises(dpsql.Error, match="another version"):
            db.query(SUM, epsilon=1)


CHANGED = [policy("keep"), policy(rows=11), policy(note={}), policy(amount={"min": 0, "max": 400})]


@pytest.mark.parametrize("said", CHANGED)
def test_a_policy_that_changed_refuses_the_copy(tmp_path: Path, said: dict[str, Any]) -> None:
    path = made(tmp_path)
    prepared(path)
    with opened(path, said) as db, pytest.raises(dpsql.Error, match="made by other bounds, units or columns"):
        db.query(SUM)


def test_a_copy_that_was_moved_is_known_by_its_content(tmp_path: Path) -> None:
    path = made(tmp_path)
    prepared(path)
    copy = tmp_path / "shop.prepared"
    content = copy.read_bytes()
    copy.unlink()
    copy.write_bytes(content)
    with opened(path) as db:
        assert "dpsql_prepared" in db.explain(SUM).sql


def test_without_prepare_in_the_policy_the_table_itself_is_read(tmp_path: Path) -> None:
    path = made(tmp_path, None)
    with opened(path) as db:
        assert "dpsql_prepared" not in db.explain(SUM).sql
    with opened(path, steward=True) as db, pytest.raises(dpsql.Error, match="prepares no table"):
        steward_tasks.prepare(db, lambda *_: None)


def test_a_ledger_in_memory_cannot_know_copies(tmp_path: Path) -> None:
    with dpsql.connect(made(tmp_path), policy=policy(), ledger=":memory:", steward=True) as db:
        assert "dpsql_prepared" not in db.explain(SUM).sql
        with pytest.raises(dpsql.Error, match="only files"):
            steward_tasks.prepare(db, lambda *_: None)


def test_a_failure_leaves_the_copy_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path)
    prepared(path)
    before = (tmp_path / "shop.prepared").read_bytes()

    def broken(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(writing, "sync_file", broken)
    with pytest.raises(OSError, match="no space"):
        prepared(path)
    assert (tmp_path / "shop.prepared").read_bytes() == before
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".dpsql-prepare")]
    with opened(path) as db:
        assert "dpsql_prepared" in db.explain(SUM).sql


def test_in_portions_the_copy_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = made(tmp_path), []
    steps: list[tuple[str, int, int]] = []
    for portion in (5_000_000, 60):
        monkeypatch.setattr(writing, "PORTION", portion)
        with opened(path, policy("keep"), steward=True) as db:
            steward_tasks.prepare(db, lambda *step: steps.append(step))
        with duckdb.connect(str(tmp_path / "shop.prepared"), read_only=True) as data:
            seen.append(data.execute('SELECT * FROM within."orders" ORDER BY ALL').fetchall())
    assert seen[0] == seen[1]
    assert steps[:3] == [("orders", 0, 2), ("orders", 1, 2), ("orders", 2, 2)]
    assert steps[-1] == ("orders", 8, 8)


def test_facts_decide_and_nothing_else() -> None:
    """The planted break "stale copy accepted": each part of a fact alone refuses."""
    declared = load_policy(policy())
    good = PreparedCopy(recipe(declared, "orders"), "content", "1:2:3:4")
    facts = {("orders", good.fact)}

    def content() -> str:
        return "another"

    assert copies_of(declared, facts, "1:2:3:4", content) == {"orders": Copy(ROWS, True)}
    assert copies_of(declared, facts, "9:9:9:9", lambda: "content") == {"orders": Copy(ROWS, True)}
    twice = facts | {("orders", PreparedCopy(good.recipe, "an earlier one", "0:0:0:0").fact)}
    assert copies_of(declared, twice, "1:2:3:4", content) == {"orders": Copy(ROWS, True)}
    assert copies_of(declared, twice, "9:9:9:9", lambda: "content") == {"orders": Copy(ROWS, True)}
    for found, stamp in ((facts, ""), (facts, "9:9:9:9"), (set(), "1:2:3:4"), ({("other", good.fact)}, "1:2:3:4")):
        assert isinstance(copies_of(declared, found, stamp, content)["orders"], Refused)
    for other in CHANGED:
        assert isinstance(copies_of(load_policy(other), facts, "1:2:3:4", content)["orders"], Refused)


def test_bounds_that_are_searched_for_are_clamped_in_the_query(tmp_path: Path) -> None:
    path, said = made(tmp_path), policy(amount={"bounds": "auto"}) | {"defaults": {"search": 100}}
    prepared(path, said)
    with opened(path, said) as db:
        db.query(SUM, epsilon=5)
        assert STEPS not in db.explain(SUM, epsilon=5).sql and "dpsql_prepared" in db.explain(SUM, epsilon=5).sql


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"unit": "row", "prepare": "weigh"}, "nothing to bound"),
        ({"unit": "u", "unique": True, "prepare": "keep"}, "nothing to bound"),
        ({"unit": "u", "prepare": "keep"}, "declares none"),
        ({"unit": "u", "max_rows_per_unit": "auto", "prepare": "keep"}, "declares none"),
        ({"public": True, "prepare": "keep"}, "no units"),
        ({"unit": "u", "max_rows_per_unit": 3, "prepare": "sample"}, "not a way to prepare"),
    ],
)
def test_the_policy_says_what_can_be_prepared(table: dict[str, Any], said: str) -> None:
    with pytest.raises(dpsql.PolicyError, match=said):
        load_policy({"dataset": "d", "search": False, "budget": {"epsilon": 1}, "tables": {"t": table}})


def test_on_the_command_line(tmp_path: Path) -> None:
    path = made(tmp_path)
    done = CliRunner().invoke(app, ["prepare", str(path)])
    assert done.exit_code == 0, done.output
    assert (
        "orders: 400 rows; 2 units have more than 10 (50.0% of the rows). Their rows are down-weighted" in done.output
    )
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy("keep")))
    assert (
        "180 rows (45.0%) were left out. This biases answers" in CliRunner().invoke(app, ["prepare", str(path)]).output
    )


@pytest.mark.parametrize(
    "sql", ["SELECT count(*) FROM orders", "SELECT kind, count(*), sum(amount) FROM orders GROUP BY kind", SUM]
)
def test_totals_from_the_parts_of_a_copy_are_those_of_the_table(tmp_path: Path, sql: str) -> None:
    """Also where both parts add up to the same: one unit within its bound, and another down-weighted to it."""
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as data:
        data.execute("CREATE TABLE orders (customer INTEGER, kind VARCHAR, amount DOUBLE)")
        for unit, rows in ((1, ROWS), (2, 2 * ROWS)):
            data.execute(
                f"INSERT INTO orders SELECT {unit}, ['a', 'b'][1 + range % 2], {ROWS // unit} FROM range({rows})"
            )
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy("weigh")))
    prepared(path)
    found = []
    for said in (None, policy(None)):
        with opened(path, said, steward=True) as db:
            assert ("dpsql_prepared" in db.explain(sql).sql) == (said is None)
            [made_] = trace(db, sql, salt=b"s", epsilon=1.0)
            found.append((made_.keys, [[int(value) for value in each.values] for each in made_.statistics]))
    assert found[0] == found[1] and all(any(values) for values in found[0][1])
