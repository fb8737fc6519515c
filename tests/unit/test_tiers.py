"""What `pytest` runs, what it leaves to `pytest --all`, and what it skips."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import tiers
from tiers import CORE, NOT_CORE, TESTS, in_core, named


@pytest.mark.parametrize("place", [*CORE, *NOT_CORE])
def test_each_line_of_the_table_is_of_tests_that_exist(place: str) -> None:
    file, _, test = place.partition("::")
    assert (TESTS / file).exists()
    assert not test or re.search(rf"^def {test}\b", (TESTS / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("place", NOT_CORE)
def test_what_is_left_out_would_be_in_the_core(place: str) -> None:
    assert place.startswith(CORE)


def test_the_core_is_what_the_table_says() -> None:
    assert in_core(TESTS / "unit/test_proofs.py") and in_core(TESTS / "audit/test_neighbours.py", "::test_any[0]")
    for place in (
        "server/test_abuse.py",
        "engines/test_suite.py",
        "audit/test_fuzz.py",
        "unit/release/test_coverage.py",
    ):
        assert not in_core(TESTS / place)
    [slow] = [place for place in NOT_CORE if "random_search" in place]
    file, _, test = slow.partition("::")
    assert in_core(TESTS / file) and not in_core(TESTS / file, f"::{test}[pooled]")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["tests", "tests/", ".", str(TESTS), str(TESTS.parent)], []),
        (["tests/server"], ["server"]),
        (["tests", "./tests/server/test_abuse.py::test_x[a::b]"], ["server/test_abuse.py"]),
    ],
)
def test_only_a_part_of_the_tests_is_named(arguments: list[str], names: list[str]) -> None:
    """So that `pytest tests` is the core too; for everything one says `--all`."""
    assert named(arguments, TESTS.parent) == [TESTS / name for name in names]


def _collected(*words: str) -> dict[str, int]:
    """How many tests of each file a command line runs."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", *words]
    said = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout
    return {Path(file).name: int(count) for file, count in re.findall(r"^(tests/\S+): (\d+)$", said, re.MULTILINE)}


def test_what_is_named_runs_whatever_its_tier() -> None:
    """Of the tests of the budget: those of the core, and all of them."""
    others = [*TESTS.glob("[!u]*/"), *(TESTS / "unit").glob("[!b]*"), TESTS / "unit" / "bounds"]
    core, every = _collected(*(f"--ignore={each}" for each in others)), _collected("tests/unit/budget")
    assert core.keys() <= every.keys() and "test_ledger_bytes.py" in every.keys() - core.keys()
    assert 0 < core["test_ledger.py"] < every["test_ledger.py"], "the core starts no PostgreSQL"
    assert core["test_window.py"] == every["test_window.py"]


def _file(request: pytest.FixtureRequest, path: Path, text: str) -> tiers.Module:
    path.write_text(text)
    return tiers.Module.from_parent(request.session, path=path)


def test_a_file_whose_optional_package_is_missing_is_skipped_with_a_reason(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    text = "raise ModuleNotFoundError('none', name='opendp.prelude')"
    with pytest.raises(
        pytest.skip.Exception, match=r"test_without.py needs opendp.prelude: pip install -e '.\[test-all\]'"
    ):
        _file(request, tmp_path / "test_without.py", text).collect()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("needed", "import dpsql.nothing_of_the_kind"),
        ("stranger", "import nobody_knows_this_package"),
        ("changed", "raise ImportError('cannot import name', name='opendp')"),
    ],
)
def test_any_other_file_that_cannot_be_imported_is_an_error(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(tiers.Module.CollectError):
        _file(request, tmp_path / f"test_{name}.py", text).collect()
