"""The README's table of channels names tests that exist, and the section says what it has to say."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]


def section() -> str:
    text = (ROOT / "README.md").read_text()
    return text.split("\n## Security\n")[1].split("\n## ")[0]


def test_each_channel_has_a_test_that_exists() -> None:
    """So has each way of reading: every table of the section says in its third column which."""
    lines = section().splitlines()
    rows = [line for line, below in pairwise(lines) if line.startswith("| ") and not below.startswith("|---")]
    assert len(rows) >= 13
    for row in rows:
        paths = re.findall(r"`(tests/[\w/]+\.py)`", row.split("|")[3])
        assert paths, row
        for path in paths:
            assert "\ndef test_" in (ROOT / path).read_text(), path


def test_the_section_says_what_is_promised_what_is_not_and_how_to_report() -> None:
    for part in ("### The promise, and against whom", "### What is not covered", "### How to report", "dpsql audit"):
        assert part in section()
    assert "@" not in section(), "reports go through the repository, not to an address"
