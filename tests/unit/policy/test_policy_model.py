"""What a right policy says, with the defaults applied."""

from __future__ import annotations

import copy
import pickle
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from pydantic import ValidationError

from dpsql.errors import PolicyError
from dpsql.plan.at_rest import recipe
from dpsql.policy import DeclaredCaps, DeclaredColumn, ForeignKey, Names, Policy, load_policy, parse_policy, to_decimal
from dpsql.policy.searched_subjects import FoundBounds

SHOP = """\
dataset: shop
budget: {epsilon: 10, delta: 1e-6, analysts: {ana: {epsilon: 3, tables: [customers, Orders]}, bob: {}}}
limits: {epsilon: 2, delta: 1e-8}
replay: true
defaults: {epsilon: 0.5, delta: 1e-8, mechanism: auto, max_rows_per_unit: 50, max_groups_per_unit: 10}
tables:
  customers:
    unit: id
    unique: true
    columns: {age: {min: 18, max: 110}, region: {values: [north, south]}, income: {min: 0, max: 1.5}}
  orders:
    unit: {customer_id: customers.id}
    max_rows_per_unit: 5
    columns:
      status: {values: [paid, open], nulls: false}
      placed: {min: 2020-01-01, max: 2026-12-31}
      note:
      x: {}
  visits: {unit: row, columns: {duration: {min: 0, max: 3600}}}
  stores: {public: true}
"""


@pytest.fixture
def shop() -> Policy:
    return parse_policy(SHOP)


def test_every_key_of_the_example_is_read(shop: Policy) -> None:
    assert shop.dataset == "shop"
    assert shop.replay is True
    assert (shop.limits.epsilon, shop.limits.delta, shop.limits.max_public_keys) == (
        2,
        Decimal("1e-8"),
        100_000,
    )
    assert shop.defaults.mechanism == "auto"
    customers, orders = shop.tables["customers"], shop.tables["orders"]
    assert (customers.unit, customers.unit_column, customers.unique, customers.private) == (
        "id",
        "id",
        True,
        True,
    )
    assert orders.unit == ForeignKey(column="customer_id", references="customers.id")
    assert orders.unit_column == "customer_id"
    assert orders.columns is not None
    assert orders.columns["placed"] == DeclaredColumn(min=date(2020, 1, 1), max=date(2026, 12, 31))
    assert orders.columns["status"].values == ("paid", "open")
    assert orders.columns["status"].nulls is False
    assert orders.columns["note"] == orders.columns["x"] == DeclaredColumn()
    assert shop.tables["visits"].by_row
    assert shop.tables["visits"].unit_column is None
    assert shop.tables["stores"].public
    assert not shop.tables["stores"].private


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (True, None),
        ({"keep": "forever"}, None),
        ({}, None),
        ({"keep": "12 hours"}, timedelta(hours=12)),
        ({"keep": "1 day"}, timedelta(days=1)),
        ({"keep": "2 Weeks"}, timedelta(days=14)),
    ],
)
def test_how_long_answers_are_kept(written: object, kept: timedelta | None) -> None:
    policy = load_policy(minimal(replay=written))
    assert policy.replay and policy.keep == kept
    assert load_policy(policy.model_dump()) == policy


def test_a_foreign_key_names_its_fact(shop: Policy) -> None:
    link = shop.tables["orders"].unit
    assert isinstance(link, ForeignKey)
    assert (link.table, link.key, link.fact) == ("customers", "id", "foreign_key:customer_id->customers.id")


def test_rows_and_groups_per_unit(shop: Policy) -> None:
    assert [shop.rows_per_unit(name) for name in ("customers", "orders", "visits")] == [1, 5, 1]
    assert [shop.groups_per_unit(name) for name in ("customers", "orders", "visits")] == [1, 5, 1]
    plain = load_policy(minimal(tables={"t": {"unit": "u"}, "s": {"unit": "u", "max_groups_per_unit": 70}}))
    assert (plain.rows_per_unit("t"), plain.groups_per_unit("t")) == (50, 10)
    assert (plain.rows_per_unit("s"), plain.groups_per_unit("s")) == (50, 70)


@pytest.mark.parametrize("table", ["stores", "nowhere"])
def test_units_of_a_public_or_unknown_table_are_refused(shop: Policy, table: str) -> None:
    with pytest.raises(PolicyError, match=f"{table} is not a private table"):
        shop.rows_per_unit(table)


def test_tables_for_an_analyst(shop: Policy) -> None:
    assert shop.tables_for("ana") == ("customers", "orders")
    assert shop.tables_for("bob") == shop.tables_for(None) == ("customers", "orders", "visits", "stores")


def test_caps_nest(shop: Policy) -> None:
    assert shop.caps() == shop.caps("bob") == DeclaredCaps(Decimal(10), Decimal("1e-6"))
    assert shop.caps("ana") == DeclaredCaps(Decimal(3), Decimal("1e-6"))


@pytest.mark.parametrize("stranger", ["eve", "ANA", ""])
def test_an_analyst_who_is_not_listed_has_no_account(shop: Policy, stranger: str) -> None:
    with pytest.raises(PolicyError, match="has no analyst") as caught:
        shop.caps(stranger)
    assert "ana" not in str(caught.value).replace("analyst", "").replace("ANA", "")
    with pytest.raises(PolicyError, match="has no analyst"):
        shop.tables_for(stranger)


def test_a_policy_that_lists_nobody_admits_everybody() -> None:
    policy = load_policy(minimal())
    assert policy.tables_for("eve") == ("t",)
    assert policy.caps("eve") == policy.caps()


