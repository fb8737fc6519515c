"""The hash chain: no part of an entry, nor its place, can change without changing the hash."""

from __future__ import annotations

import math

import pytest

from dpsql.budget.ledger.entries import ROOT, entry_hash, next_entry


def test_every_part_of_an_entry_is_in_its_hash() -> None:
    entry = (ROOT, 3, "charge", '["ana",5,0,null]', '{"at":"now"}')
    first = entry_hash(*entry)
    others = [(b"x" * 32, *entry[1:]), (ROOT, 4, *entry[2:]), (ROOT, 3, "replay", *entry[3:]),
              (ROOT, 3, "charge", '["ana",4,0,null]', entry[4]), (*entry[:4], '{"at":"then"}')]  # fmt: skip
    assert len({first, *(entry_hash(*other) for other in others)}) == 1 + len(others)


def test_an_entry_follows_the_one_before_it() -> None:
    number, kind, gist, body, digest = next_entry(ROOT, 0, "account", ["d"], {"at": "now"})
    assert (number, kind, gist, body) == (1, "account", '["d"]', '{"at":"now"}')
    assert digest == entry_hash(ROOT, 1, kind, gist, body)
    assert next_entry(digest, 1, "clock", [], {})[4] == entry_hash(digest, 2, "clock", "[]", "{}")


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_json_cannot_say_is_never_written(number: float) -> None:
    for gist, body in (([number], {}), ([], {"x": number})):
        with pytest.raises(ValueError, match="JSON"):
            next_entry(ROOT, 0, "charge", gist, body)
