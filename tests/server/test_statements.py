"""Where a statement goes: tables of the policy are recognised in a question to the catalogue, however they are named."""

from __future__ import annotations

import pytest

from dpsql.interfaces.server.statement_routing import StatementKind, split_statements

TABLES = frozenset({"orders", "people"})

BOTH = [
    "SELECT * FROM pg_class, orders",
    "SELECT * FROM pg_class JOIN orders ON true",
    "SELECT * FROM pg_class WHERE EXISTS (TABLE orders)",
    "SELECT (SELECT count(*) FROM (TABLE orders) t), oid FROM pg_class",
    "SELECT relname FROM pg_class, (TABLE ONLY orders) t",
    "WITH t AS (TABLE orders) SELECT * FROM t, pg_class",
    "WITH t AS (TABLE public.orders) SELECT * FROM t, pg_class",
    "TABLE orders UNION ALL SELECT 1 FROM pg_class",
    "(TABLE orders) UNION ALL SELECT 1 FROM pg_class",
    'SELECT * FROM pg_class, ("orders" CROSS JOIN people)',
    'SELECT * FROM pg_class, LATERAL (SELECT * FROM "orders") t',
    "SELECT * FROM ONLY (orders), pg_class",
    "SELECT * FROM ((orders CROSS JOIN pg_class))",
    "SELECT * FROM pg_class, public . ORDERS",
    "VALUES ((SELECT count(*) FROM /* so */ orders), 'pg_class'::regclass, (SELECT 1 FROM pg_class))",
    'SELECT * FROM pg_class, U&"ord\\0065rs"',
    "SELECT query_to_xml('SELECT * FROM orders', true, true, '')",
    "SELECT table_to_xml('orders', true, true, '') FROM pg_class",
    "SELECT * FROM ts_stat('SELECT note FROM orders')",
    "SELECT pg_catalog.query_to_xml('SELECT * FROM ord' || 'ers', true, true, '')",
]
CATALOGUE = [
    "SELECT 'orders'::regclass::oid FROM pg_class",
    "SELECT relname FROM pg_class WHERE relname = 'orders'",
    "SELECT 1",
    "SELECT has_table_privilege('orders', 'select'), oid FROM pg_class",
]
QUERIES = [
    "(TABLE orders)", "TABLE orders", "DECLARE c CURSOR FOR SELECT * FROM orders",
    "PREPARE p AS SELECT * FROM orders, pg_class", "EXECUTE p", "FETCH ALL FROM c", 'SELECT * FROM U&"ord\\0065rs"',
]  # fmt: skip


@pytest.mark.parametrize("sql", BOTH)
def test_a_table_of_the_policy_in_a_question_to_the_catalogue_is_recognised(sql: str) -> None:
    assert [each.kind for each in split_statements(sql, TABLES)] == [StatementKind.BOTH]


@pytest.mark.parametrize("sql", CATALOGUE)
def test_a_name_in_a_text_is_no_table(sql: str) -> None:
    assert [each.kind for each in split_statements(sql, TABLES)] == [StatementKind.CATALOGUE]


@pytest.mark.parametrize("sql", QUERIES)
def test_everything_else_is_for_dpsql_to_answer_or_refuse(sql: str) -> None:
    assert [each.kind for each in split_statements(sql, TABLES)] == [StatementKind.QUERY]