def test_what_is_left_out_follows_from_the_budget() -> None:
    policy = load_policy(minimal(budget={"epsilon": 0.2, "delta": 1e-6}))
    assert (policy.limits.epsilon, policy.limits.delta) == (Decimal("0.2"), Decimal("1e-6"))
    assert (policy.defaults.epsilon, policy.defaults.delta) == (Decimal("0.2"), Decimal("1e-8"))
    small = load_policy(minimal(budget={"epsilon": 9, "delta": 1e-6}, limits={"epsilon": 0.3, "delta": 1e-9}))
    assert (small.defaults.epsilon, small.defaults.delta) == (Decimal("0.3"), Decimal("1e-9"))
    pure = load_policy(minimal())
    assert pure.limits.delta == pure.defaults.delta == 0


@pytest.mark.parametrize("written", [0.1, "0.1", Decimal("0.1")])
def test_a_tenth_stays_a_tenth(written: object) -> None:
    policy = load_policy(minimal(budget={"epsilon": written}))
    assert Fraction(policy.budget.epsilon) == Fraction(1, 10)
    assert Fraction(to_decimal(written)) * 10 == 1


def test_names_are_found_in_any_case_and_keep_their_spelling(shop: Policy) -> None:
    assert shop.tables["ORDERS"] is shop.tables["orders"]
    assert "Customers" in shop.tables
    assert "É" not in Names({"é": 1})
    assert list(Names({"Ab": 1})) == ["Ab"]
    assert Names({"Ab": 1}).spelling("aB") == "Ab"


def test_a_policy_is_immutable(shop: Policy) -> None:
    with pytest.raises(ValidationError):
        shop.replay = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        shop.tables["visits"] = shop.tables["stores"]  # type: ignore[index]
    with pytest.raises(ValidationError):
        shop.tables["stores"].public = False  # type: ignore[misc]


def test_a_policy_survives_copies_and_dumps(shop: Policy) -> None:
    assert load_policy(shop) is shop
    assert load_policy(shop.model_dump()) == shop
    assert pickle.loads(pickle.dumps(shop)) == shop
    assert copy.deepcopy(shop) == shop
    assert hash(copy.deepcopy(shop)) == hash(shop)
    assert '"epsilon":"10"' in shop.model_dump_json()
    assert load_policy({**shop.model_dump(), "replay": False}) != shop


def test_time_stamps_are_read_in_utc() -> None:
    policy = parse_policy(
        "dataset: d\nbudget: {epsilon: 1}\n"
        "tables: {t: {unit: u, columns: {c: {min: 2020-01-01T00:00:00+02:00, max: 2020-01-02 10:00:00}}}}"
    )
    assert policy.tables["t"].columns is not None
    column = policy.tables["t"].columns["c"]
    assert (column.min, column.max) == (datetime(2019, 12, 31, 22), datetime(2020, 1, 2, 10))


def test_bounds_in_quotes_are_bounds() -> None:
    columns = {"a": {"min": "2020-01-01"}, "b": {"min": "1e3", "max": "2_000"}, "c": {"max": 0.1}}
    read = load_policy(minimal(tables={"t": {"unit": "u", "columns": columns}})).tables["t"].columns
    assert read is not None
    assert read["a"].min == date(2020, 1, 1)
    assert (read["b"].min, read["b"].max) == (1000, 2000)
    assert read["c"].max == Decimal("0.1")


def test_a_unit_column_may_have_bounds_and_a_path_may_have_steps() -> None:
    policy = load_policy(
        minimal(
            tables={
                "people": {"unit": "household", "columns": {"id": None, "Household": {"min": 0, "max": 9}}},
                "orders": {"unit": {"person": "people.id"}, "columns": {"id": {}}},
                "lines": {"unit": {"order_id": "ORDERS.ID"}},
            }
        )
    )
    assert policy.tables["lines"].unit_column == "order_id"


def test_a_policy_without_tables_is_empty_not_wrong() -> None:
    assert parse_policy("dataset: d\nbudget: {epsilon: 1}\ntables:\n").tables_for(None) == ()


def minimal(**changes: object) -> dict[str, object]:
    return {"dataset": "d", "budget": {"epsilon": 1}, "tables": {"t": {"unit": "u"}}, **changes}


def test_the_recipe_of_a_prepared_copy_is_that_of_existing_ledgers() -> None:
    """A digest that changed would make every copy that was prepared before worthless."""
    columns = {"amount": {"min": 0, "max": 500}, "status": {"values": ["paid", "open"]}, "tip": {}}
    orders = {"unit": "customer", "max_rows_per_unit": 3, "prepare": "weigh", "columns": columns}
    policy = load_policy({"dataset": "shop", "budget": {"epsilon": 1}, "tables": {"orders": orders}})
    assert recipe(policy, "orders") == "ec319df38dee05f8e7bb63aab96b071b"


@pytest.mark.parametrize(("found", "wider"), [
    ((6, 45), (Decimal("1.5"), 180)), ((0, 10), (0, 40)), ((-8, 10), (-32, 40)), ((-10, 0), (-40, 0)),
    ((-20, -2), (-80, Decimal("-0.5"))),
])  # fmt: skip
def test_where_vectors_are_clipped_found_bounds_reach_further_at_both_ends(
    found: tuple[int, int], wider: tuple[Decimal, Decimal]
) -> None:
    """Few units are seen in each bucket: those below the lowest one that stands out are not moved up to it."""
    made = FoundBounds(*found, usual=(1.0, 2.0)).wider()
    assert (made.lower, made.upper, made.usual) == (*wider, (1.0, 2.0))
