"""Proofs that cannot rot: every theorem has its proof and its test, and what it names is there."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("**Theorem", "**Proof", "**Checked by**")
_FILE = re.compile(r"(?:tests/)?[\w/]*\w+\.py")


@dataclass(frozen=True, slots=True)
class Argument:
    """A docstring that states a theorem."""

    where: str
    text: str

    @property
    def checked_by(self) -> str:
        """What it names as its checks, up to the end of the paragraph or the next part."""
        found = re.findall(r"\*\*Checked by\*\*(.*?)(?=\*\*[A-Z]|\n\s*\n|\Z)", self.text, re.DOTALL)
        return " ".join(" ".join(found).split())


def arguments() -> Iterator[Argument]:
    for path in sorted((ROOT / "dpsql").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if PARTS[0] in text:
                    yield Argument(f"{path.relative_to(ROOT)}::{getattr(node, 'name', 'module')}", text)


ALL = list(arguments())
each = pytest.mark.parametrize("argument", ALL, ids=lambda argument: argument.where)


@cache
def _named() -> str:
    """All that bugs are called: those planted by hand, those of the property tests, and tests themselves."""
    planted = tomllib.loads((ROOT / "tests/mutation/hand.toml").read_text())["mutant"]
    names = [bug["name"] for bug in planted]
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        names += re.findall(r'Bug\(\s*"([^"]+)"', text)
        names += [name for listed in re.findall(r"ids=\[([^\]]+)\]", text) for name in re.findall(r'"([^"]+)"', listed)]
        names += re.findall(r'^    \("([^"]+)", _\w+', text, re.MULTILINE)
        names += [name.replace("_", " ") for name in re.findall(r"def (?:test)?_(\w+)", text)]
    return "\n".join(f"[{name}]" for name in names)


def test_there_are_theorems() -> None:
    assert len(ALL) > 100


@each
def test_a_theorem_has_its_proof_and_its_check(argument: Argument) -> None:
    assert [part for part in PARTS if part not in argument.text] == []


@each
def test_the_files_that_check_a_theorem_exist(argument: Argument) -> None:
    files = _FILE.findall(argument.checked_by)
    missing = [
        name
        for name in files
        if not ((ROOT / name).is_file() if "/" in name else any((ROOT / "tests").rglob(name)))
    ]  # fmt: skip
    assert missing == []


@each
def test_the_bugs_that_a_theorem_names_are_planted(argument: Argument) -> None:
    names = re.findall(r'"([^"]+)"', argument.checked_by)
    assert [name for name in names if not re.search(rf"\[[^\]\n]*{re.escape(name)}", _named())] == []


@each
def test_a_theorem_names_something_that_checks_it(argument: Argument) -> None:
    """A file, a planted bug, or one of the searches that run over everything."""
    said = argument.checked_by
    assert _FILE.search(said) or '"' in said or "neighbour" in said or "planted" in said, said
