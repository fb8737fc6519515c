"""Dates and timestamps: parts, periods, differences, names, formats and counts of seconds."""

from __future__ import annotations

import re
from datetime import date

from sqlglot import exp

from dpsql.expressions.expression import Expression, Literal, Value
from dpsql.expressions.functions.function import (
    MOMENT,
    NUMBER,
    STAMP,
    WHOLE,
    WORDS,
    Anything,
    Builder,
    Elsewhere,
    Function,
    Listed,
    Parameter,
    constant,
)
from dpsql.expressions.types import DATE, DOUBLE, TEXT, TIMESTAMP, Kind, integer
from dpsql.expressions.typing import Mismatch, call, require

PARTS = {
    "YEAR": (-(10**7), 10**7), "MONTH": (1, 12), "DAY": (1, 31), "HOUR": (0, 23), "MINUTE": (0, 59), "SECOND": (0, 59),
    "QUARTER": (1, 4), "WEEK": (1, 53), "DAYOFWEEK": (0, 6), "DOW": (0, 6), "ISODOW": (1, 7), "DOY": (1, 366),
    "DECADE": (-(10**6), 10**6), "CENTURY": (-(10**5), 10**5), "MILLENNIUM": (-(10**4), 10**4), "ERA": (0, 1),
    "ISOYEAR": (-(10**7), 10**7), "YEARWEEK": (-(10**9), 10**9), "MILLISECOND": (0, 59_999),
    "MICROSECOND": (0, 59_999_999),
}  # fmt: skip
_ALIASES = {
    "DAYOFWEEK": "DOW", "WEEKDAY": "DOW", "DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY", "WEEKOFYEAR": "WEEK",
    "DAYOFWEEKISO": "ISODOW", "YEARS": "YEAR", "MONTHS": "MONTH", "DAYS": "DAY", "HOURS": "HOUR", "MINUTES": "MINUTE",
    "SECONDS": "SECOND", "WEEKS": "WEEK", "QUARTERS": "QUARTER", "MILLISECONDS": "MILLISECOND", "DECADES": "DECADE",
    "MICROSECONDS": "MICROSECOND", "CENTURIES": "CENTURY", "MILLENNIA": "MILLENNIUM",
}  # fmt: skip
_CLOCK = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
UNIT = Parameter((Kind.TEXT,), accepts=lambda value: None)
LAPSE = Parameter((Kind.INTERVAL,), accepts=lambda value: None)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
_E = Elsewhere()
_ALL = Anything()


def part(name: str, moment: Expression) -> Expression:
    """A part of a date or timestamp, by its name."""
    name = _ALIASES.get(name.upper(), name.upper())
    if name in ("EPOCH", "JULIAN"):
        return call(name.lower(), DOUBLE, require(moment, *MOMENT.kinds, what=f"EXTRACT({name} …)"))
    if name not in PARTS:
        raise Mismatch(f"the date part {name.lower()} is not known; use {', '.join(sorted(PARTS)).lower()}")
    clock = name in _CLOCK
    require(moment, *((Kind.TIMESTAMP,) if clock and moment.type != DATE else MOMENT.kinds), what=f"EXTRACT({name} …)")
    return call("part", integer(*PARTS[name]), moment, option=name.lower())


def _named(name: str, *nodes: type[exp.Expr], aliases: tuple[str, ...] = ()) -> Function:
    def build(args: tuple[Expression, ...]) -> Expression:
        return part(name, args[0])

    return Function(name, (MOMENT,), build=build, node=nodes, aliases=aliases, reads=("this",))


def _word(expression: Expression) -> str:
    return str(expression.value) if isinstance(expression, Literal) else ""


def _date_part(args: tuple[Expression, ...]) -> Expression:
    return part(_word(args[0]), args[1])


def _unit(expression: Expression, what: str) -> str:
    unit = _word(expression).upper()
    unit = unit if unit in UNITS else _ALIASES.get(unit, unit)
    if unit not in UNITS:
        raise Mismatch(f"{what} takes one of {', '.join(UNITS).lower()}")
    return unit.lower()


def _trunc(args: tuple[Expression, ...]) -> Expression:
    return call("date_trunc", TIMESTAMP, args[1], option=_unit(args[0], "DATE_TRUNC"))


def _between(op: str) -> Builder:
    """The unit, the start and the end; the call has the end first."""

    def build(args: tuple[Expression, ...]) -> Expression:
        unit, start, end = args
        return call(op, integer(-(2**50), 2**50), end, start, option=_unit(unit, op.upper()))

    return build


def interval_parts(written: str) -> tuple[int, int, int]:
    """Months, days and microseconds of an interval constant, as `convert` hands it over."""
    months, days, micros = written.split()
    return int(months), int(days), int(micros)


