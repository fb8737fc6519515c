"""Each part of a text that grows has its share of the limit: at the share it stays, one byte more and it is NULL."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import dpsql
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.text_rules import _chain, limited
from dpsql.engines.postgres.dialect import Postgres
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.release_statements import text_notes
from dpsql.errors import UnsupportedQuery
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import BIGINT, TEXT

LIMIT = 1200


class Row:
    def column(self, node: exp.Column) -> Expression:
        return Column(BIGINT if node.name == "n" else TEXT, name=node.name)


def node(text: str) -> Expression:
    return convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], Row())


def within(text: str, limit: int = LIMIT) -> str:
    return limited(node(text), lambda child, wanted: DUCKDB.sql(child, DUCKDB.quote), limit)


@pytest.mark.parametrize(
    ("form", "share", "limit"),
    [
        ("a", 1200, LIMIT),
        ("a || 'x'", 600, LIMIT),
        ("a || 'x' || 'y'", 400, LIMIT),
        ("'x' || ('y' || a)", 400, LIMIT),
        ("a || (lower('X') || 'y')", 400, LIMIT),
        ("a || lower('x' || 'y')", 600, LIMIT),
        ("concat('x', a)", 600, LIMIT),
        ("concat('x', a || 'y')", 300, LIMIT),
        ("concat_ws(',', 'x', a)", 200, LIMIT),
        ("lower(a)", 600, LIMIT),
        ("upper(a)", 600, LIMIT),
        ("trim(a)", 1200, LIMIT),
        ("trim(a, 'y')", 1200, LIMIT),
        ("left(a, -1)", 1200, LIMIT),
        ("substring(a, 2)", 1200, LIMIT),
        ("coalesce(a, 'x')", 1200, LIMIT),
        ("nullif(a, 'x')", 1200, LIMIT),
        ("CASE WHEN n > 0 THEN a ELSE 'x' END", 1200, LIMIT),
        ("CASE WHEN length(a) > 0 THEN a ELSE 'x' END", 1200, LIMIT),
        ("replace(a, 'x', 'bcd')", 400, LIMIT),
        ("replace(a, 'x', '')", 1200, LIMIT),
        ("replace(a, 'x', 'b')", 1200, LIMIT),
        ("replace('x', a, 'b')", 1200, LIMIT),
        ("replace('x', 'x', a)", 512, 65_536),
        ("replace(a, 'x', b)", 128, 65_536),
        ("reverse(a)", 1200, LIMIT),
        ("hex(a)", 600, LIMIT),
        ("url_encode(a)", 400, LIMIT),
        ("translate(a, 'x', 'y')", 300, LIMIT),
        ("hex(a || 'x')", 300, LIMIT),
        ("regexp_replace(a, 'x', 'zz', 'g')", 399, LIMIT),
    ],
)
def test_a_part_that_fills_its_share_is_kept_and_a_longer_one_is_null(form: str, share: int, limit: int) -> None:
    made = within(form, limit)
    stored = ", ".join(f"('{letter}', {size})" for letter in ("q",) for size in (1, share - 1, share, share + 1))
    source = f"(SELECT repeat(l, s) AS a, repeat('z', 2) AS b, 5 AS n, s FROM (VALUES {stored}) AS t(l, s))"
    outer = "concat" in form or "coalesce" in form
    for size, ours, theirs, bytes_ in duckdb.sql(f"SELECT s, {made}, {form}, strlen({made}) FROM {source}").fetchall():
        if size <= share:
            assert ours == theirs, size
        else:
            assert ours is None or (outer and ours != theirs)
        assert ours is None or bytes_ <= limit


def test_letters_of_several_bytes_count_as_such() -> None:
    made = within("a || 'x'")
    asked = f"SELECT {made} IS NULL FROM (VALUES (repeat('é', 300)), (repeat('é', 301)), (repeat('🤦', 150)), (repeat('🤦', 151))) AS t(a)"
    assert duckdb.sql(asked).fetchall() == [(False,), (True,), (False,), (True,)]


@pytest.mark.parametrize(
    ("literal", "kept"), [("x" * 600, True), ("x" * 601, False), ("é" * 300, True), ("é" * 301, False)]
)
def test_a_constant_is_measured_when_it_is_written(literal: str, kept: bool) -> None:
    made = within(f"'{literal}' || a")
    assert (literal in made) == kept and ("CAST(NULL AS VARCHAR)" in made) != kept
    assert made.count("strlen") == 1


@pytest.mark.parametrize("part", ["CAST(n AS VARCHAR)", "dayname(DATE '2024-01-01')", "chr(n)", "left(b, 3)", "'x'"])
def test_what_is_short_by_itself_is_not_measured(part: str) -> None:
    made = within(f"a || {part}")
    assert made.count("strlen") == 1
    [(found, wanted)] = duckdb.sql(
        f"SELECT {made}, a || {part} FROM (SELECT 'q' AS a, 'long' AS b, 65 AS n)"
    ).fetchall()
    assert found == wanted


def test_a_cast_of_a_text_is_measured() -> None:
    made = within("CAST(a AS VARCHAR) || 'x'")
    assert duckdb.sql(f"SELECT {made} FROM (SELECT repeat('q', 601) AS a)").fetchall() == [(None,)]


def test_shares_below_128_bytes_are_refused_and_128_are_enough() -> None:
    assert "strlen" in within("a || b", 256)
    for form, limit in (("a || b", 255), ("a || b || c", 383), ("concat_ws(',', a)", 511), ("lower(a)", 255), ("replace(a, 'x', 'yy')", 255)):  # fmt: skip
        with pytest.raises(UnsupportedQuery, match="too long"):
            within(form, limit)
        assert "strlen" in within(form, limit + 1)


def test_a_function_that_lengthens_has_a_quarter_of_a_million_bytes() -> None:
    assert DUCKDB.sql(node("a || 'x'"), DUCKDB.quote) == (
        '(CASE WHEN strlen(CAST("a" AS VARCHAR)) <= 131072 THEN CAST("a" AS VARCHAR) END || \'x\')'
    )
    assert "strlen" not in DUCKDB.sql(node("reverse(a)"), DUCKDB.quote)
    assert "<= 131072 " in DUCKDB.sql(node("hex(a)"), DUCKDB.quote)


@pytest.mark.parametrize("count", [1, 2, 15, 16])
def test_few_parts_stand_in_one_row(count: int) -> None:
    parts = [f"p{i}" for i in range(count)]
    assert _chain(parts) == f"({' || '.join(parts)})"


def test_many_parts_are_halved_until_they_are_few() -> None:
    parts = [f"p{i}" for i in range(35)]
    first, second, third = (" || ".join(parts[a:b]) for a, b in ((0, 8), (8, 17), (17, 26)))
    assert _chain(parts[:17]) == f"(({first}) || ({second}))"
    rest = " || ".join(parts[26:])
    assert _chain(parts) == f"((({first}) || ({second})) || (({third}) || ({rest})))"


PLAIN = ["left(a, 2)", "left(a, -1)", "right(a, 2)", "substring(a, 2, 2)", "substring(a, 2)", "trim(a)", "trim(a, 'x')", "length(a)", "lower(a)",
         "upper(a)", "strpos(a, 'b')", "starts_with(a, 'a')", "ends_with(a, 'c')", "contains(a, 'b')", "a LIKE 'a%'", "a ILIKE 'A%'",
         "concat(a, NULL, 'x')", "concat_ws('-', a, 'x')", "a || 'x'", "replace(a, 'a', 'bb')", "to_base(n, 2)", "to_base(n, 36, 4)", "bar(n, 0, 100, 10)"]  # fmt: skip


@pytest.mark.parametrize("form", PLAIN)
def test_texts_are_what_duckdb_makes_of_them(form: str) -> None:
    values = "('abc', 0), ('', 1), (NULL, 35), (' axbc ', 36), ('Äc', NULL)"
    made = DUCKDB.sql(node(form), DUCKDB.quote)
    found = duckdb.sql(f"SELECT {made}, {form} FROM (VALUES {values}) AS t(a, n)").fetchall()
    assert [ours for ours, _ in found] == [theirs for _, theirs in found]


def test_a_negative_number_has_no_digits_in_a_base() -> None:
    made = DUCKDB.sql(node("to_base(n, 2)"), DUCKDB.quote)
    found = duckdb.sql(f"SELECT {made} FROM (VALUES (-1::BIGINT), (0), (-9223372036854775808)) AS t(n)").fetchall()
    assert found == [(None,), ("0",), (None,)]


@pytest.mark.parametrize(("count", "told"), [(120, ()), (130, (1_024_562,)), (500, (267_899,))])
def test_a_share_of_less_than_a_megabyte_is_told(count: int, told: tuple[int, ...]) -> None:
    notes: dict[str, Any] = {"unit": "person", "max_rows_per_unit": 2, "columns": {"note": {}}}
    policy = {"dataset": "notes", "budget": {"epsilon": 100}, "tables": {"notes": notes}}
    parts = ", ".join(f"substring(note, {i + 1}) AS s{i}" for i in range(count))
    with duckdb.connect() as raw:
        raw.execute("CREATE TABLE notes (person INTEGER, note VARCHAR)")
        db = dpsql.connect(raw, policy=policy, ledger=":memory:")
        asked = db.prepare(f"SELECT count(*) FROM (SELECT DISTINCT person, {parts} FROM notes) AS t")
        said = text_notes(asked.bill.releases, Site(db.engine.schema(), Postgres()))
    assert [note.split(" bytes")[0].rpartition(" ")[2] for note in said] == [f"{share:,}" for share in told]
