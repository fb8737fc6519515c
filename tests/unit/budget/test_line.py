"""A line of the log in words."""

from __future__ import annotations

from typing import Any

import pytest

from dpsql.budget.line import _text


@pytest.mark.parametrize(
    ("kind", "gist", "said"),
    [
        ("release", [4], "release of entry 4"),
        ("replay", ["ana", 4], "replay of entry 4"),
        ("replay", ["ana", 4, 2], "replay of entry 4, release 2"),
        ("account", ["shop"], "account of dataset 'shop'"),
        ("fact", ["orders", "unique", "7"], "orders: unique (data version 7)"),
    ],
)
def test_each_kind_of_entry_has_its_words(kind: str, gist: list[Any], said: str) -> None:
    assert _text(kind, gist, {}) == said
