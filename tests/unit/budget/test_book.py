"""What entries add up to: for whom, on which day, and what is yet owed; an entry that is not the next one is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import pytest

from dpsql.budget import Caps, Charge, Spent
from dpsql.budget.ledger.account_state import (
    EVERYONE,
    AccountState,
    DailySums,
    RunningSums,
    exactly,
    write_caps,
    write_charge,
    write_sums,
)
from dpsql.budget.ledger.entries import ROOT, Entry, next_entry
from dpsql.errors import LedgerError

SALT = "5a" * 32
ONE, TWO, IMPURE = Charge(1, 0, 10), Charge(2, 0, 20), Charge(4, 7)


def chain(*entries: tuple[str, list[Any], str], body: dict[str, Any] | None = None) -> list[Entry]:
    """Rows of kind, gist and day, after the first entry."""
    rows = [next_entry(ROOT, 0, "account", ["shop", SALT], {"at": "2026-01-01T00:00:00+00:00"})]
    for kind, gist, day in entries:
        told = {"at": f"{day}T12:00:00+00:00", **(body or {})}
        rows.append(next_entry(rows[-1][4], len(rows), kind, gist, told))
    return rows


def book_of(*entries: tuple[str, list[Any], str], body: dict[str, Any] | None = None) -> AccountState:
    book = AccountState()
    book.extend(chain(*entries, body=body))
    return book


def charge(whose: tuple[str | None, str | None], cost: Charge, day: str = "2026-03-01") -> tuple[str, list[Any], str]:
    return "charge", write_charge(whose, cost), day


def test_a_new_book_holds_nothing() -> None:
    book = AccountState()
    assert (book.number, book.head, book.previous, book.at) == (0, ROOT, ROOT, None)
    assert book.spent(EVERYONE) == book.spent(("ana", None)) == Spent() == RunningSums().spent()
    assert book.latest(EVERYONE) is None


def test_the_first_entry_names_the_dataset_and_its_salt_and_no_later_one_does() -> None:
    book = book_of()
    assert (book.dataset, book.salt, book.number) == ("shop", bytes.fromhex(SALT), 1)
    assert book.at == datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(LedgerError, match="entry 2 is of a kind that this dpsql does not know"):
        book_of(("account", ["bank", SALT], "2026-03-01"))


def test_entries_are_taken_in_once_and_the_two_last_hashes_are_known() -> None:
    rows, book = chain(charge(("ana", None), ONE), charge(("bob", None), TWO)), AccountState()
    book.extend(rows[:1])
    assert (book.number, book.previous, book.head) == (1, ROOT, rows[0][4])
    book.extend(rows[1:])
    assert (book.number, book.previous, book.head) == (3, rows[1][4], rows[2][4])
    assert book.at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    book.extend([])
    assert (book.number, book.head, book.spent(EVERYONE)) == (3, rows[2][4], Spent(3, 0, 30))


@pytest.mark.parametrize("place", range(5))
def test_an_entry_that_was_changed_stops_the_book_at_the_one_before(place: int) -> None:
    """Its number, kind, gist, body or hash."""
    rows = chain(charge(("ana", None), ONE), charge(("ana", None), ONE))
    changes: tuple[Any, ...] = (7, "version", '["ana",1,0,9]', '{"at":"2026-03-02"}', b"\0" * 32)
    changed = list(rows[2])
    changed[place] = changes[place]
    book = AccountState()
    with pytest.raises(LedgerError, match="entry 3 is missing or was changed"):
        book.extend([*rows[:2], tuple(changed)])  # type: ignore[list-item]
    assert (book.number, book.head, book.previous) == (2, rows[1][4], rows[0][4])
    assert book.spent(EVERYONE) == Spent(1, 0, 10)


def test_an_entry_left_out_is_missed() -> None:
    rows = chain(charge(("ana", None), ONE), charge(("ana", None), ONE))
    with pytest.raises(LedgerError, match="entry 2 is missing"):
        AccountState().extend([rows[0], rows[2]])


def test_a_charge_counts_for_its_analyst_its_purpose_and_everyone() -> None:
    book = book_of(
        charge(("ana", None), ONE), charge(("ana", "research"), TWO), charge(("bob", "research"), IMPURE),
        charge((None, None), ONE),
    )  # fmt: skip
    assert book.spent(("ana", None)) == Spent(3, 0, 30)
    assert book.spent(("ana", "research")) == Spent(2, 0, 20)
    assert book.spent(("bob", None)) == book.spent(("bob", "research")) == Spent(4, 7, None)
    assert book.spent(EVERYONE) == Spent(8, 7, None)
    assert book.spent(("eve", None)) == book.spent(("ana", "report")) == Spent()
    assert [book.payer(entry) for entry in (2, 3, 5)] == [("ana", None), ("ana", "research"), (None, None)]
    assert [book.charge(entry) for entry in (2, 3, 4)] == [ONE, TWO, IMPURE]
    assert set(book.days) == {("ana", None), ("ana", "research"), ("bob", None), ("bob", "research")}


def test_one_impure_charge_ends_purity_whenever_it_comes() -> None:
    for charges in ((IMPURE, ONE), (ONE, IMPURE)):
        sums = RunningSums()
        for each in charges:
            sums.add(each.rho, each.delta, each.epsilon)
        assert sums.spent() == Spent(5, 7, None)


def test_an_account_spends_on_days_and_a_window_counts_from_its_first_day_on() -> None:
    days = ("2026-02-28", "2026-03-01", "2026-03-31", "2026-04-01")
    book = book_of(*(charge(("ana", None), ONE, day) for day in days))
    monthly, ana = Caps(1, 0, "month"), ("ana", None)
    assert [book.spent(ana, since).rho for since in (None, date(2026, 2, 28), date(2026, 3, 1), date(2026, 4, 2))] == [
        4,
        4,
        3,
        0,
    ]
    assert [book.spent_in(ana, monthly, date(2026, month, 15)).rho for month in (2, 3, 4, 5)] == [4, 3, 1, 0]
    assert book.spent_in(ana, Caps(1, 0), date(2026, 5, 15)).rho == 4
    assert book.spent_in(EVERYONE, monthly, date(2026, 5, 15)).rho == 4


def test_only_days_of_the_calendar_are_days() -> None:
    days = DailySums()
    days["2026-03-01"].add(1, 2, 3)
    assert days["2026-03-01"].spent() == Spent(1, 2, 3)
    with pytest.raises(ValueError, match=r"month|isoformat"):
        days["2026-13-01"]
    assert list(days) == ["2026-03-01"]


def test_a_release_is_kept_by_the_entry_that_paid_for_it_and_once() -> None:
    paid = {"fingerprints": ["aa", "bb"], "recipe": {"x": 1}}
    book = book_of(
        charge(("ana", None), ONE),
        ("release", [2, "aa", "digest", "family", 1, 0, 10], "2026-03-02"),
        ("release", [2, "bb", "other"], "2026-03-03"),
        charge(("bob", None), TWO),
        body=paid,
    )
    assert [book.may_keep(5, name) for name in ("aa", "bb", "cc")] == [True, True, False]
    assert [book.may_keep(entry, "aa") for entry in (1, 2, 3, 6)] == [False] * 4
    assert not book.may_keep(2, "bb")
    [aa], [bb] = book.kept["aa"], book.kept["bb"]
    assert (aa.number, aa.entry, aa.fingerprint, aa.digest, aa.charge) == (3, 2, "aa", "digest", [1, 0, 10])
    assert (bb.number, bb.digest, bb.charge) == (4, "other", None)
    assert aa.told()["recipe"] == {"x": 1} and aa.told()["at"].startswith("2026-03-02")
    assert dict(book.families) == {"family": [aa]} and book.numbered == {3: aa, 4: bb}
    assert book.details(2)["fingerprints"] == ["aa", "bb"]


def releases() -> list[tuple[str, list[Any], str]]:
    """Entry 2 of ana's research cost TWO, release 3 of it ONE; of release 4 the part is not known."""
    return [
        charge(("ana", "research"), TWO),
        ("release", [2, "aa", "d", "f", *write_sums(ONE)], "2026-03-02"),
        ("release", [2, "bb", "d"], "2026-03-02"),
    ]


