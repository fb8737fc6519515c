"""A restore is a merge: entries of all branches count, once; what only a head knows is charged as a gap."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import astuple, replace
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import pytest
from ledger_histories import run as run_histories

from dpsql.budget import Caps, Cost, Request, open_ledger, pure_charge, zcdp_charge
from dpsql.budget.accountant import Spent
from dpsql.budget.ledger import maintenance
from dpsql.budget.ledger.maintenance import backup, restore, verify
from dpsql.budget.ledger.merge_branches import _growth, merge
from dpsql.budget.ledger.rollback_guard import SLOT, TRAIL, ChainEnd, RollbackGuard
from dpsql.errors import BudgetExceeded, LedgerError

ONE = pure_charge(1).epsilon or 0
CAPS = Caps(100, 0)


def ask(epsilon: int, who: str | None = "ana", fingerprint: bytes = b"f") -> Request:
    return Request(who, pure_charge(epsilon), Cost(epsilon, 0.0, 0.0), CAPS, None, "SELECT 1", (fingerprint,))


def spend(path: Path, epsilon: int, who: str | None = "ana", payload: bytes | None = None) -> None:
    with open_ledger(path, "shop") as ledger:
        entry = ledger.reserve(ask(epsilon, who, payload or b"f")).entry
        if payload is not None:
            ledger.store(entry, payload, payload)


def booked(path: Path, who: str | None = None) -> float:
    with open_ledger(path, "shop", create=False) as ledger:
        epsilon = ledger.spent(who).epsilon
    return inf if epsilon is None else epsilon / ONE


def lose(path: Path, to: Path | None = None) -> None:
    for suffix in ("", ".head"):
        file = path.with_name(path.name + suffix)
        file.unlink() if to is None else file.rename(to.with_name(to.name + suffix))


def change(path: Path, statement: str) -> None:
    """Past the triggers that guard the tables, which are there again afterwards."""
    with closing(sqlite3.connect(path)) as db, db:
        guards = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            db.execute(f"DROP TRIGGER {name}")
        db.execute(statement)
        for _, guard in guards:
            db.execute(guard)


def rows(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT * FROM entry ORDER BY number").fetchall()


def forget_what_was_shown(path: Path) -> None:
    """The head as an older dpsql wrote it: turn, number, hash, and what the dataset was charged."""
    head = path.with_name(path.name + ".head")
    slots = []
    for start in (0, SLOT):
        told = json.loads(head.read_bytes()[start : start + SLOT].partition(b"\n")[0])
        text = json.dumps({key: told[key] for key in ("turn", "number", "hash", "spent")}).encode()
        slots.append((text + b"\n" + sha256(text).hexdigest().encode()).ljust(SLOT - 1) + b"\n")
    head.write_bytes(b"".join(slots))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "shop.ledger"
    spend(place, 1, "ana", b"first")
    backup(place, tmp_path / "copy")
    return place


@pytest.fixture
def copy(path: Path) -> Path:
    return path.with_name("copy")


def test_spending_on_both_branches_counts_when_the_old_ledger_is_found(path: Path, copy: Path, tmp_path: Path) -> None:
    """One before the backup, four on the branch that was lost, four after: nine were released."""
    found = tmp_path / "found.ledger"
    spend(path, 4, "bob", b"second")
    lose(path, found)
    restore(path, copy, "ste", accept_loss=True)
    spend(path, 4, "ana", b"third")
    assert booked(path) == 5
    done = restore(path, found, "ste")
    assert (booked(path), booked(path, "ana"), booked(path, "bob"), done.lost) == (9, 5, 4, 0)
    verify(path)
    with open_ledger(path, "shop") as ledger:
        for payload in (b"first", b"second", b"third"):
            kept = ledger.find(payload)
            assert kept is not None and kept.payload == payload


def test_a_restore_of_the_same_copy_or_of_an_ancestor_counts_nothing_again(path: Path, copy: Path) -> None:
    spend(path, 4)
    for _ in range(2):
        restore(path, copy, "ste")
        assert booked(path) == 5


def test_forks_of_forks_and_copies_that_hold_a_merge_are_united(path: Path, copy: Path, tmp_path: Path) -> None:
    others = [tmp_path / f"{name}.ledger" for name in "abc"]
    for number, other in enumerate(others):
        restore(other, copy if number < 2 else others[0], "ste", accept_loss=True)
        spend(other, 10 * (number + 1))
    restore(others[0], others[1], "ste")
    restore(others[2], others[0], "ste")
    for _ in range(2):
        for other in others:
            restore(path, other, "ste")
    assert booked(path) == 1 + 10 + 20 + 30


def test_what_only_the_head_knows_is_charged_to_the_dataset_and_to_every_analyst(path: Path, copy: Path) -> None:
    spend(path, 4, "bob")
    path.unlink()
    done = restore(path, copy, "ste")
    assert (booked(path), booked(path, "ana"), booked(path, "bob"), booked(path, "new"), done.lost) == (5, 5, 4, 4, 1)


def test_a_copy_of_another_branch_does_not_stand_in_for_what_the_head_knows(
    path: Path, copy: Path, tmp_path: Path
) -> None:
    """Both branches spent four after the backup; that one of them is there says nothing of the other."""
    other = tmp_path / "other.ledger"
    restore(other, copy, "ste", accept_loss=True)
    spend(other, 4)
    spend(path, 4)
    path.unlink()
    restore(path, other, "ste")
    assert booked(path) == 9


def test_a_gap_is_closed_when_the_lost_ledger_is_found(path: Path, copy: Path, tmp_path: Path) -> None:
    spend(path, 4, "bob")
    path.rename(tmp_path / "found")
    restore(path, copy, "ste")
    spend(path, 2, "ana")
    assert (booked(path), booked(path, "ana")) == (7, 7)
    restore(path, tmp_path / "found", "ste")
    assert (booked(path), booked(path, "ana"), booked(path, "bob")) == (7, 3, 4)


def test_purity_is_lost_with_either_branch(path: Path, copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ledger"
    restore(other, copy, "ste", accept_loss=True)
    with open_ledger(other, "shop") as ledger:
        ledger.record_caps(None, Caps(100, 1e-6), "ste")
        ledger.reserve(Request("ana", zcdp_charge(0.01), Cost(0.3, 1e-8, 0.01), Caps(100, 1e-6), None, "q", ()))
    restore(path, other, "ste")
    assert booked(path) == inf


def test_a_replay_counts_once_however_many_branches_hold_it(path: Path, copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ledger"
    restore(other, copy, "ste", accept_loss=True)
    for place in (path, other):
        with open_ledger(place, "shop") as ledger:
            kept = ledger.find(b"first")
            assert kept is not None and ledger.replayed(kept.entry, "bob", CAPS, kept.number)
    restore(path, other, "ste")
    assert (booked(path), booked(path, "bob")) == (1, 1)


def test_a_stated_loss_is_booked_and_all_of_it_closes_the_account(path: Path, copy: Path) -> None:
    lose(path)
    with pytest.raises(LedgerError, match=r"--lost 20%"):
        restore(path, copy, "ste")
    restore(path, copy, "ste", lost=Fraction(1, 5))
    assert (booked(path), booked(path, "ana")) == (21, 21)
    with open_ledger(path, "shop") as ledger:
        assert "ste stated that 20% of the budget may have been spent" in list(ledger.log())[-1].text
    restore(path, copy, "ste", lost=Fraction(1))
    with open_ledger(path, "shop") as ledger, pytest.raises(BudgetExceeded):
        ledger.reserve(ask(1))


def test_an_account_that_was_begun_after_the_loss_does_not_tell_what_the_lost_one_spent(path: Path, copy: Path) -> None:
    """Somebody asked before the restore, so a new ledger with a head is there: it knows nothing of the lost one."""
    spend(path, 4)
    lose(path)
    spend(path, 2)
    with pytest.raises(LedgerError, match=r"no entry in common(.|\n)*--lost 20%"):
        restore(path, copy, "ste")
    done = restore(path, copy, "ste", lost=Fraction(1, 5))
    assert (booked(path), done.lost) == (1 + 2 + 20, None)
    restore(path, copy, "ste")
    assert booked(path) == 1 + 2 + 20


def test_a_loss_is_either_stated_or_accepted(path: Path, copy: Path) -> None:
    lose(path)
    with pytest.raises(LedgerError, match="--lost and --accept-loss"):
        restore(path, copy, "ste", accept_loss=True, lost=Fraction(1, 5))
    assert not path.exists()


def test_a_stated_loss_gives_nothing_back(path: Path, copy: Path) -> None:
    lose(path)
    with pytest.raises(LedgerError, match="cannot be negative"):
        restore(path, copy, "ste", lost=Fraction(-1, 2))
    assert not path.exists()


def test_the_head_is_believed_also_where_a_loss_is_accepted(path: Path, copy: Path) -> None:
    spend(path, 4)
    path.unlink()
    restore(path, copy, "ste", accept_loss=True)
    assert booked(path) == 5


def test_lower_caps_of_either_branch_stay_in_force(path: Path, copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ledger"
    restore(other, copy, "ste", accept_loss=True)
    for place, cap in ((path, 50), (other, 200)):
        with open_ledger(place, "shop") as ledger:
            ledger.record_caps(None, Caps(cap, 0), "ste")
    restore(path, other, "ste")
    restore(other, path, "ste")
    for place in (path, other):
        with open_ledger(place, "shop") as ledger:
            assert ledger.in_force(None, Caps(500, 0)) == Caps(50, 0)


def test_a_ledger_of_another_dataset_is_not_replaced(path: Path, tmp_path: Path) -> None:
    with open_ledger(tmp_path / "other.ledger", "other"):
        pass
    with pytest.raises(LedgerError, match="is the account of 'other'"):
        restore(tmp_path / "other.ledger", path, "ste")


def test_a_head_of_an_older_version_lowers_no_account(path: Path, copy: Path) -> None:
    """It did not tell what analysts were shown; what the steward's own queries cost was never among it."""
    spend(path, 10, None)
    later = copy.with_name("later")
    backup(path, later)
    forget_what_was_shown(path)
    spend(path, 3, "ana")
    path.unlink()
    restore(path, later, "ste")
    assert booked(path) == 14
    assert booked(path, "ana") >= 4 and booked(path, "bob") >= 3


