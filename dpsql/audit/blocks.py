"""Blocks of a long search: done one after the other or by several processes, and noted in a file as they are done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from dpsql.audit.outcome import Progress
from dpsql.audit.private_file import write_for_the_steward
from dpsql.audit.search import run_block, run_file_block
from dpsql.audit.settings import Settings
from dpsql.audit.tally import Tally
from dpsql.audit.world import World
from dpsql.errors import InterfaceError, OperationalError

ENOUGH_FINDINGS = 3
BARREN = 20
"""After so many blocks in a row without a pair there are none to be had: no unit, or nothing that is not refused."""
Block = tuple[int, Tally]
Blocks = Iterable[Block]


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
            write_for_the_steward(beside, json.dumps(saved))
            beside.replace(path)


def search(worlds: Sequence[World], settings: Settings, progress: Progress, *, files: bool = False) -> Tally:
    """Run blocks until this part has its share of pairs or enough findings; `files`: over built-in tables as files."""
    own = tuple(worlds) if settings.own and not files else ()
    named = ", ".join(f"{world.name} ({_fingerprint(world)})" for world in own)
    named = named or ("built-in worlds as files" if files else "built-in worlds")
    about = f"dpsql {version('dpsql')}, {named}, seed {settings.seed}, part {settings.part}/{settings.parts}"
    state, wanted, barren = State.read(settings.resume, about), share_of(settings), 0
    numbers = (n for n in count(settings.part - 1, settings.parts) if n not in state.done)
    progress(min(state.tally.pairs["all"], wanted), wanted)
    if state.tally.pairs["all"] >= wanted:
        return state.tally
    work = partial(_file_block, settings.seed) if files else partial(_block, settings.seed, own)
    with _running(settings, work, numbers) as blocks:
        for number, tally in blocks:
            state.done.add(number)
            state.tally = state.tally.plus(tally)
            state.write(settings.resume)
            progress(min(state.tally.pairs["all"], wanted), wanted)
            barren = 0 if tally.pairs["all"] else barren + 1
            done = state.tally.pairs["all"] >= wanted or len(state.tally.findings) >= ENOUGH_FINDINGS
            if done or barren >= BARREN:
                break
    return state.tally


def share_of(settings: Settings) -> int:
    """The pairs of this part."""
    return -(-settings.pairs // settings.parts)


def _fingerprint(world: World) -> str:
    """Of the policy and the rows: a search of others is another one."""
    return sha256(f"{world.policy!r} {world.script()}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@contextmanager
def _running(settings: Settings, work: Callable[[int], Block], numbers: Iterator[int]) -> Iterator[Blocks]:
    """Blocks as they are done, by this process or by several."""
    if settings.jobs <= 1:
        yield map(work, numbers)
        return
    with ProcessPoolExecutor(min(settings.jobs, os.cpu_count() or 1), get_context("spawn")) as pool:
        waiting = [pool.submit(work, number) for number in _few(numbers, settings)]
        try:
            yield (done.result() for done in as_completed(waiting))
        except BrokenProcessPool:
            raise OperationalError("a process of the audit died: its block is not done", hint="resume") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _few(numbers: Iterator[int], settings: Settings) -> Iterator[int]:
    """No more blocks than can be wanted: a pool takes in all that it is given."""
    least = 60
    return (next(numbers) for _ in range(settings.pairs // settings.parts // least + settings.jobs))


def _block(seed: int, own: tuple[World, ...], number: int) -> Block:
    return number, run_block(seed, number, own)


def _file_block(seed: int, number: int) -> Block:
    return number, run_file_block(seed, number)
