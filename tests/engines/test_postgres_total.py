"""Every form of every function over the edge values of every type that PostgreSQL stores.

For each: either the form is refused, and listed here, or PostgreSQL never raises, whatever is stored, and gives what
DuckDB gives on the same values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import groupby
from typing import Any

import duckdb
import edge_values
import engine_server
import psycopg
import pytest
import sqlglot
from attack.totality.forms import letters, written
from sqlglot import exp

import dpsql
from dpsql.audit.traces import trace
from dpsql.engines.base import Resources
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.postgres.dialect import UNLIMITED, Postgres
from dpsql.engines.postgres.server_session import FUNCTIONS, open_session
from dpsql.errors import Error, UnsupportedQuery
from dpsql.expressions.expression import Call, Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import Kind, from_engine
from dpsql.server_address import read_server

POSTGRES = Postgres()
Session = psycopg.Connection[Any]
VALUES: dict[str, tuple[str, ...]] = {
    "SMALLINT": ("-32768", "-1", "0", "3", "32767"),
    "INTEGER": ("-2147483648", "-7", "-1", "0", "1", "2", "12", "29", "55296", "1114112", "2147483647"),
    "BIGINT": ("-9223372036854775808", "-62135596800", "-1", "0", "5", "33", "34", "9223372036854775807"),
    "DECIMAL(9,2)": ("NaN", "-9999999.99", "-2.50", "0", "0.01", "2.50", "3.55", "127.50", "9999999.99"),
    "DECIMAL(18,3)": ("-999999999999999.999", "0.005", "0.5", "1", "999999999999999.999"),
    "DECIMAL(38,10)": ("NaN", "-" + "9" * 28 + "." + "9" * 10, "0", "0.0000000001", "1"),
    UNLIMITED: ("NaN", "Infinity", "-Infinity", "1e400", "-1e-400", "0", "12.5", "1e-299", "9e299"),
    "FLOAT": ("NaN", "Infinity", "-Infinity", "3.4028235e38", "1e-45", "-0.0", "0", "1.5"),
    "DOUBLE": ("NaN", "Infinity", "-Infinity", "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "-1e-310",
               "1e-160", "-1e160", "-0.0", "0", "-1", "1", "0.5", "2.5", "-2.5", "0.49999999999999994", "40", "709.9", "-745.2",
               "171", "9223372036854775808", "-9223372036854775808", "2147483647.5", "1700000000.25"),
    "VARCHAR": ("", " ", "abc", "ABCabc", "a-b-c", "abab", "-9223372036854775809", "1e400", "1e5", " 12 ", "3.5", "nan", "2024-02-30",
                "2024-02-29", "2024-02-29 12:34:56.5", "99999-01-01", "é%_\\", "🤦🏼b", "İßΑΣǅ", "e\u0301", "ab" * 300, "true", "F", "a\nb",
                "\u00a0x\u3000", "17", "infinity", "a'b", "$$", "0x1F", "--1", "1_000", "+5", ".5", "5."),
    "BOOLEAN": ("true", "false"),
    "DATE": ("infinity", "-infinity", "4713-01-01 BC", "5874897-12-31", "0001-01-01", "0001-01-02", "0001-12-31 BC",
             "9999-12-31", "10000-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "2020-12-31"),
    "TIMESTAMP": ("infinity", "-infinity", "4713-01-01 00:00:00 BC", "294246-12-31 23:59:59.999999", "0001-01-01 00:00:00",
                  "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "2024-02-29 12:34:56.789", "1999-12-31 23:59:59"),
    "TIMESTAMP WITH TIME ZONE": ("infinity", "-infinity", "1970-01-01 00:00:00+00", "2024-02-29 12:34:56.789+00"),
    "UUID": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
}  # fmt: skip
VALUES = {type_: tuple(dict.fromkeys((*own, *edge_values.VALUES.get(type_, ())))) for type_, own in VALUES.items()}
STORED = {
    UNLIMITED: "numeric",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
}
PAIRS = [
    *((t, t) for t in VALUES), ("SMALLINT", "BIGINT"), ("BIGINT", "DOUBLE"), ("DOUBLE", "DECIMAL(9,2)"),
    ("DECIMAL(9,2)", "BIGINT"), ("DECIMAL(9,2)", "DECIMAL(18,3)"), ("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE"),
    ("DATE", "INTEGER"), ("DATE", "BIGINT"), ("BOOLEAN", "DOUBLE"), ("VARCHAR", "UUID"), ("INTEGER", "DECIMAL(18,3)"),
]  # fmt: skip
MORE = (
    "(a * b) % 7", "(a * b) // 3", "abs(a * b)", "-(a * b)", "(a + b) / (a - b)", "a * b * a", "round(a / 3, 2)",
    "CAST(a * b AS DOUBLE)", "CAST(a * 1.5 AS INTEGER)", "CAST(a AS DECIMAL(9, 2)) + 1", "exp(a) * exp(b)", "ln(abs(a)) / ln(abs(b))",
    "power(a, 3) - power(b, 3)", "sqrt(a * a + b * b)", "a / b / b", "date_trunc('month', a) + INTERVAL 1 MONTH", "a - INTERVAL 3000 YEAR",
    "date_diff('day', a, b + INTERVAL 5 DAY)", "upper(lower(a)) || a", "replace(a, b, a)", "substring(a, 0)", "substring(a, -2)",
    *edge_values.FORMS,
)  # fmt: skip
REFUSED = """
    bar bin bit_count cast damerau_levenshtein date_diff date_sub epoch_ns even fdiv fmod format_bytes
    formatreadabledecimalsize gamma glob hamming hash hex ilike_escape jaccard jaro_similarity jaro_winkler_similarity julian left_grapheme
    length_grapheme levenshtein lgamma log make_timestamp make_timestamp_ms mod nextafter nfc_normalize
    not_ilike_escape overlay parse_dirname parse_dirpath parse_filename part regexp_escape regexp_extract
    regexp_full_match regexp_matches regexp_replace reverse right_grapheme round_even sha1 shift_left shift_right signbit
    similar_to split_part strftime strip_accents substring_grapheme time_bucket to_base to_timestamp trunc_to try_strptime
    url_encode