def _bucket(args: tuple[Expression, ...]) -> Expression:
    months, days, micros = interval_parts(_word(args[0]))
    lengths = [months > 0, days > 0 or micros > 0]
    if min(months, days, micros) < 0 or sum(lengths) != 1 or months > 12_000 or days > 400_000 or micros > 10**16:
        raise Mismatch("TIME_BUCKET takes a positive interval, of months or of days and less: INTERVAL 15 MINUTE")
    if micros and args[1].type == DATE:
        raise Mismatch("TIME_BUCKET of a date takes whole days or months; cast the date to a timestamp")
    return call("time_bucket", args[1].type, args[1], option=(months, days, micros))


_PLAIN = "YmdHMSjyIpuwVGfaAbB"
_SPELLED = re.compile(rf"(?:[^%\0]|%[{_PLAIN}]|%-[mdHMSIjy]|%%)*")
_READ = re.compile(r"(?:[^%\0]|%[YmdHMSyjbBp]|%I|%f|%%)*")


def _format(value: Value) -> str | None:
    if len(str(value)) <= 100 and _SPELLED.fullmatch(str(value)):
        return None
    return f"takes a format of at most 100 characters with %{', %'.join(_PLAIN)}"


def _readable(value: Value) -> str | None:
    if len(str(value)) <= 100 and _READ.fullmatch(str(value)):
        return None
    return "takes a format of at most 100 characters with %Y, %m, %d, %H, %M, %S, %y, %j, %b, %B, %p, %I, %f"


def _formatted(moment: date, spelled: str) -> str:
    """Only numbers: names depend on the locale of this process, and short years on its library."""
    if re.search(r"%[^YmdHMSj%]", spelled) or moment.year < 1000:
        raise ValueError(spelled)
    return moment.strftime(spelled)


def _strftime(args: tuple[Expression, ...]) -> Expression:
    """DuckDB takes the timestamp and the format in either order."""
    one, two = args
    if one.type.kind is Kind.TEXT:
        one, two = two, one
    it = MOMENT.check(one, "STRFTIME")
    return call("strftime", TEXT, it, constant(_format).check(two, "STRFTIME"))


def _strptime(args: tuple[Expression, ...]) -> Expression:
    return call("try_strptime", TIMESTAMP, *args)


def _epoch_ms(args: tuple[Expression, ...]) -> Expression:
    """The milliseconds of a timestamp; for an integer, the timestamp."""
    (it,) = args
    if it.type.kind is Kind.INTEGER:
        return call("make_timestamp_ms", TIMESTAMP, WHOLE.check(it, "EPOCH_MS"))
    return call("epoch_ms", integer(-(2**63), 2**63 - 1), MOMENT.check(it, "EPOCH_MS"))


def _date(args: tuple[Expression, ...]) -> Expression:
    (it,) = args
    if it.type == DATE:
        return it
    return call("cast", DATE, require(it, Kind.TIMESTAMP, Kind.TEXT, what="DATE"))


def _count(name: str, *nodes: type[exp.Expr], sql: str | None = None) -> Function:
    return Function(name, (MOMENT,), integer(-(2**63), 2**63 - 1), null=True, sql=sql, node=nodes)


