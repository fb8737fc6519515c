"""The SQL that Spark is given is total: every form over the edge values of every stored type, and it has its type.

Also: what Spark does not compute is a list, compared exactly, and what it does compute means what DuckDB means.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import edge_values
import pytest
import spark_session
from attack.totality.forms import _parsed, letters, written
from sqlglot import exp

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.spark.engine import ArrowResult
from dpsql.engines.spark.session_settings import own_session
from dpsql.engines.spark.text_rules import _LOWER, _UPPER, _cased
from dpsql.engines.spark.type_names import spark_type
from dpsql.engines.sql.sql_types import physical
from dpsql.errors import Error, UnsupportedQuery
from dpsql.expressions.expression import Call, Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import TEXT, Kind, from_engine
from dpsql.expressions.typing import call

if (reason := spark_session.absent()) is not None:
    pytest.skip(reason, allow_module_level=True)

DAYS = (-(2**31), 2**31 - 1, -719162, -719163, 2932896, 2932897, 0, 19782, 18627)
MICROS = (
    -(2**63),
    2**63 - 1,
    -62135596800000000,
    -62135596800000001,
    253402300799999999,
    253402300800000000,
    0,
    -1,
    1709210096789000,
)
TEXTS = (
    "",
    " ",
    "abc",
    "ABCabc",
    "a-b-c",
    "abab",
    "-9223372036854775809",
    "1e400",
    "nan",
    "2024-02-30",
    "é%_\\",
    "🤦🏼‍♂️b",
    "İßΑΣ",
    "e\u0301" * 40,
    "a\nb",
    "a" * 5000,
    "x" * 2**19,
    "(" * 400,
)
EDGES: dict[str, tuple[str, ...]] = {
    "TINYINT": tuple(f"CAST({v} AS TINYINT)" for v in (-128, -1, 0, 3, 127)),
    "INTEGER": tuple(f"CAST({v} AS INT)" for v in (-(2**31), -7, -1, 0, 1, 2, 29, 55296, 2**31 - 1)),
    "BIGINT": tuple(f"CAST('{v}' AS BIGINT)" for v in (-(2**63), -62135596800, -1, 0, 5, 33, 100, 2**63 - 1)),
    "DECIMAL(9,2)": tuple(f"CAST('{v}' AS DECIMAL(9,2))" for v in ("-9999999.99", "-2.50", "0", "0.01", "2.50", "9999999.99")),
    "DECIMAL(18,3)": tuple(f"CAST('{v}' AS DECIMAL(18,3))" for v in ("-999999999999999.999", "0.005", "1", "999999999999999.999")),
    "DECIMAL(38,10)": tuple(f"CAST('{v}' AS DECIMAL(38,10))" for v in ("-" + "9" * 28 + "." + "9" * 10, "0", "0.0000000001", "9" * 28 + "." + "9" * 10)),
    "DECIMAL(38,0)": tuple(f"CAST('{v}' AS DECIMAL(38,0))" for v in ("-" + "9" * 38, "-1", "0", "7", "9" * 38)),
    "FLOAT": tuple(f"CAST('{v}' AS FLOAT)" for v in ("NaN", "Infinity", "-Infinity", "3.4028235e38", "1e-45", "-0.0", "0", "1.5")),
    "DOUBLE": tuple(f"CAST('{v}' AS DOUBLE)" for v in (
        "NaN", "Infinity", "-Infinity", "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "-0.0", "0", "-1", "0.5",
        "2.5", "-2.5", "171", "9223372036854775808", "-1e19")),
    "VARCHAR": (*map(SPARK.text, TEXTS), "CAST(X'ff80' AS STRING)", "CAST(X'61c3' AS STRING)", "CAST(X'00' AS STRING)"),
    "BOOLEAN": ("TRUE", "FALSE"),
    "DATE": tuple(f"date_from_unix_date({v})" for v in DAYS),
    "TIMESTAMP": tuple(f"CAST(timestamp_micros({v}L) AS TIMESTAMP_NTZ)" for v in MICROS[2:]),
    "TIMESTAMP WITH TIME ZONE": tuple(f"timestamp_micros(CAST('{v}' AS BIGINT))" for v in MICROS),
}  # fmt: skip
PAIRS = [
    *((t, t) for t in EDGES), ("TINYINT", "BIGINT"), ("BIGINT", "DOUBLE"), ("DOUBLE", "DECIMAL(9,2)"), ("DECIMAL(9,2)", "BIGINT"),
    ("DECIMAL(38,0)", "INTEGER"), ("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE"), ("DATE", "INTEGER"), ("DATE", "BIGINT"),
    ("VARCHAR", "INTEGER"), ("BOOLEAN", "VARCHAR"),
]  # fmt: skip
MORE = ("a LIKE '%a%b%'", "a LIKE 'a%b_c%d%'", "a ILIKE '%É%'", "left(a || b, 3)", "upper(a || a || b)",
        "replace(a, b, lower(a))", "date_trunc('week', greatest(a, b))", "coalesce(a, b) + INTERVAL 1 MONTH",
        "a + INTERVAL 1 YEAR - INTERVAL 3 DAY", "round(a, 2) * 3 - b", "(a + b) // a", "a * b % 10",
        "CASE WHEN a > b THEN a ELSE b END", "substring(a, -3, 2)", "substring(a, 0, 3)", "time_bucket(INTERVAL 15 MINUTE, a)",
        *edge_values.FORMS)  # fmt: skip


class Row:
    """A resolver for the columns of one row."""

    def __init__(self, types: dict[str, str]) -> None:
        self.types = types

    def column(self, node: exp.Column) -> Expression:
        type_ = from_engine(self.types[node.name])
        assert type_ is not None
        return Column(type_, name=f"{node.name}{list(EDGES).index(self.types[node.name])}")


def expressions() -> Iterator[tuple[str, Expression]]:
    """All that the allow-list takes, over every type and pair of types."""
    for form in dict.fromkeys((*written(), *MORE)):
        names = letters(form)
        choices: Sequence[tuple[str, ...]] = PAIRS if len(names) == 2 else [(t,) * len(names) for t in EDGES]
        for types in choices if names else [()]:
            try:
                yield form, convert(_parsed(form), Row(dict(zip(names, types, strict=True))))  # type: ignore[arg-type]
            except Error:
                continue


def split() -> tuple[dict[str, tuple[str, Expression]], dict[str, set[str]]]:
    """What Spark computes, by its SQL; and the operations that it does not, with the forms that ask for them."""
    made, missing = {}, {}
    for form, expression in expressions():
        if expression.type.kind is Kind.INTERVAL:
            continue
        try:
            made.setdefault(SPARK.sql(expression, read), (form, expression))
        except UnsupportedQuery as problem:
            missing.setdefault(problem.message.removesuffix(" is not computed by this database"), set()).add(form)
    return made, missing


def read(name: str) -> str:
    return SPARK.read(name, list(EDGES)[int(name[1:])])


MADE, MISSING = split()


@pytest.fixture(scope="module")
def session() -> Any:
    """The edge values of each type: all pairs of two values of a type, and each value of one beside some of every other."""
    own = own_session(spark_session.session())
    own.conf.set("spark.sql.codegen.wholeStage", "false")
    own.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    own.conf.set("spark.sql.adaptive.enabled", "false")
    for letter in "abc":
        lists = [f"array({', '.join([*values, 'NULL'])}) AS v{i}" for i, values in enumerate(EDGES.values())]
        own.sql(f"SELECT {', '.join(lists)}").createOrReplaceTempView(f"lists_{letter}")
    many = max(map(len, EDGES.values())) + 1
    steps = {"a": "id div {0}", "b": "id % {0}", "c": "id div {0} + id % {0}"}
    columns = [
        f"get(l.v{i}, CAST(pmod({step.format(many)}, {len(values) + 1}) AS INT)) AS {letter}{i}"
        for letter, step in steps.items()
        for i, values in enumerate(EDGES.values())
    ]
    frame = own.sql(f"SELECT {', '.join(columns)} FROM range({many * many}) AS r CROSS JOIN lists_a AS l")
    frame.localCheckpoint().createOrReplaceTempView("edges")
    return own


def batches(size: int) -> list[list[str]]:
    listed = list(MADE)
    return [listed[i : i + size] for i in range(0, len(listed), size)]


def force(sql: str) -> str:
    """An aggregate that cannot be had without the value, of whatever type it is."""
    return f"max(xxhash64({sql}))"


def swept(session: Any, batch: Sequence[str]) -> None:
    try:
        session.sql(f"SELECT {', '.join(map(force, batch))} FROM edges").collect()
    except Exception:
        for sql in batch:
            try:
                session.sql(f"SELECT {force(sql)} FROM edges").collect()
            except Exception as problem:
                pytest.fail(f"{MADE[sql][0]} raises: {str(problem)[:600]}\n{sql}")
        raise


def test_no_edge_value_makes_an_expression_raise(session: Any) -> None:
    assert len(MADE) > 1000
    for batch in batches(150):
        swept(session, batch)


def test_the_types_are_those_that_were_promised(session: Any) -> None:
    named = ", ".join(f"{sql} AS e{i}" for i, sql in enumerate(MADE))
    fields = session.sql(f"SELECT {named} FROM edges").schema.fields
    wrong = [
        (form, field.dataType.simpleString(), sql)
        for (sql, (form, expression)), field in zip(MADE.items(), fields, strict=True)
        if field.dataType.simpleString().upper() != spark_type(physical(expression.type))
    ]
    assert wrong == []


ORDINARY: dict[str, tuple[str, ...]] = {
    "TINYINT": ("0", "1", "-7", "100"), "INTEGER": ("0", "1", "-7", "10", "25", "70000"),
    "BIGINT": ("0", "3", "-2", "100", "1099511627776"), "DECIMAL(9,2)": ("0", "2.50", "-2.50", "0.01", "99.99", "-7.25"),
    "DECIMAL(18,3)": ("0.005", "1", "-12.345", "2.5"), "DECIMAL(38,10)": ("0", "0.0000000001", "-5.5"),
    "DECIMAL(38,0)": ("0", "7", "-12", "12345678901234567890"), "FLOAT": ("1.5", "-0.25", "0", "3"),
    "DOUBLE": ("0", "2.5", "-2.5", "0.1", "7", "3.5", "1234567.891", "-0.75", "nan", "inf", "-inf"),
    "VARCHAR": ("", "abc", "Hello World", "  x ", "aXbXc", "12", "a-b-c", "50%_off", "abab", "Zebra"), "BOOLEAN": ("true", "false"),
    "DATE": ("2024-02-29", "2021-01-01", "1969-12-30", "2024-12-31", "1000-03-04"),
    "TIMESTAMP": ("2024-02-29 12:34:56.789", "1999-12-31 23:59:59", "1969-12-31 23:59:59.999999", "2021-01-03 00:00:00"),
    "TIMESTAMP WITH TIME ZONE": ("2024-02-29 12:34:56.789+00", "1969-12-31 23:59:59.5+00"),
}  # fmt: skip


VALUES = {type_: tuple(dict.fromkeys((*own, *edge_values.VALUES.get(type_, ())))) for type_, own in ORDINARY.items()}
EVERY_PAIR = os.environ.get("DPSQL_SPARK") == "all"


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> tuple[duckdb.DuckDBPyConnection, Path]:
    """The same rows for both, as Parquet: each value of a type beside some of its own and of others (or beside all)."""
    db, path = duckdb.connect(), tmp_path_factory.mktemp("beside") / "rows.parquet"
    db.execute("SET TimeZone = 'UTC'")
    many = max(map(len, VALUES.values())) + 1
    other = f"i // {many}" if EVERY_PAIR else f"i * 7 + (i // {many}) * 11"
    columns = [
        f"CAST([{', '.join(map(quoted, values))}, NULL][1 + ({step}) % {len(values) + 1}] AS {type_}) AS {letter}{i}"
        for letter, step in (("a", f"i % {many}"), ("b", other), ("c", f"i % {many} + {other}"))
        for i, (type_, values) in enumerate(VALUES.items())
    ]
    rows = many * (many if EVERY_PAIR else 3)
    db.execute(f"CREATE TABLE rows AS SELECT i, {', '.join(columns)} FROM range({rows}) AS r(i) ORDER BY i")
    db.execute(f"COPY rows TO '{path}' (FORMAT parquet)")
    return db, path


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def near(one: object, two: object) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return (
            (math.isnan(one) and math.isnan(two)) or one == two or math.isclose(one, two, rel_tol=1e-12, abs_tol=1e-12)
        )
    return one == two


COUNTED = {
    Kind.DATE: ("unix_date({0})", "({0} - DATE '1970-01-01')"),
    Kind.TIMESTAMP: ("unix_micros(CAST({0} AS TIMESTAMP))", "epoch_us({0})"),
}
"""Moments as numbers, of Spark and of DuckDB: Python has fewer years than they."""


def written_by(dialect: Any, expression: Expression) -> str:
    made = dialect.sql(expression, lambda name: dialect.read(name, list(EDGES)[int(name[1:])]))
    return COUNTED.get(expression.type.kind, ("{0}", "{0}"))[dialect is DUCKDB].format(made)


def test_what_is_computed_means_what_duckdb_means(session: Any, beside: tuple[duckdb.DuckDBPyConnection, Path]) -> None:
    """Over a few hundred rows; over all pairs of values with `DPSQL_SPARK=all`."""
    db, path = beside
    session.read.parquet(str(path)).createOrReplaceTempView("beside")
    rows = db.execute("SELECT CAST(COLUMNS(* EXCLUDE (i)) AS VARCHAR) FROM rows ORDER BY i").fetchall()
    wrong = []
    for batch in batches(150):
        listed = [MADE[sql] for sql in batch]
        mine = ", ".join(f"{written_by(SPARK, e)} AS e{n}" for n, (_, e) in enumerate(listed))
        theirs = ", ".join(written_by(DUCKDB, e) for _, e in listed)
        got = zip(*ArrowResult(session.sql(f"SELECT {mine} FROM beside ORDER BY i").toArrow()).fetchall(), strict=True)
        wanted = zip(*db.execute(f"SELECT {theirs} FROM rows ORDER BY i").fetchall(), strict=True)
        for (form, e), ours, duck in zip(listed, got, wanted, strict=True):
            unlike = [(o, d, r) for o, d, r in zip(ours, duck, rows, strict=True) if not near(o, d)]
            if unlike:
                used = sorted({n.name for n in e.walk() if isinstance(n, Column)})
                places = [int(n[1:]) + len(EDGES) * "abc".index(n[0]) for n in used]
                wrong.append((form, unlike[0][:2], [unlike[0][2][p] for p in places]))
    assert wrong == []


@pytest.mark.parametrize("form", ["strftime(a - INTERVAL 1 MONTH, '%Y-%m')", "strftime(a + INTERVAL 1 MONTH, '%Y-%m')"])
def test_years_that_are_written_differently_are_nothing(session: Any, form: str) -> None:
    made = convert(_parsed(form), Row({"a": "DATE"}))  # type: ignore[arg-type]
    for day in ("0001-01-01", "1970-01-01", "9999-12-31"):
        mine, theirs = (dialect.sql(made, lambda _, d=day: f"DATE '{d}'") for dialect in (SPARK, DUCKDB))
        [(ours,)] = ArrowResult(session.sql(f"SELECT {mine} AS x").toArrow()).fetchall()
        [(wanted,)] = duckdb.execute(f"SELECT {theirs}").fetchall()
        assert ours == wanted or (ours is None and day != "1970-01-01")


@pytest.mark.parametrize("function", ["lower", "upper"])
def test_letters_change_case_as_in_duckdb(session: Any, function: str) -> None:
    """All letters there are, of a column and of an expression: Spark's own way is another."""
    every = "".join(chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x110000)))
    [(theirs,)] = duckdb.execute(f"SELECT {function}(?)", [every]).fetchall()
    frame = session.createDataFrame([(every,)], "x STRING")
    column, letters = Column(TEXT, name="x"), {"lower": _LOWER, "upper": _UPPER}[function]
    for it in (column, call("join", TEXT, column)):
        made = _cased(it, lambda *_: "x", function, letters)
        assert frame.selectExpr(f"{made} AS y").collect()[0].y == theirs


