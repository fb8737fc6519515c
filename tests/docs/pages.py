"""The pages of the documentation, their code blocks, and their text without code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOP = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*TOP, *sorted(DOCS.rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.md"))
_BLOCK = re.compile(r"^( *)```(\w*)(?: +title=\"([^\"]*)\")?[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the file that its title names, and its text."""

    kind: str
    title: str
    text: str


def name_of(page: Path) -> str:
    """The page as people name it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(kind, title, dedent(text)) for _, kind, title, text in _BLOCK.findall(page.read_text(encoding="utf-8"))
    ]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def inline_code(page: Path) -> Iterator[str]:
    """Each piece of code in the running text."""
    yield from re.findall(r"`([^`\n]+)`", prose(page))


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    titles = re.findall(r"^#+ +(.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
