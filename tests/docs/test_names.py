"""What the documentation names exists: links, anchors, pictures, files, modules; and what it must have, it has."""

from __future__ import annotations

import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from pages import DOCS, EXAMPLES, PAGES, ROOT, blocks, inline_code, name_of, prose, slugs

by_page = pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=name_of)
NOT_MODULES = {
    "dpsql.steward",
    "dpsql.service",
    "dpsql.price",
    "dpsql.epsilon",
    "dpsql.delta",
    "dpsql.mechanism",
    "dpsql.dialect",
}
"""A logger, a unit of systemd, and settings of SQL."""
MADE = {"examples/tpch/data"}
"""Folders that a script makes."""


@by_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in slugs(file), f"{name_of(page)}: {target}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.is_relative_to(DOCS)], ids=name_of)
def test_links_of_the_site_stay_in_the_site(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path = target.partition("#")[0]
        if path and not target.startswith("http"):
            assert (page.parent / path).resolve().is_relative_to(DOCS), target


@by_page
def test_the_paths_that_a_page_names_exist(page: Path) -> None:
    texts = [*inline_code(page), *(block.text for block in blocks(page) if block.kind in ("sh", "console", "text"))]
    for text in texts:
        for path in re.findall(r"(?<![\w/.-])((?:dpsql|tests|examples|docs)/[\w./*-]*\w|\.ci/\w+)", text):
            assert path in MADE or list(ROOT.glob(path)), f"{name_of(page)}: {path}"


@by_page
def test_the_modules_that_a_page_names_exist(page: Path) -> None:
    for code in inline_code(page):
        for name in re.findall(r"(?<![\w/.-])dpsql(?:\.\w+)+", code):
            if name not in NOT_MODULES and not name.endswith((".py", ".sql", ".md", ".duckdb")):
                assert _resolves(name), f"{name_of(page)}: {name}"


def _resolves(name: str) -> bool:
    """A module, or something in one."""
    *above, last = name.split(".")
    try:
        import_module(name)
    except ImportError:
        if not above:
            return False
        try:
            return hasattr(import_module(".".join(above)), last)
        except ImportError:
            return len(above) > 1 and _resolves(".".join(above))
    return True


# the site ---------------------------------------------------------------------------------------------------------------


def test_every_page_is_in_the_navigation() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = set(re.findall(r"[\w/-]+\.md", str(site["nav"])))
    assert listed == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


# the README -------------------------------------------------------------------------------------------------------------


def test_the_readme_is_short_and_begins_with_the_commands_that_try_and_test_it() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 250
    top = text.partition("\n## ")[0]
    assert "\npython3 -m venv .venv && .venv/bin/pip install . && .venv/bin/dpsql demo\n" in top
    assert "\npython3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest\n" in top
    assert "\n.venv/bin/pip install -e '.[test-all]' && .venv/bin/pytest --all -n 2\n" in top
    ci = (ROOT / ".ci" / "run").read_text()
    assert "install --quiet -e '.[test-all]'" in ci and '/pytest" --all -n 2' in ci


def test_the_readme_names_every_extra() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Install")[2].partition("\n## ")[0]
    assert [name for name in extras if f"`{name}`" not in table] == []


# the changelog and the security page --------------------------------------------------------------------------------------


def test_each_version_of_the_changelog_begins_with_privacy() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = text.split("\n## ")[1:]
    assert versions
    for version in versions:
        assert re.findall(r"^### (.*)$", version, re.MULTILINE)[0] == "Privacy"


def test_each_channel_and_each_way_of_reading_has_a_test_that_exists() -> None:
    """The tables of the security page say in their third column which."""
    lines = (DOCS / "security.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line, below in pairwise(lines) if line.startswith("| ") and not below.startswith("|---")]
    assert len(rows) >= 28
    for row in rows:
        paths = re.findall(r"`(tests/[\w/]+\.py)`", row.split("|")[3])
        assert paths, row
        for path in paths:
            assert "\ndef test_" in (ROOT / path).read_text(), path


def test_the_security_page_says_what_is_promised_what_is_not_and_how_to_report() -> None:
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    for part in ("## The promise, and against whom", "## What is not covered", "## How to report", "dpsql audit"):
        assert part in text
    for name in ("docs/security.md", "SECURITY.md"):
        assert "@" not in (ROOT / name).read_text(encoding="utf-8"), (
            "reports go through the repository, not to an address"
        )
