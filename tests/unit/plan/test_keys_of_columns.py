"""Keys of several columns: read from the policy, verified, and used to bound the rows of joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.bounds.domain import Domain
from dpsql.errors import InternalError, PolicyError
from dpsql.expressions.expression import Column
from dpsql.expressions.types import BIGINT, BOOLEAN
from dpsql.expressions.typing import call
from dpsql.interfaces.steward_tasks import check
from dpsql.plan.invariants import check_facts
from dpsql.plan.nodes.joins import Inner, inner_join, outer_join
from dpsql.plan.nodes.relation import Field, JoinSide, PublicScan, Relation, side_of
from dpsql.plan.nodes.released_scan import ReleasedScan
from dpsql.policy import check_facts as checked
from dpsql.policy import constraint_facts, load_policy
from dpsql.policy.model import key_fact

SUPPLY = key_fact(["part", "supplier"])
COLUMNS: dict[str, Any] = {"part": {}, "qty": {"min": 0, "max": 100}}
POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 1000, "delta": 1e-6},
    "tables": {
        "stock": {"unit": "supplier", "unique": ["part", "supplier"], "max_rows_per_unit": 90, "columns": COLUMNS},
        "sales": {"unit": "supplier", "max_rows_per_unit": 725, "columns": {**COLUMNS, "wide": {}, "text": {}}},
        "sellers": {"unit": "supplier", "unique": True, "columns": {"part": {}, "chief": {}}},
        "parts": {"public": True, "unique": [["part", "lot"]]},
    },
}  # fmt: skip
SETUP = """
CREATE TABLE stock (part INTEGER, supplier INTEGER, qty INTEGER{});
CREATE TABLE sales (part INTEGER, supplier INTEGER, qty INTEGER, wide DOUBLE, text VARCHAR);
CREATE TABLE sellers (supplier INTEGER PRIMARY KEY, part INTEGER, chief INTEGER);
CREATE TABLE parts (part INTEGER, lot INTEGER, weight INTEGER{});
INSERT INTO parts VALUES (1, 1, 5), (1, 2, 5), (2, NULL, 5), (2, NULL, 6);
INSERT INTO stock VALUES (1, 1, 5), (2, 1, 5), (NULL, 1, 5), (NULL, 1, 6), (1, 2, 7);
"""
BY_KEY = "k.supplier = s.supplier AND k.part = s.part"


def database(path: str = ":memory:", *, key: str = ", UNIQUE (supplier, part)", lots: str = "") -> Any:
    made = duckdb.connect(path)
    made.execute(SETUP.format(key, lots))
    return made


def opened(**how: str) -> dpsql.Connection:
    return dpsql.connect(database(**how), policy=POLICY, ledger=":memory:")


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    with opened() as connection:
        yield connection


def source(db: dpsql.Connection, rows: str) -> Relation:
    made: Relation = (
        db.prepare(f"SELECT count(*) FROM {rows}", epsilon=1.0, delta=1e-7, mechanism="laplace").plan.releases[0].source
    )
    check_facts(made, db.dataset.catalog)
    return made


@pytest.mark.parametrize(
    ("rows", "most"),
    [
        (f"sales s JOIN stock k ON {BY_KEY}", 725),
        (f"stock k JOIN sales s ON {BY_KEY}", 725),
        (f"stock k, sales s WHERE {BY_KEY}", 725),
        ("sales s JOIN stock k USING (part, supplier)", 725),
        (f"(SELECT * FROM stock WHERE qty > 3) AS k JOIN (SELECT * FROM sales) AS s ON {BY_KEY}", 725),
        ("sales s JOIN (SELECT part AS p, supplier AS u FROM stock) AS k ON k.u = s.supplier AND k.p = s.part", 725),
        ("stock k JOIN stock s ON k.supplier = s.supplier AND k.part = s.part", 90),
        ("sellers s JOIN stock k ON k.supplier = s.supplier AND k.part = s.part", 1),
        ("sellers s JOIN stock k ON k.supplier = s.supplier AND k.part = 7", 1),
        ("sales s JOIN sellers b ON b.supplier = s.supplier JOIN stock k ON k.supplier = b.supplier AND k.part = s.part", 725),
        (f"(SELECT k.supplier, k.part FROM sales s JOIN stock k ON {BY_KEY}) AS k JOIN sales s ON {BY_KEY}", 725 * 725),
        (f"(SELECT k.supplier, k.part FROM stock k JOIN sellers b ON b.supplier = k.supplier) AS k JOIN sales s ON {BY_KEY}", 725),
        (f"(SELECT k.supplier, k.part FROM stock k LEFT JOIN sellers b ON b.supplier = k.supplier) AS k JOIN sales s ON {BY_KEY}", 725),
        (f"(SELECT supplier, part FROM stock UNION ALL SELECT supplier, part FROM stock) AS k JOIN sales s ON {BY_KEY}", 180 * 725),
        ("sales s JOIN stock k ON k.supplier = s.supplier", 90 * 725),
        ("sales s JOIN stock k ON k.supplier = s.supplier AND k.qty = s.qty", 90 * 725),
        ("sales s JOIN stock k ON k.supplier = s.supplier AND k.part <= s.part", 90 * 725),
        ("sales s JOIN stock k ON k.supplier = s.supplier AND (k.part = s.part OR k.qty = 1)", 90 * 725),
        ("sales s JOIN stock k ON k.supplier = s.supplier AND k.part + 0 = s.part", 90 * 725),
        ("sales s JOIN stock k ON k.supplier = s.supplier AND k.part = s.wide", 90 * 725),
        ("sales s JOIN stock k ON k.supplier = s.supplier AND CAST(k.part AS VARCHAR) = s.text", 90 * 725),
        ("sales s JOIN stock k ON k.supplier = s.supplier AND k.part IS NOT DISTINCT FROM s.part", 90 * 725),
    ],
)  # fmt: skip
def test_an_inner_join_has_no_more_rows_than_what_is_looked_up_from(db: dpsql.Connection, rows: str, most: int) -> None:
    assert source(db, rows).rows_per_unit == most


@pytest.mark.parametrize(
    ("rows", "most"),
    [
        (f"sales s LEFT JOIN stock k ON {BY_KEY}", 725),
        (f"stock k RIGHT JOIN sales s ON {BY_KEY}", 725),
        (f"stock k LEFT JOIN sales s ON {BY_KEY}", 90 + 725),
        (f"stock k FULL JOIN sales s ON {BY_KEY}", 90 + 725),
        (f"sales s FULL JOIN stock k ON {BY_KEY}", 90 + 725),
        ("sales s LEFT JOIN stock k ON k.supplier = s.supplier", 90 * 725),
        ("sales s FULL JOIN stock k ON k.supplier = s.supplier AND k.qty = s.qty", 90 * 725),
        ("sellers s LEFT JOIN stock k ON k.supplier = s.supplier AND k.part = s.part", 1),
    ],
)
def test_an_outer_join_also_has_the_rows_that_match_nothing(db: dpsql.Connection, rows: str, most: int) -> None:
    made = source(db, rows)
    assert made.rows_per_unit == most
    if most > 1:
        with pytest.raises(InternalError, match="rows per unit"):
            check_facts(replace(made, rows_per_unit=most - 1), db.dataset.catalog)


def test_an_outer_join_that_forgets_the_rows_that_match_nothing_is_stopped(
    db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = import_module("dpsql.plan.nodes.joins")
    monkeypatch.setattr(module, "_outer_rows", lambda left, right, *_: right.relation.rows_per_unit)
    with pytest.raises(InternalError, match="rows per unit"):
        db.prepare(
            f"SELECT count(*) FROM stock k LEFT JOIN sales s ON {BY_KEY}", epsilon=1.0, delta=1e-7, mechanism="laplace"
        )


def test_a_single_row_that_looks_up_by_the_whole_key_stays_single(db: dpsql.Connection) -> None:
    assert source(db, "sellers s JOIN stock k ON k.supplier = s.supplier AND k.part = s.part").single
    assert not source(db, "sellers s JOIN stock k ON k.supplier = s.supplier AND k.qty = s.part").single


def test_keys_that_the_catalogue_does_not_have_are_refused(db: dpsql.Connection) -> None:
    made = source(db, "sales s JOIN parts p ON p.part = s.part")
    assert isinstance(made, Inner)

    def lying(part: JoinSide) -> JoinSide:
        if not isinstance(part.relation, PublicScan):
            return part
        return replace(part, relation=replace(part.relation, keys=frozenset({frozenset({"part"})})))

    with pytest.raises(InternalError, match="public table with other keys"):
        check_facts(replace(made, parts=tuple(map(lying, made.parts))), db.dataset.catalog)


@pytest.mark.parametrize("full", [False, True])
def test_two_sides_of_one_row_may_be_two_rows_of_a_full_join(db: dpsql.Connection, full: bool) -> None:
    sides = [
        JoinSide(ReleasedScan((Field("n", BIGINT, Domain()),), False, 1, False, name, frozenset()), (f"{name}.n",))
        for name in "ab"
    ]
    equal = call("eq", BOOLEAN, *(Column(BIGINT, name=side.names[0]) for side in sides))
    both = outer_join(sides[0], sides[1], full, equal, (), lambda *_: False)
    assert both.unique_keys() == (set() if full else {frozenset()})
    made = inner_join([side_of(source(db, "sellers WHERE chief > 1")), side_of(both)], [], lambda *_: False)
    assert made.single != full
    lie = replace(made, lookups=frozenset({1}), single=True)
    if full:
        with pytest.raises(InternalError, match="not looked up"):
            check_facts(lie, db.dataset.catalog)
    else:
        check_facts(lie, db.dataset.catalog)


# what is verified ---------------------------------------------------------------------------------------------------------


def test_a_declared_key_is_not_believed_on_a_live_connection_without_a_constraint() -> None:
    with opened(key="") as live:
        assert source(live, f"sales s JOIN stock k ON {BY_KEY}").rows_per_unit == 90 * 725
        assert source(live, "stock").unique_keys() == frozenset()


def test_a_constraint_on_other_columns_is_no_fact() -> None:
    with opened(key=", UNIQUE (supplier, part, qty)") as live:
        assert source(live, f"sales s JOIN stock k ON {BY_KEY}").rows_per_unit == 90 * 725
    with database(key=", UNIQUE (qty, part)") as raw:
        assert ("stock", SUPPLY) not in constraint_facts(raw, load_policy(POLICY))


def test_a_constraint_on_some_of_the_columns_is_enough() -> None:
    with duckdb.connect() as raw:
        raw.execute("CREATE TABLE stock (part INTEGER PRIMARY KEY, supplier INTEGER, qty INTEGER)")
        assert ("stock", SUPPLY) in constraint_facts(raw, load_policy(POLICY))


def test_a_file_is_checked_and_the_fact_holds_for_that_version(tmp_path: Path) -> None:
    path, ledger, rows = tmp_path / "d.duckdb", str(tmp_path / "l.db"), f"sales s JOIN stock k ON {BY_KEY}"
    database(str(path), key="").close()
    with dpsql.connect(path, policy=POLICY, ledger=ledger) as before:
        assert source(before, rows).rows_per_unit == 90 * 725
        assert check(before).recorded == 3
    with dpsql.connect(path, policy=POLICY, ledger=ledger) as after:
        assert source(after, rows).rows_per_unit == 725
        after.ledger.bump("later", "steward")
    with dpsql.connect(path, policy=POLICY, ledger=ledger) as later:
        assert source(later, rows).rows_per_unit == 90 * 725


def test_a_process_of_its_own_knows_the_same_keys(tmp_path: Path) -> None:
    path, rows = (
        tmp_path / "d.duckdb",
        f"sales s JOIN stock k ON {BY_KEY} JOIN parts p ON p.part = k.part AND p.lot = s.qty",
    )
    database(str(path), lots=", UNIQUE (part, lot)").close()
    with dpsql.connect(path, policy=POLICY, ledger=":memory:", isolate=True) as db:
        assert source(db, rows).rows_per_unit == 725
        assert len(db.query(f"SELECT count(*) FROM {rows}", epsilon=1).fetchall()) == 1


@pytest.mark.parametrize(
    ("more", "ok", "text"),
    [
        ("", True, "(part, supplier) names at most one row"),
        ("INSERT INTO stock VALUES (2, 2, 1)", True, "names at most one row"),
        ("INSERT INTO stock VALUES (1, 1, 9), (2, 1, 9)", False, "2 values of (part, supplier) occur more than once"),
    ],
)
def test_a_check_looks_at_all_columns_of_a_key(more: str, ok: bool, text: str) -> None:
    with database(key="") as raw:
        raw.execute(more)
        [found] = [f for f in checked(raw, load_policy(POLICY)) if (f.table, f.fact) == ("stock", SUPPLY)]
        assert (found.ok, found.kind) == (ok, "verified" if ok else "violated")
        assert text in found.text


def test_a_check_looks_at_keys_of_public_tables() -> None:
    fact = key_fact(["lot", "part"])
    with database() as raw:
        [found] = [f for f in checked(raw, load_policy(POLICY)) if (f.table, f.fact) == ("parts", fact)]
        assert found.kind == "verified"
        raw.execute("INSERT INTO parts VALUES (1, 2, 9)")
        [found] = [f for f in checked(raw, load_policy(POLICY)) if (f.table, f.fact) == ("parts", fact)]
        assert found.kind == "violated"


def test_a_key_of_a_column_that_is_not_there_is_an_error() -> None:
    tables = {"parts": {"public": True, "unique": ["part", "size"]}}
    with database() as raw:
        [found] = [f for f in checked(raw, load_policy({**POLICY, "tables": tables})) if f.fact.startswith("key:")]
        assert (found.kind, found.text) == ("error", "there is no column size")


# what the policy says -----------------------------------------------------------------------------------------------------


def table(unique: object, **more: Any) -> Any:
    spec = {"unit": "id", "columns": {"a": {}, "b": {}}, **more}
    return load_policy({**POLICY, "tables": {"t": {**spec, "unique": unique}}}).tables["t"]


@pytest.mark.parametrize(
    ("unique", "keys", "one_row"),
    [
        (True, (), True),
        (False, (), False),
        (["a", "b"], (("a", "b"),), False),
        ([["a", "b"], ["b"]], (("a", "b"), ("b",)), False),
        (["id"], (("id",),), True),
        ([["A"], ["ID"]], (("A",), ("ID",)), True),
        (["id", "a"], (("id", "a"),), False),
    ],
)
def test_the_forms_of_unique(unique: object, keys: object, one_row: bool) -> None:
    made = table(unique)
    assert (made.keys, made.one_row) == (keys, one_row)
    policy = load_policy({**POLICY, "tables": {"t": {"unit": "id", "columns": {"a": {}, "b": {}}, "unique": unique}}})
    assert load_policy(policy.model_dump()) == policy
    assert policy.rows_per_unit("t") == (1 if one_row else 50)


@pytest.mark.parametrize("unique", [[], [[]], "a", 1, ["a", ["b"]], ["a", 3], ["a", "A"], [["a", "a"]], {"a": "b"}])
def test_what_is_no_key_is_refused(unique: object) -> None:
    with pytest.raises(PolicyError, match="unique"):
        table(unique)


def test_a_key_names_columns_of_the_policy() -> None:
    with pytest.raises(PolicyError, match="column c"):
        table(["a", "c"])
    assert table(["a"], unit="row").keys == (("a",),)
    assert table(["a"], unit=None, public=True).keys == (("a",),)
    with pytest.raises(PolicyError, match="applies to units"):
        table(True, unit=None, public=True)


def test_a_key_is_one_fact_in_any_order_and_case() -> None:
    assert key_fact(["B", "a"]) == key_fact(["A", "b"]) == 'key:["a", "b"]'
    assert key_fact(["a, b"]) != key_fact(["a", "b"])