NEVER = """
    ACOSH ASCII ASINH ATANH BAR BIN BIT_COUNT DAMERAU_LEVENSHTEIN DATE_SUB EPOCH_NS EVEN FACTORIAL FDIV FMOD
    FORMATREADABLEDECIMALSIZE FORMAT_BYTES GAMMA GCD HAMMING HASH JACCARD JARO_SIMILARITY JARO_WINKLER_SIMILARITY JULIAN
    LCM LEFT_GRAPHEME LENGTH_GRAPHEME LEVENSHTEIN LGAMMA LOG NEXTAFTER NFC_NORMALIZE ORD OVERLAY PARSE_DIRNAME
    PARSE_DIRPATH PARSE_FILENAME REGEXP_ESCAPE REGEXP_EXTRACT REGEXP_FULL_MATCH REGEXP_MATCHES REGEXP_REPLACE REVERSE
    RIGHT_GRAPHEME SHIFT_RIGHT SIGNBIT SIMILAR_TO STRIP_ACCENTS SUBSTRING_GRAPHEME TO_BASE TO_TIMESTAMP TRY_STRPTIME
    UNICODE URL_ENCODE
"""
"""What Spark is not asked to compute over any column (BIT_COUNT and >> only where a number may be negative)."""
SOMETIMES = {
    "ADD": "beyond 38 digits", "SUB": "beyond 38 digits", "IDIV": "beyond 32 digits", "ROUND": "beyond 38 digits",
    "ROUND_EVEN": "beyond 38 digits", "TRUNC_TO": "beyond 38 digits", "HEX": "beyond 64 bits",
    "CAST": "of texts to numbers and dates, of DOUBLE to text or beyond 64 bits", "CHR": "of a column",
    "SPLIT_PART": "by a separator that is empty or no constant", "STRFTIME": "with %u, %w, %V or %G",
    "TIME_BUCKET": "of months and years",
}  # fmt: skip
"""What it computes, but not of everything."""


def test_what_is_not_computed_is_written_down() -> None:
    assert set(MISSING) == {*NEVER.split(), *SOMETIMES}
    made = {node.op.upper() for _, e in MADE.values() for node in e.walk() if isinstance(node, Call)}
    assert made.isdisjoint(NEVER.split())
