"""Which tests run which lines, and how long they take: recorded once, so that a mutant meets only tests that reach it."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from mechanical import Mutant
from modules import ROOT

SUITE = (
    "tests/golden", "tests/unit", "tests/privacy", "tests/properties", "tests/audit", "tests/faults",
    "tests/interfaces/test_every_door.py", "tests/postgres",
    *(f"tests/engines/test_{name}.py" for name in (
        "suite", "postgres_total", "postgres_engine", "postgres_migrations", "row_sizes", "engine_neighbours", "spark",
        "spark_expressions")),
    *(f"tests/server/test_{name}.py" for name in ("catalogue", "statements", "limits", "operations", "start_and_end")),
)  # fmt: skip
"""The tests that may kill; those of the other doors go the same way through the product, as do most of the server's.

Each starts its own PostgreSQL or Spark if it needs one, so whatever knows their SQL as text is asked before: a second
of `tests/golden/test_dialects.py` against ten until Spark is there.
"""

STARTS = 10.0
"""Seconds until Spark is there."""

APART = 2.0
"""Cases that take longer than this together are asked one by one."""

_COMMON = {"test", "dpsql", "py", "the", "a", "i", "unit", "privacy", "propertie", "duckdb", "of", "and", "in"}
_COMPARED = {"engine", "sql", "plan", "sensitivity", "bound"}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A few cases of one test: what they take together, and the lines that they reach, as bits."""

    tests: tuple[str, ...]
    seconds: float
    lines: dict[str, int]
    size: int


@dataclass
class Killers:
    """The map from lines to tests, and what is learnt of who kills where."""

    seconds: dict[str, float]
    chunks: list[Chunk]
    kills: Counter[str] = field(default_factory=Counter)
    near: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def drop(self, test: str) -> None:
        """A test that fails without a mutant kills nothing."""
        self.chunks = [replace(c, tests=tuple(t for t in c.tests if t != test)) for c in self.chunks]
        self.chunks = [chunk for chunk in self.chunks if chunk.tests]

    def learn(self, mutant: Mutant, killer: str) -> None:
        self.kills[killer] += 1
        self.near[mutant.module][killer] += 1
        self.near[f"{mutant.module}::{mutant.function}"][killer] += 1

    def of(self, mutant: Mutant, patience: float) -> tuple[list[str], bool]:
        """Tests that reach the mutant, the likeliest for their time first, and whether these are all of them."""
        found = (
            self._reaching(_place(mutant)) or self._reaching(_uses(mutant)) or self._reaching(_whole([mutant.module]))
            or self._reaching(_whole(_importers(mutant.module)))
        )  # fmt: skip
        order = sorted(found, key=lambda chunk: self._worth(mutant, chunk))
        chosen, total = [], 0.0
        for chunk in order:
            total += chunk.seconds
            if total > patience:
                break
            chosen.append(chunk)
        return [test for chunk in chosen for test in self._ordered(mutant, chunk)], len(chosen) == len(order)

    def sees(self, mutant: Mutant) -> bool:
        """Does a test reach the mutant in its own process? If not, it may run in one that a test starts."""
        return bool(self._reaching(_place(mutant)))

    def _reaching(self, places: Iterable[tuple[str, Iterable[int]]]) -> list[Chunk]:
        masks: Counter[str] = Counter()
        for module, lines in places:
            for line in lines:
                masks[module] |= 1 << line
        return [chunk for chunk in self.chunks if any(chunk.lines.get(m, 0) & mask for m, mask in masks.items())]

    def _worth(self, mutant: Mutant, chunk: Chunk) -> float:
        """Its time for each kill that may be hoped for: by what it killed nearby, by words that both names have, and
        by how much else it runs: a test of little besides the mutant looks at it most closely.
        """
        here, around = self.near[f"{mutant.module}::{mutant.function}"], self.near[mutant.module]
        hope = 3 ** len(_words(mutant.module) & _words(chunk.tests[0].lower())) / (100 + chunk.size)
        hope += 0.2 * min(sum(here[t] for t in chunk.tests), 5)
        hope += 0.01 * min(sum(around[t] for t in chunk.tests), 10)
        return (0.05 + chunk.seconds + STARTS * needs_spark(chunk.tests[0])) / hope

    def _ordered(self, mutant: Mutant, chunk: Chunk) -> list[str]:
        around = self.near[mutant.module]
        return sorted(chunk.tests, key=lambda test: -around[test])


def needs_spark(test: str) -> bool:
    """Does a session of Spark have to start for it?"""
    return test.startswith("tests/engines/") and "spark" in test


@lru_cache(maxsize=10_000)
def _words(name: str) -> frozenset[str]:
    """The words of a path, without those that all have; golden tests compare everything, so they have all packages."""
    found = {word.rstrip("s") for word in re.findall(r"[a-z]+", name)} - _COMMON
    return frozenset(found | _COMPARED if "golden" in found else found)


def _place(mutant: Mutant) -> list[tuple[str, range]]:
    return [(mutant.module, range(mutant.line, mutant.end + 1))]


def _whole(modules: Iterable[str]) -> list[tuple[str, range]]:
    return [(module, range(5_000)) for module in modules]


def _importers(module: str) -> list[str]:
    """The modules that name this one, in an import or to start a process of it."""
    package, _, name = module.removesuffix(".py").replace("/", ".").rpartition(".")
    named = re.compile(rf"\b{re.escape(package)}\.{name}\b|from {re.escape(package)} import .*\b{name}\b")
    paths = [path for path in sorted((ROOT / "dpsql").rglob("*.py")) if named.search(path.read_text())]
    return [path.relative_to(ROOT).as_posix() for path in paths]


def _uses(mutant: Mutant) -> list[tuple[str, list[int]]]:
    """Lines that name what a module's own code defines (a constant, a default): import runs it before any test."""
    tree = ast.parse((ROOT / mutant.module).read_text())
    names = _defined(tree, mutant.line) | ({mutant.function.split(".")[-1]} if mutant.function else set())
    found: list[tuple[str, list[int]]] = []
    for path in sorted((ROOT / "dpsql").rglob("*.py")):
        text = path.read_text()
        if not any(name in text for name in names):
            continue
        lines = [n.lineno for n in ast.walk(ast.parse(text)) if _name(n) in names]
        found.append((path.relative_to(ROOT).as_posix(), lines))
    return found


def _defined(tree: ast.Module, line: int) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= line <= (node.end_lineno or line):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return names


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def from_record(recorded: Sequence[dict[str, Any]]) -> Killers:
    """The killers among the recorded tests: those that pass on the unchanged product."""
    prefix, chunks, seconds = f"{ROOT}/", [], {}
    for each in recorded:
        lines = {name.removeprefix(prefix): _mask(found) for name, found in each["lines"].items()}
        tests, spent = each["passed"], each["seconds"]
        apart = [[test] for test in tests] if spent > APART else [tests]
        size = sum(map(int.bit_count, lines.values()))
        chunks += [Chunk(tuple(part), spent / len(apart), lines, size) for part in apart if part]
        seconds |= {test: spent / len(tests) for test in tests}
    return Killers(seconds, chunks)


def _mask(lines: Sequence[int]) -> int:
    mask = 0
    for line in lines:
        mask |= 1 << line
    return mask
