"""Many processes, one database: caps are shared to the last unit, also while the server is killed under them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ledger_crowd import PRICE, Child, Tell, ask, charged, forked
from postgres_server import Server, fresh_ledger

from dpsql.budget import Caps, Cost, Request, open_ledger, pure_charge
from dpsql.budget.ledger import create_ledger
from dpsql.errors import BudgetExceeded, LedgerError

pytestmark = pytest.mark.true_randomness  # forked clients must not draw each other's ids


@pytest.fixture
def url(postgres: Server) -> str:
    return fresh_ledger(postgres)


def test_of_many_who_race_for_the_last_unit_exactly_one_wins(url: str) -> None:
    whole = Request("ana", pure_charge(1), Cost(1, 0.0, 0.0), Caps(1, 0), None, "SELECT 1", ())

    def race(tell: Tell, wait: Callable[[], None]) -> None:
        with open_ledger(url, "shop") as ledger:
            tell("ready")
            wait()
            try:
                tell(f"won {ledger.reserve(whole).entry}")
            except BudgetExceeded:
                tell("refused")

    for _ in range(3):
        with open_ledger(url, "shop") as ledger:
            spent = ledger.spent(None).epsilon
        runners = [forked(race) for _ in range(8)]
        for each in runners:
            each.wait_for(lambda lines: "ready" in lines)
        for each in runners:
            each.go()
        ended = sorted(each.end()[-1].split()[0] for each in runners)
        assert ended == ["refused"] * (7 if not spent else 8) + ["won"] * (not spent)


@pytest.mark.parametrize("dataset", ["shop", "clinic", "bank", "fleet"])
def test_every_account_has_a_lock_whatever_its_name(postgres: Server, dataset: str) -> None:
    """PostgreSQL's number of a lock has a sign, and so has that of about half of all names."""
    with open_ledger(fresh_ledger(postgres, dataset), dataset) as ledger:
        ledger.reserve(ask())
        assert ledger.spent(None).epsilon


def charging(url: str, times: int) -> Child:
    """A client that asks on until so many were released to it, whatever happens to the server."""

    def work(tell: Tell, wait: Callable[[], None]) -> None:
        released = 0
        with open_ledger(url, "shop") as ledger:
            tell("ready")
            while released < times:
                try:
                    tell(f"released {ledger.reserve(ask()).entry}")
                    released += 1
                except LedgerError as error:
                    tell("none" if "nothing was charged" in str(error) else "unknown")
                    time.sleep(0.02)

    return forked(work)


def test_a_server_killed_in_a_burst_of_charges_loses_none(postgres: Server, url: str) -> None:
    clients = [charging(url, 30) for _ in range(4)]
    for each in clients:
        each.wait_for(lambda lines: "ready" in lines)
    for number in range(1, 5):
        clients[0].wait_for(lambda lines, so_many=5 * number: sum("released" in each for each in lines) >= so_many)
        postgres.kill()
        postgres.start()
    lines = [line for each in clients for line in each.end()]
    released = [int(line.split()[1]) for line in lines if line.startswith("released")]
    kept = charged(url)
    assert len(set(released)) == len(released) == 120
    assert set(released) <= kept
    assert len(kept) <= len(released) + lines.count("unknown")
    with open_ledger(url, "shop") as ledger:
        ledger.reserve(ask())


def test_a_client_killed_while_it_holds_the_lock_blocks_nobody(url: str) -> None:
    def hang(tell: Tell, wait: Callable[[], None]) -> None:
        ledger = open_ledger(url, "shop")
        with ledger._writing():
            ledger._append("charge", ["ana", 1, 0, None], {})
            tell("inside")
            wait()

    child = forked(hang)
    child.wait_for(lambda lines: "inside" in lines)
    os.kill(child.process, signal.SIGKILL)
    child.end(killed=True)
    with open_ledger(url, "shop") as ledger:
        ledger.reserve(ask())
    assert len(charged(url)) == 1


def test_two_accounts_in_one_database_know_nothing_of_each_other(postgres: Server, url: str) -> None:
    create_ledger(postgres.url(), "bank")
    with open_ledger(url, "shop") as shop, open_ledger(url, "bank") as bank:
        for _ in range(3):
            shop.reserve(ask())
        assert bank.spent(None).epsilon == 0
        assert bank.reserve(ask()).entry == 3
        assert bank.salt() != shop.salt()
    with pytest.raises(LedgerError, match=r"has 2 accounts: bank, shop"):
        open_ledger(url, None, create=False)
    with open_ledger(f"{url}?dataset=bank", None, create=False) as bank:
        assert bank.dataset == "bank"


