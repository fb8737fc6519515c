"""The cases that do not apply to a read-only database of aggregates, by class or case, each with its reason."""

from __future__ import annotations

import pytest

WRITES = "it only reads: inserts, updates, deletes and their row counts are the steward's"
DDL = "it only reads: tables, indexes and views are made by the steward"
KEYS = (
    "keys, indexes and NOT NULL are reflected from the policy, never from constraints: tests/interfaces/test_alchemy.py"
)
BYTES = "columns of bytes do not exist for analysts"
TIMES = "a time of day without a date is not among its types"
NAMES = "names with such characters cannot be declared in a policy"
EXPRESSION = "LIMIT and OFFSET take a number, not an expression"
DIVISION = "DuckDB divides decimals as doubles"
ROLLBACK = "the steward's insert for the case before is not rolled back"
LENGTHS = "DuckDB does not keep the lengths of texts"

EXCLUDED = {
    "SimpleUpdateDeleteTest": WRITES, "InsertBehaviorTest": WRITES, "RowCountTest": WRITES, "LastrowidTest": WRITES, "ReturningGuardsTest": WRITES, "IdentityAutoincrementTest": WRITES,
    "ExceptionTest::test_integrity_error": WRITES, "LongNameBlowoutTest": DDL, "TableDDLTest": DDL, "FutureTableDDLTest": DDL, "TableViaSelectTest": DDL, "BizarroCharacterTest": KEYS, "CompositeKeyReflectionTest": KEYS, "HasIndexTest": KEYS,
    "ComponentReflectionTest::test_get_foreign_keys": KEYS, "ComponentReflectionTest::test_get_foreign_keys_quoted_name": KEYS, "ComponentReflectionTest::test_get_indexes": KEYS,
    "ComponentReflectionTest::test_get_indexes_quoted_name": KEYS, "ComponentReflectionTest::test_get_multi_columns": KEYS, "ComponentReflectionTest::test_get_multi_foreign_keys": KEYS,
    "ComponentReflectionTest::test_get_multi_indexes": KEYS, "ComponentReflectionTest::test_get_multi_pk_constraint": KEYS, "ComponentReflectionTest::test_get_multi_unique_constraints": KEYS,
    "ComponentReflectionTest::test_get_noncol_index": KEYS, "ComponentReflectionTest::test_get_pk_constraint": KEYS, "ComponentReflectionTest::test_get_table_names": KEYS,
    "ComponentReflectionTest::test_get_unique_constraints": KEYS, "ComponentReflectionTest::test_get_unique_constraints_quoted_name": KEYS, "ComponentReflectionTest::test_get_view_names": DDL,
    "ComponentReflectionTestExtra::test_nullable_reflection": KEYS, "ComponentReflectionTestExtra::test_string_length_reflection": LENGTHS, "BinaryTest": BYTES, "TimeTest": TIMES,
    "TimeMicrosecondsTest": TIMES, "QuotedNameArgumentTest": NAMES, "FetchLimitOffsetTest::test_expr_limit": EXPRESSION, "FetchLimitOffsetTest::test_expr_limit_offset": EXPRESSION,
    "FetchLimitOffsetTest::test_expr_limit_simple_offset": EXPRESSION, "FetchLimitOffsetTest::test_expr_offset": EXPRESSION, "FetchLimitOffsetTest::test_simple_limit_expr_offset": EXPRESSION,
    "TrueDivTest::test_truediv_divisor": DIVISION, "IsOrIsNotDistinctFromTest": ROLLBACK,
}  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What does not apply is skipped before anything is made for it, and says why."""
    kind = "" if item.parent is None else item.parent.name.partition("_dpsql")[0]
    names = (kind, f"{kind}::{item.name.partition('[')[0]}")
    reason = next((EXCLUDED[name] for name in names if name in EXCLUDED), None)
    if reason is not None:
        pytest.skip(reason)
