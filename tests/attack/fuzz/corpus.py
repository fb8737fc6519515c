"""What mutations start from: the examples of all refusals, the forms of all functions, and files that are given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from attack.fuzz.grammar import FORMS
from dpsql.refusals import REFUSALS

_NAMES = {"customers": "people", "customer_id": "person", "members": "people", "lineitem": "orders",
"customer": "people",
          "status": "kind", "weight": "number", "city": "note"}  # fmt: skip
_BLOCK = re.compile(r"```(?:sql|python|console)?\n(.*?)```", re.S)
_QUOTED = re.compile(r"[\"'](\s*(?:SELECT|WITH)\b.*?)[\"'](?=[,)\s])", re.S)


def built_in() -> list[str]:
    """Without any file."""
    refusals = [text for refusal in REFUSALS.values() for text in (refusal.example, refusal.instead)]
    return [renamed(text) for text in refusals] + [f"SELECT count({form}) FROM people" for form in FORMS]


def read(paths: Iterable[Path]) -> list[str]:
    """The statements of SQL files (golden cases are divided by ---), and the SQL inside pages."""
    found: list[str] = []
    for path in sorted(each for given in paths for each in ([given] if given.is_file() else given.rglob("*"))):
        if path.suffix == ".sql":
            found += path.read_text().split("\n---\n")
        elif path.suffix == ".md":
            blocks = _BLOCK.findall(path.read_text())
            found += [text for block in blocks for text in (_QUOTED.findall(block) or [block])]
    return [renamed(text.strip()) for text in found if text.strip() and len(text) < 5_000]


def renamed(sql: str) -> str:
    """The statement over the tables of the canaries."""
    for old, new in _NAMES.items():
        sql = re.sub(rf"\b{old}\b", new, sql)
    return sql
