"""Upper and lower case as DuckDB has them, whatever the locale of the server is."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.engines.sql.letter_case import LOWERED, UPPERED


def _body(function: str, letters: Mapping[str, str]) -> str:
    old, new = "".join(letters), "".join(letters.values())
    plain = f'{function}($1 COLLATE "C")'
    return f"CASE WHEN octet_length($1) = length($1) THEN {plain} ELSE translate({plain}, '{old}', '{new}') END"


LOWER = _body("lower", LOWERED)
UPPER = _body("upper", UPPERED)
