"""Each break that a privacy review found, as a test of the behaviour that closes it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpsql
from dpsql.interfaces.steward_tasks import check

BUDGET = {"epsilon": 10_000, "delta": 1e-6}


def database(*statements: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for statement in statements:
        connection.execute(statement)
    return connection


def policy(tables: dict[str, Any]) -> dict[str, Any]:
    return {"dataset": "d", "search": False, "budget": BUDGET, "replay": False, "tables": tables}


def connect(connection: Any, tables: dict[str, Any], *, steward: bool = True) -> dpsql.Connection:
    return dpsql.connect(connection, policy=policy(tables), ledger=":memory:", steward=steward)


def moved(one: Any, two: Any, tables: dict[str, Any], sql: str, **options: Any) -> list[tuple[str, int, int]]:
    """For each statistic: its name, the L1 distance between the neighbours, and the claim."""
    traces = []
    for connection in (one, two):
        with connect(connection, tables) as db:
            traces.append(dpsql.audit.trace(db, sql, salt=b"salt", **options))
    found = []
    for before, after in zip(*traces, strict=True):
        for index, statistic in enumerate(before.statistics):
            a = dict(zip(before.keys, statistic.values, strict=True))
            b = dict(zip(after.keys, after.statistics[index].values, strict=True))
            assert statistic.l1 is not None
            found.append((statistic.name, sum(abs(a.get(k, 0) - b.get(k, 0)) for k in {*a, *b}), statistic.l1))
    return found


@pytest.mark.parametrize("unit", ["u", "row"])
@pytest.mark.parametrize(
    "sql", ["SELECT p, count(*) FROM t WHERE x = 7 GROUP BY p", "SELECT DISTINCT p FROM t WHERE x = 7"]
)
def test_private_keys_without_any_candidate_are_an_empty_answer_not_an_error(unit: str, sql: str) -> None:
    for where in ("true", "i <> 7"):
        data = database(
            "CREATE TABLE t(u INT, p VARCHAR, x INT)",
            f"INSERT INTO t SELECT i, 'p', i FROM range(100) r(i) WHERE {where}",
        )
        with connect(data, {"t": {"unit": unit, "columns": {"p": {}, "x": {}}}}, steward=False) as db:
            assert db.query(sql, epsilon=0.01).fetchall() == []


@pytest.mark.parametrize(
    "aggregate", ["count(*) FILTER (WHERE note)", "count_if(note)", "count_if(CASE WHEN note = 'bob' THEN 'x' ELSE 'true' END)",
                  "sum(x) FILTER (WHERE note || '')", "count_if(x)", "sum(CASE WHEN note THEN 1 END)", "sum(if(x, 1, 2))"]
)  # fmt: skip
def test_a_condition_is_a_boolean_and_never_cast_to_one(aggregate: str) -> None:
    data = database("CREATE TABLE t(u INT, note VARCHAR, x INT)", "INSERT INTO t VALUES (1, 'bob', 2)")
    with (
        connect(data, {"t": {"unit": "u", "columns": {"note": {}, "x": {"min": 0, "max": 9}}}}) as db,
        pytest.raises(dpsql.ParseError),
    ):
        db.explain(f"SELECT {aggregate} FROM t")


def test_values_that_a_decimal_column_cannot_hold_are_no_keys_and_no_row_counts_twice() -> None:
    tables = {"t": {"unit": "u", "columns": {"d": {}}}}
    data = [
        database("CREATE TABLE t(u INT, d DECIMAL(10,1))", f"INSERT INTO t SELECT i, 0.1 FROM range({n}) r(i)")
        for n in (50, 49)
    ]
    listed = ", ".join(f"0.1{i}" for i in range(9))
    for _, distance, claim in moved(
        *data, tables, f"SELECT d, count(*) FROM t WHERE d IN ({listed}, 0.2, 0.3, 0.4, 0.5, 0.6) GROUP BY d"
    ):
        assert distance <= claim
    with connect(data[0], tables) as db:
        [release] = db.explain(f"SELECT d, count(*) FROM t WHERE d IN ({listed}) GROUP BY d").releases
        assert release.keys[0].values is not None
        assert [float(v) for v in release.keys[0].values] == [0.1]


def test_the_lookup_of_keys_is_a_function_whatever_the_list_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.sensitivity.group_keys.on_type", lambda value, type_: value)
    tables = {"t": {"unit": "u", "columns": {"d": {"values": [2**53, 2**53 + 1, 5, 6, 7, 8]}}}}
    data = [
        database("CREATE TABLE t(u INT, d DOUBLE)", f"INSERT INTO t SELECT i, {2**53} FROM range({n}) r(i)")
        for n in (50, 49)
    ]
    for _, distance, claim in moved(*data, tables, "SELECT d, count(*) FROM t GROUP BY d", mechanism="laplace"):
        assert 0 < distance <= claim


def test_a_verified_unique_is_forgotten_when_the_policy_names_another_unit(tmp_path: Path) -> None:
    path, ledger = tmp_path / "d.duckdb", tmp_path / "d.ledger"
    with duckdb.connect(str(path)) as stored:
        stored.execute("CREATE TABLE t AS SELECT i AS id, i % 10 AS hh, 5 AS x FROM range(100) r(i)")
    for unit, rule in (("id", "single_row"), ("hh", "one_group")):
        tables = {"t": {"unit": unit, "unique": True, "columns": {"x": {"min": 0, "max": 10}}}}
        with dpsql.connect(path, policy=policy(tables), ledger=ledger, steward=True) as db:
            check(db)
        with dpsql.connect(path, policy=policy(tables), ledger=ledger, steward=True) as db:
            assert db.explain("SELECT count(*) FROM t").releases[0].rule == rule


def test_a_group_shows_no_persons_spelling_of_zero() -> None:
    for first in ("'-0.0'::DOUBLE", "0.0::DOUBLE"):
        data = database(
            "CREATE TABLE t(u INT, k DOUBLE)",
            f"INSERT INTO t VALUES (1000, {first})",
            "INSERT INTO t SELECT i, 0.0 FROM range(1, 200) r(i)",
        )
        with connect(data, {"t": {"unit": "u", "columns": {"k": {}}}}, steward=False) as db:
            for key in ("k", "-k", "k * -1"):
                [(sign, _)] = db.query(
                    f"SELECT 1 / z, count(*) FROM (SELECT {key} AS z FROM t) GROUP BY z", epsilon=10
                ).fetchall()
                assert sign == float("inf")


def test_a_unit_of_minus_zero_is_the_unit_zero() -> None:
    tables = {"t": {"unit": "u", "max_rows_per_unit": 5, "columns": {"x": {}}}}
    rows = ["CREATE TABLE t(u DOUBLE, x INT)", "INSERT INTO t SELECT 1.0, 1 FROM range(5)"]
    zeros = "INSERT INTO t SELECT CASE WHEN i % 2 = 0 THEN '-0.0'::DOUBLE ELSE 0.0 END, 1 FROM range(100) r(i)"
    for sql in ("SELECT 1 / u > 0 AS g, count(*) FROM t GROUP BY g",
                "SELECT count(*) FROM (SELECT u, CAST(u AS VARCHAR) AS s FROM t GROUP BY u, CAST(u AS VARCHAR))"):  # fmt: skip
        for _, distance, claim in moved(database(*rows, zeros), database(*rows), tables, sql):
            assert 0 < distance <= claim


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT signbit(u) AS g, count(*) FROM t GROUP BY g",
        "SELECT CAST(u AS VARCHAR) AS g, count(*) FROM t GROUP BY g",
        "SELECT count(*) FROM (SELECT u, signbit(u) AS s FROM t GROUP BY u, signbit(u))",
    ],
)
def test_a_unit_that_is_not_a_number_has_no_sign(sql: str) -> None:
    """Grouping takes NaN and -NaN for one value, and yet their signs and texts differ."""
    tables = {"t": {"unit": "u", "max_rows_per_unit": 5, "columns": {"x": {}}}}
    rows = ["CREATE TABLE t(u DOUBLE, x INT)", "INSERT INTO t SELECT 1.0, 1 FROM range(5)"]
    signs = (
        "INSERT INTO t SELECT CASE WHEN i % 2 = 0 THEN -('nan'::DOUBLE) ELSE 'nan'::DOUBLE END, 1 FROM range(100) r(i)"
    )
    for _, distance, claim in moved(database(*rows, signs), database(*rows), tables, sql):
        assert 0 < distance <= claim


@pytest.mark.parametrize("inner", ["SELECT u, x FROM t GROUP BY u, x", "SELECT u, max(x) AS x FROM t GROUP BY u"])
def test_what_is_computed_of_a_units_own_rows_has_no_sign_of_nan_that_their_order_decides(inner: str) -> None:
    tables = {"t": {"unit": "u", "max_rows_per_unit": 5, "columns": {"x": {}}}}
    nan = "'nan'::DOUBLE"
    seen = []
    for first, second in ((f"-({nan})", nan), (nan, f"-({nan})")):
        rows = database("CREATE TABLE t(u INT, x DOUBLE)", f"INSERT INTO t VALUES (1, {first}), (1, {second})")
        with connect(rows, tables) as db:
            [made] = dpsql.audit.trace(db, f"SELECT count_if(signbit(x)) FROM ({inner})", salt=b"salt")
            seen.append(tuple(made.statistics[0].values))
    assert seen[0] == seen[1]


def test_text_that_the_database_compares_without_case_is_compared_byte_by_byte() -> None:
    """`x` and `X` are two groups, each with its own spelling."""
    tables = {"t": {"unit": "u", "max_rows_per_unit": 1, "columns": {"k": {"values": ["x", "X"]}, "w": {}}}}
    rows = "INSERT INTO t VALUES ('a', 'x', 'y'), ('A', 'X', 'Y'), ('b', 'x', 'Z')"
    schema = "CREATE TABLE t(u VARCHAR, k VARCHAR COLLATE NOCASE, w VARCHAR COLLATE NOCASE)"
    with connect(database(schema, rows), tables) as db:
        [counted] = dpsql.audit.trace(db, "SELECT k, count(*) FROM t GROUP BY k", salt=b"salt")
        [people] = dpsql.audit.trace(db, "SELECT count(DISTINCT w) FROM t", salt=b"salt")
    counts = counted.statistics[0]
    found = {key[0]: value * counts.grid for key, value in zip(counted.keys, counts.values, strict=True)}
    assert found == {"x": 2, "X": 1, None: 0}
    assert [value * people.statistics[0].grid for value in people.statistics[0].values] == [3]


@pytest.mark.parametrize("name", ["owner", "unit", "u", "_unit", "_owner", "n"])
def test_what_an_analyst_calls_a_column_does_not_make_it_the_owner(name: str) -> None:
    """Each row has another n: taken for the owner, it would let a unit keep all its rows."""
    tables = {"t": {"unit": "u", "max_rows_per_unit": 2, "columns": {"x": {"min": 0, "max": 1}, "n": {}}}}
    rows = ["CREATE TABLE t(u INT, x INT, n INT)", "INSERT INTO t SELECT 1, 1, i FROM range(5) r(i)"]
    many = "INSERT INTO t SELECT 2, 1, 10 + i FROM range(90) r(i)"
    inner = (f"SELECT x, n AS {name} FROM t", f"SELECT x, n AS {name} FROM t UNION ALL SELECT x, n FROM t",
             f"SELECT DISTINCT x, n AS {name} FROM t")  # fmt: skip
    for query in inner:
        sql = f"SELECT sum(x) FROM ({query}) AS q WHERE {name} >= 0"
        for _, distance, claim in moved(database(*rows, many), database(*rows), tables, sql):
            assert 0 < distance <= claim


@pytest.mark.parametrize("type_", ["DECIMAL(38,2)", "TIMESTAMP_NS", "TIMESTAMP_S", "TIMESTAMP_MS"])
def test_a_unit_type_that_reading_could_merge_is_refused(type_: str) -> None:
    with (
        connect(database(f"CREATE TABLE t(u {type_})"), {"t": {"unit": "u"}}) as db,
        pytest.raises(dpsql.PolicyError, match="merge two units"),
    ):
        db.query("SELECT count(*) FROM t")


def test_keys_with_nan_have_the_order_of_the_keys() -> None:
    orders = set()
    for first in ("a", "b"):
        data = database("CREATE TABLE t(u INT, k DOUBLE, b VARCHAR)", f"INSERT INTO t VALUES (0, 'nan'::DOUBLE, '{first}')",
                        "INSERT INTO t SELECT i, 'nan'::DOUBLE, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END FROM range(1, 400) r(i)")  # fmt: skip
        with connect(data, {"t": {"unit": "u", "columns": {"k": {}, "b": {}}}}, steward=False) as db:
            orders |= {
                tuple(row[1] for row in db.query("SELECT k, b, count(*) FROM t GROUP BY k, b", epsilon=10).fetchall())
                for _ in range(5)
            }
    assert orders == {("a", "b")}


@pytest.mark.parametrize("cell", ["2", "2.5", "two", "2024-01-01", "", "true"])
def test_the_types_of_a_csv_file_are_the_policys_whatever_its_rows_are(tmp_path: Path, cell: str) -> None:
    (tmp_path / "t.csv").write_text(f"u,x\n1,{cell}\n")
    columns = {"x": {"min": 0, "max": 9}}
    with connect({"t": str(tmp_path / "t.csv")}, {"t": {"unit": "u", "columns": columns}}) as db:
        assert db.engine.schema()["t"] == {"u": "VARCHAR", "x": "DOUBLE"}
        db.query("SELECT count(*), sum(x) FROM t", epsilon=1)


def test_a_frame_with_mixed_objects_fails_when_it_is_connected_or_not_at_all() -> None:
    frame = pd.DataFrame({"u": range(3000), "x": pd.Series([*range(2999), {"a": 1}], dtype=object)})
    try:
        db = connect({"t": frame}, {"t": {"unit": "u", "columns": {"x": {}}}}, steward=False)
    except dpsql.InterfaceError:
        return
    with db:
        db.query("SELECT count(x) FROM t", epsilon=1)


def test_timestamps_beyond_the_calendar_do_not_fail() -> None:
    for seconds in (0, 2**45):
        data = database("CREATE TABLE t(u INT, ts TIMESTAMP_S)")
        data.execute("INSERT INTO t SELECT 1, TIMESTAMP_S '1970-01-01 00:00:00'")
        frame = pd.DataFrame({"u": [1], "ts": pd.Series([seconds]).astype("datetime64[s]")})
        with connect({"t": frame}, {"t": {"unit": "u", "columns": {"ts": {}}}}, steward=False) as db:
            db.query("SELECT count(*) FROM t WHERE ts > '2000-01-01'", epsilon=1)


def test_a_table_of_the_same_name_in_an_attached_database_says_nothing_about_ours(tmp_path: Path) -> None:
    data = database("CREATE TABLE t(u INT, x BIGINT)", "INSERT INTO t VALUES (1, 1000000000000)", f"ATTACH '{tmp_path / 'zz.duckdb'}' AS zz",
                    "CREATE TABLE zz.t(u INT, x TINYINT)")  # fmt: skip
    with connect(data, {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 10}}}}, steward=False) as db:
        db.query("SELECT sum(x + x) FROM t", epsilon=1)


def test_a_view_is_not_a_table() -> None:
    data = database("CREATE TABLE base(u INT)", "CREATE VIEW t AS SELECT u, (SELECT count(*) FROM base) AS x FROM base")
    with (
        connect(data, {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 10}}}}) as db,
        pytest.raises(dpsql.PolicyError, match="no such table"),
    ):
        db.query("SELECT sum(x) FROM t")


@pytest.mark.parametrize(("epsilon", "mechanism"), [(1e-12, "laplace"), (1e-9, "gaussian")])
def test_a_tiny_price_is_refused_or_answered_at_once(epsilon: float, mechanism: str) -> None:
    with connect(database("CREATE TABLE t(u INT, p VARCHAR)"), {"t": {"unit": "u", "columns": {"p": {}}}}) as db:
        start = time.process_time()
        for sql in ("SELECT count(*) FROM t", "SELECT p, count(*) FROM t GROUP BY p"):
            try:
                db.explain(sql, epsilon=epsilon, mechanism=mechanism)
            except dpsql.Error as error:
                assert error.hint
        assert time.process_time() - start < 60


@pytest.mark.parametrize(
    "sql", ["SELECT repeat('x', 3000000000), count(*) FROM t", "SELECT lpad('x', 2000000000, 'y'), count(*) FROM t",
            "SELECT len(generate_series(1, 1000000000)), count(*) FROM t", "SELECT len(range(1000000000)), count(*) FROM t",
            "SELECT count(*) FROM t LIMIT (SELECT count(*) FROM pg_catalog.pg_settings)", "SELECT count(*) FROM t LIMIT (SELECT 1)",
            "SELECT DISTINCT ON ((SELECT count(*) FROM pg_catalog.pg_settings)) 1 FROM (SELECT count(*) FROM t)",
            "SELECT format('{:>2000000000}', 'x'), count(*) FROM t", "SELECT printf('%2000000000d', 1), count(*) FROM t"]
)  # fmt: skip
def test_the_finishing_query_cannot_exhaust_the_machine_or_read_its_catalogue(sql: str) -> None:
    with connect(database("CREATE TABLE t(u INT)"), {"t": {"unit": "u"}}) as db:
        start = time.process_time()
        with pytest.raises(dpsql.Error):
            db.explain(sql)
        assert time.process_time() - start < 60


def test_a_long_list_of_values_is_planned_quickly() -> None:
    listed = ", ".join(f"'v{i}'" for i in range(4000))
    with connect(database("CREATE TABLE t(u INT, p VARCHAR)"), {"t": {"unit": "u", "columns": {"p": {}}}}) as db:
        start = time.process_time()
        db.explain(f"SELECT p, count(*) FROM t WHERE p IN ({listed}) GROUP BY p")
        assert time.process_time() - start < 60


def test_an_average_that_cannot_be_bounded_is_refused_in_words() -> None:
    with (
        connect(database("CREATE TABLE t(u INT, x UBIGINT)"), {"t": {"unit": "u", "columns": {"x": {}}}}) as db,
        pytest.raises(dpsql.UnboundedColumn),
    ):
        db.explain("SELECT avg(m) FROM (SELECT u, avg(x) AS m FROM t GROUP BY u)")


INNER_NAMES = (
    "_unit",
    "owner",
    "unit",
    "u",
    "k0",
    "v0",
    "n",
    "w",
    "s0",
    "n0",
    "g",
    "c0",
    "c1",
    "selected",
    "units",
    "groups",
    "z0",
)


@pytest.mark.parametrize("name", INNER_NAMES)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum({0}) FROM (SELECT u AS o, max(ti) AS {0} FROM t GROUP BY u)",
        "SELECT avg({0}) FROM (SELECT ti AS {0} FROM t)",
        "SELECT sum({0}), count(*) FROM (SELECT ti AS {0} FROM t)",
        "SELECT {0} || '', count(*) FROM (SELECT u AS v, max(p) AS {0} FROM t GROUP BY u) GROUP BY 1",
        "SELECT {0}, count(DISTINCT o), sum(ti) FROM (SELECT p AS {0}, u AS o, ti FROM t) GROUP BY {0}",
    ],
)
def test_a_name_that_the_emitted_sql_uses_means_nothing_there(name: str, sql: str) -> None:
    data = database(
        "CREATE TABLE t(u INT, ti TINYINT, p VARCHAR)",
        "INSERT INTO t SELECT i * 1000003, i % 5, chr((97 + i % 3)::INT) FROM range(60) r(i)",
    )
    with connect(data, {"t": {"unit": "u", "columns": {"ti": {}, "p": {}}}}) as db:
        named, neutral = (
            [(r.keys, [s.values for s in r.statistics]) for r in dpsql.audit.trace(db, sql.format(n), salt=b"s")]
            for n in (name, "neutral")
        )
    assert named == neutral


@pytest.mark.parametrize("unit", ["row", "u"])
def test_a_stored_column_is_not_taken_for_a_key_of_its_name(unit: str) -> None:
    data = database(
        "CREATE TABLE t(u INT, k0 VARCHAR, k1 VARCHAR, a VARCHAR)",
        "INSERT INTO t SELECT i, chr((65 + i % 2)::INT), 'hidden', 'a' FROM range(60) r(i)",
    )
    with connect(data, {"t": {"unit": unit, "columns": {"k0": {}, "a": {}}}}) as db:
        for sql, keys in {
            "SELECT lower(k0) AS x, count(*) FROM t GROUP BY x": (("a",), ("b",)),
            "SELECT lower('É') AS x, count(*) FROM t GROUP BY x": (("é",),),
            "SELECT a, k0 || '!' AS y, count(*) FROM t GROUP BY a, y": (("a", "A!"), ("a", "B!")),
        }.items():
            assert dpsql.audit.trace(db, sql, salt=b"s")[0].keys == keys


@pytest.mark.parametrize("bound", ["1e20", "1e200", "8e270"])
@pytest.mark.parametrize("unit", ["row", "u"])
@pytest.mark.parametrize("by", ["", "p", "k"])
def test_no_bound_is_so_wide_that_a_row_makes_the_query_fail(bound: str, unit: str, by: str) -> None:
    for rows in (0, 1, 16, 1000):
        data = database(
            "CREATE TABLE t(u INT, x DOUBLE, p VARCHAR, k BOOLEAN)",
            f"INSERT INTO t SELECT i // 2, 1.6e308, 'a', true FROM range({rows}) r(i)",
        )
        tables = {"t": {"unit": unit, "columns": {"x": {}, "p": {}, "k": {}}}}
        with connect(data, tables, steward=False) as db:
            clamped = f"least(greatest(x, -{bound}), {bound})"
            for mechanism in ("laplace", "gaussian"):
                grouped = f", {by}" if by else ""
                sql = (
                    f"SELECT avg({clamped}), sum({clamped}), count(*){grouped} FROM t {f'GROUP BY {by}' if by else ''}"
                )
                db.query(sql, epsilon=0.5, delta=1e-7, mechanism=mechanism)
                with pytest.raises(dpsql.UnboundedColumn):
                    db.query(sql.replace(bound, "9e270"), epsilon=0.5, delta=1e-7, mechanism=mechanism)


def test_sums_of_very_wide_integers_per_unit_keep_their_size() -> None:
    data = database(
        "CREATE TABLE t(u INT, h HUGEINT)", "INSERT INTO t VALUES (1, 1000000000000000000), (2, 2000000000000000000)"
    )
    with connect(data, {"t": {"unit": "u", "columns": {"h": {"min": -(2**61), "max": 2**61}}}}) as db:
        for sql in ("SELECT sum(s) FROM (SELECT u, sum(h) AS s FROM t GROUP BY u)", "SELECT sum(h) FROM t"):
            made = dpsql.audit.trace(db, sql, salt=b"s", epsilon=1000)[0].statistics[0]
            assert float(made.values[0] * made.grid) == pytest.approx(3e18, rel=1e-6)


def test_text_that_is_none_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    binary = pa.array([b"fine", b"\xff\xfe"], type=pa.binary())
    table = pa.table({"u": [1, 2], "s": pa.Array.from_buffers(pa.string(), 2, binary.buffers())})
    parquet.write_table(table, tmp_path / "bad.parquet")
    for source in (table, str(tmp_path / "bad.parquet")):
        with pytest.raises(dpsql.InterfaceError, match="cannot be read as a table"):
            connect({"t": source}, {"t": {"unit": "u", "columns": {"s": {}}}})


@pytest.mark.parametrize(
    "select",
    [
        "count(*) FROM (SELECT "
        + ", ".join(["x AS a0", *(f"a{i} + a{i} AS a{i + 1}" for i in range(40))])
        + " FROM t)",
        "sum(" + "CASE " * 12 + "x" + " WHEN 1 THEN 2 WHEN 2 THEN 3 WHEN 3 THEN 1 ELSE 0 END" * 12 + ") FROM t",
        "sum(" + "((" * 18 + "x" + ") BETWEEN 0 AND 1)::INT" * 18 + ") FROM t",
        "count(*) FROM t WHERE x IN (" + ", ".join(map(str, range(30_000))) + ")",
        ", ".join(f"sum(x + {i})" for i in range(3_000)) + " FROM t",
    ],
    ids=["aliases", "case", "between", "in", "sums"],
)
def test_a_short_query_cannot_keep_the_planner_busy(select: str) -> None:
    data = database("CREATE TABLE t(u INT, x INT)")
    with connect(data, {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 10}}}}) as db:
        began = time.process_time()
        with pytest.raises(
            dpsql.Error, match=r"too large|200 different|tokens; at most|1,000 columns|characters; at most"
        ):
            db.explain(f"SELECT {select}")
        assert time.process_time() - began < 60


def test_what_would_be_answered_wrongly_is_refused() -> None:
    data = database("CREATE TABLE t(u INT, r INT)", "INSERT INTO t VALUES (1, 1), (1, 2), (2, 1)")
    with connect(data, {"t": {"unit": "u", "columns": {"r": {}}}}) as db:
        with pytest.raises(dpsql.UnsupportedQuery, match="DISTINCT"):
            db.explain("SELECT count(*) FROM (SELECT DISTINCT count(*) AS n FROM t GROUP BY u, r)")
        with pytest.raises(dpsql.ParseError, match="reserved"):
            db.explain("WITH _r0 AS (SELECT 5 AS _a0) SELECT count(*) FROM t")
        for name in ("version()", "current_database()", "session_user"):
            with pytest.raises(dpsql.UnsupportedQuery):
                db.explain(f"SELECT count(*), {name} FROM t")


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_totals_do_not_saturate_at_a_high_price(mechanism: str) -> None:
    data = database("CREATE TABLE t AS SELECT i AS u, 0.25 AS x, 'a' AS k FROM range(20000) r(i)")
    with connect(data, {"t": {"unit": "u", "columns": {"x": {"min": 0, "max": 1}, "k": {"values": ["a"]}}}}) as db:
        for epsilon in (1, 100, 9_000):
            [(_, total), *_] = db.query(
                "SELECT k, sum(x) FROM t GROUP BY k", epsilon=epsilon, mechanism=mechanism
            ).fetchall()
            assert total == pytest.approx(5000, abs=max(4, 4000 / epsilon))  # at least ten deviations
