"""Analysts in a policy: the columns they may see, their purposes, and windows of the calendar."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pytest

from dpsql.errors import PolicyError
from dpsql.policy import DeclaredCaps, Policy, check_facts, load_policy, parse_policy

TABLES: dict[str, Any] = {
    "orders": {"unit": "customer_id", "columns": {"amount": {"min": 0, "max": 5}, "status": {"values": ["paid"]}}},
    "stores": {"public": True},
}


def policy(**ana: Any) -> Policy:
    budget = {"epsilon": 10, "delta": 1e-6, "analysts": {"ana": ana, "bob": None}}
    return load_policy({"dataset": "shop", "budget": budget, "tables": TABLES})


def mistake(**ana: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        policy(**ana)
    return str(caught.value)


def test_columns_are_granted_table_by_table() -> None:
    shop = policy(tables={"Orders": ["Amount", "customer_id"], "stores": "all"})
    assert shop.tables_for("ana") == ("orders", "stores")
    assert shop.columns_for("ana", "orders") == {"amount", "customer_id"}
    assert shop.columns_for("ana", "stores") is shop.columns_for("bob", "orders") is None
    assert shop.columns_for(None, "orders") is None
    assert not shop.sees_all("ana") and shop.sees_all("bob")


def test_a_table_list_grants_all_columns() -> None:
    assert policy(tables=["orders"]).columns_for("ana", "orders") is None


def test_a_policy_with_accounts_can_be_written_and_read_again() -> None:
    shop = policy(epsilon=3, every="month", tables={"orders": ["amount"]}, purposes={"research": {"epsilon": 1}})
    assert load_policy(shop.model_dump(mode="python")) == shop


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"ordres": "all"}, "budget.analysts.ana.tables.ordres: there is no table ordres"),
        ({"orders": ["amuont"]}, "tables.orders.0: the policy names no column amuont in orders\nhint: did you mean amount?"),
        ({"orders": None}, "null is neither `all` nor a list of columns"),
        ({"orders": "amount"}, "'amount' is neither `all` nor a list of columns"),
        ("orders", "is not a list of tables"),
        ({"orders": "all", "ORDERS": []}, "the same name to SQL"),
        (["orders", "x"], "budget.analysts.ana.tables.1: there is no table x"),
    ],
)  # fmt: skip
def test_wrong_grants_are_named(tables: object, said: str) -> None:
    assert said in mistake(tables=tables)


def test_purposes_have_caps_inside_the_analysts() -> None:
    shop = policy(epsilon=3, every="quarter", purposes={"report": {"epsilon": 1, "every": "year"}, "research": None})
    assert shop.caps("ana") == DeclaredCaps(Decimal(3), Decimal("1e-6"), "quarter")
    assert shop.caps("ana", "report") == DeclaredCaps(Decimal(1), Decimal("1e-6"), "year")
    assert shop.caps("ana", "research") == shop.caps("ana")
    assert shop.caps() == shop.caps("bob") == DeclaredCaps(Decimal(10), Decimal("1e-6"), None)
    assert shop.accounts() == [(None, None), ("ana", None), ("ana", "report"), ("ana", "research"), ("bob", None)]


def test_a_connection_names_a_purpose_exactly_where_there_are_some() -> None:
    shop = policy(purposes={"report": None, "research": None})
    shop.check_purpose("ana", "report")
    shop.check_purpose("bob", None)
    for who, purpose, said in (
        ("ana", None, "a purpose is required"),
        ("ana", "Report", "no purpose 'Report'"),
        ("bob", "report", "has no purpose 'report'"),
        (None, "report", "has no purpose 'report'"),
    ):
        with pytest.raises(PolicyError, match=said):
            shop.check_purpose(who, purpose)


@pytest.mark.parametrize(
    ("ana", "said"),
    [
        ({"every": "fortnight"}, "'fortnight' is not a calendar window"),
        ({"every": "monthly"}, "did you mean month?"),
        ({"every": 7}, "7 is not a calendar window"),
        ({"epsilon": 1, "purposes": {"p": {"epsilon": 2}}}, "purposes.p.epsilon: 2 is above the cap of ana, 1"),
        ({"purposes": {"p": {"epsilon": 20}}}, "20 is above the dataset's cap, 10"),
        ({"epsilon": 1, "every": "month", "purposes": {"p": {"epsilon": 11, "every": "year"}}}, "above the dataset's cap"),
        ({"purposes": {"p": {"epsilom": 1}}}, "did you mean `epsilon`?"),
        ({"purposes": {"p": {"epsilon": 0}}}, "epsilon must be greater than 0"),
        ({"purposes": {"p": None, "P": None}}, "the same name"),
    ],
)  # fmt: skip
def test_wrong_accounts_are_named(ana: dict[str, Any], said: str) -> None:
    assert said in mistake(**ana)


def test_a_purpose_of_a_longer_window_may_have_more_than_the_analysts_own() -> None:
    shop = policy(epsilon=1, every="month", purposes={"p": {"epsilon": 5, "every": "year"}})
    assert shop.caps("ana", "p").epsilon == 5


def test_the_line_of_a_wrong_purpose_is_told() -> None:
    text = "dataset: d\nbudget:\n  epsilon: 1\n  analysts:\n    ana:\n      purposes:\n        p: {epsilon: 2}\ntables:\n  t: {unit: row}\n"
    with pytest.raises(PolicyError, match=r"line 7: budget\.analysts\.ana\.purposes\.p\.epsilon"):
        parse_policy(text)


@pytest.mark.parametrize("mode", ["python", "json"])
@pytest.mark.parametrize("tables", [["orders"], {"Orders": ["amount"], "stores": "all"}, None])
def test_what_an_analyst_may_see_is_written_as_it_is_read(tables: object, mode: str) -> None:
    """Another process gets the policy in this form: one with the engine (`--isolate`), or a server under audit."""
    written = policy(tables=tables).model_dump(mode=mode)["budget"]["analysts"]["ana"]["tables"]
    assert load_policy(policy(tables=tables).model_dump(mode="python")) == policy(tables=tables)
    assert written is None or type(written) in (tuple, list, dict)
    assert policy(tables=written) == policy(tables=tables)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 0, 5e-324, "1e-310", "nan", True, None.__class__])
@pytest.mark.parametrize("where", ["budget", "analyst", "purpose", "limits", "defaults"])
def test_what_is_no_price_is_refused_everywhere(value: object, where: str) -> None:
    wrong = {"epsilon": value}
    ana = wrong if where == "analyst" else {"purposes": {"p": wrong if where == "purpose" else {}}}
    document = {
        "dataset": "d",
        "budget": {"epsilon": value if where == "budget" else 1, "analysts": {"ana": ana}},
        "limits": wrong if where == "limits" else {},
        "defaults": wrong if where == "defaults" else {},
        "tables": {"t": {"unit": "row"}},
    }
    with pytest.raises(PolicyError, match="epsilon"):
        load_policy(document)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e-9, 1, 0.5, 5e-324, "1e-310"])
def test_what_is_no_delta_is_refused(value: object) -> None:
    with pytest.raises(PolicyError, match="delta"):
        load_policy({"dataset": "d", "budget": {"epsilon": 1, "delta": value}, "tables": {"t": {"unit": "row"}}})


def test_check_reminds_of_windows() -> None:
    shop = policy(epsilon=1, every="month", purposes={"p": {"every": "year"}})
    with duckdb.connect() as db:
        db.execute("CREATE TABLE orders (customer_id INT, amount INT, status VARCHAR); CREATE TABLE stores (s INT)")
        findings = [f for f in check_facts(db, shop) if f.table == "budget"]
    assert [(f.fact, f.ok) for f in findings] == [("ana", True), ("ana for p", True)]
    assert "resets every month" in findings[0].text and "adds up" in findings[0].text
