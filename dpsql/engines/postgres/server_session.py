"""Sessions on a PostgreSQL server: read-only, with all settings made before the first query.

Functions of one PostgreSQL session that never raise, where PostgreSQL's own operators do.

PostgreSQL raises where a DOUBLE overflows or underflows, at a division by zero, at a logarithm of nothing, and at a
cast of a text that is no number: on some rows only, so that whether a query is answered would tell something about the
data. These stand in `pg_temp`: they vanish with the session and change nothing in the database.

**Theorem.** No call of them raises, whatever the arguments are. **Proof.** Each is one CASE, whose results PostgreSQL
evaluates only where their condition holds; conditions are comparisons, `abs`, lengths and patterns, which are total. (A
constant argument may be folded into the branches at planning. What depends on an argument therefore stands behind a
condition on that very argument, which is then false and drops the branch first.) By function:

- `mul`, `div`: with both factors in [1e-150, 1e150] no product or quotient leaves DOUBLE. Zero, infinity and NaN are
  taken by PostgreSQL without an error, but for a divisor that is zero, which is settled first. The rest is first tried
  on operands scaled by 2^±600, which is exact there and leaves room on both sides: the scaled result tells exactly
  where the true one would overflow or vanish, and is then replaced by what IEEE gives.
- `add`: only two numbers above 8e307 overflow; half of each is added first.
- `exp`, `ln`, `log2`, `log10`, `sqrt`, `power` and the angles: what lies outside a function's domain, or would overflow
  or vanish, is answered by the constant that IEEE gives.
- `round`, `trunc`: products and quotients by `mul` and `div`.
- casts from text: a pattern admits at most 40 digits with an exponent of at most two digits, which `numeric` holds; a
  date is put together only from a month and a day that exist.
- `lower`, `upper`: `translate` takes any text.
**Requires** that the functions are found under `pg_temp` by that very name, so that nobody else's are called, and are
made anew in each session (`dpsql.engines.postgres.server_session`).
**Checked by** `tests/engines/test_postgres_total.py`: all of them over the edge values of their types, and every form
of every function of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import psycopg
from psycopg.adapt import Loader

from dpsql.cancellation import interruptible, run_after
from dpsql.engines.base import Resources
from dpsql.engines.postgres.syntax import DOUBLE as D
from dpsql.engines.sql.case_mapping import LOWERED, UPPERED
from dpsql.errors import InterfaceError
from dpsql.server_address import ServerAddress
from dpsql.steward_log import failed

# functions that never fail --------------------------------------------------------------------------------------------


INF, MINUS_INF, NAN = (f"'{name}'::{D}" for name in ("Infinity", "-Infinity", "NaN"))
_SCALE = f"'{2.0**600!r}'::{D}"
_SIGNED = f"CASE WHEN ($1 < 0) = ($2 < 0) THEN {INF} ELSE {MINUS_INF} END"
_NOTHING = f"CASE WHEN ($1 < 0) = ($2 < 0) THEN 0::{D} ELSE '-0'::{D} END"
_MIDDLE = "abs($1) BETWEEN 1e-150 AND 1e150 AND abs($2) BETWEEN 1e-150 AND 1e150"
_SPECIAL = f"$1 = 0 OR $2 = 0 OR abs($1) >= {INF} OR abs($2) >= {INF}"

_ABOVE, _BELOW = f"{2.0**-176!r}", f"{2.0**125!r}"
"""2^1024, from which on a result is infinite, and 2^-1075, up to which it is nothing, times 2^-1200 and 2^1200."""
_MUL = (
    f"CASE WHEN {_MIDDLE} OR {_SPECIAL} THEN $1 * $2 "
    "WHEN abs($1) >= 1 THEN CASE WHEN abs($2) < 1 THEN $1 * $2 "
    f"WHEN abs($1 / {_SCALE} * ($2 / {_SCALE})) >= {_ABOVE} THEN {_SIGNED} ELSE $1 * $2 END "
    "WHEN abs($2) >= 1 THEN $1 * $2 "
    f"WHEN abs($1 * {_SCALE} * ($2 * {_SCALE})) <= {_BELOW} THEN {_NOTHING} ELSE $1 * $2 END"
)
_DIV = (
    f"CASE WHEN $2 = 0 THEN CASE WHEN $1 = 0 OR $1 = {NAN} THEN {NAN} "
    f"WHEN ($1 < 0) = (CAST($2 AS text) LIKE '-%') THEN {INF} ELSE {MINUS_INF} END "
    f"WHEN {_MIDDLE} OR {_SPECIAL} THEN $1 / $2 "
    "WHEN abs($1) >= 1 THEN CASE WHEN abs($2) >= 1 THEN $1 / $2 "
    f"WHEN abs(($1 / {_SCALE}) / ($2 * {_SCALE})) >= {_ABOVE} THEN {_SIGNED} ELSE $1 / $2 END "
    "WHEN abs($2) < 1 THEN CASE WHEN abs($2) >= 1e-150 OR abs($1) < 1e-150 THEN $1 / $2 "
    f"WHEN abs($1 / ($2 * {_SCALE})) >= {2.0**424!r} THEN {_SIGNED} ELSE $1 / $2 END "
    f"WHEN abs(($1 * {_SCALE}) / ($2 / {_SCALE})) <= {_BELOW} THEN {_NOTHING} ELSE $1 / $2 END"
)
_ADD = (
    f"CASE WHEN abs($1) <= 8e307 AND abs($2) <= 8e307 THEN $1 + $2 "
    f"WHEN abs($1) <= 1 OR abs($2) <= 1 OR abs($1) >= {INF} OR abs($2) >= {INF} THEN $1 + $2 "
    f"WHEN $1 / 2 + $2 / 2 >= {2.0**1023!r} THEN {INF} WHEN $1 / 2 + $2 / 2 <= {-(2.0**1023)!r} THEN {MINUS_INF} "
    "ELSE $1 + $2 END"
)
_ODD = "CASE WHEN abs($2) BETWEEN 1 AND 1e16 AND $2 = floor($2) THEN $2 / 2 <> floor($2 / 2) ELSE false END"
_POWER = (
    f"CASE WHEN $2 = 0 OR $1 = 1 THEN 1 WHEN $2 = 1 THEN $1 WHEN $1 = {NAN} OR $2 = {NAN} THEN {NAN} "
    f"WHEN $1 = 0 THEN CASE WHEN $2 > 0 THEN 0 WHEN CAST($1 AS text) LIKE '-%' AND {_ODD} THEN {MINUS_INF} "
    f"ELSE {INF} END "
    f"WHEN abs($2) = {INF} THEN CASE WHEN $1 = -1 THEN 1 WHEN (abs($1) > 1) = ($2 > 0) THEN {INF} ELSE 0 END "
    f"WHEN abs($1) = {INF} THEN CASE WHEN $2 < 0 THEN 0 WHEN $1 < 0 AND {_ODD} THEN {MINUS_INF} ELSE {INF} END "
    f"WHEN $1 < 0 AND $2 <> floor($2) THEN {NAN} "
    f"WHEN pg_temp.dpsql_mul($2, ln(abs($1))) > 709.7 THEN "
    f"CASE WHEN $1 < 0 AND {_ODD} THEN {MINUS_INF} ELSE {INF} END "
    "WHEN pg_temp.dpsql_mul($2, ln(abs($1))) < -744 THEN 0 ELSE power($1, $2) END"
)
_LOG2 = f"(ln($1) / '{math.log(2)!r}'::{D})"
_EXACT_LOG2 = (
    f"CASE WHEN round({_LOG2}) BETWEEN -1074 AND 1023 THEN "
    f"CASE WHEN power(2::{D}, round({_LOG2})) = $1 THEN round({_LOG2}) ELSE {_LOG2} END ELSE {_LOG2} END"
)
"""A quotient of logarithms misses powers of two by the last digit."""
_DOWN = "floor(abs($1))"
_AWAY = f"CASE WHEN abs($1) - {_DOWN} >= 0.5 THEN sign($1) * ({_DOWN} + 1) ELSE sign($1) * {_DOWN} END"


def _inside(condition: str, function: str, otherwise: str = NAN) -> str:
    return f"CASE WHEN $1 = {NAN} THEN $1 WHEN {condition} THEN {function}($1) ELSE {otherwise} END"


_FINITE = f"abs($1) < {INF}"
_ROUNDED_DOWN = "pg_temp.dpsql_mul(pg_temp.dpsql_away(pg_temp.dpsql_div($1, $2)), $2)"
_NUMBER = r"^\s*[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,2})?\s*$"
_DAY = r"^\s*\d{4}-\d{1,2}-\d{1,2}"
_MONTH_DAYS = (
    "CASE WHEN $2 IN (4, 6, 9, 11) THEN 30 WHEN $2 <> 2 THEN 31 "
    "WHEN $1 % 4 = 0 AND ($1 % 100 <> 0 OR $1 % 400 = 0) THEN 29 ELSE 28 END"
)
_WRITTEN = r"substring($1 FROM '\d{4}-\d{1,2}-\d{1,2}')"
_FIELDS = ", ".join(f"CAST(split_part({_WRITTEN}, '-', {i}) AS integer)" for i in (1, 2, 3))
_CLOCK = r"\s*\d{4}-\d{1,2}-\d{1,2}[ T]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?\s*$"


def _recased(function: str, letters: Mapping[str, str]) -> str:
    """Upper or lower case as DuckDB has it, whatever the locale of the server."""
    old, new = "".join(letters), "".join(letters.values())
    plain = f'{function}($1 COLLATE "C")'
    return f"CASE WHEN octet_length($1) = length($1) THEN {plain} ELSE translate({plain}, '{old}', '{new}') END"


FUNCTIONS: dict[str, tuple[str, str]] = {
    f"mul({D}, {D})": (D, _MUL),
    f"div({D}, {D})": (D, _DIV),
    f"add({D}, {D})": (D, _ADD),
    f"exp({D})": (
        D,
        f"CASE WHEN $1 > 709.782712893384 AND $1 < {NAN} THEN {INF} "
        "WHEN $1 < -745.1332191019411 THEN 0 ELSE exp($1) END",
    ),
    f"ln({D})": (D, _inside("$1 > 0", "ln", f"CASE WHEN $1 = 0 THEN {MINUS_INF} ELSE {NAN} END")),
    f"log10({D})": (D, _inside("$1 > 0", "log", f"CASE WHEN $1 = 0 THEN {MINUS_INF} ELSE {NAN} END")),
    f"log2({D})": (
        D,
        f"CASE WHEN $1 = {NAN} THEN $1 WHEN $1 > 0 THEN {_EXACT_LOG2} WHEN $1 = 0 THEN {MINUS_INF} ELSE {NAN} END",
    ),
    f"sqrt({D})": (D, _inside("$1 >= 0", "sqrt")),
    f"power({D}, {D})": (D, _POWER),
    **{f"{name}({D})": (D, _inside(_FINITE, name)) for name in ("sin", "cos", "tan", "cot")},
    **{f"{name}({D})": (D, _inside("abs($1) <= 1", name)) for name in ("asin", "acos")},
    f"acosh({D})": (D, _inside("$1 >= 1", "acosh")),
    f"atanh({D})": (
        D, _inside("abs($1) < 1", "atanh", f"CASE WHEN $1 = 1 THEN {INF} WHEN $1 = -1 THEN {MINUS_INF} ELSE {NAN} END"),
    ),
    f"away({D})": (D, f"CASE WHEN abs($1) < 1e17 THEN {_AWAY} ELSE $1 END"),
    f"round_up({D}, {D})": (
        D,
        "CASE WHEN abs($1) < 1e290 "
        "THEN pg_temp.dpsql_div(pg_temp.dpsql_away(pg_temp.dpsql_mul($1, $2)), $2) ELSE $1 END",
    ),
    f"round_down({D}, {D})": (
        D, f"CASE WHEN abs({_ROUNDED_DOWN}) < {INF} THEN {_ROUNDED_DOWN} ELSE $1 END",
    ),
    "short(text, integer)": ("text", "CASE WHEN octet_length($1) <= $2 THEN $1 END"),
    "narrow(numeric)": (
        D,
        f"CASE WHEN abs($1) < 1e300 THEN CASE WHEN abs($1) > 1e-300 THEN CAST($1 AS {D}) ELSE 0 END END",
    ),
    "date_in(date)": ("date", "CASE WHEN $1 BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN $1 END"),
    "timestamp_in(timestamp)": (
        "timestamp",
        "CASE WHEN $1 BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999' THEN $1 END",
    ),
    "from_year_1(timestamp)": ("timestamp", "CASE WHEN $1 >= TIMESTAMP '0001-01-01' THEN $1 END"),
    "date_as_timestamp(date)": (
        "timestamp",
        "CASE WHEN $1 <= DATE '290000-01-01' OR $1 = DATE 'infinity' THEN CAST($1 AS timestamp) END",
    ),
    "date_of(integer, integer, integer)": (
        "date",
        f"CASE WHEN $1 BETWEEN 1 AND 9999 AND $2 BETWEEN 1 AND 12 AND $3 BETWEEN 1 AND {_MONTH_DAYS} "
        "THEN make_date($1, $2, $3) END",
    ),
    "numeric(text)": ("numeric", f"CASE WHEN $1 ~ '{_NUMBER}' THEN CAST($1 AS numeric) END"),
    "double(text)": (
        D,
        f"CASE WHEN $1 ~ '{_NUMBER}' THEN pg_temp.dpsql_narrow(CAST($1 AS numeric)) "
        f"WHEN lower(btrim($1)) = 'nan' THEN {NAN} "
        f"WHEN lower(btrim($1)) IN ('inf', '+inf', 'infinity', '+infinity') THEN {INF} "
        f"WHEN lower(btrim($1)) IN ('-inf', '-infinity') THEN {MINUS_INF} END",
    ),
    "date(text)": (
        "date",
        rf"CASE WHEN $1 ~ '{_DAY}\s*$' OR $1 ~ '^{_CLOCK}' THEN pg_temp.dpsql_date_of({_FIELDS}) END",
    ),
    "timestamp(text)": (
        "timestamp",
        f"CASE WHEN $1 ~ '^{_CLOCK}' THEN pg_temp.dpsql_date(substring($1 FROM '{_DAY}')) "
        r"+ CAST(substring($1 FROM '\d\d:\d\d:\d\d[.\d]*') AS time) "
        rf"WHEN $1 ~ '{_DAY}\s*$' THEN CAST(pg_temp.dpsql_date($1) AS timestamp) END",
    ),
    "lower(text)": ("text", _recased("lower", LOWERED)),
    "upper(text)": ("text", _recased("upper", UPPERED)),
}  # fmt: skip


def statements() -> list[str]:
    """The statements that define them, for this session only; all give NULL for NULL.

    None is STRICT: PostgreSQL puts the body of such a function in place of the call only if it can prove that NULL
    gives NULL, which it cannot see of a CASE, and a call that stays is many times slower.
    """
    return [
        f"CREATE OR REPLACE FUNCTION pg_temp.dpsql_{name} RETURNS {type_} LANGUAGE sql IMMUTABLE PARALLEL SAFE AS "
        f"$dpsql$SELECT CASE WHEN {_given(name)} THEN {body} END$dpsql$"
        for name, (type_, body) in FUNCTIONS.items()
    ]


def _given(name: str) -> str:
    return " AND ".join(f"${i + 1} IS NOT NULL" for i in range(name.count(",") + 1))


Session = psycopg.Connection[Any]
SETTINGS = {
    "search_path": "pg_catalog", "TimeZone": "UTC", "DateStyle": "ISO, YMD", "IntervalStyle": "postgres",
    "extra_float_digits": "1", "standard_conforming_strings": "on", "bytea_output": "hex",
    "lc_numeric": "C", "lc_monetary": "C", "lc_time": "C", "row_security": "off", "jit": "off", "xmloption": "content",
    "array_nulls": "on", "transform_null_equals": "off", "backslash_quote": "safe_encoding",
    "idle_in_transaction_session_timeout": "600s", "lock_timeout": "30s", "default_transaction_read_only": "on",
}  # fmt: skip
"""What the emitted SQL relies on, and what keeps a session from hanging or writing."""
_NETWORK = {
    "connect_timeout": "10", "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3",
    "tcp_user_timeout": "30000", "application_name": "dpsql", "client_encoding": "UTF8",
}  # fmt: skip


_FIRST = (
    "SELECT current_schemas(false)::text[], current_setting('server_encoding'), "
    "current_setting('server_version_num')::int"
)


class NumericLoader(Loader):
    """A `numeric` is a decimal, or without a point a whole number of any length."""

    def load(self, data: Any) -> Any:
        from decimal import Decimal

        written = bytes(data).decode()
        return int(written) if written.lstrip("-").isdigit() else Decimal(written)


def open_session(address: ServerAddress, limits: Resources) -> tuple[Session, list[str]]:
    """Open a session with its settings, and return the schemas in which table names are looked up."""
    session = _connected(address)
    try:
        with session.cursor() as cursor:
            [(schemas, encoding, version)] = cursor.execute(_FIRST).fetchall()
            if encoding != "UTF8" or version < 140000:
                raise InterfaceError(
                    "dpsql reads databases in UTF-8, of PostgreSQL 14 or later",
                    hint=f"this one is in {encoding}, of version {version // 10000}",
                )
            cursor.execute("; ".join([*statements(), *_settings(limits)]))
            if limits.spill is not None:
                _attempt(cursor, f"SET temp_file_limit = '{max(limits.spill // 1024, 1)}kB'")
    except psycopg.Error as problem:
        session.close()
        failed("a session of the database server cannot be settled", problem)
        raise InterfaceError(
            f"the role may not do what dpsql needs in {address.place}",
            hint="it needs TEMPORARY on the database, for functions that vanish with the session, and SELECT on tables:"
            " GRANT TEMPORARY ON DATABASE … TO …; GRANT SELECT ON … TO …",
        ) from None
    except BaseException:
        session.close()
        raise
    return session, list(schemas)


def _connected(address: ServerAddress) -> Session:
    try:
        session = psycopg.connect(**{**_NETWORK, **address.told}, autocommit=True, prepare_threshold=None)
    except psycopg.Error as problem:
        failed("the database server cannot be reached", problem)
        session = None
    if session is None:
        raise InterfaceError(
            f"the database server cannot be reached, or refuses this user: {address.place}",
            hint="check the address, postgresql://user@host:5432/database, the user,"
            " and the password in ~/.pgpass or PGPASSWORD",
        )
    session.adapters.register_loader("numeric", NumericLoader)
    return session


def _settings(limits: Resources) -> list[str]:
    memory = {} if limits.memory is None else {"work_mem": f"{max(limits.memory // 4096, 64)}kB"}
    return [f"SET SESSION {name} = '{value}'" for name, value in {**SETTINGS, **memory}.items()]


def _attempt(cursor: Any, text: str) -> None:
    """A setting that not every role may change; where it may not, the server's own limit holds."""
    with suppress(psycopg.Error):
        cursor.execute(text)


@contextmanager
def stopped_after(seconds: float | None, session: Session) -> Iterator[None]:
    """What runs in the transaction is stopped after so many seconds: by the server, and if it does not, from here.

    So it is, from here, once nobody waits for it.

    Whether a query is answered then depends on how long it takes; see `dpsql.engines.duckdb.engine`, which holds here.
    """
    with interruptible(partial(_cancel, session)):
        if seconds is None:
            yield
            return
        session.execute(f"SET LOCAL statement_timeout = {max(int(seconds * 1000), 1)}")
        with run_after(seconds + 0.2, partial(_cancel, session)):
            yield


def _cancel(session: Session) -> None:
    with suppress(Exception):
        session.cancel_safe(timeout=10)