def test_two_stewards_who_create_at_once_make_one_account(postgres: Server) -> None:
    postgres.run("DROP SCHEMA IF EXISTS dpsql_ledger CASCADE")

    def create(tell: Tell, wait: Callable[[], None]) -> None:
        wait()
        try:
            tell(create_ledger(postgres.url(), "shop"))
        except LedgerError as error:
            tell("already" if "already" in str(error) else str(error))

    makers = [forked(create) for _ in range(4)]
    for each in makers:
        each.go()
    ended = [each.end()[0] for each in makers]
    assert sorted(line == "already" for line in ended) == [False, True, True, True], ended


def test_what_one_server_released_another_replays(url: str) -> None:
    with open_ledger(url, "shop") as one, open_ledger(url, "shop") as two:
        one.store(one.reserve(ask("ana")).entry, b"f", b"noisy table")
        found = two.find(b"f")
        assert found is not None and found.payload == b"noisy table"
        assert two.replayed(found.entry, "bob", Caps(PRICE, 0))
        assert not one.replayed(found.entry, "bob", Caps(PRICE, 0))
        assert one.spent("bob") == two.spent(None)


def test_an_account_is_never_made_by_first_use(postgres: Server, url: str) -> None:
    with pytest.raises(LedgerError, match=r"there is no ledger of 'other'.*\n.*dpsql ledger create"):
        open_ledger(url, "other")
    postgres.run("DROP SCHEMA dpsql_ledger CASCADE")
    with pytest.raises(LedgerError, match=r"there is no ledger of 'shop'"):
        open_ledger(url, "shop")


def test_a_ledger_moves_between_a_file_and_a_server(postgres: Server, url: str, tmp_path: Path) -> None:
    from dpsql.budget.ledger.maintenance import backup, restore, verify

    with open_ledger(url, "shop") as ledger:
        ledger.store(ledger.reserve(ask()).entry, b"f", b"noisy")
        salt, rows = ledger.salt(), ledger.rows()
    backup(url, tmp_path / "copy")
    with open_ledger(url, "shop") as ledger:
        ledger.reserve(ask())
    done = restore(postgres.url(), tmp_path / "copy", "ste")
    assert done.lost == 0 and done.aside is not None
    assert verify(url).charges == 2
    with open_ledger(url, "shop") as ledger:
        assert ledger.rows()[: len(rows)] == rows and ledger.salt() == salt
        assert ledger.spent(None).epsilon == 2 * (pure_charge(PRICE).epsilon or 0)
        assert ledger.find(b"f") is not None
        ledger.reserve(ask())
    backup(url, tmp_path / "other")
    restore(tmp_path / "file.ledger", tmp_path / "other", "ste", accept_loss=True)
    assert verify(tmp_path / "file.ledger").charges == 3


def test_many_open_ledgers_of_a_process_need_few_connections(postgres: Server, url: str) -> None:
    """As many as asked at once, and a few idle ones; none when the last ledger is closed."""

    def connected() -> int:
        seen = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpsql ledger'"
        return int(str(postgres.run(seen)[0][0]))

    opened = [open_ledger(url, "shop") for _ in range(40)]
    with ThreadPoolExecutor(8) as crowd:
        assert len(set(crowd.map(lambda ledger: ledger.reserve(ask()).entry, opened))) == 40
    deadline = time.monotonic() + 20
    while connected() > 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert 1 <= connected() <= 4, "the server has noticed which were closed"
    for each in opened:
        each.close()
    deadline = time.monotonic() + 20
    while connected() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert connected() == 0
    assert len(charged(url)) == 40


def test_a_fork_does_not_close_the_connections_of_its_parent(url: str) -> None:
    with open_ledger(url, "shop") as ledger:
        ledger.reserve(ask())
        (before,) = ledger._storage._session.ask("SELECT pg_backend_pid()")[0]  # type: ignore[attr-defined]
        forked(lambda tell, wait: ledger.close()).end()
        assert ledger._storage._session.ask("SELECT pg_backend_pid()") == [(before,)]  # type: ignore[attr-defined]
        ledger.reserve(ask())
