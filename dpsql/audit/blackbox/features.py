"""Answers as features, numbers and words: values, keys, order, NULLs, the number of rows and errors all become some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.blackbox.observe import Observation

MOST_WORDS = 12
ABSENT = "absent"
Seen = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Table:
    """Features of many answers: numbers (NaN where there is none), and whether a word was seen."""

    numbers: Mapping[str, NDArray[np.float64]]
    flags: Mapping[str, NDArray[np.bool_]]


def seen_in(observation: Observation, noisy: Sequence[bool]) -> Seen:
    """The features of one answer. Rows are told apart by what has no noise in them: their keys."""
    seen: dict[str, object] = {"error": observation.error, "shape": observation.shape, "rows": len(observation.rows)}
    keys = [repr(tuple(v for v, n in zip(row, noisy, strict=False) if not n)) for row in observation.rows]
    seen["order"] = "|".join(keys)
    count: Counter[str] = Counter()
    for key, row in zip(keys, observation.rows, strict=True):
        count[key] += 1
        place = key if count[key] == 1 else f"{key} #{count[key]}"
        seen |= {f"{place} [{i}]": value for i, value in enumerate(row) if i < len(noisy) and noisy[i]}
        seen[f"{place} shown"] = "yes"
    return seen


def names_in(seen: Sequence[Seen]) -> dict[str, bool]:
    """All features of these answers, and whether each is a number."""
    names: dict[str, bool] = {}
    for each in seen:
        for name, value in each.items():
            names[name] = names.get(name, True) and (value is None or _number(value) is not None)
    return names


def words_in(seen: Sequence[Seen], names: Mapping[str, bool]) -> list[tuple[str, str]]:
    """The words that vary: of each feature the most frequent ones, and whether it is there, or NULL."""
    found: list[tuple[str, str]] = []
    for name, numeric in names.items():
        words = Counter(_word(each, name, numeric) for each in seen)
        if len(words) > 1:
            found += [(name, word) for word, _ in words.most_common(MOST_WORDS)]
    return found


def tabulate(seen: Sequence[Seen], names: Mapping[str, bool], words: Sequence[tuple[str, str]]) -> Table:
    """The features of these answers, for names and words that were found before."""
    numeric = [name for name, number in names.items() if number]
    numbers = {name: np.array([_or_nan(each.get(name)) for each in seen]) for name in numeric}
    asked = {name: [_word(each, name, names[name]) for each in seen] for name, _ in words}
    flags = {f"{name} is {word}": np.array([w == word for w in asked[name]], np.bool_) for name, word in words}
    return Table(numbers, flags)


def _word(seen: Seen, name: str, numeric: bool) -> str:
    if name not in seen:
        return ABSENT
    value = seen[name]
    return "NULL" if value is None else "a number" if numeric else str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None if value is None else float(value)
    if isinstance(value, int | float | Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.timestamp()
    return float(value.toordinal()) if isinstance(value, date) else None


def _or_nan(value: object) -> float:
    number = _number(value)
    return np.nan if number is None else number