def test_a_release_costs_its_own_part_where_that_is_known_and_else_the_whole_entry() -> None:
    book = book_of(*releases())
    assert [book.charge(2), book.charge(2, 3), book.charge(2, 4)] == [TWO, ONE, TWO]


ANA, RESEARCH, REPORT = ("ana", None), ("ana", "research"), ("ana", "report")


@pytest.mark.parametrize(
    ("whose", "owing"),
    [
        ((None, None), []),
        (ANA, []),
        (RESEARCH, []),
        (REPORT, [REPORT]),
        (("bob", None), [("bob", None)]),
        (("bob", "research"), [("bob", None), ("bob", "research")]),
    ],
)
@pytest.mark.parametrize("release", [None, 3])
def test_who_has_not_paid_owes_for_the_analyst_and_for_the_purpose(
    whose: tuple[str | None, str | None], owing: list[Any], release: int | None
) -> None:
    assert book_of(*releases()).owes(2, whose, release) == owing


def test_a_release_of_the_steward_is_owed_by_every_analyst_and_never_by_the_steward() -> None:
    book = book_of(charge((None, None), ONE))
    assert book.owes(2, ("ana", "research")) == [ANA, RESEARCH]
    assert book.owes(2, (None, None)) == book.owes(2, (None, "research")) == []


