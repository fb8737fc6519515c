"""Mutations of SQL in Python texts: comparisons, clamps, joins and caps that a Python mutation cannot reach."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SWAPS: tuple[tuple[str, str], ...] = (
    (r"<=", "<"),
    (r"<(?![=>])", "<="),
    (r"(?<!-)>=", ">"),
    (r"(?<![<>-])>(?![=>])", ">="),
    (r"(?<![<>=!:])=(?![=>])", "<>"),
    (r"<>", "="),
    (r">>", "<<"),
    (r"(?<= )\+(?= )", "-"),
    (r"(?<= )-(?= )", "+"),
    (r"(?<= )\*(?= )", "+"),
    (r"(?<= )//(?= )", "*"),
    (r"(?i)\bleast\b", "greatest"),
    (r"(?i)\bgreatest\b", "least"),
    (r"(?i)\bcoalesce\b(?=\()", "nullif"),
    (r"(?i)\bnullif\b(?=\()", "coalesce"),
    (r"(?i)\bfloor\b(?=\()", "ceil"),
    (r"(?i)\bceil\b(?=\()", "floor"),
    (r"(?i)\bround\b(?=\()", "ceil"),
    (r"(?i)\btrunc\b(?=\()", "round"),
    (r"(?i)\babs\b(?=\()", ""),
    (r"(?i)\bmin\b(?=\()", "max"),
    (r"(?i)\bmax\b(?=\()", "min"),
    (r"(?i)\bsum\b(?=\()", "max"),
    (r"(?i)\bIS NOT NULL\b", "IS NULL"),
    (r"(?i)\bIS NULL\b", "IS NOT NULL"),
    (r"(?i)\bIS NOT DISTINCT FROM\b", "="),
    (r"\bAND\b(?!.{0,3}\bAND\b)", "OR"),
    (r"\bOR\b", "AND"),
    (r"\bNOT (?!NULL|MATERIALIZED|DISTINCT)", ""),
    (r"\bDISTINCT (?!FROM|ON)", ""),
    (r"\bLEFT JOIN\b", "JOIN"),
    (r"\bFULL JOIN\b", "LEFT JOIN"),
    (r"(?<!LEFT )(?<!FULL )(?<!SEMI )(?<!ANTI )\bJOIN\b", "LEFT JOIN"),
    (r"\bSEMI JOIN\b", "ANTI JOIN"),
    (r"\bANTI JOIN\b", "SEMI JOIN"),
    (r"\bUNION ALL\b", "UNION"),
    (r"\bUNION (?!ALL)", "UNION ALL "),
    (r"\bTRY_CAST\b", "CAST"),
    (r"\bTRY\(", "("),
    (r"\bHUGEINT\b", "BIGINT"),
    (r"\bPARTITION BY u\b", "PARTITION BY 1"),
    (r"(?<![\w.\"'])\d+(?![\w.\"'])", "+1"),
)


def swaps(text: str) -> Iterator[tuple[str, str, str]]:
    """Each changed text, with the fragment before and after."""
    for pattern, new in _SWAPS:
        for found in re.finditer(pattern, text):
            put = str(int(found[0]) + 1) if new == "+1" else new
            changed = text[: found.start()] + put + text[found.end() :]
            if not (pattern.startswith(r"\bAND") and re.search(r"BETWEEN\b[^(]*$", text[: found.start()])):
                yield changed, found[0], put


def is_sql(text: str) -> bool:
    """Does a text look like a piece of SQL, rather than a name or a sentence?"""
    return bool(re.search(r"[A-Z]{2,}|[<>=()*+]|\bas\b", text)) or bool(re.fullmatch(r"[ \d.,]+", text))
