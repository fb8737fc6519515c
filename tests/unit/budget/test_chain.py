"""The hash chain: no part of an entry, nor its place, can change without changing the hash."""

from __future__ import annotations

from dpsql.budget.chain import ROOT, following, link


def test_every_part_of_an_entry_is_in_its_hash() -> None:
    entry = (ROOT, 3, "charge", '["ana",5,0,null]', '{"at":"now"}')
    first = link(*entry)
    others = [(b"x" * 32, *entry[1:]), (ROOT, 4, *entry[2:]), (ROOT, 3, "replay", *entry[3:]),
              (ROOT, 3, "charge", '["ana",4,0,null]', entry[4]), (*entry[:4], '{"at":"then"}')]  # fmt: skip
    assert len({first, *(link(*other) for other in others)}) == 1 + len(others)


def test_an_entry_follows_the_one_before_it() -> None:
    number, kind, gist, body, digest = following(ROOT, 0, "account", ["d"], {"at": "now"})
    assert (number, kind, gist, body) == (1, "account", '["d"]', '{"at":"now"}')
    assert digest == link(ROOT, 1, kind, gist, body)
    assert following(digest, 1, "clock", [], {})[4] == link(digest, 2, "clock", "[]", "{}")
