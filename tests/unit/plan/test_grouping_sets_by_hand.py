"""GROUP BY with several sets: those that DuckDB itself makes of the clause, and the union of their releases in SQL."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest
from sqlglot import exp, parse_one

import dpsql
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BIGINT
from dpsql.plan.builder.grouping_sets import (
    GroupKeys,
    group_by,
    grouping,
    is_grouping,
    plain_keys,
    union_of,
    union_of_sets,
)
from dpsql.plan.plan import Family, Member

CLAUSES = [
    "a",
    "a, b, c",
    "b, a",
    "(a)",
    "(a, b), c",
    "ROLLUP (a, b)",
    "ROLLUP (a, b, c)",
    "ROLLUP ((a, b), c)",
    "CUBE (a, b)",
    "CUBE (a, b, c)",
    "CUBE (a, (b, c))",
    "GROUPING SETS ((a), (b, c), ())",
    "GROUPING SETS (a, b)",
    "GROUPING SETS ((a), (a))",
    "GROUPING SETS (ROLLUP (a, b), CUBE (c))",
    "a, ROLLUP (b, c)",
    "CUBE (a, b), ROLLUP (c)",
    "ROLLUP (a), ROLLUP (a, b)",
]


def clause(text: str, dialect: str = "duckdb") -> exp.Group:
    found = parse_one(f"SELECT 1 FROM t GROUP BY {text}", dialect=dialect).args["group"]
    assert isinstance(found, exp.Group)
    return found


def key(node: exp.Expr) -> Expression:
    return Column(BIGINT, name=node.name)


def keys_of(text: str) -> GroupKeys:
    return group_by(clause(text), key)


@pytest.mark.parametrize("text", CLAUSES)
def test_the_sets_are_those_of_duckdb(text: str) -> None:
    """One row of data makes one group of each set, and GROUPING tells which keys it lacks."""
    made = keys_of(text)
    names = [e.name for e in made.expressions]  # type: ignore[attr-defined]
    assert sorted(set(names)) == sorted(names)
    asked = ", ".join(names)
    told = duckdb.sql(f"SELECT GROUPING({asked}) FROM (VALUES (1, 2, 3)) t(a, b, c) GROUP BY {text}").fetchall()
    every = range(len(names))
    bits = [sum(1 << (len(names) - 1 - i) for i in every if i not in each) for each in made.sets]
    assert Counter(bits) == Counter(bit for (bit,) in told)
    assert all(list(each) == sorted(set(each)) for each in made.sets)
    assert made.plain == (len(told) == 1)


def test_keys_that_are_written_twice_are_one() -> None:
    a, b = (Column(BIGINT, name=name) for name in "ab")
    assert plain_keys([a, b, a]) == GroupKeys((a, b), ((0, 1),))
    assert plain_keys([]) == GroupKeys((), ((),))
    assert plain_keys([a]).plain


def listed(many: int) -> str:
    return ", ".join(f"k{i}" for i in range(many))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"CUBE ({listed(6)})", None),
        (f"CUBE ({listed(7)})", "128 grouping sets, of at most 64"),
        (f"CUBE ({listed(8)})", "CUBE of 8 keys has too many sets"),
        (f"ROLLUP ({listed(63)})", None),
        (f"ROLLUP ({listed(64)})", "65 grouping sets"),
        (f"ROLLUP ({listed(7)}), ROLLUP ({listed(7)})", None),
        (f"ROLLUP ({listed(7)}), ROLLUP ({listed(8)})", "72 grouping sets"),
    ],
)
def test_there_are_at_most_sixty_four_sets(text: str, says: str | None) -> None:
    if says is None:
        assert 60 < len(keys_of(text).sets) <= 64
    else:
        with pytest.raises(dpsql.UnsupportedQuery, match=says):
            keys_of(text)


@pytest.mark.parametrize(
    ("text", "dialect", "instead"),
    [("a WITH ROLLUP", "mysql", "ROLLUP"), ("a WITH CUBE", "spark", "CUBE"), ("a WITH TOTALS", "clickhouse", "ROLLUP")],
)
def test_the_spellings_of_others_are_refused(text: str, dialect: str, instead: str) -> None:
    with pytest.raises(dpsql.ParseError, match="is not DuckDB's spelling") as caught:
        group_by(clause(text, dialect), key)
    assert caught.value.hint == f"write GROUP BY {instead} (a, b)"


def test_a_set_that_is_written_twice_is_released_once_and_read_twice() -> None:
    a, b = (Column(BIGINT, name=name) for name in "ab")
    keys = GroupKeys((a, b), ((0, 1), (0,), (0, 1), ()))
    assert union_of_sets("f", ["r0", "r1", "r2"], keys) == Family(
        "f",
        (
            Member("r0"),
            Member("r1", frozenset({"_k1"})),
            Member("r0"),
            Member("r2", frozenset({"_k0", "_k1"})),
        ),
    )


def test_the_union_of_releases_tells_of_each_row_its_set_and_its_number() -> None:
    members = (Member("r0"), Member("r1", frozenset({"_k1"})), Member("r2", frozenset({"_k0", "_k1"})))
    tree = union_of(Family("f", members), ["_k0", "_k1", "_a0"])
    with duckdb.connect() as data:
        data.execute(
            "CREATE TABLE r0 AS SELECT * FROM (VALUES (0, 'x', 1, 10), (1, 'y', 2, 20)) t(_row, _k0, _k1, _a0)"
        )
        data.execute("CREATE TABLE r1 AS SELECT * FROM (VALUES (0, 'x', 30), (1, 'y', 40)) t(_row, _k0, _a0)")
        data.execute("CREATE TABLE r2 AS SELECT 0 AS _row, 50 AS _a0")
        rows = data.sql(f"SELECT _row, _set, _k0, _k1, _a0 FROM {tree.sql('duckdb')} ORDER BY f._row").fetchall()
    assert rows == [
        (0, 0, "x", 1, 10), (1, 1, "x", None, 30), (2, 2, None, None, 50), (3, 0, "y", 2, 20), (4, 1, "y", None, 40),
    ]  # fmt: skip


@pytest.mark.parametrize("places", [(0,), (1,), (0, 1), (1, 0), (0, 1, 2), (2, 0, 1), (0, 0), ()])
@pytest.mark.parametrize("sets", [((0, 1, 2), (0,), (1, 2), ()), ((0, 1, 2),), ((0,),), ((0, 1), (1, 2)), ((), ())])
def test_grouping_has_a_bit_for_each_key_that_the_set_of_a_row_lacks(places: tuple, sets: tuple) -> None:
    node = parse_one("GROUPING(a)", dialect="duckdb")
    tree = grouping(node, places, sets, exp.column("s"))
    for number, each in enumerate(sets):
        wanted = sum((place not in each) << (len(places) - 1 - i) for i, place in enumerate(places))
        [(told, type_)] = duckdb.sql(
            f"SELECT x, typeof(x) FROM (SELECT {tree.sql('duckdb')} AS x FROM (SELECT {number} AS s))"
        ).fetchall()
        assert (told, type_) == (wanted, "BIGINT")
    constant = len({tuple(place in each for place in places) for each in sets}) == 1
    assert (tree.find(exp.Case) is None) == constant


def test_grouping_takes_keys_only() -> None:
    node = parse_one("GROUPING(a)", dialect="duckdb")
    assert is_grouping(node) and is_grouping(parse_one("GROUPING_ID(a)", dialect="duckdb"))
    assert not is_grouping(parse_one("max(a)", dialect="duckdb"))
    for places in ((None,), (0, None)):
        with pytest.raises(dpsql.ParseError, match="takes group keys"):
            grouping(node, places, ((0,),), exp.column("s"))