def test_a_head_of_an_older_version_alone_charges_all_that_it_knows_to_everyone(path: Path, copy: Path) -> None:
    spend(path, 2, "bob")
    forget_what_was_shown(path)
    path.unlink()
    restore(path, copy, "ste")
    assert booked(path) == 4  # it has no trail: the first may be missing too
    assert booked(path, "ana") >= 1 and booked(path, "bob") >= 2


def test_a_broken_ledger_leaves_no_noisy_table_without_its_entry(path: Path, copy: Path) -> None:
    """The number of such a table is that of an entry to come, which could be charged for and never be kept."""
    for number in range(3):
        spend(path, 1, "ana", b"later %d" % number)
    change(path, "UPDATE entry SET body = body || ' ' WHERE number = (SELECT max(number) - 5 FROM entry)")
    restore(path, copy, "ste")
    for number in range(4):
        spend(path, 1, "ana", b"new %d" % number)
    assert verify(path).releases == 5
    assert booked(path) == 8


def test_two_restores_at_once_without_a_head_forget_nothing(
    path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has read what was there before the first was done and somebody spent more."""
    lose(path)
    merged = merge

    def late(*whole: Any) -> Any:
        monkeypatch.setattr(maintenance, "merge", merged)
        restore(path, copy, "first", accept_loss=True)
        spend(path, 4, "bob")
        return merged(*whole)

    monkeypatch.setattr(maintenance, "merge", late)
    restore(path, copy, "second", accept_loss=True)
    assert (booked(path), booked(path, "bob")) == (5, 4)
    assert verify(path).releases == 1


def test_a_noisy_table_that_rotted_in_the_only_copy_is_left_out_and_its_charge_counts(path: Path, copy: Path) -> None:
    spend(path, 2, "bob", b"second")
    copy = path.with_name("whole")
    backup(path, copy)
    lose(path)
    change(copy, "UPDATE payload SET bytes = x'00' WHERE number = (SELECT min(number) FROM payload)")
    restore(path, copy, "ste", accept_loss=True)
    assert verify(path).releases == 1
    assert (booked(path), booked(path, "ana"), booked(path, "bob")) == (3, 1, 2)
    with open_ledger(path, "shop") as ledger:
        assert ledger.find(b"first") is None
        assert (found := ledger.find(b"second")) is not None and found.payload == b"second"


def test_a_head_keeps_a_trail_that_gets_thinner_and_fits(tmp_path: Path) -> None:
    head, big = RollbackGuard(str(tmp_path / "x")), 10**44
    head.create()
    with head.locked(1):
        for number in range(1, 400):
            sums = Spent(big + number, big + number, big + number)
            head.write(ChainEnd(number, number.to_bytes(2) * 16, sums, sums))
    mark = head.read()
    numbers = [each.number for each in mark.trail]
    assert len(numbers) <= TRAIL and numbers[-1] == 398 and numbers == sorted(numbers)
    distances = [mark.number - number for number in numbers]
    assert all(far <= 4 * near for far, near in pairwise(distances))
    assert all(each.spent.rho == big + each.number and each.hash == each.number.to_bytes(2) * 8 for each in mark.trail)
    assert head.path.stat().st_size == 2 * SLOT


def test_booked_is_never_below_what_any_file_or_head_knows() -> None:
    """Random histories of spending, backup, loss, fork and restore; ten thousand with the command in the module."""
    done = run_histories(400)
    assert done["histories"] == 400 and done["exact"] > 2000 and done["gap"] > 500 and done["accepted"] > 30


def test_a_head_of_an_older_dpsql_hides_nothing_that_analysts_were_shown(path: Path, copy: Path) -> None:
    """It has no sum of what analysts were shown, and what the steward spent before must not stand for it."""
    with open_ledger(path, "shop") as ledger:
        ledger.reserve(Request(None, pure_charge(5), Cost(5, 0.0, 0.0), CAPS, None, "SELECT 1", (b"s",)))
    copy.unlink()
    backup(path, copy)
    _write_as_an_older_dpsql_did(RollbackGuard(str(path)))
    spend(path, 4, "bob")
    path.unlink()
    restore(path, copy, "ste")
    assert (booked(path) or 0) >= 10
    assert (booked(path, "bob") or 0) >= 4


def _write_as_an_older_dpsql_did(head: RollbackGuard) -> None:
    mark, slots = head.read(), b""
    for turn in (2, 3):
        told = {"turn": turn, "number": mark.number, "hash": mark.hash.hex(), "spent": [*astuple(mark.spent)]}
        text = json.dumps(told).encode()
        slots += (text + b"\n" + sha256(text).hexdigest().encode()).ljust(SLOT - 1) + b"\n"
    head.path.write_bytes(slots)


def test_several_replays_in_one_entry_are_taken_over_with_the_numbers_that_they_have_now(
    path: Path, copy: Path
) -> None:
    """Three tables of ana's are shown to bob at once, and to cas beside a charge, on a branch that is renumbered."""
    other = path.with_name("other.ledger")
    restore(other, copy, "ste", accept_loss=True)
    for payload in (b"second", b"third"):
        spend(other, 2, "ana", payload)
    with open_ledger(other, "shop") as ledger:
        kept = [ledger.find(payload) for payload in (b"first", b"second", b"third")]
        replays = tuple((each.entry, each.number) for each in kept if each is not None)
        shown = replace(ask(5, "bob"), charge=None, replays=replays, asked=(pure_charge(5), Cost(5, 0.0, 0.0)))
        ledger.count(shown)
        ledger.reserve(replace(ask(1, "cas"), replays=replays))
    assert [booked(other, who) for who in (None, "ana", "bob", "cas")] == [6, 5, 5, 6]
    spend(path, 8, "dan")
    restore(path, other, "ste")
    assert [booked(path, who) for who in (None, "ana", "bob", "cas", "dan")] == [14, 5, 5, 6, 8]
    verify(path)


def test_of_two_ledgers_the_one_whose_tables_are_all_there_goes_on(path: Path, copy: Path) -> None:
    """One of two is damaged: the copy goes on as it is, and so nothing after the damage is written a second time."""
    spend(path, 2, "bob", b"second")
    whole = path.with_name("whole")
    backup(path, whole)
    change(path, "UPDATE payload SET bytes = x'00' WHERE number = (SELECT max(number) FROM payload)")
    before = rows(whole)
    restore(path, whole, "ste", accept_loss=True)
    assert rows(path)[: len(before)] == before
    assert verify(path).releases == 2
    assert (booked(path), booked(path, "ana"), booked(path, "bob")) == (3, 1, 2)


def test_what_was_spent_between_two_marks_is_the_difference_of_their_sums() -> None:
    assert _growth(Spent(2, 3, 5), Spent(11, 7, 6)) == Spent(9, 4, 1)
    assert _growth(Spent(2, 3, None), Spent(11, 7, None)) == Spent(9, 4, None)
    assert _growth(Spent(2, 3, 5), Spent(11, 7, None)) == Spent(9, 4, None)