_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""The seconds of the years 1 to 9999."""

FUNCTIONS: tuple[Function, ...] = (
    Function("date_part", (UNIT, MOMENT), build=_date_part, aliases=("datepart",), node=exp.Extract,
             reads=("this", "expression"),
             forms=(*(f"extract({p} FROM a)" for p in (*PARTS, "EPOCH", "JULIAN") if p != "DAYOFWEEK"),
                    "date_part('year', a)")),
    _named("year", exp.Year), _named("month", exp.Month),
    _named("day", exp.Day, exp.DayOfMonth, aliases=("dayofmonth",)), _named("hour", exp.Hour),
    _named("minute", exp.Minute), _named("second", exp.Second),
    _named("quarter", exp.Quarter), _named("week", exp.Week, exp.WeekOfYear, aliases=("weekofyear",)),
    _named("dayofweek", exp.DayOfWeek, aliases=("weekday",)), _named("isodow", exp.DayOfWeekIso),
    _named("dayofyear", exp.DayOfYear), _named("decade"), _named("century"), _named("millennium"), _named("era"),
    _named("isoyear"), _named("yearweek"), _named("millisecond"), _named("microsecond"),
    Function("date_trunc", (UNIT, MOMENT), build=_trunc, aliases=("datetrunc",),
             node=(exp.TimestampTrunc, exp.DateTrunc), reads=("unit", "this"),
             forms=tuple(f"date_trunc('{u.lower()}', a)" for u in UNITS)),
    Function("date_diff", (UNIT, MOMENT, MOMENT), build=_between("date_diff"), node=exp.DateDiff, aliases=("datediff",),
             reads=("unit", "expression", "this"), forms=tuple(f"date_diff('{u.lower()}', a, b)" for u in UNITS)),
    Function("date_sub", (UNIT, MOMENT, MOMENT), build=_between("date_sub"), aliases=("datesub",),
             forms=tuple(f"date_sub('{u.lower()}', a, b)" for u in UNITS)),
    Function("time_bucket", (LAPSE, MOMENT), build=_bucket, node=exp.DateBin, reads=("this", "expression"),
             forms=("time_bucket(INTERVAL 15 MINUTE, a)", "time_bucket(INTERVAL 1 WEEK, a)",
                    "time_bucket(INTERVAL 7 MONTH, a)", "time_bucket(INTERVAL 10 YEAR, a)",
                    "time_bucket(INTERVAL 5 DAY, a)")),
    Function("last_day", (MOMENT,), DATE, null=True, node=exp.LastDay),
    Function("dayname", (MOMENT,), TEXT, Listed(DAYS), null=True, growth=(0, 9), node=exp.Dayname, reads=("this",),
             value=lambda a: DAYS[a.weekday()]),
    Function("monthname", (MOMENT,), TEXT, Listed(MONTHS), null=True, growth=(0, 9), node=exp.Monthname,
             reads=("this",), value=lambda a: MONTHS[a.month - 1]),
    Function("strftime", (Parameter((*MOMENT.kinds, Kind.TEXT)),) * 2, TEXT, _ALL, sql="strftime({0}, {1})", null=True,
             growth=(0, 1000), build=_strftime, value=_formatted, node=exp.TimeToStr, reads=("this", "format"),
             forms=("strftime(a, '%Y-%m')", "strftime(a, '%Y-%m-%d %H:%M:%S')", "strftime(a, '%A %-d %b %j %V')",
                    "strftime('%d.%m.%y %I %p %u %w %G %f %%', a)")),
    Function("strptime", (WORDS, constant(_readable)), TIMESTAMP, build=_strptime, node=exp.StrToTime,
             reads=("this", "format"), forms=("strptime(a, '%Y-%m-%d')", "strptime(a, '%Y')")),
    Function("try_strptime", (WORDS, constant(_readable)), TIMESTAMP, _ALL, null=True,
             forms=("try_strptime(a, '%Y-%m-%d')", "try_strptime(a, '%d %b %Y %H:%M:%S')")),
    Function("epoch", (MOMENT,), DOUBLE, null=True, node=exp.TimeToUnix),
    Function("epoch_ms", (Parameter((*MOMENT.kinds, Kind.INTEGER, Kind.TEXT)),), build=_epoch_ms, null=True),
    _count("epoch_us"),
    Function("epoch_ns", (STAMP,), integer(-(2**63), 2**63 - 1), null=True,
             sql="epoch_ns(CASE WHEN {0} BETWEEN TIMESTAMP '1678-01-01' AND TIMESTAMP '2261-12-31' THEN {0} END)"),
    Function("julian", (MOMENT,), DOUBLE, null=True),
    Function("to_timestamp", (NUMBER,), TIMESTAMP, _ALL, null=True,
             sql=f"timezone('UTC', to_timestamp(CASE WHEN {{0}} BETWEEN {_FIRST} AND {_LAST} THEN {{0}} END))"),
    Function("make_timestamp", (WHOLE,), TIMESTAMP, _ALL, null=True, forms=("make_timestamp(a // 1000)",),
             sql=f"make_timestamp(CASE WHEN {{0}} BETWEEN {_FIRST}000000 AND {_LAST}999999 THEN {{0}} END)"),
    Function("make_timestamp_ms", (WHOLE,), TIMESTAMP, _ALL, null=True,
             sql=f"make_timestamp_ms(CASE WHEN {{0}} BETWEEN {_FIRST}000 AND {_LAST}999 THEN {{0}} END)"),
    Function("make_date", (WHOLE, WHOLE, WHOLE), DATE, _ALL, null=True, sql=_E, node=exp.DateFromParts,
             reads=("year", "month", "day"),
             forms=("make_date(a, 2, 29)", "make_date(2024, a, b)", "make_date(2023, 2, a)")),
    Function("date", build=_date, node=exp.Date, reads=("this",), forms=("date(a)",)),
)  # fmt: skip
SHIFTS: tuple[str, ...] = ("a + INTERVAL 3 DAY", "a - INTERVAL 1 MONTH", "date_add(a, INTERVAL 1 YEAR)", "a + 7")
"""Forms that only the grammar has; `convert` reads them."""
