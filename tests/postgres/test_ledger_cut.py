"""The connection cut, and the client killed, after every single message of a charge: never released without its charge,
never a fork, and "nothing was charged" is true whenever it is said."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest
from cutting_proxy import ANSWERED, ASKED, Proxy
from ledger_crowd import Child, Tell, Watch, ask, charged, forked
from postgres_server import PASSWORD, ROLE, Server, fresh_ledger

from dpsql.budget import open_ledger
from dpsql.errors import LedgerError

pytestmark = pytest.mark.true_randomness  # a forked client must not draw the ids of another
PLAIN = "?sslmode=disable&gssencmode=disable"


@pytest.fixture
def direct(postgres: Server) -> str:
    return fresh_ledger(postgres)


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    made = Proxy(postgres.port)
    with made.running():
        yield made


def through(server: Server, proxy: Proxy) -> str:
    return server.url(ROLE, PASSWORD, port=proxy.port) + PLAIN


@pytest.fixture
def watch(direct: str) -> Iterator[Watch]:
    """The ledger past the proxy; in the end it is one whole chain with every charge that was seen."""
    with open_ledger(direct, "shop") as ledger:
        ledger.reserve(ask())
    with closing(Watch(direct)) as made:
        yield made
    assert len(charged(direct)) > 40


def messages_of_a_charge(server: Server) -> dict[str, int]:
    proxy = Proxy(server.port)
    with proxy.running(), open_ledger(through(server, proxy), "shop") as ledger:
        proxy.arm(ASKED, 0)
        ledger.reserve(ask())
        return dict(proxy.seen)


def test_a_connection_cut_after_any_message_of_a_charge(postgres: Server, proxy: Proxy, watch: Watch) -> None:
    outcomes: set[tuple[bool, bool]] = set()
    messages = messages_of_a_charge(postgres)
    assert messages[ASKED] > 8 and messages[ANSWERED] > 12
    with open_ledger(through(postgres, proxy), "shop") as ledger:
        for way, number in [(way, number) for way, count in messages.items() for number in range(1, count + 1)]:
            watch.new()
            proxy.arm(way, number)
            entry, said = 0, ""
            try:
                entry = ledger.reserve(ask()).entry
            except LedgerError as error:
                said = str(error)
            new = watch.new()
            assert proxy.struck, (way, number)
            assert new == {entry} if entry else len(new) <= 1, (way, number)
            assert not ("nothing was charged" in said and new), (way, number, said)
            outcomes.add((bool(entry), bool(new)))
            assert {ledger.reserve(ask()).entry} == watch.new()
    assert {(True, True), (False, False)} <= outcomes


def one_charge(url: str) -> Child:
    def work(tell: Tell, wait: Callable[[], None]) -> None:
        with open_ledger(url, "shop") as ledger:
            tell("open")
            wait()
            tell(f"released {ledger.reserve(ask()).entry}")
            wait()

    return forked(work)


def test_a_client_killed_after_any_message_of_a_charge(postgres: Server, direct: str, watch: Watch) -> None:
    messages, charges = messages_of_a_charge(postgres), 0
    steps = [(way, number) for way, count in messages.items() for number in range(1, count + 1)]
    with open_ledger(direct, "shop") as other:
        for way, number in steps:
            watch.new()
            proxy = Proxy(postgres.port)
            child = one_charge(through(postgres, proxy))
            with proxy.running():
                child.wait_for(lambda lines: "open" in lines)
                proxy.arm(way, number, partial(os.kill, child.process, signal.SIGKILL))
                child.go()
                lines = child.end(killed=True)
            assert other.reserve(ask()).entry
            *new, _ = sorted(watch.new())
            assert [line for line in lines if line != "open"] in ([], [f"released {each}" for each in new]), (
                way,
                number,
            )
            charges += len(new)
    assert 0 < charges < len(steps)
