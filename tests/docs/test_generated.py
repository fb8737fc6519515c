"""The generated parts of the documentation are what the code says now, and the site builds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS, ROOT
from tiers import need

sys.path.insert(0, str(DOCS))
import generate

from dpsql.expressions.functions.table import FUNCTIONS


def test_the_generated_parts_are_up_to_date() -> None:
    """If not, run `python docs/generate.py`."""
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_part_that_is_out_of_date_is_found() -> None:
    page = "# Title\n\n<!-- generated: functions -->\nold\n<!-- end -->\n\nby hand\n"
    new = generate.renewed(page)
    assert "old" not in new and "`levenshtein`" in new and new.endswith("by hand\n") and generate.renewed(new) == new


def test_every_part_is_on_a_page() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert set(re.findall(r"<!-- generated: (\w+) -->", pages)) == set(generate.PARTS)


def test_every_function_is_listed() -> None:
    page = (DOCS / "reference" / "functions.md").read_text(encoding="utf-8").replace("&#124;", "|")
    missing = [name for name, function in FUNCTIONS.items() if name not in page and function.written[0] not in page]
    assert missing == []


def test_every_key_of_the_policy_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a key that is not would be noticed."""
    monkeypatch.setattr(generate, "keys", lambda: iter([generate.Key("dataset", ""), generate.Key("forgotten", "")]))
    with pytest.raises(SystemExit, match="forgotten"):
        generate.policy_keys()


def test_the_site_builds(tmp_path: Path) -> None:
    need("mkdocs", "material")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Tutorial for analysts" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
