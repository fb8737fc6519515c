"""Blocks of a long search: done one after the other or by several processes, and noted in a file as they are done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from dpsql.audit.outcome import Progress
from dpsql.audit.search import run_block
from dpsql.audit.settings import Settings
from dpsql.audit.tally import Tally
from dpsql.audit.world import World
from dpsql.errors import InterfaceError

ENOUGH_FINDINGS = 3
Blocks = Iterable[tuple[int, Tally]]


@dataclass(slots=True)
class State:
    """What is done of a search, and what the search was: another one is not resumed."""

    search: str
    done: set[int] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)

    @classmethod
    def read(cls, path: Path | None, search: str) -> State:
        """What the file says, or a fresh start."""
        if path is None or not path.exists():
            return cls(search)
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            state = cls(saved["search"], set(saved["done"]), Tally.loaded(saved["tally"]))
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise InterfaceError(f"{path} is no state of an audit", hint="name another file for --resume") from problem
        if state.search != search:
            raise InterfaceError(
                f"{path} is the state of another audit: {state.search}, not {search}", hint="name another file"
            )
        return state

    def write(self, path: Path | None) -> None:
        """Whole or not at all."""
        if path is not None:
            saved = {"search": self.search, "done": sorted(self.done), "tally": self.tally.saved()}
            beside = path.with_name(path.name + ".new")
            beside.write_text(json.dumps(saved), encoding="utf-8")
            beside.replace(path)


def search(worlds: Sequence[World], settings: Settings, progress: Progress) -> Tally:
    """Blocks until this part has its share of the pairs, or has found enough."""
    own = tuple(worlds) if settings.own else ()
    named = ", ".join(world.name for world in own) or "built-in worlds"
    state = State.read(settings.resume, f"{named}, seed {settings.seed}, part {settings.part}/{settings.parts}")
    wanted = -(-settings.pairs // settings.parts)
    numbers = (n for n in count(settings.part - 1, settings.parts) if n not in state.done)
    progress(min(state.tally.pairs["all"], wanted), wanted)
    if state.tally.pairs["all"] >= wanted:
        return state.tally
    with _running(settings, own, numbers) as blocks:
        for number, tally in blocks:
            state.done.add(number)
            state.tally = state.tally.plus(tally)
            state.write(settings.resume)
            progress(min(state.tally.pairs["all"], wanted), wanted)
            if state.tally.pairs["all"] >= wanted or len(state.tally.findings) >= ENOUGH_FINDINGS:
                break
    return state.tally


@contextmanager
def _running(settings: Settings, own: tuple[World, ...], numbers: Iterator[int]) -> Iterator[Blocks]:
    """Blocks as they are done, by this process or by several."""
    work = partial(_block, settings.seed, own)
    if settings.jobs <= 1:
        yield map(work, numbers)
        return
    with get_context("spawn").Pool(min(settings.jobs, os.cpu_count() or 1)) as pool:
        yield pool.imap_unordered(work, _few(numbers, settings), chunksize=1)


def _few(numbers: Iterator[int], settings: Settings) -> Iterator[int]:
    """No more blocks than can be wanted: a pool takes in all that it is given."""
    least = 60
    return (next(numbers) for _ in range(settings.pairs // settings.parts // least + settings.jobs))


def _block(seed: int, own: tuple[World, ...], number: int) -> tuple[int, Tally]:
    return number, run_block(seed, number, own)
