"""Upper and lower case as DuckDB has them: one letter for one letter, whatever the locale of the server is."""

from __future__ import annotations

import sys
import unicodedata


def _pairs(*, lower: bool) -> list[tuple[str, str]]:
    """Letters and what becomes of each. Where the other case is several letters, the simple mapping of Unicode."""
    found = []
    for code in range(128, sys.maxunicode + 1):
        if 0xD800 <= code < 0xE000:
            continue
        letter = chr(code)
        made = letter.lower() if lower else letter.upper()
        if made != letter and len(made) == 1:
            found.append((letter, made))
    return found


def _body(function: str, *, lower: bool, more: tuple[tuple[str, str], ...]) -> str:
    pairs = dict((*_pairs(lower=lower), *more))
    old, new = "".join(pairs), "".join(pairs.values())
    plain = f'{function}($1 COLLATE "C")'
    return f"CASE WHEN octet_length($1) = length($1) THEN {plain} ELSE translate({plain}, '{old}', '{new}') END"


LOWER = _body("lower", lower=True, more=(("İ", "i"),))
UPPER = _body("upper", lower=False, more=())
VERSION = unicodedata.unidata_version