def test_a_replay_counts_on_its_day_what_was_not_paid_yet() -> None:
    def replay(*gist: Any) -> tuple[str, list[Any], str]:
        return "replay", list(gist), "2026-03-05"

    book = book_of(*releases(), replay("bob", 2, 3))
    assert book.spent(("bob", None)) == Spent(1, 0, 10) == book.spent(("bob", None), date(2026, 3, 5))
    assert book.spent(("bob", None), date(2026, 3, 6)) == Spent()
    assert book.owes(2, ("bob", None), 3) == [] != book.owes(2, ("bob", None), 4)
    assert book.spent(EVERYONE) == Spent(2, 0, 20)
    book = book_of(*releases(), replay("bob", 2, 3), replay("bob", 2, 3, "report"), replay("bob", 2, 4))
    assert (book.spent(("bob", None)), book.spent(("bob", "report"))) == (Spent(3, 0, 30), Spent(1, 0, 10))
    book = book_of(*releases(), replay("bob", 2))
    assert book.owes(2, ("bob", None), 3) == book.owes(2, ("bob", None), 4) == book.owes(2, ("bob", None)) == []
    assert book.spent(("bob", None)) == Spent(2, 0, 20)
    book = book_of(*releases(), replay("ana", 2, None, "report"))
    assert (book.spent(ANA), book.spent(REPORT)) == (Spent(2, 0, 20), Spent(2, 0, 20))


def test_the_last_charge_is_that_of_the_account_which_is_asked_for() -> None:
    book = book_of(
        charge(("ana", None), ONE), charge(("ana", "research"), ONE), charge(("bob", None), ONE),
        charge((None, None), ONE), ("clock", [], "2026-03-02"),
    )  # fmt: skip
    asked = [ANA, RESEARCH, REPORT, ("bob", None), ("eve", None), EVERYONE]
    assert [book.latest(whose) for whose in asked] == [3, 3, None, 4, None, 5]


def test_acts_of_the_steward_are_read() -> None:
    book = book_of(
        ("fact", ["t", "unique", "v1"], "2026-03-01"),
        ("caps", ["ana", "1/2", "0"], "2026-03-01"),
        ("caps", ["ana", "1/4", "1/1000", "research", "month"], "2026-03-01"),
        ("caps", [None, "3", "0"], "2026-03-01"),
        ("version", ["v2"], "2026-03-01"),
        ("restore", [5, 6, None], "2026-03-01"),
        ("clock", [], "2026-03-01"),
        ("migrate", [], "2026-03-01"),
    )
    assert dict(book.facts) == {"v1": {("t", "unique")}}
    assert book.caps == {
        ANA: Caps(Fraction(1, 2), Fraction(0)),
        RESEARCH: Caps(Fraction(1, 4), Fraction(1, 1000), "month"),
        EVERYONE: Caps(Fraction(3), Fraction(0)),
    }
    assert (book.label, book.number) == ("v2", 9)
    assert book.spent(EVERYONE) == Spent(5, 6, None)
    for kind in ("refund", "clocks", ""):
        with pytest.raises(LedgerError, match="kind"):
            book_of((kind, [], "2026-03-01"))


@pytest.mark.parametrize(
    ("recorded", "policy", "both"),
    [
        (None, None, None),
        (None, Caps(0.1, 1e-6, "day"), Caps(Fraction(1, 10), Fraction(1, 10**6), "day")),
        (Caps(0.1, 0), None, Caps(Fraction(1, 10), Fraction(0))),
        (Caps(0.1, 1e-6), Caps(0.2, 1e-7), Caps(Fraction(1, 10), Fraction(1, 10**7))),
        (Caps(0.2, 1e-7), Caps(0.1, 1e-6), Caps(Fraction(1, 10), Fraction(1, 10**7))),
        (Caps(1, 0, "month"), Caps(1, 0, "year"), Caps(Fraction(1), Fraction(0), "year")),
        (Caps(1, 0, "month"), Caps(1, 0, "day"), Caps(Fraction(1), Fraction(0), "month")),
        (Caps(1, 0), Caps(1, 0, "day"), Caps(Fraction(1), Fraction(0))),
    ],
)
def test_of_the_caps_recorded_and_those_of_the_policy_the_stricter_are_in_force(
    recorded: Caps | None, policy: Caps | None, both: Caps | None
) -> None:
    book = book_of(*([("caps", list(write_caps(ANA, recorded)), "2026-03-01")] if recorded else []))
    assert book.in_force(ANA, policy) == both
    assert book.in_force(RESEARCH, policy) == (None if policy is None else exactly(policy))


def test_gists_hold_what_is_there_and_no_more() -> None:
    assert write_sums(IMPURE) == [4, 7, None]
    assert write_charge(ANA, ONE) == ["ana", 1, 0, 10]
    assert write_charge(RESEARCH, ONE) == ["ana", 1, 0, 10, "research"]
    assert write_caps(ANA, Caps(0.5, 1e-6)) == ["ana", "1/2", "1/1000000"]
    assert write_caps(RESEARCH, Caps(0.5, 0)) == ["ana", "1/2", "0", "research", None]
    assert write_caps(ANA, Caps(0.5, 0, "day")) == ["ana", "1/2", "0", None, "day"]
