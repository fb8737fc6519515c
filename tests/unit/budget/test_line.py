"""A line of the log in words, and an entry in an export: who, what, when, at what cost; never the salt."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dpsql.budget.costs import Cost
from dpsql.budget.ledger.entries import (
    ROOT,
    export_entry,
    next_entry,
    read_cost,
    read_error,
    read_log_entry,
    write_error,
)
from dpsql.budget.ledger.interface import ErrorBar, LogEntry

AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
BODY: dict[str, Any] = {
    "at": AT.isoformat(),
    "by": "ste",
    "source": "old.ledger",
    "told": "2 entries are lost",
    "version": 1,
}
PAID = {"at": AT.isoformat(), "cost": ["0.5", "1e-08", "0.01"], "sql": "SELECT 1"}


def line(kind: str, gist: list[Any], body: dict[str, Any] = BODY) -> LogEntry:
    return read_log_entry(next_entry(ROOT, 6, kind, gist, body))


@pytest.mark.parametrize(
    ("kind", "gist", "said"),
    [
        ("release", [4], "release of entry 4"),
        ("replay", ["ana", 4], "replay of entry 4"),
        ("replay", ["ana", 4, 2], "replay of entry 4, release 2"),
        ("replay", ["ana", 4, 2, "research"], "replay of entry 4, release 2"),
        ("replay", ["ana", 4, None, "research"], "replay of entry 4"),
        ("account", ["shop", "00" * 32], "account of dataset 'shop'"),
        ("fact", ["orders", "unique", "7"], "orders: unique (data version 7)"),
        ("caps", ["ana", "1/2", "0"], "caps of ana: ε = 0.5, δ = 0; by ste"),
        ("caps", [None, "3", "1/1000000"], "caps of the dataset: ε = 3, δ = 1e-06; by ste"),
        ("caps", ["ana", "1", "0", "research", None], "caps of ana for research: ε = 1, δ = 0; by ste"),
        ("caps", ["ana", "1", "0", None, "month"], "caps of ana: ε = 1, δ = 0, every month; by ste"),
        ("restore", [1, 0, None], "restored from old.ledger; 2 entries are lost; by ste"),
        ("version", ["v2"], "data version v2; by ste"),
        ("migrate", [], "migrated from version 1; by ste"),
        ("clock", [], "clock; by ste"),
    ],
)
def test_each_kind_of_entry_has_its_words_and_no_cost(kind: str, gist: list[Any], said: str) -> None:
    who, purpose = ("ana", gist[3] if gist[3:] else None) if kind == "replay" else (None, None)
    assert line(kind, gist) == LogEntry(7, AT, kind, who, said, None, purpose)


@pytest.mark.parametrize(("who", "more"), [("ana", []), (None, []), ("ana", ["research"])])
def test_a_charge_says_who_asked_what_for_which_purpose_at_what_cost(who: str | None, more: list[str]) -> None:
    purpose = more[0] if more else None
    told = LogEntry(7, AT, "charge", who, "SELECT 1", Cost(0.5, 1e-8, 0.01), purpose)
    assert line("charge", [who, 5, 0, None, *more], PAID) == told


def test_an_export_has_the_whole_entry_with_its_hash_but_not_the_salt() -> None:
    for kind, gist, shown in (("account", ["shop", "5a" * 32], ["shop"]), ("fact", ["t", "u", "7"], ["t", "u", "7"])):
        row = next_entry(ROOT, 6, kind, gist, BODY)
        assert export_entry(row) == {"number": 7, "kind": kind, "gist": shown, **BODY, "hash": row[4].hex()}


def test_a_cost_and_an_error_are_read_back_as_they_were_written() -> None:
    assert read_cost(PAID) == Cost(0.5, 1e-8, 0.01)
    error = ErrorBar("count(*)", 0.1 + 0.2, "laplace")
    assert read_error(write_error(error)) == error
    assert write_error(None) == {} and read_error({}) is None
