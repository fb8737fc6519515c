"""`dpsql init`: a draft that loads, guesses owners, and holds nothing that was seen in the rows."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import duckdb
import pytest
import yaml

from dpsql.errors import PolicyError
from dpsql.policy import ForeignKey, Policy, PolicyDraft, draft_policy, load_policy, parse_policy, write_draft
from dpsql.policy.unit_detection import singular

SHOP = """
CREATE TABLE customers(id INTEGER PRIMARY KEY, name VARCHAR, age INTEGER, tier ENUM('goldish', 'silverish'));
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers(id),
                    amount DECIMAL(10, 2), placed DATE, tags VARCHAR[]);
CREATE TABLE order_items(order_id INTEGER, product_id INTEGER, quantity INTEGER);
CREATE TABLE visits(customer_id INTEGER, seen TIMESTAMP);
CREATE TABLE products(id INTEGER PRIMARY KEY, title VARCHAR);
CREATE TABLE employees(id INTEGER PRIMARY KEY, pay DOUBLE);
CREATE TABLE messages(sender INTEGER REFERENCES customers(id), receiver INTEGER REFERENCES customers(id));
CREATE VIEW big_orders AS SELECT * FROM orders WHERE amount > 100;
INSERT INTO customers VALUES (70001, 'Zaphod', 97, 'goldish'), (70002, 'Trillian', 31, 'silverish');
INSERT INTO orders VALUES (80001, 70001, 7654.32, DATE '1987-06-05', ['zebra']);
INSERT INTO order_items VALUES (80001, 60001, 4242);
INSERT INTO visits VALUES (70002, TIMESTAMP '1999-12-31 23:58:57');
INSERT INTO products VALUES (60001, 'Babelfish');
INSERT INTO employees VALUES (50001, 98765.5);
"""
SEEN = [
    "70001",
    "70002",
    "Zaphod",
    "Trillian",
    "97",
    "31",
    "goldish",
    "7654.32",
    "1987",
    "zebra",
    "4242",
    "1999",
]
SEEN += ["60001", "Babelfish", "50001", "98765"]


def draft(sql: str, dataset: str = "shop") -> PolicyDraft:
    with duckdb.connect() as connection:
        connection.execute(sql)
        return draft_policy(connection, dataset)


def units(sql: str) -> dict[str, str | ForeignKey | None]:
    return {name: table.unit for name, table in parse_policy(draft(sql).policy).tables.items()}


@pytest.fixture(scope="module")
def shop() -> PolicyDraft:
    return draft(SHOP)


@pytest.fixture(scope="module")
def policy(shop: PolicyDraft) -> Policy:
    return parse_policy(shop.policy)


def test_owners_are_guessed_from_constraints_names_and_paths(policy: Policy) -> None:
    assert {name: table.unit for name, table in policy.tables.items()} == {
        "customers": "id",
        "orders": ForeignKey(column="customer_id", references="customers.id"),
        "order_items": ForeignKey(column="order_id", references="orders.id"),
        "visits": "customer_id",
    }
    assert [name for name, table in policy.tables.items() if table.one_row] == ["customers"]
    assert {name: table.keys for name, table in policy.tables.items() if table.keys} == {"orders": (("id",),)}


def test_no_table_is_drafted_as_public(policy: Policy) -> None:
    assert not any(table.public for table in policy.tables.values())


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("products", "no column leads to the people behind the rows"),
        ("employees", "people other than those of customers"),
        ("messages", "sender and receiver each lead to an owner"),
        ("big_orders", "a view: declare the tables behind it"),
    ],
)
def test_a_doubtful_table_does_not_exist_until_the_steward_decides(
    shop: PolicyDraft, policy: Policy, table: str, reason: str
) -> None:
    assert table not in policy.tables
    assert f"  # {table}:   # LEFT OUT: {reason}" in shop.policy


def test_a_commented_table_is_valid_once_decided(shop: PolicyDraft) -> None:
    block = shop.policy[shop.policy.index("  # products:") :].split("\n\n")[0]
    lines = [line.replace("  # ", "  ", 1) for line in block.replace("unit: ?", "public: true").splitlines()]
    decided = "\n".join(lines)
    policy = parse_policy(shop.policy.replace(block, decided))
    assert policy.tables["products"].public
    assert list(policy.tables["products"].columns or ()) == ["id", "title"]


def test_columns_exist_without_bounds(shop: PolicyDraft, policy: Policy) -> None:
    assert list(policy.tables["orders"].columns or ()) == ["id", "customer_id", "amount", "placed"]
    for table in policy.tables.values():
        for column in (table.columns or {}).values():
            assert (column.min, column.max, column.values) == (None, None, None)
    note = "from what you know, not from the data"
    assert f"amount: {{}}   # DECIMAL(10,2): or {{min: ?, max: ?}}, {note}" in shop.policy
    assert f"placed: {{}}   # DATE: or {{min: ?, max: ?}}, {note}" in shop.policy
    assert f"tier: {{}}   # ENUM: or {{values: [?]}}, {note}" in shop.policy
    assert "# 'tags': left out, VARCHAR[] is not supported" in shop.policy


def test_every_numeric_column_has_its_placeholder(shop: PolicyDraft) -> None:
    for column in ("age", "amount", "quantity", "pay"):
        assert len(re.findall(rf"{column}: {{}}   # .*: or {{min: \?, max: \?}}", shop.policy)) == 1


def test_a_column_stands_once_and_the_unit_asks_for_no_bounds(shop: PolicyDraft) -> None:
    orders = shop.policy[shop.policy.index("  orders:") :].split("\n\n")[0]
    assert len(re.findall(r"^[ #]*amount:", orders, re.M)) == 1
    assert re.search(r"^      customer_id: {}   # \w+$", orders, re.M)


def test_the_draft_holds_no_observed_value(shop: PolicyDraft) -> None:
    assert [value for value in SEEN if value in shop.policy] == []
    assert [value for value in SEEN if value not in shop.observed and value != "zebra"] == []


def test_the_draft_does_not_depend_on_the_rows(shop: PolicyDraft) -> None:
    empty = "\n".join(line for line in SHOP.splitlines() if not line.startswith("INSERT"))
    assert draft(empty).policy == shop.policy
    assert draft(empty).observed != shop.observed


def test_the_observed_file_warns_and_can_be_read(shop: PolicyDraft) -> None:
    assert shop.observed.startswith("# FOR THE STEWARD ONLY")
    seen = yaml.safe_load(shop.observed)["observed"]
    assert seen["customers"]["rows"] == 2
    assert seen["customers"]["columns"]["age"] == {
        "nulls": 0,
        "min": "31",
        "max": "97",
        "values": ["31", "97"],
    }
    assert seen["customers"]["columns"]["name"] == {"nulls": 0, "values": ["Trillian", "Zaphod"]}


def test_many_values_are_not_listed_even_for_the_steward() -> None:
    seen = draft("CREATE TABLE users AS SELECT 'w' || range AS word, range AS id FROM range(21)").observed
    assert "values" not in yaml.safe_load(seen)["observed"]["users"]["columns"]["word"]


def test_a_shared_id_of_people_is_the_unit_where_there_is_no_table_of_people() -> None:
    assert units("CREATE TABLE a(user_id INT, x INT); CREATE TABLE b(USER_ID INT UNIQUE); CREATE TABLE c(y INT)") == {
        "a": "user_id",
        "b": "USER_ID",
    }
    assert units("CREATE TABLE stays(patient_id INT, ward_id INT)") == {"stays": "patient_id"}


def test_an_id_that_many_tables_share_is_a_unit_and_one_that_few_share_is_not() -> None:
    few = "CREATE TABLE a(case_id INT); CREATE TABLE b(case_id INT);"
    assert units(few) == {}
    assert units(few + "CREATE TABLE c(case_id INT)") == {"a": "case_id", "b": "case_id", "c": "case_id"}


def test_a_reference_of_another_type_is_none() -> None:
    assert units("CREATE TABLE users(id INT PRIMARY KEY); CREATE TABLE a(user_id VARCHAR)") == {"users": "id"}


def test_uniqueness_is_drafted_from_constraints_only() -> None:
    loose = parse_policy(draft("CREATE TABLE people AS SELECT range AS id FROM range(5)").policy)
    assert loose.tables["people"].unit == "id"
    assert not loose.tables["people"].unique
    collated = draft("CREATE TABLE people(id VARCHAR COLLATE NOCASE PRIMARY KEY)").policy
    assert not parse_policy(collated).tables["people"].unique


def test_the_most_referred_to_people_are_the_units() -> None:
    found = units(
        "CREATE TABLE clients(id INT PRIMARY KEY); CREATE TABLE dim_users(user_id INT PRIMARY KEY);"
        "CREATE TABLE a(user_id INT); CREATE TABLE b(user_id INT)"
    )
    assert found == {"dim_users": "user_id", "a": "user_id", "b": "user_id"}


def test_odd_names_survive_the_round_trip() -> None:
    text = draft('CREATE TABLE users(id INT PRIMARY KEY, "no" INT, "a b: #c" INT, "qu""ote" INT, "über" INT)').policy
    assert list(parse_policy(text).tables["users"].columns or ()) == ["id", "no", "a b: #c", 'qu"ote', "über"]


def test_a_name_cannot_break_out_of_its_comment() -> None:
    text = draft(
        'CREATE TABLE "x\n  evil: {public: true}\n"(a INT);'
        'CREATE TABLE users(id INT PRIMARY KEY, "y\n  evil: {public: true}" INT);'
        'CREATE TABLE "two\u2028lines"(a INT)'
    ).policy
    assert list(parse_policy(text).tables) == ["users"]
    assert list(parse_policy(text).tables["users"].columns or ()) == ["id"]


def test_an_empty_database_has_an_empty_policy() -> None:
    assert units("SELECT 1") == {}


def test_dataset_names_are_quoted_where_yaml_would_misread_them() -> None:
    for name in ("no", "2024", "a: b", "shop"):
        assert parse_policy(draft("CREATE TABLE users(id INT)", name).policy).dataset == name


def test_write_draft_keeps_the_observed_file_to_the_steward(shop: PolicyDraft, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        policy, observed = write_draft(shop, tmp_path / "policy.yaml")
    finally:
        os.umask(before)
    assert (policy, observed) == (tmp_path / "policy.yaml", tmp_path / "policy.observed.yaml")
    assert stat.S_IMODE(observed.stat().st_mode) == 0o600
    assert load_policy(policy).dataset == "shop"
    assert observed.read_text(encoding="utf-8") == shop.observed


def test_the_observed_file_is_created_private(
    shop: PolicyDraft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode is right in the very call that creates the file, and that call cannot open an existing one."""
    calls: list[tuple[str, int, int]] = []
    real = os.open

    def spy(path: Path, flags: int, mode: int = 0o777) -> int:
        calls.append((Path(path).name, flags, mode))
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", spy)
    write_draft(shop, tmp_path / "policy.yaml")
    name, flags, mode = calls[0]
    assert (name, mode) == ("policy.observed.yaml", 0o600)
    assert flags & os.O_EXCL
    assert flags & os.O_CREAT


