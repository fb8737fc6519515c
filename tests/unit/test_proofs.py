"""Proofs that cannot rot: every theorem has its proof, what it rests on and its test, and what it names is there."""

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
PARTS = ("**Theorem", "**Proof", "**Requires**", "**Checked by**")
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


def docstrings() -> Iterator[tuple[str, str]]:
    """Each docstring of the package, and where it stands."""
    for path in sorted((ROOT / "dpsql").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield f"{path.relative_to(ROOT)}::{getattr(node, 'name', 'module')}", ast.get_docstring(node) or ""


ALL = [Argument(where, text) for where, text in docstrings() if any(part in text for part in PARTS[:2])]
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
def test_a_theorem_has_its_proof_what_it_requires_and_its_check(argument: Argument) -> None:
    assert [part for part in PARTS if part not in argument.text] == []


def test_no_theorem_is_written_so_that_nobody_reads_it() -> None:
    """As `Theorem:` or `Proof:`, without the marks by which these tests find them."""
    bare = re.compile(r"(?<!\*)\b(?:Theorem|Proof|Requires|Checked by)(?::| \()")
    found = [where for where, text in docstrings() if bare.search(text)]
    assert found == []


@each
def test_each_theorem_of_several_has_a_proof_of_its_own(argument: Argument) -> None:
    assert argument.text.count("**Theorem") == argument.text.count("**Proof")


@each
def test_the_modules_that_a_theorem_rests_on_exist(argument: Argument) -> None:
    """What it names as `dpsql.…` is a module, or something in one."""
    named = re.findall(r"`(dpsql(?:\.\w+)+)`", argument.text)
    assert [name for name in named if not _exists(name)] == []


def _exists(name: str) -> bool:
    *above, last = name.split(".")
    folder = ROOT.joinpath(*above)
    if (folder / last).is_dir() or (folder / f"{last}.py").is_file():
        return True
    homes = (folder.with_suffix(".py"), folder / "__init__.py", folder.parent.with_suffix(".py"))
    return any(home.is_file() and re.search(rf"\b{last}\b", home.read_text()) for home in homes)


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
