"""Accounts inside an analyst's: purposes, windows of the calendar, and which change of them is a rise."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from postgres_server import a_place

from dpsql.budget import Caps, ChainedLedger, Cost, ErrorBar, Request, Spent, open_ledger, pure_charge
from dpsql.budget.ledger import chained_ledger, sqlite_file
from dpsql.budget.ledger import entries as hash_chain
from dpsql.budget.ledger.account_state import end_of_chain
from dpsql.budget.ledger.entries import ROOT, next_entry
from dpsql.budget.ledger.rollback_guard import RollbackGuard
from dpsql.errors import BudgetExceeded, LedgerError

TENTH = pure_charge(0.1)
MONTHLY = Caps(0.2, 0, "month")
SetClock = Callable[[str], None]


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    def to(text: str) -> None:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
        monkeypatch.setattr(hash_chain, "now", lambda: moment)
        monkeypatch.setattr(chained_ledger, "now", lambda: moment)

    to("2026-11-30T23:59:00")
    return to


@pytest.fixture(params=["file", "memory"])
def book(request: pytest.FixtureRequest, tmp_path: Path, set_clock: SetClock) -> Iterator[ChainedLedger]:
    with open_ledger(a_place(request, tmp_path), "shop") as opened:
        yield opened


def ask(
    caps: Caps | None = MONTHLY,
    *,
    analyst: str = "ana",
    purpose: str | None = None,
    purpose_caps: Caps | None = None,
    everyone: Caps = Caps(1.05, 0),  # noqa: B008
    error: ErrorBar | None = None,
) -> Request:
    cost = Cost(0.1, 0.0, 0.0)
    return Request(analyst, TENTH, cost, everyone, caps, "SELECT 1", (b"f",), purpose, purpose_caps, error)


def sums(times: int) -> Spent:
    spent = Spent()
    for _ in range(times):
        spent = spent.after(TENTH)
    return spent


def test_an_account_starts_afresh_with_the_window_and_the_dataset_never_does(
    book: ChainedLedger, set_clock: SetClock
) -> None:
    for month in range(5):
        set_clock(f"2027-{month + 1:02}-01T00:00:00")
        book.reserve(ask())
        set_clock(f"2027-{month + 1:02}-28T23:59:59")
        book.reserve(ask())
        with pytest.raises(BudgetExceeded, match=f"or wait until 2027-{month + 2:02}-01" if month < 4 else "everyone"):
            book.reserve(ask())
        assert book.standing("ana", MONTHLY).spent == sums(2)
    assert book.spent("ana") == book.spent(None) == sums(10)
    set_clock("2028-01-01T00:00:00")
    assert book.standing("ana", MONTHLY).spent == Spent()
    assert book.standing("ana", MONTHLY).renews == date(2028, 2, 1)
    with pytest.raises(BudgetExceeded, match="everyone") as refusal:
        book.reserve(ask())
    assert "wait" not in (refusal.value.hint or "")


def test_impurity_ends_with_its_window(book: ChainedLedger, set_clock: SetClock) -> None:
    from dpsql.budget import zcdp_charge

    caps = Caps(0.5, 1e-6, "day")
    impure = Request("ana", zcdp_charge(1e-4), Cost(0.1, 1e-8, 1e-4), Caps(1, 1e-6), caps, "SELECT 1", ())
    book.reserve(impure)
    assert book.standing("ana", caps).spent.epsilon is None
    set_clock("2026-12-01T00:00:00")
    assert book.standing("ana", caps).spent == Spent()
    assert book.spent("ana").epsilon is None


def test_a_window_survives_reopening(tmp_path: Path, set_clock: SetClock) -> None:
    path = tmp_path / "shop.ledger"
    with open_ledger(path, "shop") as opened:
        opened.reserve(ask())
    set_clock("2026-12-01T00:00:00")
    with open_ledger(path, "shop") as opened:
        opened.reserve(ask())
        assert opened.standing("ana", MONTHLY).spent == sums(1)
        assert opened.spent("ana") == sums(2)


def test_a_clock_that_was_ahead_counts_until_its_day_is_over(book: ChainedLedger, set_clock: SetClock) -> None:
    set_clock("2027-03-15T12:00:00")
    book.reserve(ask())
    book.reserve(ask())
    set_clock("2026-12-02T12:00:00")
    with pytest.raises(LedgerError, match="accept-clock"):
        book.reserve(ask(analyst="bob"))
    book.accept_clock("ste")
    with pytest.raises(BudgetExceeded):
        book.reserve(ask())
    set_clock("2027-03-20T00:00:00")
    with pytest.raises(BudgetExceeded):
        book.reserve(ask())
    set_clock("2027-04-01T00:00:00")
    book.reserve(ask())


def test_a_replay_counts_in_the_window_in_which_it_was_replayed_and_only_once(
    book: ChainedLedger, set_clock: SetClock
) -> None:
    entry = book.reserve(ask(analyst="bob")).entry
    set_clock("2026-12-01T00:00:00")
    assert book.replayed(entry, "ana", MONTHLY)
    assert book.standing("ana", MONTHLY).spent == sums(1)
    assert not book.replayed(entry, "ana", MONTHLY)
    set_clock("2027-01-01T00:00:00")
    assert book.standing("ana", MONTHLY).spent == Spent()
    assert not book.replayed(entry, "ana", MONTHLY)


def test_a_replay_that_does_not_fit_waits_for_the_next_window(book: ChainedLedger, set_clock: SetClock) -> None:
    entries = [book.reserve(ask(analyst="bob", caps=None)).entry for _ in range(3)]
    assert [book.replayed(entry, "ana", MONTHLY) for entry in entries[:2]] == [True, True]
    with pytest.raises(BudgetExceeded, match="wait until 2026-12-01"):
        book.replayed(entries[2], "ana", MONTHLY)
    set_clock("2026-12-01T00:00:00")
    assert book.replayed(entries[2], "ana", MONTHLY)


@pytest.mark.parametrize(
    ("before", "after", "in_force"),
    [
        (None, "month", None),
        ("month", "day", "month"),
        ("month", None, None),
        ("month", "year", "year"),
        ("month", "week", None),
        ("week", "month", None),
    ],
)
def test_a_shorter_window_is_a_rise_and_waits_for_the_steward(
    book: ChainedLedger, before: str | None, after: str, in_force: str | None
) -> None:
    book.reserve(ask(Caps(0.2, 0, before)))
    assert book.in_force("ana", Caps(0.2, 0, after)).every == in_force
    book.reserve(ask(Caps(0.2, 0, after)))
    with pytest.raises(BudgetExceeded) as refusal:
        book.reserve(ask(Caps(0.2, 0, after)))
    assert ("raise-cap" in (refusal.value.hint or "")) == (in_force != after)
    if in_force != after:
        assert book.record_caps("ana", Caps(0.2, 0, after), "ste")
    assert book.in_force("ana", Caps(0.2, 0, after)).every == after
    assert not book.record_caps("ana", Caps(0.2, 0, after), "ste")


def test_no_window_to_a_window_does_not_renew_before_the_steward_says_so(
    book: ChainedLedger, set_clock: SetClock
) -> None:
    for _ in range(2):
        book.reserve(ask(Caps(0.2, 0)))
    set_clock("2027-01-01T00:00:00")
    with pytest.raises(BudgetExceeded, match="raise-cap"):
        book.reserve(ask(MONTHLY))
    book.record_caps("ana", MONTHLY, "ste")
    book.reserve(ask(MONTHLY))
    assert "caps of ana: ε = 0.2, δ = 0, every month; by ste" in [line.text for line in book.log()]


def test_the_cap_of_the_dataset_has_no_window(book: ChainedLedger) -> None:
    with pytest.raises(LedgerError, match="never resets"):
        book.record_caps(None, MONTHLY, "ste")


def test_a_purpose_lies_inside_the_analyst_inside_the_dataset(book: ChainedLedger) -> None:
    def research(caps: Caps = Caps(0.3, 0)) -> Request:  # noqa: B008
        return ask(caps, purpose="research", purpose_caps=Caps(0.2, 0))

    book.reserve(research())
    book.reserve(research())
    with pytest.raises(BudgetExceeded, match=r"left for ana for research: nothing; left for ana: ε = 0\.1;"):
        book.reserve(research())
    book.reserve(ask(Caps(0.3, 0), purpose="report", purpose_caps=Caps(0.3, 0)))
    with pytest.raises(BudgetExceeded, match="left for ana: nothing"):
        book.reserve(ask(Caps(0.3, 0), purpose="report", purpose_caps=Caps(0.3, 0)))
    assert (book.spent("ana", "research"), book.spent("ana", "report"), book.spent("ana")) == (
        sums(2),
        sums(1),
        sums(3),
    )
    assert [line.purpose for line in book.log() if line.kind == "charge"] == ["research", "research", "report"]


def test_a_higher_cap_of_a_purpose_waits_for_the_steward(book: ChainedLedger) -> None:
    low, high = Caps(0.1, 0), Caps(0.2, 0)
    book.reserve(ask(high, purpose="research", purpose_caps=low))
    with pytest.raises(BudgetExceeded, match="raise-cap"):
        book.reserve(ask(high, purpose="research", purpose_caps=high))
    assert book.record_caps("ana", high, "ste", "research")
    book.reserve(ask(high, purpose="research", purpose_caps=high))
    assert "caps of ana for research: ε = 0.2, δ = 0; by ste" in [line.text for line in book.log()]


def test_an_own_release_counts_once_for_each_other_purpose_and_not_again_for_the_analyst(book: ChainedLedger) -> None:
    caps = Caps(0.3, 0)
    entry = book.reserve(ask(caps, purpose="research", purpose_caps=caps)).entry
    assert not book.replayed(entry, "ana", caps, purpose="research", purpose_caps=caps)
    assert book.replayed(entry, "ana", caps, purpose="report", purpose_caps=caps)
    assert not book.replayed(entry, "ana", caps, purpose="report", purpose_caps=caps)
    assert (book.spent("ana"), book.spent("ana", "report")) == (sums(1), sums(1))
    assert book.replayed(entry, "bob", caps, purpose="report", purpose_caps=caps)
    assert book.replayed(entry, "bob", caps, purpose="research", purpose_caps=caps)
    assert (book.spent("bob"), book.spent("bob", "research"), book.spent(None)) == (sums(1), sums(1), sums(1))
    with pytest.raises(BudgetExceeded, match="ana for tiny"):
        book.replayed(entry, "ana", caps, purpose="tiny", purpose_caps=Caps(0.05, 0))


def test_the_last_charge_is_told_with_its_error(book: ChainedLedger) -> None:
    assert book.last("ana") is None
    book.reserve(ask(error=ErrorBar("count(*)", 12.5, "laplace")))
    last = book.last("ana")
    assert last is not None and book.last(None) == last
    assert (last.charge, last.cost.epsilon, last.error) == (TENTH, 0.1, ErrorBar("count(*)", 12.5, "laplace"))
    book.reserve(ask(analyst="bob"))
    assert book.last("ana") == last
    assert book.last(None) == book.last("bob") != last


def test_entries_without_purpose_window_or_error_are_written_as_before(book: ChainedLedger) -> None:
    entry = book.reserve(ask(Caps(0.5, 0), analyst="bob")).entry
    book.replayed(entry, "ana", Caps(0.5, 0))
    gists = {kind: json.loads(gist) for _, kind, gist, _, _ in book.rows()}
    assert [len(gists[kind]) for kind in ("charge", "replay", "caps")] == [4, 2, 3]


def test_a_ledger_of_before_opens_with_its_sums(tmp_path: Path) -> None:
    at = {"at": "2026-01-02T00:00:00+00:00"}
    gist = [TENTH.rho, TENTH.delta, TENTH.epsilon]
    rows = [next_entry(ROOT, 0, "account", ["shop", "00" * 32], at)]
    for kind, told, body in (
        ("caps", ["ana", "1/2", "0"], {**at, "by": "the policy"}),
        ("charge", ["ana", *gist], {**at, "cost": ["0.1", "0.0", "0.0"], "fingerprints": [], "sql": "SELECT 1"}),
        ("replay", ["bob", 3], at),
    ):
        rows.append(next_entry(rows[-1][4], len(rows), kind, told, body))
    path = tmp_path / "old.ledger"
    sqlite_file.create(str(path), rows)
    RollbackGuard(str(path)).create(end_of_chain(str(path), rows))
    with open_ledger(path, "shop") as opened:
        assert opened.spent("ana") == opened.spent("bob") == opened.spent(None) == sums(1)
        assert opened.in_force("ana", Caps(1, 0)) == Caps(0.5, 0)
        last = opened.last("ana")
        assert last is not None and last.error is None


def test_an_entry_without_a_day_is_refused(tmp_path: Path) -> None:
    rows = [next_entry(ROOT, 0, "account", ["shop", "00" * 32], {"at": "2026-01-02T00:00:00+00:00"})]
    body = {"sql": "SELECT 1", "at": "2026-01-02T00:00:00+00:00", "cost": ["0.1", "0.0", "0.0"], "fingerprints": []}
    rows.append(next_entry(rows[-1][4], 1, "charge", ["ana", TENTH.rho, TENTH.delta, TENTH.epsilon], body))
    path = tmp_path / "odd.ledger"
    sqlite_file.create(str(path), rows)
    RollbackGuard(str(path)).create()
    with pytest.raises(LedgerError, match="refused"):
        open_ledger(path, "shop")


def test_the_time_of_an_entry_is_one_that_the_next_day_follows(book: ChainedLedger, set_clock: SetClock) -> None:
    """A clock a little behind the last entry stays in that entry's window."""
    set_clock("2026-12-01T00:00:10")
    book.reserve(ask())
    set_clock("2026-11-30T23:59:50")
    assert book.standing("ana", MONTHLY).spent == sums(1)
    assert book.standing("ana", MONTHLY).renews == date(2026, 12, 1) + timedelta(days=31)
