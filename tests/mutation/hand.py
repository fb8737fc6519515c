"""Bugs planted by hand, as data: `hand.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from mechanical import Mutant
from modules import ROOT

HAND = Path(__file__).with_name("hand.toml")


@dataclass(frozen=True, slots=True)
class Bug:
    """A change of one module by text, and why it matters."""

    mutant: Mutant
    source: str
    why: str
    tests: tuple[str, ...]


def bugs() -> list[Bug]:
    """All of them; each must still find its place, exactly once."""
    return [_bug(each) for each in tomllib.loads(HAND.read_text())["mutant"]]


def _bug(said: dict[str, str]) -> Bug:
    source = (ROOT / said["module"]).read_text()
    if source.count(said["before"]) != 1:
        raise ValueError(f"{said['name']}: its place in {said['module']} is gone, or not the only one")
    line = source[: source.index(said["before"])].count("\n") + 1
    end = line + said["before"].count("\n")
    before, after = (" ".join(said[part].split())[:90] for part in ("before", "after"))
    mutant = Mutant(f"hand::{said['name']}", said["module"], line, end, "", "hand", before, after or "nothing")
    return Bug(mutant, source.replace(said["before"], said["after"]), said["why"], tuple(said.get("tests", ())))
