"""What an upgrade of DuckDB or sqlglot could break, and why pyproject.toml bounds them from above.

Each fact is one that dpsql relies on and that a release note may not mention. Before a bound is raised: install the new
version, run this file, and then `pytest --all` and `python tests/attack/run.py`, which attack what follows.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import duckdb
import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from sqlglot import exp, parse_one

from dpsql.expressions.functions.table import FUNCTIONS, HARMLESS

ROOT = Path(__file__).parents[2]


def _required(name: str) -> Requirement:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [found] = [each for each in map(Requirement, project["dependencies"]) if each.name == name]
    return found


@pytest.mark.parametrize("name", ["duckdb", "sqlglot"])
def test_the_installed_version_is_allowed_and_the_next_ones_are_not(name: str) -> None:
    installed, allowed = Version(version(name)), _required(name).specifier
    assert installed in allowed
    assert Version(f"{installed.major + 1}.0") not in allowed


def test_a_minor_release_of_duckdb_is_not_taken_unseen() -> None:
    """It may add an optimizer that skips rows by statistics: see "Whether a row is read" in docs/security.md."""
    installed = Version(version("duckdb"))
    assert Version(f"{installed.major}.{installed.minor + 1}") not in _required("duckdb").specifier


# DuckDB -----------------------------------------------------------------------------------------------------------------


def _value(sql: str) -> object:
    with duckdb.connect() as connection:
        [row] = connection.execute(f"SELECT {sql}").fetchall()
    return row[0]


@pytest.mark.parametrize(
    ("what", "sql", "value"),
    [
        ("a clamp of NULL is the lower bound, so NULL is settled first", "greatest(NULL, 0)", 0),
        ("NaN is above everything, so NaN is settled before a clamp", "'nan'::DOUBLE > 'infinity'::DOUBLE", True),
        ("sums of 64 bits are exact in 128 bits", "typeof(sum(1::BIGINT))", "HUGEINT"),
        ("sums of 128 bits stay in 128 bits", "typeof(sum(1::HUGEINT))", "HUGEINT"),
        ("a sum of no rows is NULL", "sum(1) FILTER (WHERE false)", None),
        ("decimals are rounded half away from zero", "2.5::DECIMAL(3, 1)::BIGINT", 3),
        ("doubles are rounded half to even", "2.5::DOUBLE::BIGINT", 2),
        ("TRY makes a failing row NULL", "try(10 // 0)", None),
        ("TRY_CAST makes a failing cast NULL", "try_cast('x' AS BIGINT)", None),
        ("NULLIF guards a division", "10 // nullif(0, 0)", None),
        ("whole division is toward zero", "-7 // 2", -3),
    ],
)  # fmt: skip
def test_what_duckdb_computes(what: str, sql: str, value: object) -> None:
    found = _value(sql)
    assert found == value and type(found) is type(value), what


def test_the_optimizers_are_those_that_were_looked_at() -> None:
    """Each new one has to be read: does it skip rows of private tables by what it knows of other rows?"""
    with duckdb.connect() as connection:
        found = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    assert found == set(OPTIMIZERS)


OPTIMIZERS = [
    "aggregate_function_rewriter",
    "aggregate_reuse",
    "build_side_probe_side",
    "column_lifetime",
    "common_aggregate",
    "common_subexpressions",
    "common_subplan",
    "compressed_materialization",
    "cte_filter_pusher",
    "cte_inlining",
    "deliminator",
    "distinct_aggregate_rewrite",
    "duplicate_groups",
    "empty_result_pullup",
    "expression_rewriter",
    "extension",
    "filter_pullup",
    "filter_pushdown",
    "grouping_sets",
    "in_clause",
    "join_elimination",
    "join_filter_pushdown",
    "join_order",
    "late_materialization",
    "limit_pushdown",
    "materialized_cte",
    "outer_join_simplification",
    "partial_aggregate_pushdown",
    "partitioned_execution",
    "projection_placement",
    "projection_pullup",
    "redundant_order_keys",
    "regex_range",
    "remote_pushdown",
    "reorder_filter",
    "row_group_pruner",
    "sampling_pushdown",
    "scalar_fn_pushdown",
    "statistics_propagation",
    "top_n",
    "top_n_window_elimination",
    "type_pushdown",
    "unnest_rewriter",
    "unused_columns",
    "window_rewriter",
    "window_self_join",
]


def test_a_locked_connection_stays_locked() -> None:
    with duckdb.connect(config={"enable_external_access": False, "lock_configuration": True}) as connection:
        for statement in (
            "SET threads = 1",
            "ATTACH 'other.duckdb'",
            "COPY (SELECT 1) TO 'x.csv'",
            "INSTALL httpfs",
            "SELECT * FROM read_csv('x.csv')",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)


# sqlglot ----------------------------------------------------------------------------------------------------------------


def test_an_unknown_function_is_anonymous() -> None:
    """So that what the table of functions does not name is refused."""
    assert isinstance(parse_one("no_such_function(1)", dialect="duckdb"), exp.Anonymous)


@pytest.mark.parametrize("name", [name for name, each in FUNCTIONS.items() if each.node])
def test_the_parser_has_the_classes_and_the_parts_that_the_table_names(name: str) -> None:
    """A part that was renamed would be an argument that nobody reads."""
    function = FUNCTIONS[name]
    nodes = function.node if isinstance(function.node, tuple) else (function.node,)
    for node in nodes:
        assert issubclass(node, exp.Expression | exp.Expr)
        assert set(function.reads) - HARMLESS <= set(node.arg_types), (node, function.reads)


@pytest.mark.parametrize(
    "name", [name for name, each in FUNCTIONS.items() if re.fullmatch(r"\w+", name) and each.takes]
)
def test_what_a_function_is_written_as_is_parsed(name: str) -> None:
    for form in FUNCTIONS[name].written:
        assert parse_one(form, dialect="duckdb").sql("duckdb")
