"""One account through the ledger's interface: charges, replays, facts, the log."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgres_server import a_place

from dpsql.budget import (
    Caps,
    Charge,
    Cost,
    Ledger,
    ReleaseDetails,
    Request,
    Spent,
    open_ledger,
    pure_charge,
    pure_rho,
    rho_for,
    zcdp_charge,
)
from dpsql.errors import BudgetExceeded, LedgerError

CAPS = Caps(1, 0)
TENTH = pure_charge(0.1)
Build = Callable[[float], tuple[Charge, Cost]]


def ask(
    analyst: str | None = "ana",
    epsilon: float = 0.1,
    *,
    cap: float | None = None,
    caps: Caps = CAPS,
    fingerprints: tuple[bytes, ...] = (b"f",),
) -> Request:
    own = None if cap is None else Caps(cap, caps.delta)
    cost = Cost(epsilon, 0.0, 0.0)
    return Request(analyst, pure_charge(epsilon), cost, caps, own, "SELECT count(*) FROM t", fingerprints)


@pytest.fixture(params=["file", "memory", "postgres"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(a_place(request, tmp_path), "shop") as opened:
        yield opened


def test_charges_add_up_for_the_analyst_and_for_everyone(ledger: Ledger) -> None:
    ledger.reserve(ask("ana"))
    ledger.reserve(ask("bob"))
    ledger.reserve(ask(None))
    assert ledger.spent("ana") == Spent().after(TENTH) == ledger.spent("bob")
    assert ledger.spent(None) == Spent().after(TENTH).after(TENTH).after(TENTH)
    assert ledger.spent("eve") == Spent()


def test_the_dataset_cap_holds_to_the_unit(ledger: Ledger) -> None:
    for number in range(10):
        ledger.reserve(ask(f"analyst {number}"))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask("late", 1e-9))
    assert ledger.spent("late") == Spent()
    assert ledger.spent(None).epsilon == 10 * (TENTH.epsilon or 0)


def test_the_analyst_cap_holds_inside_the_dataset_cap(ledger: Ledger) -> None:
    ledger.reserve(ask("ana", 0.3, cap=0.3))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask("ana", 0.1, cap=0.3))
    ledger.reserve(ask("bob", 0.3, cap=0.3))


def test_a_refusal_says_the_cost_what_is_left_and_what_to_do(ledger: Ledger) -> None:
    ledger.reserve(ask("ana", 0.25, cap=0.5))
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.reserve(ask("ana", 0.4, cap=0.5))
    assert refusal.value.message == (
        "over the privacy budget: this query costs ε = 0.4; left for ana: ε = 0.25; left for everyone on 'shop': ε = 0.75"
    )
    assert refusal.value.hint == "ask for epsilon 0.25 or less, or repeat a query of your own (it is free)"


def gaussian(epsilon: float) -> tuple[Charge, Cost]:
    return zcdp_charge(rho_for(epsilon, 1e-8)), Cost(epsilon, 1e-8, 0.1)


def gaussian_with_threshold(epsilon: float) -> tuple[Charge, Cost]:
    return zcdp_charge(rho_for(epsilon, 5e-9), 5e-9), Cost(epsilon, 1e-8, 0.1)


def laplace(epsilon: float) -> tuple[Charge, Cost]:
    return pure_charge(epsilon), Cost(epsilon, 0, 0.1)


def laplace_with_threshold(epsilon: float) -> tuple[Charge, Cost]:
    return zcdp_charge(pure_rho(epsilon), 1e-9), Cost(epsilon, 1e-9, 0.1)


@pytest.mark.parametrize("first", [gaussian, laplace])
@pytest.mark.parametrize("then", [gaussian, gaussian_with_threshold, laplace, laplace_with_threshold])
@pytest.mark.parametrize("epsilon", [0.3, 0.6, 1.3, 1.9])
def test_the_hint_can_be_followed(first: Build, then: Build, epsilon: float) -> None:
    def request(build: Build, price: float) -> Request:
        return Request("ana", *build(price), Caps(2, 1e-6), None, "SELECT 1", ())

    with open_ledger(":memory:", "shop") as ledger:
        ledger.reserve(request(first, 0.1))
        with pytest.raises(BudgetExceeded) as refusal:
            for _ in range(99):
                ledger.reserve(request(then, epsilon))
        words = (refusal.value.hint or "").split()
        if words[0] == "ask":
            assert 0 < float(words[3]) < epsilon
            ledger.reserve(request(then, float(words[3])))


def test_other_hints(ledger: Ledger) -> None:
    impure = Request("ana", zcdp_charge(0.01), Cost(0.1, 1e-8, 0.01), CAPS, None, "SELECT 1", ())
    with pytest.raises(BudgetExceeded, match="delta 0"):
        ledger.reserve(impure)
    ledger.record_caps(None, Caps(1, 1e-7), "the steward")
    greedy = Request("ana", zcdp_charge(1e-4, 1e-7), Cost(0.1, 1e-7, 1e-4), Caps(1, 1e-7), None, "SELECT 1", ())
    with pytest.raises(BudgetExceeded, match="private group keys"):
        ledger.reserve(greedy)
    ledger.reserve(ask("ana", 1))
    with pytest.raises(BudgetExceeded, match=r"left for everyone on 'shop': nothing\n.*raise the cap"):
        ledger.reserve(ask("ana", 1))


def test_a_stored_release_is_found_exactly(ledger: Ledger) -> None:
    entry = ledger.reserve(ask("ana", fingerprints=(b"one", b"two"))).entry
    ledger.store(entry, b"two", b"noisy\x00table")
    found = ledger.find(b"two")
    assert found is not None
    assert (found.entry, found.analyst, found.payload, found.charge) == (
        entry,
        "ana",
        b"noisy\x00table",
        TENTH,
    )
    assert ledger.find(b"one") is None


def test_the_first_release_of_a_fingerprint_is_the_one_replayed(ledger: Ledger) -> None:
    first, second = ledger.reserve(ask("ana")).entry, ledger.reserve(ask("bob")).entry
    ledger.store(second, b"f", b"of bob")
    ledger.store(first, b"f", b"of ana")
    found = ledger.find(b"f")
    assert found is not None
    assert (found.entry, found.payload) == (second, b"of bob")


def test_only_what_an_entry_paid_for_can_be_stored_and_only_once(ledger: Ledger) -> None:
    entry = ledger.reserve(ask()).entry
    for number, fingerprint in ((entry, b"other"), (entry + 7, b"f"), (1, b"f")):
        with pytest.raises(LedgerError):
            ledger.store(number, fingerprint, b"x")
    ledger.store(entry, b"f", b"x")
    with pytest.raises(LedgerError):
        ledger.store(entry, b"f", b"y")


def test_a_replay_counts_once_against_the_replayer_and_never_against_the_dataset(ledger: Ledger) -> None:
    entry = ledger.reserve(ask("ana")).entry
    own = Caps(0.5, 0)
    assert ledger.replayed(entry, "bob", own)
    assert not ledger.replayed(entry, "bob", own)
    assert not ledger.replayed(entry, "ana", own)
    assert not ledger.replayed(entry, None, None)
    assert ledger.spent("bob") == ledger.spent("ana") == ledger.spent(None) == Spent().after(TENTH)


def test_a_replay_must_fit_into_the_replayers_cap(ledger: Ledger) -> None:
    entry = ledger.reserve(ask("ana", 0.4)).entry
    with pytest.raises(BudgetExceeded, match=r"left for bob: ε = 0\.3"):
        ledger.replayed(entry, "bob", Caps(0.3, 0))
    assert ledger.spent("bob") == Spent()
    ledger.reserve(ask("bob", 0.3, cap=0.3))
    assert ledger.replayed(entry, "eve", None)


def test_a_replayed_release_leaves_less_for_the_replayers_own_queries(ledger: Ledger) -> None:
    entry = ledger.reserve(ask("ana", 0.4)).entry
    ledger.replayed(entry, "bob", Caps(0.5, 0))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(ask("bob", 0.2, cap=0.5))


def test_a_replay_of_one_release_counts_its_own_part_once(ledger: Ledger) -> None:
    entry = ledger.reserve(ask("ana", 0.4, fingerprints=(b"one", b"two"))).entry
    for name in (b"one", b"two"):
        ledger.store(entry, name, name, ReleaseDetails(b"family", {"made": name.decode()}, TENTH))
    one, two = ledger.find(b"one"), ledger.find(b"two")
    assert one is not None and two is not None and one.charge == TENTH
    assert ledger.replayed(entry, "bob", Caps(0.2, 0), one.number)
    assert not ledger.replayed(entry, "bob", Caps(0.2, 0), one.number)
    assert ledger.spent("bob") == Spent().after(TENTH)
    assert [[r.owed for r in found] for found in ledger.relatives([b"family", b"none"], "bob")] == [[False, True], []]
    assert [r.recipe for r in ledger.relatives([b"family"], "ana")[0]] == [{"made": "one"}, {"made": "two"}]
    assert ledger.replayed(entry, "bob", Caps(0.2, 0), two.number)
    assert ledger.spent("bob") == Spent().after(TENTH).after(TENTH)
    assert ledger.replayed(entry, "eve", None)
    assert not ledger.replayed(entry, "eve", None, one.number)
    assert ledger.spent("eve") == ledger.spent(None)


def test_a_release_that_an_older_dpsql_kept_counts_the_whole_entry(ledger: Ledger) -> None:
    entry = ledger.reserve(ask("ana", 0.1)).entry
    ledger.store(entry, b"f", b"x")
    found = ledger.find(b"f")
    assert found is not None and found.charge == TENTH
    assert ledger.replayed(entry, "bob", None, found.number)
    assert ledger.spent("bob") == Spent().after(TENTH)


def test_a_release_of_another_entry_is_not_counted(ledger: Ledger) -> None:
    one, two = ledger.reserve(ask("ana", 0.1)).entry, ledger.reserve(ask("ana", 0.2)).entry
    ledger.store(one, b"f", b"x")
    found = ledger.find(b"f")
    assert found is not None
    for entry, release in ((two, found.number), (one, found.number + 1), (one, one)):
        with pytest.raises(LedgerError, match="no release"):
            ledger.replayed(entry, "bob", None, release)
    assert ledger.spent("bob") == Spent()


def test_replaying_what_was_never_charged_is_an_error(ledger: Ledger) -> None:
    for entry in (0, 1, 99):
        with pytest.raises(LedgerError):
            ledger.replayed(entry, "bob", None)


def test_facts_belong_to_a_data_version(ledger: Ledger) -> None:
    ledger.record_fact("customers", "unique", "v1")
    ledger.record_fact("customers", "unique", "v1")
    assert ledger.facts("v1") == {("customers", "unique")}
    assert ledger.facts("v2") == frozenset()
    assert sum(line.kind == "fact" for line in ledger.log()) == 1


def test_the_salt_is_secret_stable_and_different_for_each_account(ledger: Ledger) -> None:
    assert len(ledger.salt()) == 32
    with open_ledger(":memory:", "shop") as other:
        assert ledger.salt() == ledger.salt() != other.salt()


def test_the_log_says_who_asked_what_at_what_cost(ledger: Ledger) -> None:
    entry = ledger.reserve(ask("ana", 0.1)).entry
    ledger.store(entry, b"f", b"secret payload")
    ledger.replayed(entry, "bob", None)
    lines = list(ledger.log())
    assert [line.kind for line in lines] == ["account", "caps", "charge", "release", "replay"]
    assert [line.number for line in lines] == [1, 2, 3, 4, 5]
    assert (lines[2].analyst, lines[2].text, lines[2].cost) == (
        "ana",
        "SELECT count(*) FROM t",
        Cost(0.1, 0, 0),
    )
    assert lines[4].analyst == "bob"
    assert lines[1].at.tzinfo is not None
    shown = repr(lines)
    assert "secret payload" not in shown
    assert ledger.salt().hex() not in shown


def test_any_text_can_be_logged(ledger: Ledger) -> None:
    text = "SELECT '\x00\n\"ünïcode\ud800' -- 👍"
    ledger.reserve(Request("a\nb\x00", TENTH, Cost(0.1, 0, 0), CAPS, None, text, ()))
    line = list(ledger.log())[-1]
    assert (line.text, line.analyst) == (text, "a\nb\x00")


def test_threads_share_one_ledger_without_passing_the_cap(ledger: Ledger) -> None:
    entries: list[int] = []
    refused: list[int] = []

    def work() -> None:
        for _ in range(10):
            try:
                entries.append(ledger.reserve(ask("ana", 0.05)).entry)
            except BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(entries)) == len(entries) == len(refused) == 20
    assert ledger.spent(None).epsilon == pure_charge(1).epsilon


def test_a_closed_ledger_refuses_everything(ledger: Ledger) -> None:
    ledger.close()
    with pytest.raises(LedgerError):
        ledger.reserve(ask())
    with pytest.raises(LedgerError):
        ledger.spent(None)


def test_a_ledger_does_not_survive_a_fork(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: real + 1)
    with pytest.raises(LedgerError, match="fork"):
        ledger.reserve(ask())
