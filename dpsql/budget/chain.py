"""The hash chain: each entry vouches for all entries before it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

ROOT = sha256(b"dpsql ledger 1").digest()
"""What the first entry follows."""


Row = tuple[int, str, bytes]
"""An entry: its number, its body (a JSON object in ASCII, kept as the text that was hashed) and its hash."""


def link(head: bytes, number: int, body: str) -> bytes:
    """The hash of the entry that follows `head`; the number ends at the space, so nothing can be shifted."""
    return sha256(head + b"%d " % number + body.encode()).digest()


def following(head: bytes, number: int, body: dict[str, Any]) -> Row:
    """The entry that comes after number `number`, whose hash is `head`."""
    text = json.dumps(body, separators=(",", ":"), allow_nan=False)
    return number + 1, text, link(head, number + 1, text)
