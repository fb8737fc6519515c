"""The canonical form keeps the meaning: on rows with NULL, NaN and both zeros, DuckDB computes the same for both."""

from __future__ import annotations

import duckdb
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.expressions.expression import Expression, order, read, write
from dpsql.expressions.from_syntax import convert
from dpsql.plan.builder.name_scope import scope_of
from dpsql.plan.catalog import PrivateTable, make_catalog
from dpsql.plan.normal_form import normal
from dpsql.policy import load_policy

POLICY = {
    "dataset": "d",
    "search": False,
    "budget": {"epsilon": 1},
    "tables": {"t": {"unit": "row", "columns": {"i": {}, "j": {}, "x": {}, "y": {}, "f": {}, "g": {}, "s": {}}}},
}
TYPES = {"i": "INTEGER", "j": "BIGINT", "x": "DOUBLE", "y": "DOUBLE", "f": "BOOLEAN", "g": "BOOLEAN", "s": "VARCHAR"}
TABLE = make_catalog(load_policy(POLICY), {"t": TYPES}).find("t")
assert isinstance(TABLE, PrivateTable)
SCOPE = scope_of(TABLE.scan, "t")

DATABASE = duckdb.connect()
DATABASE.execute(
    "CREATE TABLE t AS SELECT * FROM (VALUES (NULL::INTEGER), (0), (1), (-2)) a(i), (VALUES (NULL::BIGINT), (1), (3)) b(j),"
    " (VALUES (NULL::DOUBLE), ('NaN'::DOUBLE), ('-0.0'::DOUBLE), (0.0), (1.0), ('inf'::DOUBLE)) c(x),"
    " (VALUES (NULL::DOUBLE), ('NaN'::DOUBLE), (0.0), (2.5)) d(y), (VALUES (NULL::BOOLEAN), (true), (false)) e(f),"
    " (VALUES (NULL::BOOLEAN), (true), (false)) h(g), (VALUES (NULL::VARCHAR), (''), ('a'), ('B')) k(s)"
)

numbers = st.recursive(
    st.sampled_from(["i", "j", "x", "y", "0", "1", "2", "2.5", "1.5e0"]),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["+", "*", "-", "/"]), inner),
    max_leaves=4,
)
comparisons = st.builds("{} {} {}".format, numbers, st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM",
                        "IS NOT DISTINCT FROM"]), numbers)  # fmt: skip
lists = st.lists(st.sampled_from(["1", "2", "3", "NULL", "1"]), min_size=1, max_size=4).map(", ".join)
leaves = st.one_of(
    comparisons,
    st.builds("i IN ({})".format, lists),
    st.sampled_from(["f", "g", "TRUE", "FALSE", "1 = 1", "1 > 2", "'a' = 'a'", "s = 'a'", "'a' <> s", "s IN ('B', 'a', 'B')",
                     "x = x", "i IS NULL", "f IS TRUE", "1 = 1.0", "2.50 = 2.5", "f AND NULL"]),
)  # fmt: skip
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner),
        st.builds("(NOT ({}))".format, inner),
    ),
    max_leaves=8,
)


def converted(text: str) -> Expression:
    return convert(sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").selects[0], SCOPE)


def emitted(expression: Expression) -> str:
    return DUCKDB.sql(expression, lambda name: name)


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(conditions)
def test_the_normal_form_has_the_same_value_on_every_row(text: str) -> None:
    asked = converted(text)
    made = normal(asked)
    where = f"({emitted(asked)}) IS DISTINCT FROM ({emitted(made)})"
    assert DATABASE.execute(f"SELECT count(*) FROM t WHERE {where}").fetchall() == [(0,)], (text, str(made))
    assert order(normal(made)) == order(made), "a normal form is its own"


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(conditions, min_size=2, max_size=5), st.randoms())
def test_the_order_and_number_of_conditions_do_not_matter(parts: list[str], random: object) -> None:
    shuffled = [*parts, parts[0], "1 = 1"]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = (normal(converted(" AND ".join(f"({p})" for p in each))) for each in (parts, shuffled))
    assert order(one) == order(two)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(conditions)
def test_what_is_written_is_read_back(text: str) -> None:
    made = normal(converted(text))
    assert order(read(write(made))) == order(made)
    assert read(write(made)) == made


def test_a_comparison_that_is_turned_wrongly_would_be_seen() -> None:
    """The same check rejects what is not equal, so it can fail."""
    for one, two in (("x > y", "x >= y"), ("x < y", "y < x"), ("x = x", "TRUE"), ("x / y > 0", "y / x > 0")):
        where = f"({emitted(converted(one))}) IS DISTINCT FROM ({emitted(converted(two))})"
        assert DATABASE.execute(f"SELECT count(*) > 0 FROM t WHERE {where}").fetchall() == [(True,)]
