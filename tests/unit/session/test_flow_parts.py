"""The parts that a session is made of, each by itself: prices, names, places, accounts and what becomes of failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import duckdb
import pandas as pd
import pytest

from dpsql.accounts import REPLAYED, Accounts, known_mechanism, price_of
from dpsql.budget import FREE, Caps, Cost, Ledger, Spent, open_ledger, pure_charge, rho_for
from dpsql.budget.pricing import allocate
from dpsql.budget.shares import Price, share_price
from dpsql.dataset import copies_path, ledger_at, name_in, open_data
from dpsql.errors import InterfaceError, InternalError, LedgerError, ParseError, PolicyError, UnsupportedQuery
from dpsql.options import QueryOptions
from dpsql.policy import Policy, load_policy
from dpsql.query_draft import Draft, Question
from dpsql.steward_log import UNEXPECTED, error_boundary

TABLES = {"t": {"unit": "u", "max_rows_per_unit": 1, "columns": {"x": {"min": 0, "max": 10}}}}
ANALYSTS = {"ana": {"epsilon": 2, "delta": 1e-9, "purposes": {"report": {"epsilon": 1}, "research": {"epsilon": 2}}},
            "bob": {"epsilon": 4}}  # fmt: skip


def policy_of(**parts: Any) -> Policy:
    chosen = {"dataset": "d", "search": False, "budget": {"epsilon": 5, "delta": 1e-6}, "limits": {"epsilon": 3, "delta": 1e-7},
              "defaults": {"epsilon": 0.25, "delta": 1e-8}, "tables": TABLES, **parts}  # fmt: skip
    return load_policy(chosen)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with open_ledger(":memory:", "d") as opened:
        yield opened


def accounts(ledger: Ledger, analyst: str | None = None, purpose: str | None = None, **parts: Any) -> Accounts:
    return Accounts(policy_of(**parts), ledger, analyst, purpose)


CAPS = Caps(1)
LISTED = {"budget": {"epsilon": 5, "delta": 1e-6, "analysts": ANALYSTS}}


@pytest.mark.parametrize(
    ("asked", "price"),
    [
        (QueryOptions(), ("1/4", "1/100000000")),
        (QueryOptions(epsilon=0.1), ("1/10", "1/100000000")),
        (QueryOptions(epsilon=3, delta=1e-7), ("3", "1/10000000")),
        (QueryOptions(delta=0), ("1/4", "0")),
        (QueryOptions(epsilon=Decimal("1e-9")), ("1/1000000000", "1/100000000")),
    ],
)
def test_a_price_is_what_was_asked_else_the_default(
    ledger: Ledger, asked: QueryOptions, price: tuple[str, str]
) -> None:
    made = price_of(asked, accounts(ledger))
    assert (made.epsilon, made.delta, made.rho) == (*map(Fraction, price), None)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (QueryOptions(epsilon=0), "epsilon must be positive, got 0"),
        (QueryOptions(epsilon=-1), "epsilon must be positive, got -1"),
        (QueryOptions(delta=-1e-9), r"delta must be in \[0, 1\), got -1e-09"),
        (QueryOptions(delta=1), r"delta must be in \[0, 1\), got 1"),
        (QueryOptions(delta=1.5), r"delta must be in \[0, 1\), got 1\.5"),
        (QueryOptions(epsilon=0, delta=1), "epsilon must be positive, got 0"),
        (QueryOptions(epsilon=3.001), r"epsilon up to 3, not 3\.001"),
        (QueryOptions(delta=1.01e-7), "delta up to 1E-7, not 1.01e-07"),
        (QueryOptions(delta=0.999), "delta up to"),
        (QueryOptions(epsilon=float("nan")), "is not a valid price"),
    ],
)
def test_what_is_no_price_or_above_the_limit_is_refused(ledger: Ledger, asked: QueryOptions, words: str) -> None:
    with pytest.raises(PolicyError, match=words) as refusal:
        price_of(asked, accounts(ledger))
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("who", "most"), [((None, None), 3), (("ana", None), 2), (("ana", "report"), 1), (("bob", None), 3)]
)
def test_an_accuracy_may_cost_what_one_query_and_the_account_allow(
    ledger: Ledger, who: tuple[str | None, str | None], most: int
) -> None:
    """The smaller of the two, and never more than is asked for."""
    assert price_of(QueryOptions(), accounts(ledger, *who, **LISTED), accurate=True).epsilon == most
    assert price_of(QueryOptions(), accounts(ledger, *who, **LISTED)).epsilon == Fraction(1, 4)
    assert price_of(QueryOptions(epsilon=0.5), accounts(ledger, *who, **LISTED), accurate=True).epsilon == Fraction(
        1, 2
    )


def test_there_are_three_mechanisms_to_ask_for() -> None:
    assert [known_mechanism(name) for name in ("auto", "laplace", "gaussian")] == ["auto", "laplace", "gaussian"]
    for name in ("", "Laplace", "geometric"):
        with pytest.raises(InterfaceError, match="there is no mechanism"):
            known_mechanism(name)


@pytest.mark.parametrize(
    ("who", "delta"),
    [((None, None), "1e-8"), (("ana", None), "1e-9"), (("ana", "report"), "1e-9"), (("bob", None), "1e-8")],
)
def test_the_default_delta_is_never_above_the_cap_of_the_account(
    ledger: Ledger, who: tuple[str | None, str | None], delta: str
) -> None:
    assert accounts(ledger, *who, **LISTED).default_delta == Decimal(delta)
    assert accounts(ledger, *who, **LISTED)._conversion() == Decimal(delta)
    laplace = {"defaults": {"epsilon": 0.25, "delta": 1e-8, "mechanism": "laplace"}}
    assert accounts(ledger, *who, **LISTED, **laplace)._conversion() == 0


@pytest.mark.parametrize("who", [(None, None), ("ana", None), ("ana", "report")])
def test_a_request_names_every_account_of_the_session(ledger: Ledger, who: tuple[str | None, str | None]) -> None:
    analyst, purpose = who
    asking = accounts(ledger, analyst, purpose, **LISTED)
    request = asking.request("SELECT 1", pure_charge(0.5), Cost(0.5, 0.0, 0.0), (b"f",))
    own = None if analyst is None else Caps(Decimal(2), Decimal("1e-9"))
    inner = None if purpose is None else Caps(Decimal(1), Decimal("1e-9"))
    assert request.dataset_caps == Caps(Decimal(5), Decimal("1e-6"))
    assert (request.analyst, request.purpose, request.analyst_caps, request.purpose_caps) == (*who, own, inner)
    assert (request.sql, request.fingerprints, request.charge) == ("SELECT 1", (b"f",), pure_charge(0.5))
    ledger.reserve(request)
    spent = Spent().after(pure_charge(0.5))
    assert [None if each is None else each.spent for each in asking.standings()] == [
        spent, None if analyst is None else spent, None if purpose is None else spent,
    ]  # fmt: skip


def test_anothers_release_is_counted_once_and_said_with_what_it_cost(ledger: Ledger) -> None:
    bob, ana = accounts(ledger, "bob", **LISTED), accounts(ledger, "ana", **LISTED)
    entry = ledger.reserve(bob.request("SELECT 1", pure_charge(0.5), Cost(0.5, 0.0, 0.0), (b"f",))).entry
    ledger.store(entry, b"f", b"x")
    stored = ledger.find(b"f")
    assert stored is not None
    assert bob.count(stored) == ()
    [note] = ana.count(stored)
    assert note.startswith(f"{REPLAYED} (")
    assert ana.count(stored) == ()
    assert ledger.spent("ana") == ledger.spent("bob") == Spent().after(pure_charge(0.5))


def test_who_asks_has_a_name_of_the_policy_unless_it_lists_none() -> None:
    listed, open_to_all = policy_of(**LISTED), policy_of()
    named = {"budget": {"epsilon": 5, "delta": 1e-6, "analysts": {"analyst": {"epsilon": 1}, "ana": {"epsilon": 2}}}}
    assert name_in(open_to_all, None, None, steward=False) == "analyst"
    assert name_in(open_to_all, "eve", None, steward=False) == "eve"
    assert name_in(listed, None, None, steward=True) is None
    assert name_in(listed, "ana", "report", steward=False) == "ana"
    assert name_in(policy_of(**named), None, None, steward=False) == "analyst"
    with pytest.raises(PolicyError, match="lists who may ask, and no name was given"):
        name_in(listed, None, None, steward=False)
    for analyst, purpose in (("ana", "fun"), ("ana", None), ("bob", "report")):
        with pytest.raises(PolicyError, match="purpose"):
            name_in(listed, analyst, purpose, steward=False)


def test_a_ledger_stands_where_it_is_said_else_beside_the_file_of_the_policy(tmp_path: Path) -> None:
    loaded, file = policy_of(), tmp_path / "policy.yaml"
    assert str(ledger_at({}, loaded, ":memory:")) == ":memory:"
    assert str(ledger_at(file, loaded, tmp_path / "x.ledger")) == str(tmp_path / "x.ledger")
    for named in (file, str(file)):
        assert Path(ledger_at(named, loaded, None)).parent == tmp_path
    for nothing in ({}, loaded):
        with pytest.raises(InterfaceError, match="where should the ledger be"):
            ledger_at(nothing, loaded, None)


PREPARED = {"t": {"unit": "u", "max_rows_per_unit": 5, "prepare": "keep", "columns": {"x": {"min": 0, "max": 10}}}}


@pytest.mark.parametrize(
    ("source", "ledger", "tables", "copied"),
    [
        ("shop.duckdb", "/x/shop.ledger", PREPARED, True),
        (Path("shop.duckdb"), Path("/x/shop.ledger"), PREPARED, True),
        ({"t": "t.parquet"}, "/x/shop.ledger", PREPARED, True),
        ({"t": "t.parquet", "s": pd.DataFrame()}, "/x/shop.ledger", PREPARED, False),
        (pd.DataFrame(), "/x/shop.ledger", PREPARED, False),
        ("shop.duckdb", "/x/shop.ledger", TABLES, False),
        ("shop.duckdb", ":memory:", PREPARED, False),
        ("shop.duckdb", "postgresql://host/db", PREPARED, False),
        ("postgresql://host/db", "/x/shop.ledger", PREPARED, False),
    ],
)
def test_copies_stand_beside_the_ledger_where_all_are_files(
    source: Any, ledger: Any, tables: Any, copied: bool
) -> None:
    path = copies_path(policy_of(tables=tables), ledger, source)
    assert path == (Path("/x/d.prepared") if copied else None)


def test_the_database_and_the_ledger_are_opened_both_or_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = {"t": pd.DataFrame({"u": [1], "x": [1.0]})}
    engine, opened = open_data(frames, policy_of(), ":memory:", isolate=False)
    assert opened.place == ":memory:" and not engine.live
    kind = type(engine)
    engine.close()
    opened.close()
    closed: list[object] = []
    monkeypatch.setattr(kind, "close", lambda self: closed.extend([self]))
    (tmp_path / "bad.ledger").write_bytes(b"no ledger")
    with pytest.raises(LedgerError):
        open_data(frames, policy_of(), tmp_path / "bad.ledger", isolate=False)
    assert len(closed) == 1 and isinstance(closed[0], kind)


def test_a_server_is_not_opened_in_a_process_of_its_own() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(InterfaceError, match="only files can be opened in a process of their own"):
        open_data("postgresql://nobody@127.0.0.1:1/x", policy_of(), ":memory:", isolate=True)
    with pytest.raises(InterfaceError, match="the database server cannot be reached"):
        open_data("postgresql://nobody@127.0.0.1:1/x", policy_of(), ":memory:", isolate=False)


def test_a_directory_is_a_database_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    duckdb.sql("SELECT 1 AS u, 2.0::DOUBLE AS x").write_parquet(str(folder / "t.parquet"))
    engine, opened = open_data(str(folder), policy_of(), ":memory:", isolate=False)
    assert "t" in engine.schema()
    engine.close()
    opened.close()


def test_a_refusal_carries_the_text_that_it_points_into_and_keeps_one_that_it_has() -> None:
    for had, carried in ((None, "SELECT 1"), ("inner", "inner")):
        error = UnsupportedQuery("no")
        error.sql = had
        with pytest.raises(UnsupportedQuery) as caught, error_boundary("SELECT 1"):
            raise error
        assert caught.value is error and error.sql == carried


def test_nothing_but_errors_of_dpsql_comes_out_of_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, BaseException]] = []
    monkeypatch.setattr("dpsql.steward_log.failed", lambda text, problem: told.append((text, problem)))
    problem = ZeroDivisionError("of a private value: 17")
    with pytest.raises(InternalError, match=UNEXPECTED) as caught, error_boundary("SELECT 1"):
        raise problem
    assert "17" not in str(caught.value) and caught.value.__cause__ is None
    assert told == [("a query failed unexpectedly", problem)]
    with pytest.raises(ParseError, match="nested too deeply"), error_boundary("SELECT 1"):
        raise RecursionError
    with error_boundary("SELECT 1"):
        pass
    assert len(told) == 1


def test_a_question_is_another_one_if_anything_that_decides_its_answer_is() -> None:
    one = Question("SELECT 1", None, QueryOptions(), QueryOptions(), "duckdb")
    others = [
        Question("SELECT 2", None, QueryOptions(), QueryOptions(), "duckdb"),
        Question("SELECT 1", (1,), QueryOptions(), QueryOptions(), "duckdb"),
        Question("SELECT 1", None, QueryOptions(epsilon=1), QueryOptions(), "duckdb"),
        Question("SELECT 1", None, QueryOptions(), QueryOptions(epsilon=1), "duckdb"),
        Question("SELECT 1", None, QueryOptions(), QueryOptions(), "postgres"),
        Question("SELECT 1", None, QueryOptions(clipped=True), QueryOptions(), "duckdb"),
        one.by("laplace"),
    ]
    assert len({each.key for each in (one, *others)}) == len({each.plan_key("v", CAPS) for each in (one, *others)}) == 8
    assert one.plan_key("v", CAPS) != one.plan_key("v", Caps(2))
    assert one.plan_key("v", CAPS) != one.plan_key("w", CAPS)
    shown = Question("SELECT 1", None, QueryOptions(nonnegative=True), QueryOptions(), "duckdb")
    assert shown.key != one.key and shown.plan_key("v", CAPS) == one.plan_key("v", CAPS)
    assert one.key == Question("SELECT 1", None, QueryOptions(None, nonnegative=False), QueryOptions(), "duckdb").key


def test_a_draft_costs_at_most_what_was_asked_and_what_is_left() -> None:
    draft = Draft("SELECT 1", cast(Any, None), (), Price(Fraction(1), Fraction(0)), "laplace", ())
    assert draft.most.epsilon == draft.leaving(Fraction(2)).most.epsilon == 1
    assert draft.leaving(Fraction(1, 2)).most.epsilon == Fraction(1, 2)
    shared = share_price(Caps(8, Decimal("1e-6")), Fraction(1, 10))
    gaussian = Draft("SELECT 1", cast(Any, None), (), shared, "gaussian", ())
    less = gaussian.leaving(Fraction(1)).most
    assert less.rho == rho_for(1, shared.delta) < shared.rho == gaussian.leaving(Fraction(8)).most.rho
    bill = allocate((), Price(Fraction(1), Fraction(0)), "laplace")
    prepared = draft.at(bill)
    assert prepared.cost == bill.cost == FREE
    assert replace(prepared, total=Cost(0.5, 0.0, 0.1)).cost == Cost(0.5, 0.0, 0.1)