"""
"""The operations that PostgreSQL does not compute, of some types or with some options at least; see docs/engines/postgresql.md."""
COMPUTED_ALSO = {"cast", "date_diff", "mod", "part", "split_part", "strftime", "time_bucket", "trunc_to"}
"""Those of them that it does compute of other types or with other options."""


def edges(type_: str) -> str:
    """The values of a type, in order, as a table of PostgreSQL."""
    listed = ", ".join("'" + v.replace("'", "''") + "'" for v in VALUES[type_])
    cast = STORED.get(type_, type_.replace("DECIMAL", "numeric").replace("VARCHAR", "text"))
    return f"(SELECT i, CAST(v AS {cast}) AS v FROM unnest(ARRAY[NULL, {listed}]::text[]) WITH ORDINALITY AS t(v, i))"


def same_edges(type_: str) -> str:
    """The same values as a table of DuckDB; what it cannot store is NULL, as it is read from PostgreSQL."""
    listed = ", ".join("'" + _theirs(v, type_).replace("'", "''") + "'" for v in VALUES[type_])
    cast = "DOUBLE" if type_ == UNLIMITED else type_
    values = f"unnest([NULL, {listed}]::VARCHAR[]) AS w, generate_subscripts([NULL, {listed}]::VARCHAR[], 1) AS i"
    absent = "w IN ('NaN')" if type_.startswith("DECIMAL") else "false"
    absent = "w IN ('NaN', 'Infinity', '-Infinity', '1e400')" if type_ == UNLIMITED else absent
    read = "CASE WHEN w = '-1e-400' THEN '0' ELSE w END" if type_ == UNLIMITED else "w"
    return f"(SELECT i, CASE WHEN NOT ({absent}) THEN CAST({read} AS {cast}) END AS v FROM (SELECT {values}))"


def _theirs(value: str, type_: str) -> str:
    if type_ not in ("DATE", "TIMESTAMP") or not value.endswith(" BC"):
        return value
    day, _, clock = value.removesuffix(" BC").partition(" ")
    return f"{day} (BC) {clock}".strip()


@dataclass(frozen=True, slots=True)
class Case:
    """A form over columns of some types, and the expression that it means."""

    form: str
    types: tuple[str, ...]
    made: Expression

    @property
    def names(self) -> tuple[str, ...]:
        return letters(self.form)

    def sql(self, dialect: Any) -> str:
        read = {n: dialect.read(f"{n}.v", t) for n, t in zip(self.names, self.types, strict=True)}
        return dialect.sql(self.made, read.__getitem__)


@dataclass(frozen=True)
class Row:
    """A resolver for the letters of a form."""

    types: dict[str, str]

    def column(self, node: exp.Column) -> Expression:
        type_ = from_engine(self.types[node.name])
        assert type_ is not None
        return Column(type_, name=node.name)


@cache
def cases() -> tuple[Case, ...]:
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    for form in (*written(), *MORE):
        names = letters(form)
        choices = PAIRS if len(names) == 2 else [(t,) * len(names) for t in VALUES] if names else [()]
        tree = sqlglot.parse_one(f"SELECT {form}", dialect="duckdb").expressions
        for types in choices:
            try:
                made = convert(tree[0], Row(dict(zip(names, types, strict=True)))) if tree else None
                DUCKDB.sql(made, str)
            except (Error, IndexError, AttributeError):
                continue
            if made.type.kind is not Kind.INTERVAL:
                yield Case(form, types, made)


@cache
def refused(case: Case) -> str | None:
    try:
        case.sql(POSTGRES)
    except UnsupportedQuery as refusal:
        return refusal.message.removesuffix(" is not computed by this database").lower()
    return None


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    if (reason := engine_server.absent()) is not None:
        pytest.skip(reason)
    made, _ = open_session(read_server(engine_server.server().address()), Resources())
    with made:
        yield made


def asked(run: Any, dialect: Any, table: Any, part: Sequence[Case]) -> list[tuple[Any, ...]]:
    """The values of some forms over the same types, for each row of values beside each other."""
    names, types = part[0].names, part[0].types
    tables = " CROSS JOIN ".join(f"{table(t)} AS {n}" for n, t in zip(names, types, strict=True))
    listed = ", ".join(f"{_read(dialect, case)} AS x{i}" for i, case in enumerate(part))
    source = f"FROM {tables} ORDER BY {', '.join(f'{n}.i' for n in names)}" if names else ""
    return run(f"SELECT {listed} {source}").fetchall()  # type: ignore[no-any-return]


def _read(dialect: Any, case: Case) -> str:
    """A value as both clients read it: moments as text."""
    made = case.sql(dialect)
    return f"CAST({made} AS {'text' if dialect is POSTGRES else 'VARCHAR'})" if case.made.type.temporal else made


def failing(session: Session, part: Sequence[Case]) -> list[Case]:
    """The cases on which PostgreSQL raises, one by one."""
    try:
        asked(lambda text: session.execute(text.encode()), POSTGRES, edges, part)
    except psycopg.Error:
        if len(part) == 1:
            return [part[0]]
        middle = len(part) // 2
        return failing(session, part[:middle]) + failing(session, part[middle:])
    return []


def same(one: Any, two: Any) -> bool:
    """Equal; computed fractions up to their last digits."""
    if isinstance(one, int) and isinstance(two, int):
        return one == two
    if isinstance(one, float | int | Decimal) and isinstance(two, float | int | Decimal):
        if math.isnan(one) or math.isnan(two):
            return math.isnan(one) and math.isnan(two)
        return bool(one == two) or math.isclose(one, two, rel_tol=1e-12, abs_tol=1e-300)
    return bool(one == two)


def batches(limit: int = 30) -> Iterator[list[Case]]:
    """Forms over the same types, together."""
    taken = sorted((c for c in cases() if refused(c) is None), key=lambda c: (c.names, c.types))
    for _, group in groupby(taken, key=lambda c: (c.names, c.types)):
        part = list(group)
        yield from (part[i : i + limit] for i in range(0, len(part), limit))


def excused(case: Case, arguments: Sequence[str | None]) -> bool:
    """Where PostgreSQL may say NULL although DuckDB has an answer: see docs/engines/postgresql.md."""
    pairs = list(zip(arguments, case.types, strict=True))
    beyond = any(t in MOMENTS and v is not None and not "0001" <= v[:4] <= "9999" for v, t in pairs)
    beyond = beyond or any(
        t in MOMENTS and v is not None and (v.endswith("BC") or len(v.split("-")[0]) > 4) for v, t in pairs
    )
    spelled = any(t == "VARCHAR" and v in SPELLED for v, t in pairs)
    far = any(t in ("INTEGER", "BIGINT") and abs(int(v or 0)) > 10**6 for v, t in pairs) and "DATE" in case.types
    return beyond or spelled or far or case.form.startswith("chr(")


MOMENTS = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
SPELLED = ("0x1F", "1_000", "1e400", "99999-01-01", "infinity")
"""Numbers and dates that are written in ways which only DuckDB reads."""


def rows_of(types: Sequence[str]) -> list[tuple[str | None, ...]]:
    rows: list[tuple[str | None, ...]] = [()]
    for type_ in types:
        rows = [(*row, value) for row in rows for value in (None, *VALUES[type_])]
    return rows


def plain(value: Any) -> Any:
    """Years before the first are written in two ways."""
    if isinstance(value, str) and "(BC)" in value:
        return " ".join(value.replace("(BC)", "").split()) + " BC"
    return value


def test_no_stored_value_makes_postgres_raise_and_answers_are_duckdbs(session: Session) -> None:
    """**Checks** the theorems of the dialect: about 670,000 values of about 2,900 forms."""
    reference, compared, raised, wrong = duckdb.connect(), 0, [], []
    reference.execute("SET TimeZone = 'UTC'")
    for part in batches():
        try:
            mine = asked(lambda text: session.execute(text.encode()), POSTGRES, edges, part)
        except psycopg.Error:
            raised += failing(session, part)
            continue
        theirs = asked(reference.execute, DUCKDB, same_edges, part)
        for arguments, here, there in zip(rows_of(part[0].types), mine, theirs, strict=True):
            for case, one, two in zip(part, here, map(plain, there), strict=True):
                compared += 1
                if (
                    not same(plain(one), two)
                    and not (one is None and excused(case, arguments))
                    and not _written(case, two)
                ):
                    wrong.append(f"{case.form} of {arguments} as {case.types}: {one!r} is not {two!r}")
    assert [f"{case.form} over {case.types}" for case in raised] == []
    assert wrong == []
    assert compared > 600_000


def _written(case: Case, text: Any) -> bool:
    """Moments that were written into a text, before the first year."""
    return isinstance(text, str) and " BC" in text and "VARCHAR" in case.form


def test_what_is_refused_is_listed(session: Session) -> None:
    """An operation that has a total form, and gives what DuckDB gives, leaves this list."""
    found = Counter(name for case in cases() if (name := refused(case)) is not None)
    assert sorted(found) == sorted(REFUSED.split())
    taken = {
        node.op for case in cases() if refused(case) is None for node in case.made.walk() if isinstance(node, Call)
    }
    assert set(found) & taken == COMPUTED_ALSO


def test_letters_change_case_as_in_duckdb(session: Session) -> None:
    """All letters there are: the tables come from Python, and DuckDB has its own."""
    every = [chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x110000))]
    for function in ("lower", "upper"):
        for start in range(0, len(every), 100_000):
            text = "".join(every[start : start + 100_000])
            [(mine,)] = session.execute(f"SELECT pg_temp.dpsql_{function}(%s)", [text]).fetchall()
            [(theirs,)] = duckdb.execute(f"SELECT {function}(?)", [text]).fetchall()
            assert mine == theirs


def test_nothing_is_given_for_null(session: Session) -> None:
    """None of the session's functions is STRICT, and all behave as if they were."""
    for name in FUNCTIONS:
        types = name[name.index("(") + 1 : -1].split(", ")
        for absent in range(len(types)):
            args = [f"CAST({'NULL' if i == absent else ONE[t]} AS {t})" for i, t in enumerate(types)]
            call = f"pg_temp.dpsql_{name[: name.index('(')]}({', '.join(args)})"
            assert session.execute(f"SELECT {call} IS NULL").fetchall() == [(True,)], call


