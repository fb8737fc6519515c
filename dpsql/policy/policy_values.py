"""Reads and validates single values of a policy (exact numbers, bounds, lists, durations), and reports mistakes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation

from dpsql.policy.identifiers import nearest

Bound = int | Decimal | date | datetime
Value = str | int | bool | date | datetime

LARGEST_DELTA = Decimal("0.01")
WINDOWS = ("day", "week", "month", "quarter", "year")
"""The windows of the calendar with which an account may start afresh, from short to long."""

_NO_VALUES = "list the values that the column may take, or leave `values` out"


def to_decimal(value: object) -> Decimal:
    """The number that was written, exactly: `0.1` is a tenth, whether it came as text, float or integer."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str)):
        raise wrong(f"{show(value)} is not a number", "write a number such as 0.5 or 1e-6")
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise wrong(f"{show(value)} is not a number", "write a number such as 0.5 or 1e-6") from None
    if not number.is_finite():
        raise wrong(f"{show(value)} is not a finite number", "write a finite number such as 0.5")
    if number and abs(number.adjusted()) > 300:
        raise wrong(f"{show(value)} is out of range", "write a number between 1e-300 and 1e300")
    return number


def read_epsilon(value: object) -> Decimal:
    """A privacy loss: finite and above zero."""
    number = to_decimal(value)
    if number <= 0:
        raise wrong(f"epsilon must be greater than 0, not {show(value)}", "write a number such as 0.5")
    return number


def read_delta(value: object) -> Decimal:
    """A failure probability: zero for pure differential privacy, else far below one over the units."""
    number = to_decimal(value)
    if not 0 <= number < 1:
        raise wrong(f"delta is a probability in [0, 1), not {show(value)}", "write 0 or a small number such as 1e-6")
    if number > LARGEST_DELTA:
        raise wrong(
            f"delta = {show(value)} is too large to protect anyone (at most 0.01)",
            "choose a delta far below one over the number of units, such as 1e-6",
        )
    return number


def read_every(value: object) -> str | None:
    """The window with which an account starts afresh, if it does."""
    if value is None or value in WINDOWS:
        return None if value is None else str(value)
    guess = nearest(value, WINDOWS) if isinstance(value, str) else None
    fix = f"did you mean {guess}?" if guess else f"write one of {', '.join(WINDOWS)}; without it a cap never resets"
    raise wrong(f"{show(value)} is not a calendar window", fix)


def read_count(value: object) -> int:
    """A whole number from one on."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"{show(value)} is not a whole number", "write a whole number such as 10")
    if not 1 <= value < 2**31:
        raise wrong(f"must be at least 1 and below 2^31, not {value}", "write a whole number such as 10")
    return value


def read_flag(value: object) -> bool:
    """True or false, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise wrong(f"{show(value)} is neither true nor false", "write true or false")
    return value


_HOURS = {"hour": 1, "day": 24, "week": 24 * 7}


def read_duration(value: object) -> timedelta | None:
    """How long something is kept: `12 hours`, `30 days`, `2 weeks`, or `forever` (None)."""
    if value is None or isinstance(value, timedelta):
        return value
    words = value.split() if isinstance(value, str) else []
    if words == ["forever"]:
        return None
    unit = words[1].lower().removesuffix("s") if len(words) == 2 else ""
    if unit not in _HOURS or not words[0].isascii() or not words[0].isdigit():
        raise wrong(f"{show(value)} is not a length of time", "write 12 hours, 30 days, 2 weeks, or forever")
    count = int(words[0]) if len(words[0]) < 7 else 0
    if not 0 < count * _HOURS[unit] <= 24 * 36525:
        raise wrong(f"must be at least 1 hour and at most 100 years, not {show(value)}", "write 30 days, or forever")
    return timedelta(hours=count * _HOURS[unit])


_BYTES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


def read_size(value: object) -> int | None:
    """An amount of memory or disk in bytes: `512MB`, `2GB`, `1TB`."""
    if value is None:
        return None
    text = str(value).replace(" ", "").upper() if isinstance(value, str) else ""
    count, unit = text[:-2], text[-2:]
    known = unit in _BYTES and count.isascii() and count.isdigit() and len(count) < 7
    size = int(count) * _BYTES[unit] if known else value
    if isinstance(size, bool) or not isinstance(size, int):
        raise wrong(f"{show(value)} is not an amount of memory", "write 512MB, 2GB or 1TB")
    if not 64 * 10**6 <= size <= 10**15:
        raise wrong(f"must be at least 64MB and at most 1000TB, not {show(value)}", "write 512MB, 2GB or 1TB")
    return size


def read_name(value: object) -> str:
    """The name of a dataset, table or column."""
    if not isinstance(value, str):
        raise wrong(f"{show(value)} is not a name", 'put the name in quotes, as in "2024"')
    if not value.strip() or not value.isprintable():
        raise wrong(f"{show(value)} is not a usable name", "write a name of printable characters")
    return value


def read_bound(value: object) -> Bound | None:
    """The smallest or largest value of a column: a number, a date or a time stamp (in UTC, without zone)."""
    if value is None:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        to_decimal(value)
        return value
    if isinstance(value, datetime):
        return _utc(value)
    if isinstance(value, date):
        return value
    if isinstance(value, str):
        return _bound_from_text(value)
    if isinstance(value, (float, Decimal)):
        return to_decimal(value)
    raise wrong(f"{show(value)} is not a bound", "write a number, or a date such as 2024-12-31")


