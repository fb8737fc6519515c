"""What `pytest` runs, what it leaves to `pytest --all`, and what it skips."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tiers
from tiers import CORE, NOT_CORE, TESTS, asked_for, named


@pytest.mark.parametrize("place", [*CORE, *NOT_CORE])
def test_each_line_of_the_table_is_of_tests_that_exist(place: str) -> None:
    file, _, test = place.partition("::")
    assert (TESTS / file).exists()
    assert not test or re.search(rf"^def {test}\b", (TESTS / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("place", NOT_CORE)
def test_what_is_left_out_would_be_in_the_core(place: str) -> None:
    assert place.startswith(CORE)


def test_the_core_runs_without_being_named_and_nothing_else_does() -> None:
    assert asked_for(TESTS / "unit/test_proofs.py", "", [])
    assert asked_for(TESTS / "audit/test_neighbours.py", "::test_any[0]", [])
    for place in (
        "server/test_abuse.py",
        "engines/test_suite.py",
        "audit/test_fuzz.py",
        "unit/release/test_coverage.py",
    ):
        assert not asked_for(TESTS / place, "", [])
    [slow] = [place for place in NOT_CORE if "random_search" in place]
    file, _, test = slow.partition("::")
    assert asked_for(TESTS / file, "", []) and not asked_for(TESTS / file, f"::{test}[pooled]", [])


def test_what_is_named_runs_whatever_its_tier() -> None:
    for argument in ("tests/server", "tests/server/test_abuse.py", "./tests/server/test_abuse.py::test_x[a::b]"):
        assert asked_for(TESTS / "server/test_abuse.py", "::test_x", named([argument], TESTS.parent))
    assert not asked_for(TESTS / "server/test_limits.py", "", named(["tests/server/test_abuse.py"], TESTS.parent))
    assert asked_for(TESTS / "server/test_abuse.py", "", named(["test_abuse.py"], TESTS / "server"))


def test_the_folder_of_all_tests_names_none_of_them() -> None:
    """So that `pytest tests` is the core too; `--all` is said by its name."""
    assert named(["tests", "tests/", ".", str(TESTS), str(TESTS.parent)], TESTS.parent) == []


def _file(request: pytest.FixtureRequest, path: Path, text: str) -> tiers.Module:
    path.write_text(text)
    return tiers.Module.from_parent(request.session, path=path)


def test_a_file_whose_optional_package_is_missing_is_skipped_with_a_reason(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    text = "raise ModuleNotFoundError('none', name='opendp.prelude')"
    with pytest.raises(pytest.skip.Exception, match=r"opendp.prelude is not installed: pip install -e '.\[test-all\]'"):
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