ONE = {
    "double precision": "0",
    "text": "'a'",
    "integer": "1",
    "numeric": "1",
    "date": "'2024-01-01'",
    "timestamp": "'2024-01-01'",
}


# moments that are moved again and again -----------------------------------------------------------------------------------


def _buckets(moment: str) -> str:
    """Each bucket is a day shorter than the last: whatever is not in the first goes back by one more."""
    for number in range(7):
        moment = f"time_bucket(INTERVAL {399_999 - number} DAY, {moment})"
    return moment


@pytest.mark.parametrize("form", [
    "isoyear(a - INTERVAL 13 MONTH)", "year(a - INTERVAL 13 MONTH)", "decade(a - INTERVAL 13 MONTH)",
    "strftime(a - INTERVAL 1 MONTH, '%Y-%m')", "strftime(a + INTERVAL 1 MONTH, '%Y-%m')",
    "date_diff('year', a - INTERVAL 13 MONTH, a)", "date_diff('month', a - INTERVAL 13 MONTH, a)",
])  # fmt: skip
def test_years_before_the_first_are_nothing_rather_than_others(session: Session, form: str) -> None:
    """DuckDB has a year 0, and PostgreSQL has none."""
    tree = sqlglot.parse_one(f"SELECT {form}", dialect="duckdb").expressions[0]
    for type_ in ("DATE", "TIMESTAMP"):
        case = Case(form, (type_,), convert(tree, Row({"a": type_})))
        for day in ("0001-01-01", "0001-03-01", "1970-01-01", "9999-12-31"):
            listed = f"(SELECT 1 AS i, CAST('{day}' AS {type_}) AS v)"
            [(mine,)] = asked(lambda text: session.execute(text.encode()), POSTGRES, lambda _, t=listed: t, [case])
            [(theirs,)] = asked(duckdb.execute, DUCKDB, lambda _, t=listed: t, [case])
            assert mine == theirs or (mine is None and day != "1970-01-01")


