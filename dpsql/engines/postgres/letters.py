"""Upper and lower case as DuckDB has them: one letter for one letter, whatever the locale of the server is."""

from __future__ import annotations

import sys


def _pairs(*, lower: bool) -> list[tuple[str, str]]:
    """Letters beyond ASCII and what becomes of each. Where Python has several letters, a single title-case one."""
    found = []
    for code in (*range(128, 0xD800), *range(0xE000, sys.maxunicode + 1)):
        letter = chr(code)
        made = letter.lower() if lower else letter.upper()
        made = made if len(made) == 1 else letter.title()
        if made != letter and len(made) == 1:
            found.append((letter, made))
    return [*found, ("İ", "i")] if lower else [*found, ("ß", "ẞ")]


def _body(function: str, *, lower: bool) -> str:
    pairs = dict(_pairs(lower=lower))
    old, new = "".join(pairs), "".join(pairs.values())
    plain = f'{function}($1 COLLATE "C")'
    return f"CASE WHEN octet_length($1) = length($1) THEN {plain} ELSE translate({plain}, '{old}', '{new}') END"


LOWER = _body("lower", lower=True)
UPPER = _body("upper", lower=False)
