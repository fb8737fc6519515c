"""Upper and lower case as in DuckDB, for engines that differ: one letter becomes one letter, whatever the locale.

Other engines write ß as SS, lower Σ at the end of a word to ς, and follow the locale of a server or a library.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping


def _pairs(*, lower: bool) -> dict[str, str]:
    """Letters beyond ASCII and what becomes of each. Where Python has several letters, a single title-case one."""
    found = {}
    for code in (*range(128, 0xD800), *range(0xE000, sys.maxunicode + 1)):
        letter = chr(code)
        made = letter.lower() if lower else letter.upper()
        made = made if len(made) == 1 else letter.title()
        if made != letter and len(made) == 1:
            found[letter] = made
    return {**found, "İ": "i"} if lower else {**found, "ß": "ẞ"}


LOWERED: Mapping[str, str] = _pairs(lower=True)
UPPERED: Mapping[str, str] = _pairs(lower=False)
"""The letters beyond ASCII that change."""
SEPARATORS = "".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""What DuckDB trims: all separators of Unicode."""