MOVED = (
    "a - INTERVAL 1000 YEAR - INTERVAL 1000 YEAR - INTERVAL 1000 YEAR - INTERVAL 900 YEAR - INTERVAL 1000 YEAR",
    "time_bucket(INTERVAL 399999 DAY, a - INTERVAL 1000 YEAR - INTERVAL 1000 YEAR - INTERVAL 1000 YEAR)",
    _buckets("a"), f"year({_buckets('a')})",
    "b - 1000000 - 1000000", "(b - c) - c", "(b + c) + c", "b - 1000000", "a - INTERVAL 1000 YEAR",
)  # fmt: skip


@pytest.mark.parametrize("moved", MOVED)
def test_no_row_leads_out_of_the_calendar(moved: str) -> None:
    """PostgreSQL's begins in 4713 BC, and raises before: on rows that are old enough, and on no others."""
    with engine_server.server().connect() as admin:
        admin.execute("DROP TABLE IF EXISTS moved")
        admin.execute("CREATE TABLE moved (a timestamp, b date, c integer)")
        admin.execute(
            "INSERT INTO moved SELECT d, d, c FROM unnest('{0001-01-01, 1999-12-31, 9999-12-31}'::date[]) AS x(d), "
            "unnest('{1000000, -1000000, 2147483647}'::integer[]) AS y(c)"
        )
    table = {"unit": "row", "columns": {name: {} for name in "abc"}}
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 1}, "tables": {"moved": table}}
    with dpsql.connect(engine_server.server().address(), policy=policy, ledger=":memory:", steward=True) as db:
        try:
            trace(db, f"SELECT count(*) FROM moved WHERE ({moved}) IS NOT NULL", salt=b"s")
        except UnsupportedQuery as refusal:
            assert "add up to more than" in str(refusal)
