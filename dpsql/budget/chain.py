"""The hash chain: each entry vouches for all entries before it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

ROOT = sha256(b"dpsql ledger 2").digest()
"""What the first entry follows."""

Row = tuple[int, str, str, str, bytes]
"""An entry: its number, its kind, its gist (a JSON array: what adds up), its body (a JSON object: the rest, for
people) and its hash. The gist stands apart so that a ledger of thousands is added up without reading every body."""


def link(head: bytes, number: int, kind: str, gist: str, body: str) -> bytes:
    """The hash of the entry that follows `head`.

    JSON in ASCII has no line break and a kind no space, so no part can be shifted into the next.
    """
    return sha256(head + f"{number} {kind} {gist}\n{body}".encode()).digest()


def following(head: bytes, number: int, kind: str, gist: list[Any], body: dict[str, Any]) -> Row:
    """The entry that comes after number `number`, whose hash is `head`."""
    short, rest = _json(gist), _json(body)
    return number + 1, kind, short, rest, link(head, number + 1, kind, short, rest)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