TYPES = ("text", "integer", "double", "boolean", "date", "timestamp")


def read_type(value: object) -> str | None:
    """The type of a column whose source says none: a word, or `decimal(18, 2)`."""
    if value is None:
        return None
    word = "".join(value.lower().split()) if isinstance(value, str) else ""
    sizes = re.fullmatch(r"decimal\((\d{1,2}),(\d{1,2})\)", word)
    if word in TYPES or (sizes and int(sizes[2]) <= int(sizes[1]) <= 18):
        return word
    guess = nearest(word, TYPES)
    fix = f"did you mean {guess}?" if guess else f"write {', '.join(TYPES)}, or decimal(18, 2) with at most 18 digits"
    raise wrong(f"{show(value)} is not a type", fix)


def read_values(value: object) -> tuple[Value, ...] | None:
    """The values that a column may take: all of one kind, each once, NULL not among them."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise wrong(f"{show(value)} is not a list of values", "write a list such as [north, south]")
    if not value:
        raise wrong("the list of values is empty", _NO_VALUES)
    mistakes = [*_wrong_items(value), *_repeated(value)]
    kinds = {kind(each) for each in value} - {None}
    if len(kinds) > 1:
        mistakes.append(_mixed(kinds))
    if mistakes:
        raise Mistakes(*mistakes)
    return tuple(_utc(each) if isinstance(each, datetime) else each for each in value)


def kind(value: object) -> str | None:
    """What sort of value this is, in the steward's words; None if it is none that a policy can list."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, datetime):
        return "timestamp"
    if isinstance(value, date):
        return "date"
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int) else None


def show(value: object) -> str:
    """A value as the steward would write it, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    text = str(value)
    return text if len(text) <= 40 else text[:39] + "…"


def _wrong_items(values: Sequence[object]) -> list[Mistake]:
    mistakes = []
    for position, value in enumerate(values):
        if value is None:
            mistakes.append(
                Mistake(
                    (position,),
                    "NULL is not listed among the values",
                    "take null out; `nulls: true` (the default) allows NULL, `nulls: false` forbids it; "
                    "for the text null write 'null' in quotes",
                )
            )
        elif isinstance(value, int) and abs(value) >= 10**301:
            mistakes.append(
                Mistake((position,), f"{show(value)} is out of range", "write a number between 1e-300 and 1e300")
            )
        elif kind(value) is None:
            mistakes.append(
                Mistake(
                    (position,),
                    f"{show(value)} cannot be listed: values are text, integers, booleans or dates",
                    "declare min and max for a column of fractional numbers; put texts in quotes",
                )
            )
    return mistakes


def _repeated(values: Sequence[object]) -> list[Mistake]:
    seen: set[tuple[str, object]] = set()
    mistakes = []
    for position, value in enumerate(values):
        sort = kind(value)
        if sort is None:
            continue
        if (sort, value) in seen:
            mistakes.append(Mistake((position,), f"{show(value)} is listed twice", "list each value once"))
        seen.add((sort, value))
    return mistakes


def _mixed(kinds: set[str | None]) -> Mistake:
    fix = "make them all of the column's type"
    if "text" in kinds:
        fix += "; for a text column put every value in quotes"
    if "boolean" in kinds:
        fix += " (YAML reads yes, no, on, off, true and false as booleans)"
    return Mistake((), f"the values are of mixed types: {', '.join(sorted(filter(None, kinds)))}", fix)


def _bound_from_text(text: str) -> Bound:
    for read in (_whole, to_decimal, date.fromisoformat, datetime.fromisoformat):
        try:
            bound: Bound = read(text)
        except ValueError:
            continue
        return _utc(bound) if isinstance(bound, datetime) else bound
    raise wrong(
        f"{show(text)} is not a bound: only numbers, dates and time stamps have min and max",
        "write a number, or a date such as 2024-12-31; for texts list the `values` instead",
    )


def _whole(text: str) -> int:
    return int(text)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


# mistakes in a policy

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake of the steward; `path` leads from the top of the policy to the key."""

    path: Path
    reason: str
    fix: str

    @property
    def key(self) -> str:
        """The dotted key, as in `tables.orders.columns.amount.max`."""
        return ".".join(str(step) for step in self.path)

    def under(self, path: Path) -> Mistake:
        """The same mistake, seen from further up."""
        return Mistake(path + self.path, self.reason, self.fix)


class Mistakes(ValueError):
    """Several mistakes at once; a ValueError, so that pydantic collects it with those of other keys."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__("; ".join(f"{each.key}: {each.reason}" if each.path else each.reason for each in mistakes))
        self.mistakes = mistakes


def wrong(reason: str, fix: str) -> Mistakes:
    """The mistake of the very key that is being read."""
    return Mistakes(Mistake((), reason, fix))


SERVER_ADDRESS = re.compile(r"postgres(ql)?://", re.IGNORECASE)
_SECRET = re.compile(r"//[^/?#]*:[^/?#]*@|[?&](ssl)?password=", re.IGNORECASE)


def read_location(value: object) -> str | None:
    """A file, or the address of a database; a policy is read by many, so it holds no password, nor is one shown."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise wrong(f"{show(value)} is not a ledger location", "write a file name, or postgresql://user@host/database")
    if SERVER_ADDRESS.match(value) and _SECRET.search(value):
        raise wrong(
            "the address of the ledger holds a password",
            "leave it out, and keep it in a password file (~/.pgpass) or in PGPASSWORD where dpsql runs",
        )
    return value
