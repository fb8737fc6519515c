"""Relations as SQL: where the owner is found, how copies are named, and that no cast in a union or a join can fail."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import dpsql
from dpsql.bounds.domain import Domain
from dpsql.engines.duckdb.dialect import DUCKDB, DuckDB
from dpsql.engines.sql.clamp import STEPS
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.relations import _distance, _only_equalities, relation_sql
from dpsql.errors import InternalError, UnsupportedQuery
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import BOOLEAN, DOUBLE, TEXT, integer
from dpsql.plan.nodes.relation import UNIT, Copy, Field, PublicScan, Relation, Scan, side_of

WHOLE = integer(-(2**31), 2**31 - 1)
SMALL = {"unit": "u", "max_rows_per_unit": 3}


@pytest.fixture(scope="module")
def data() -> duckdb.DuckDBPyConnection:
    data = duckdb.connect()
    data.execute("CREATE TABLE a (u INTEGER, x INTEGER, d DATE, s VARCHAR)")
    data.execute("CREATE TABLE b (u INTEGER, y INTEGER, t TIMESTAMP)")
    data.execute("CREATE TABLE c (u BIGINT, z INTEGER, k BOOLEAN)")
    data.execute("CREATE TABLE m (u INTEGER, n BIGINT PRIMARY KEY)")
    data.execute("CREATE TABLE l (i BIGINT REFERENCES m (n), q INTEGER)")
    data.execute("CREATE TABLE o (j BIGINT REFERENCES m (n), p INTEGER)")
    data.execute("CREATE TABLE w (name VARCHAR PRIMARY KEY, size DOUBLE)")
    data.execute("INSERT INTO a VALUES (1, 3, DATE '5881580-07-10', 'p'), (2, 4, DATE '2024-01-01', 'q')")
    data.execute("INSERT INTO b VALUES (1, 5, TIMESTAMP '2024-01-01 10:00:00'), (3, 7, NULL)")
    data.execute("INSERT INTO c VALUES (1, 5, true), (9, NULL, NULL)")
    return data


@pytest.fixture(scope="module")
def db(data: duckdb.DuckDBPyConnection) -> Iterator[dpsql.Connection]:
    tables = {
        "a": SMALL | {"columns": {"u": {}, "x": {"min": 0, "max": 9}, "d": {}, "s": {}}},
        "b": SMALL | {"columns": {"u": {}, "y": {"min": 0, "max": 9}, "t": {}}},
        "c": SMALL | {"columns": {"u": {}, "z": {"min": 0, "max": 9}, "k": {}}},
        "m": SMALL | {"columns": {"n": {}}},
        "l": {"unit": {"i": "m.n"}, "max_rows_per_unit": 3, "columns": {"i": {}, "q": {"min": 0, "max": 9}}},
        "o": {"unit": {"j": "m.n"}, "max_rows_per_unit": 3, "columns": {"j": {}, "p": {"min": 0, "max": 9}}},
        "w": {"public": True},
    }
    policy = {"dataset": "d", "search": False, "budget": {"epsilon": 9, "delta": 1e-6}, "tables": tables}
    with dpsql.connect(data, policy=policy, ledger=":memory:") as connection:
        yield connection


def source(db: dpsql.Connection, rows: str, what: str = "count(*)") -> Relation:
    [release] = db.prepare(f"SELECT {what} FROM {rows}", epsilon=1.0, delta=1e-7, mechanism="laplace").bill.releases
    return release.bounded.release.source


def site(db: dpsql.Connection, dialect: DuckDB = DUCKDB) -> Site:
    return Site(db.engine.schema(), dialect)


@pytest.mark.parametrize(
    ("rows", "tables"),
    [
        ("a", 0),
        ("l", 1),
        ("(SELECT * FROM l WHERE q > 1)", 1),
        ("(SELECT q + 1 AS r FROM l)", 1),
        ("l JOIN m ON l.i = m.n", 0),
        ("l JOIN o ON l.i = o.j", 1),
        ("l LEFT JOIN o ON l.i = o.j", 1),
        ("l FULL JOIN o ON l.i = o.j", 2),
        ("m LEFT JOIN l ON l.i = m.n", 0),
        ("m FULL JOIN l ON l.i = m.n", 1),
        ("(SELECT q FROM l UNION ALL SELECT x FROM a)", 1),
        ("(SELECT x FROM a UNION ALL SELECT q FROM l)", 1),
        ("l CROSS JOIN w", 1),
    ],
)
def test_the_owner_of_a_row_is_so_many_tables_away(db: dpsql.Connection, rows: str, tables: int) -> None:
    assert _distance(source(db, rows)) == tables


def test_public_rows_have_no_owner_to_look_for() -> None:
    public = PublicScan((Field("name", TEXT, Domain()),), False, 1, False, "w")
    assert _distance(public) == 0


def test_a_join_takes_the_owner_where_no_table_need_be_joined_for_it(db: dpsql.Connection) -> None:
    made = relation_sql(source(db, "l JOIN m ON l.i = m.n"), frozenset(), site(db))
    assert made.source.count('"m"') == 1 and made.unit == 'j1."u"'


def scan(part: str | None, unit: str = "u", type_: str = "INTEGER") -> tuple[Scan, Site]:
    stepped = Field(f"x{STEPS} 0 to 9 by 1", WHOLE, Domain())
    stored = Field("x", DOUBLE, Domain())
    owner = Field("u", DOUBLE if type_ == "DOUBLE" else WHOLE, Domain(), True, UNIT)
    fields = (owner, stored, stepped) if part else (owner, stored)
    made = Scan(fields, False, 3, False, "T", unit, copy=Copy(3, True), part=part)  # type: ignore[arg-type]
    return made, Site({"t": {"u": type_, "x": "FLOAT"}}, DUCKDB)


@pytest.mark.parametrize("name", ["", "j"])
def test_a_copy_stands_under_its_parts_name_and_has_columns_that_the_table_lacks(name: str) -> None:
    made, where = scan("over")
    prefix, called = (f"{name}.", f" AS {name}") if name else ("", "")
    found = relation_sql(made, frozenset(f.name for f in made.fields), where, name)
    assert found.source == f'dpsql_prepared.over."t"{called}'
    assert found.columns == {
        "u": f'{prefix}"u"', "x": f'TRY_CAST({prefix}"x" AS DOUBLE)', f"x{STEPS} 0 to 9 by 1": f'{prefix}"x{STEPS} 0 to 9 by 1"',
    }  # fmt: skip
    assert found.unit == f'{prefix}"u"' and found.where == (f'{prefix}"u" IS NOT NULL',)


def test_a_table_is_read_by_its_own_name_with_its_owner_unless_nobody_asks_for_it() -> None:
    made, where = scan(None)
    found = relation_sql(made, frozenset({"x"}), where)
    assert (found.source, found.unit, list(found.columns)) == ('"T"', '"u"', ["x"])
    found = relation_sql(made, frozenset({"x"}), where, owned=False)
    assert (found.source, found.unit, found.where) == ('"T"', None, ())


def test_a_unit_has_one_zero_and_one_nan_and_other_numbers_are_read_as_they_are() -> None:
    made, where = scan(None, type_="DOUBLE")
    found = relation_sql(made, frozenset({"u", "x"}), where)
    assert found.unit == found.columns["u"] == DUCKDB.settled('"u"', DOUBLE)
    assert found.columns["x"] == 'TRY_CAST("x" AS DOUBLE)'
    public = PublicScan((Field("x", DOUBLE, Domain()),), False, 1, False, "p")
    assert relation_sql(public, frozenset({"x"}), Site({"p": {"x": "DOUBLE"}}, DUCKDB)).columns == {"x": '"x"'}


def test_what_is_no_known_relation_has_no_sql() -> None:
    with pytest.raises(InternalError, match="no SQL"):
        relation_sql(Relation((), False, 1, False), frozenset(), Site({}, DUCKDB))


# casts that cannot fail -------------------------------------------------------------------------------------------------


def rows_of(data: duckdb.DuckDBPyConnection, db: dpsql.Connection, rows: str, column: str) -> list[tuple[object, ...]]:
    relation = source(db, rows, f"count({column})")
    made = relation_sql(relation, frozenset({column}), site(db))
    owner = made.unit
    return data.execute(f"SELECT {owner}, {made.columns[column]} FROM {made.source}{made.conditions} ORDER BY ALL").fetchall()  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ("(SELECT x AS v FROM a UNION ALL SELECT NULL FROM b)", [(1, 3), (1, None), (2, 4), (3, None)]),
        ("(SELECT x > 3 AS v FROM a UNION ALL SELECT NULL FROM b)", [(1, False), (1, None), (2, True), (3, None)]),
        ("(SELECT s AS v FROM a UNION ALL SELECT NULL FROM b)", [(1, "p"), (1, None), (2, "q"), (3, None)]),
        ("(SELECT x AS v FROM a UNION ALL SELECT 0.5 FROM b)", [(1, 0.5), (1, 3), (2, 4), (3, 0.5)]),
    ],
)
def test_a_union_has_the_rows_of_both_with_their_owners(
    data: duckdb.DuckDBPyConnection, db: dpsql.Connection, rows: str, wanted: list[tuple[object, ...]]
) -> None:
    assert rows_of(data, db, rows, "v") == wanted


def test_moments_in_a_union_are_null_where_they_do_not_fit(
    data: duckdb.DuckDBPyConnection, db: dpsql.Connection
) -> None:
    """A date beyond the range of timestamps must not make the query fail."""
    found = rows_of(data, db, "(SELECT d AS v FROM a UNION ALL SELECT t FROM b)", "v")
    assert [str(moment) for _, moment in found] == ["2024-01-01 10:00:00", "None", "2024-01-01 00:00:00", "None"]
    found = rows_of(data, db, "(SELECT t AS v FROM b UNION ALL SELECT NULL FROM a)", "v")
    assert [str(moment) for _, moment in found] == ["2024-01-01 10:00:00", "None", "None", "None"]


@pytest.mark.parametrize(("rows", "wide"), [("(SELECT x AS v FROM a UNION ALL SELECT z FROM c)", True), ("(SELECT x AS v FROM a UNION ALL SELECT y FROM b)", False)])  # fmt: skip
def test_owners_of_two_widths_are_read_in_the_wider_one(
    data: duckdb.DuckDBPyConnection, db: dpsql.Connection, rows: str, wide: bool
) -> None:
    made = relation_sql(source(db, rows, "count(v)"), frozenset({"v"}), site(db))
    [(kind,)] = data.execute(f"SELECT DISTINCT typeof({made.unit}) FROM {made.source}").fetchall()
    assert kind == ("BIGINT" if wide else "INTEGER")
    assert made.source.count("_unit AS BIGINT)") == (2 if wide else 0)


# full joins where only equalities join -----------------------------------------------------------------------------------


class Row:
    def column(self, node: exp.Column) -> Expression:
        return Column(BOOLEAN if node.name == "k" else WHOLE, name=node.name)


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ("a = c", True),
        ("c = a", True),
        ("a = c AND d = b", True),
        ("a + b = c", True),
        ("a + b = c + d", True),
        ("c + d = a + b", True),
        ("a = b", False),
        ("c = d", False),
        ("a < c", False),
        ("a = 1", False),
        ("1 = c", False),
        ("1 = 1", False),
        ("a = c AND b > 1", False),
        ("b > 1 AND a = c", False),
        ("a + c = d", False),
        ("a = c + b", False),
        ("a = c OR b = d", False),
        ("NOT a = c", False),
        ("k", False),
        ("a = c AND k", False),
    ],
)
def test_a_condition_is_of_equalities_only_if_each_compares_one_side_with_the_other(text: str, only: bool) -> None:
    sides = tuple(
        side_of(Relation(tuple(Field(name, WHOLE, Domain()) for name in names), False, 3, False))
        for names in ("abk", "cd")
    )
    condition = convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], Row())
    assert _only_equalities(condition, sides) == only  # type: ignore[arg-type]


class ByEqualities(DuckDB):
    full_joins_by_any = False


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        ("a FULL JOIN b ON a.u = b.u", False),
        ("a FULL JOIN b ON a.u = b.u AND a.x < b.y", True),
        ("a LEFT JOIN b ON a.u = b.u AND a.x < b.y", False),
    ],
)
def test_a_full_join_by_other_conditions_is_refused_where_the_engine_has_none(
    db: dpsql.Connection, rows: str, refused: bool
) -> None:
    relation = source(db, rows)
    assert " JOIN " in relation_sql(relation, frozenset(), site(db)).source
    if refused:
        with pytest.raises(UnsupportedQuery, match="equal columns only"):
            relation_sql(relation, frozenset(), site(db, ByEqualities()))
    else:
        assert relation_sql(relation, frozenset(), site(db, ByEqualities())).unit is not None