@pytest.mark.parametrize("taken", ["policy.yaml", "policy.observed.yaml"])
def test_an_existing_file_is_never_replaced(shop: PolicyDraft, tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("mine", encoding="utf-8")
    with pytest.raises(PolicyError, match="exists already") as caught:
        write_draft(shop, tmp_path / "policy.yaml")
    assert taken in caught.value.message
    assert "another path" in str(caught.value.hint)
    assert [each.name for each in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text(encoding="utf-8") == "mine"


def test_a_dangling_link_is_not_followed(shop: PolicyDraft, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.yaml"
    (tmp_path / "policy.observed.yaml").symlink_to(target)
    with pytest.raises(PolicyError, match="exists already"):
        write_draft(shop, tmp_path / "policy.yaml")
    assert not target.exists()


def test_a_lost_race_leaves_no_observed_file_behind(
    shop: PolicyDraft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.yaml").write_text("mine", encoding="utf-8")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with pytest.raises(PolicyError, match="exists already"):
        write_draft(shop, tmp_path / "policy.yaml")
    assert [each.name for each in tmp_path.iterdir()] == ["policy.yaml"]


def test_a_path_that_cannot_be_written(shop: PolicyDraft, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be written"):
        write_draft(shop, tmp_path / "no" / "policy.yaml")


@pytest.mark.parametrize(
    ("plural", "single"),
    [
        ("orders", "order"),
        ("Companies", "company"),
        ("people", "person"),
        ("address", "address"),
        ("staff", "staff"),
    ],
)
def test_singular(plural: str, single: str) -> None:
    assert singular(plural) == single
