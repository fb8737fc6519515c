"""Releases in a ledger: who may keep one, how long it is found, who owes for it; and asking without charging."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.budget import (
    Caps,
    ChainedLedger,
    Cost,
    ReleaseDetails,
    Request,
    Spent,
    open_ledger,
    pure_charge,
    zcdp_charge,
)
from dpsql.budget.ledger import chained_ledger, create_ledger, named, sqlite_file
from dpsql.budget.ledger import entries as hash_chain
from dpsql.budget.ledger.account_state import exactly
from dpsql.budget.ledger.entries import ROOT, next_entry
from dpsql.budget.ledger.rollback_guard import ChainEnd, RollbackGuard
from dpsql.errors import BudgetExceeded, LedgerError

TENTH = pure_charge(0.1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SetClock = Callable[[datetime], None]


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    def to(moment: datetime) -> None:
        monkeypatch.setattr(hash_chain, "now", lambda: moment)
        monkeypatch.setattr(chained_ledger, "now", lambda: moment)

    to(NOON)
    return to


@pytest.fixture
def shop(set_clock: SetClock) -> Iterator[ChainedLedger]:
    with open_ledger(":memory:", "shop") as opened:
        yield opened


def ask(
    analyst: str | None = "ana",
    *names: bytes,
    caps: Caps = Caps(1),  # noqa: B008
    own: Caps | None = None,
    purpose: str | None = None,
) -> Request:
    return Request(analyst, TENTH, Cost(0.1, 0.0, 0.0), caps, own, "SELECT 1", names or (b"f",), purpose)


def made(name: str = "x", paid: bytes | None = None) -> ReleaseDetails:
    return ReleaseDetails(b"family", {"made": name}, TENTH, paid)


def test_a_release_that_reads_another_is_kept_by_the_name_that_was_paid_and_once(shop: ChainedLedger) -> None:
    entry = shop.reserve(ask("ana", b"p", b"q")).entry
    shop.store(entry, b"known later", b"noisy", made(paid=b"p"))
    found = shop.find(b"known later")
    assert found is not None and (found.payload, found.charge, found.analyst) == (b"noisy", TENTH, "ana")
    assert shop.find(b"p") is None
    for name, paid in ((b"again", b"p"), (b"known later", b"q"), (b"new", b"never named"), (b"new", None)):
        with pytest.raises(LedgerError, match="did not pay for this release, or it is kept already"):
            shop.store(entry, name, b"other", made(paid=paid))
    shop.store(entry, b"q", b"second", made())
    with pytest.raises(LedgerError, match="did not pay"):
        shop.store(entry, b"third", b"other", made(paid=b"q"))


@pytest.mark.parametrize(("age", "fresh"), [(0, True), (59_999, True), (60_000, True), (60_001, False)])
def test_a_release_is_found_until_it_is_older_than_is_asked_for(
    shop: ChainedLedger, set_clock: SetClock, age: int, fresh: bool
) -> None:
    keep = timedelta(minutes=1)
    shop.store(shop.reserve(ask()).entry, b"f", b"x", made())
    set_clock(NOON + timedelta(milliseconds=age))
    assert (shop.find(b"f", keep) is not None) == fresh
    assert len(shop.relatives([b"family"], "ana", keep)[0]) == fresh
    assert shop.find(b"f") is not None and len(shop.relatives([b"family"], "ana")[0]) == 1


def test_a_clock_set_back_revives_nothing(shop: ChainedLedger, set_clock: SetClock) -> None:
    shop.store(shop.reserve(ask()).entry, b"f", b"x")
    set_clock(NOON + timedelta(hours=2))
    shop.record_fact("t", "unique", "v")
    set_clock(NOON)
    assert shop.find(b"f", timedelta(hours=1)) is None
    assert shop.find(b"f", timedelta(hours=2)) is not None


def test_of_several_releases_the_first_fresh_one_is_found_or_that_of_the_number(
    shop: ChainedLedger, set_clock: SetClock
) -> None:
    shop.store(shop.reserve(ask()).entry, b"f", b"old")
    set_clock(NOON + timedelta(hours=1))
    shop.store(shop.reserve(ask("bob")).entry, b"f", b"new")
    one, two = shop.find(b"f"), shop.find(b"f", timedelta(minutes=1))
    assert one is not None and two is not None and (one.payload, two.payload) == (b"old", b"new")
    assert shop.find(b"f", number=two.number) == two and shop.find(b"f", number=one.number) == one
    assert shop.find(b"f", timedelta(minutes=1), one.number) is None
    assert shop.find(b"f", number=two.number + 1) is None is shop.find(b"g")


def test_a_release_is_owed_by_those_who_have_not_paid_for_it(shop: ChainedLedger) -> None:
    entry = shop.reserve(ask("ana", purpose="research")).entry
    shop.store(entry, b"f", b"x", made())
    stored = shop.find(b"f")
    assert stored is not None
    asked = [("ana", None), ("ana", "research"), ("ana", "report"), ("bob", None), (None, None)]
    owed = [False, False, True, True, False]
    assert [shop.owed(stored, *whose) for whose in asked] == owed
    assert [shop.relatives([b"family"], who, None, what)[0][0].owed for who, what in asked] == owed
    relative = shop.relatives([b"family"], "bob")[0][0]
    assert (relative.number, relative.fingerprint, relative.recipe) == (stored.number, b"f", {"made": "x"})
    assert shop.replayed(entry, "bob", None, stored.number, "report")
    assert not shop.owed(stored, "bob", "report") and shop.owed(stored, "bob", "other")
    assert shop.spent("bob") == shop.spent("bob", "report") == Spent().after(TENTH)


def test_the_gist_of_a_replay_ends_with_what_is_there(shop: ChainedLedger) -> None:
    entry = shop.reserve(ask("ana")).entry
    shop.store(entry, b"f", b"x", made())
    number = entry + 1
    shop.replayed(entry, "bob", None)
    shop.replayed(entry, "cyd", None, number)
    shop.replayed(entry, "dan", None, None, "report")
    shop.replayed(entry, "eve", None, number, "report")
    gists = [gist for _, kind, gist, _, _ in shop.rows() if kind == "replay"]
    assert gists == [f'["bob",{entry}]', f'["cyd",{entry},{number}]', f'["dan",{entry},null,"report"]',
                     f'["eve",{entry},{number},"report"]']  # fmt: skip


def test_the_cap_of_a_purpose_is_that_of_its_analyst_unless_it_has_its_own(shop: ChainedLedger) -> None:
    entries = [shop.reserve(ask("ana")).entry for _ in range(3)]
    wide, tight = Caps(0.2), Caps(0.1)
    assert shop.replayed(entries[0], "bob", wide, purpose="report", purpose_caps=tight)
    with pytest.raises(BudgetExceeded, match="left for bob for report: nothing"):
        shop.replayed(entries[1], "bob", wide, purpose="report", purpose_caps=tight)
    assert shop.replayed(entries[1], "bob", wide, purpose="other")
    with pytest.raises(BudgetExceeded, match="left for bob: nothing"):
        shop.replayed(entries[2], "bob", wide, purpose="other")
    assert shop.in_force("bob", Caps(9), "other") == exactly(wide)
    assert shop.in_force("bob", Caps(9), "report") == exactly(tight)


def test_what_could_be_afforded_is_said_without_a_charge_or_a_record(shop: ChainedLedger) -> None:
    before = shop.mark()
    shop.afford(ask(caps=Caps(0.1)))
    with pytest.raises(BudgetExceeded):
        shop.afford(ask(caps=Caps(0.09)))
    with pytest.raises(BudgetExceeded, match="left for ana"):
        shop.afford(ask(own=Caps(0.05)))
    assert shop.mark() == before and shop.spent(None) == Spent() and len(shop.rows()) == 1


def test_a_refusal_speaks_of_higher_caps_only_where_the_policy_has_them(shop: ChainedLedger) -> None:
    shop.record_caps("ana", Caps(0.1), "ste")
    shop.reserve(ask(own=Caps(0.1)))
    for own, higher in ((Caps(0.1), False), (Caps(0.2), True), (Caps(Fraction(1, 10)), False)):
        with pytest.raises(BudgetExceeded) as refusal:
            shop.reserve(ask(own=own))
        assert ("raise-cap" in (refusal.value.hint or "")) == higher


def test_caps_are_recorded_when_they_are_new_or_lower_and_not_again(shop: ChainedLedger) -> None:
    def caps() -> list[str]:
        return [line.text for line in shop.log() if line.kind == "caps"]

    shop.reserve(ask(own=Caps(0.5)))
    first = ["caps of the dataset: ε = 1, δ = 0; by the policy", "caps of ana: ε = 0.5, δ = 0; by the policy"]
    assert caps() == first
    shop.reserve(ask(own=Caps(0.7)))
    assert caps() == first
    shop.reserve(ask(own=Caps(0.4)))
    assert caps() == [*first, "caps of ana: ε = 0.4, δ = 0; by the policy"]
    shop.reserve(ask("bob"))
    shop.reserve(ask(None))
    assert len(caps()) == 3


def test_recorded_caps_bind_an_analyst_of_whom_the_policy_says_nothing(shop: ChainedLedger) -> None:
    shop.record_caps("ana", Caps(0.1), "ste")
    shop.reserve(ask())
    with pytest.raises(BudgetExceeded, match="left for ana: nothing"):
        shop.reserve(ask())
    assert shop.replayed(shop.reserve(ask("bob")).entry, "cyd", None)
    with pytest.raises(BudgetExceeded, match="left for ana: nothing"):
        shop.replayed(shop.reserve(ask("bob")).entry, "ana", None)


def test_an_account_stands_where_its_caps_and_its_window_say(shop: ChainedLedger, set_clock: SetClock) -> None:
    daily = Caps(0.3, 0, "day")
    shop.reserve(ask(own=daily))
    standing = shop.standing("ana", Caps(0.5, 0, "day"))
    assert (standing.caps, standing.spent) == (shop.in_force("ana", daily), Spent().after(TENTH))
    assert str(standing.renews) == "2026-03-02"
    assert shop.standing(None, Caps(1)).renews is None
    set_clock(NOON + timedelta(days=1))
    assert shop.standing("ana", daily).spent == Spent() != shop.standing(None, Caps(1)).spent


def test_the_mark_says_where_the_chain_ends_and_what_was_spent(shop: ChainedLedger) -> None:
    entry = shop.reserve(ask()).entry
    assert entry == len(shop.rows()) == shop.mark().number
    assert (shop.mark().hash, shop.mark().spent) == (shop.rows()[-1][4], Spent().after(TENTH))
    assert shop.mark().hash != ROOT and (shop.dataset, shop.place) == ("shop", ":memory:")
    shop.store(entry, b"f", b"noisy")
    assert shop.kept() == [(entry + 1, b"noisy")]
    shop.check_pages()


def test_an_impure_charge_is_told_with_its_delta(shop: ChainedLedger) -> None:
    charge, cost = zcdp_charge(0.01, 1e-9), Cost(0.3, 1e-8, 0.01)
    shop.reserve(Request("ana", charge, cost, Caps(1, 1e-6), None, "SELECT 1", ()))
    last = shop.last("ana")
    assert last is not None and (last.charge, last.cost, last.error) == (charge, cost, None)


def test_the_label_of_the_data_is_the_last_that_was_given(shop: ChainedLedger) -> None:
    assert shop.label() == ""
    for label in ("v2", "v3"):
        shop.bump(label, "ste")
        assert shop.label() == label
    for act in (
        lambda: shop.bump("v4", " "),
        lambda: shop.accept_clock(""),
        lambda: shop.record_caps("a", Caps(1), ""),
    ):
        with pytest.raises(LedgerError, match="records the steward's name"):
            act()
    assert shop.label() == "v3" and named(" ste ") == " ste "


def test_only_the_steward_opens_a_ledger_without_naming_its_dataset(tmp_path: Path) -> None:
    place = tmp_path / "shop.ledger"
    for dataset in ("", None):
        with pytest.raises(LedgerError, match="needs the name of its dataset"):
            open_ledger(place, dataset)
    with pytest.raises(LedgerError, match="needs the name of its dataset"):
        create_ledger(place, "")
    for name in (None, "shop"):
        with pytest.raises(LedgerError, match="no ledger"):
            open_ledger(place, name, create=False)
    assert not place.exists()
    assert create_ledger(place, "shop") == str(place)
    with pytest.raises(LedgerError, match="already"):
        create_ledger(place, "shop")
    with open_ledger(place, None, create=False) as opened:
        assert opened.dataset == "shop" and len(opened.salt()) == 32
    with pytest.raises(LedgerError, match="needs the name of its dataset"):
        open_ledger(place, "", create=False)
    with open_ledger(place, "shop", create=False) as opened:
        assert opened.place == str(place)


def test_a_ledger_is_closed_with_its_block_and_then_refuses_everything() -> None:
    with open_ledger(":memory:", "shop") as opened:
        opened.reserve(ask())
    for act in (lambda: opened.spent(None), lambda: opened.reserve(ask()).entry, opened.label):
        with pytest.raises(LedgerError):
            act()


def test_a_payload_that_was_changed_is_neither_found_nor_handed_on(shop: ChainedLedger) -> None:
    shop.store(shop.reserve(ask()).entry, b"f", b"noisy")
    database = shop._storage._db  # type: ignore[attr-defined]
    database.execute("DROP TRIGGER payload_update")
    database.execute("UPDATE payload SET bytes = x'00'")
    for act in (lambda: shop.find(b"f"), shop.kept):
        with pytest.raises(LedgerError, match="the release kept in entry 4 was changed"):
            act()


def test_who_owes_nothing_writes_nothing(shop: ChainedLedger) -> None:
    entry = shop.reserve(ask("ana", own=Caps(0.5))).entry
    before = shop.rows()
    for who in ("ana", None):
        assert not shop.replayed(entry, who, Caps(0.2))
    assert shop.rows() == before
    assert shop.replayed(entry, "bob", Caps(0.2))
    before = shop.rows()
    assert not shop.replayed(entry, "bob", Caps(0.15))
    assert shop.rows() == before


def test_a_replay_that_another_process_counted_in_between_is_not_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shop.ledger"
    with open_ledger(path, "shop") as one, open_ledger(path, "shop") as other:
        entry = one.reserve(ask("ana")).entry
        monkeypatch.setattr(one, "_note_caps", lambda _: other.replayed(entry, "bob", None))
        assert not one.replayed(entry, "bob", None)
        assert [line.kind for line in one.log()].count("replay") == 1
        assert one.spent("bob") == Spent().after(TENTH)


def test_a_ledger_that_is_refused_lets_go_of_its_files(tmp_path: Path) -> None:
    path, files = tmp_path / "shop.ledger", Path("/proc/self/fd")
    open_ledger(path, "shop").close()
    before = len(list(files.iterdir()))
    with pytest.raises(LedgerError, match="account of 'shop', not of 'bank'"):
        open_ledger(path, "bank")
    assert len(list(files.iterdir())) == before


def test_the_second_place_is_up_to_date_when_a_charge_returns_and_mended_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    head = RollbackGuard(str(path))
    with open_ledger(path, "shop") as opened:
        for _ in range(3):
            entry = opened.reserve(ask()).entry
            assert head.read() == opened.mark() and opened.mark().number == entry
        behind = head.path.read_bytes()
        opened.reserve(ask())
        head.path.write_bytes(behind)
        assert opened.spent(None).epsilon == 4 * (TENTH.epsilon or 0)
        opened.reserve(ask())
        assert head.read() == opened.mark()


@pytest.mark.parametrize(
    ("number", "words"), [(9, "ends at entry 3, but its head says 9: it is an older copy"), (2, "entry 2 is not the one"),
                          (3, "entry 3 is not the one that its head says: it was replaced")],
)  # fmt: skip
def test_a_ledger_whose_head_names_another_entry_is_refused_also_while_it_is_open(
    tmp_path: Path, number: int, words: str
) -> None:
    path = tmp_path / "shop.ledger"
    with open_ledger(path, "shop") as opened:
        opened.reserve(ask())
        head = RollbackGuard(str(path))
        with head.locked(1):
            head.rewrite(ChainEnd(number, b"\1" * 32))
        for act in (lambda: opened.spent(None), lambda: opened.reserve(ask()).entry, lambda: open_ledger(path, "shop")):
            with pytest.raises(LedgerError, match=words):
                act()


def test_a_chain_that_is_flawless_but_means_nothing_is_refused(tmp_path: Path) -> None:
    """Each hash is right, but a charge without its numbers, or a head of a ledger that has no entry."""
    first = next_entry(ROOT, 0, "account", ["shop", "00" * 32], {"at": NOON.isoformat()})
    for kind, gist in (("charge", ["ana", 1]), ("caps", [None, "no number", "0"]), ("fact", ["t"])):
        path = tmp_path / f"{kind}.ledger"
        sqlite_file.create(str(path), [first, next_entry(first[4], 1, kind, gist, {"at": NOON.isoformat()})])
        RollbackGuard(str(path)).create()
        with pytest.raises(LedgerError, match="it is not a dpsql ledger, or it is damaged"):
            open_ledger(path, "shop")
    sqlite_file.create(str(tmp_path / "empty.ledger"), [])
    RollbackGuard(str(tmp_path / "empty.ledger")).create()
    with pytest.raises(LedgerError, match="its last entries are missing"):
        open_ledger(tmp_path / "empty.ledger", "shop")


def test_a_clock_that_was_set_back_is_accepted_as_an_act_of_the_steward(
    shop: ChainedLedger, set_clock: SetClock
) -> None:
    shop.reserve(ask())
    set_clock(NOON - timedelta(hours=1))
    with pytest.raises(LedgerError, match="accept-clock"):
        shop.reserve(ask())
    shop.accept_clock("ste")
    shop.reserve(ask())
    assert [line.at for line in shop.log()][-2:] == [NOON - timedelta(hours=1)] * 2
    assert list(shop.log())[-2].text == "clock; by ste"


def test_caps_that_another_process_recorded_meanwhile_are_not_recorded_again(tmp_path: Path) -> None:
    path = tmp_path / "shop.ledger"
    with open_ledger(path, "shop") as one, open_ledger(path, "shop") as other:
        other.reserve(ask(own=Caps(0.5)))
        one.reserve(ask(own=Caps(0.5)))
        assert [line.kind for line in one.log()] == ["account", "caps", "caps", "charge", "charge"]


def test_a_ledger_is_not_read_either_in_a_child_of_its_process(
    shop: ChainedLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: real + 1)
    for act in (lambda: shop.spent(None), shop.label, shop.rows):
        with pytest.raises(LedgerError, match="fork"):
            act()
