"""The privacy modules: where a bug could break the promise, so where mutants are made.

Every file that states a theorem is one, whether or not it is named here.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]

_PACKAGES = (
    "mechanisms", "mechanisms/textbook", "sensitivity", "bounds", "engines/sql", "engines/duckdb", "engines/postgres", "engines/spark",
)  # fmt: skip
_BUDGET = ("accountant calendar_windows costs pricing ledger/account_state ledger/backend ledger/chained_ledger"
           " ledger/durable_files ledger/entries ledger/interface ledger/rollback_guard ledger/sqlite_file")  # fmt: skip
_PLAN = ("ownership canonical nodes/relation nodes/unary nodes/joins nodes/semi_joins nodes/union "
         "nodes/windows builder/exists builder/set_operations builder/grouping_sets")  # fmt: skip
_ANSWERS = "noise_stage reuse cache execute chosen_values tree_quantiles"
_SINGLE = ("session.py", "query_draft.py", "dataset.py", "accounts.py", "steward_log.py", "accuracy_first.py", "policy/check.py",
           "search/searcher.py", "search/bounds_search.py", "search/open_bounds.py")  # fmt: skip


def privacy_modules() -> list[str]:
    """Paths from the root of the repository, in a fixed order."""
    found = [path for package in _PACKAGES for path in sorted((ROOT / "dpsql" / package).glob("*.py"))]
    found += [ROOT / "dpsql/budget" / f"{name}.py" for name in _BUDGET.split()]
    found += [ROOT / "dpsql/plan" / f"{name}.py" for name in _PLAN.split()]
    found += [ROOT / "dpsql/answers" / f"{name}.py" for name in _ANSWERS.split()]
    found += [ROOT / "dpsql" / name for name in _SINGLE]
    names = [path.relative_to(ROOT).as_posix() for path in found]
    named = [name for name in names if not name.endswith("__init__.py")]
    return list(dict.fromkeys([*named, *stating_theorems()]))


def stating_theorems() -> list[str]:
    """The files with a theorem, which say themselves that privacy or an answer rests on them."""
    paths = sorted((ROOT / "dpsql").rglob("*.py"))
    return [path.relative_to(ROOT).as_posix() for path in paths if "**Theorem" in path.read_text()]


def written_in_sql(module: str) -> bool:
    """Does this module write SQL, so that its texts are code?"""
    return module.startswith(("dpsql/engines/", "dpsql/budget/ledger/postgres/"))
