"""The check `neighbours`: no unit moves an exact total further than claimed, nor anything else that an analyst sees.

Each pair is a database with a unit and the same database without it, so it stands for adding the unit and for removing
it. Pairs come in blocks (`dpsql.audit.neighbour_search`), which run one after another or in several processes; finished
blocks are recorded in a file, so that a long search can be resumed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from dpsql.audit.file_writers import WRITERS
from dpsql.audit.neighbour_search import run_block
from dpsql.audit.outcome import (
    AuditCheck,
    Figure,
    Figures,
    Outcome,
    PlotSeries,
    Progress,
    Settings,
    Tally,
    write_private,
)
from dpsql.audit.world import World
from dpsql.errors import InterfaceError, OperationalError

ENOUGH_FINDINGS = 3
"""The search stops after this many findings."""
MAX_EMPTY_BLOCKS = 20
"""The search stops after this many blocks in a row without a pair: no unit to remove, or every query is refused."""
LEAST_PAIRS = 60
"""A block with any pairs has about this many or more."""
Block = tuple[int, Tally]


def check_neighbours(worlds: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """Random queries over random neighbours, drawn from parts of the steward's own data."""
    notes = tuple(f"{world.name}: {note}" for world in worlds for note in world.notes)
    searched = ", ".join(f"{world.name} ({_fingerprint(world)})" for world in worlds)
    run = partial(run_block, settings.seed, own=tuple(worlds))
    tally = search_blocks(run, searched, settings, progress)
    return complete(outcome_of(tally, notes), tally, share_of(settings))


# blocks ---------------------------------------------------------------------------------------------------------------


def search_blocks(run: Callable[[int], Tally], searched: str, settings: Settings, progress: Progress) -> Tally:
    """Run blocks until this part has its share of the pairs, or enough findings.

    `searched` describes what is searched: a search of something else is not resumed. `run` must be picklable.
    """
    about = f"dpsql {version('dpsql')}, {searched}, seed {settings.seed}, part {settings.part}/{settings.parts}"
    state, wanted, empty = SearchState.read(settings.resume, about), share_of(settings), 0
    numbers = (n for n in count(settings.part - 1, settings.parts) if n not in state.done)
    progress(min(state.tally.pairs["all"], wanted), wanted)
    if state.tally.pairs["all"] >= wanted:
        return state.tally
    with _running(settings, partial(_numbered, run), numbers) as blocks:
        for number, tally in blocks:
            state.done.add(number)
            state.tally = state.tally.plus(tally)
            state.write(settings.resume)
            progress(min(state.tally.pairs["all"], wanted), wanted)
            empty = 0 if tally.pairs["all"] else empty + 1
            done = state.tally.pairs["all"] >= wanted or len(state.tally.findings) >= ENOUGH_FINDINGS
            if done or empty >= MAX_EMPTY_BLOCKS:
                break
    return state.tally


def share_of(settings: Settings) -> int:
    """The number of pairs of this part."""
    return -(-settings.pairs // settings.parts)


def _numbered(run: Callable[[int], Tally], number: int) -> Block:
    return number, run(number)


def _fingerprint(world: World) -> str:
    """A hash of the policy and the rows, so that a search of other data is not resumed."""
    return sha256(f"{world.policy!r} {world.script()}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


@contextmanager
def _running(settings: Settings, work: Callable[[int], Block], numbers: Iterator[int]) -> Iterator[Iterable[Block]]:
    """Blocks in the order in which they finish, run by this process or by several."""
    if settings.jobs <= 1:
        yield map(work, numbers)
        return
    with ProcessPoolExecutor(min(settings.jobs, os.cpu_count() or 1), get_context("spawn")) as pool:
        waiting = [pool.submit(work, number) for number in _limited(numbers, settings)]
        try:
            yield (done.result() for done in as_completed(waiting))
        except BrokenProcessPool:
            raise OperationalError(
                "a process of the audit died, and its block was not finished", hint="run it again with --resume"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _limited(numbers: Iterator[int], settings: Settings) -> Iterator[int]:
    """No more blocks than can be needed, because the pool consumes all that it is given."""
    return (next(numbers) for _ in range(settings.pairs // settings.parts // LEAST_PAIRS + settings.jobs))


@dataclass(slots=True)
class SearchState:
    """The finished blocks of a search, and which search it was."""

    search: str
    done: set[int] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)

    @classmethod
    def read(cls, path: Path | None, search: str) -> SearchState:
        """Read the file, or start afresh if there is none."""
        if path is None or not path.exists():
            return cls(search)
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            state = cls(saved["search"], set(saved["done"]), Tally.loaded(saved["tally"]))
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise InterfaceError(
                f"{path} does not contain the state of an audit", hint="name another file for --resume"
            ) from problem
        if state.search != search:
            raise InterfaceError(
                f"{path} contains the state of another audit: {state.search}, not {search}",
                hint="name another file for --resume",
            )
        return state

    def write(self, path: Path | None) -> None:
        """Replace the file atomically."""
        if path is not None:
            saved = {"search": self.search, "done": sorted(self.done), "tally": self.tally.saved()}
            beside = path.with_name(path.name + ".new")
            write_private(beside, json.dumps(saved))
            beside.replace(path)


# outcomes -------------------------------------------------------------------------------------------------------------


def complete(made: Outcome, tally: Tally, wanted: int) -> Outcome:
    """The outcome, marked as incomplete if fewer pairs were compared than requested."""
    if not tally.findings and tally.pairs["all"] < wanted:
        reason = f"{tally.pairs['all']:,} of {wanted:,} pairs were compared: no more could be made"
        return replace(made, incomplete=reason)
    return made


def merge_neighbours(outcomes: Sequence[Outcome]) -> Outcome:
    """The parts of a search as one outcome."""
    notes = tuple(dict.fromkeys(note for each in outcomes for note in each.notes))
    return outcome_of(merged_tally(outcomes), notes)


def merged_tally(outcomes: Sequence[Outcome]) -> Tally:
    """The sum of the tallies that the outcomes have saved."""
    tally = Tally()
    for each in outcomes:
        tally = tally.plus(Tally.loaded(each.saved))
    return tally


def outcome_of(tally: Tally, notes: tuple[str, ...] = ()) -> Outcome:
    """The outcome that a tally amounts to."""
    unmoved = "" if tally.touched["all"] else "no unit moved anything, so nothing was tested"
    return Outcome(
        "neighbours", _figures(tally), tuple(tally.findings), _series(tally), notes, saved=tally.saved(),
        incomplete=unmoved, table=_by_writer(tally),
    )  # fmt: skip


def _by_writer(tally: Tally) -> Figures | None:
    """The figures of each writer's files; None if no files were read."""
    rows = tuple(
        (name, tally.tried[name], tally.mattered[name], tally.counted[f"violations, {name}"],
         f"{tally.reached[name]:.1%}")
        for name in WRITERS if tally.tried[name]
    )  # fmt: skip
    columns = ("files", "pairs", "moved something", "violations", "largest moved / claimed")
    return Figures(columns, rows) if rows else None


def _figures(tally: Tally) -> tuple[tuple[str, Figure], ...]:
    counted = tally.counted
    return (
        ("neighbouring pairs", tally.pairs["all"]),
        ("pairs in which the unit moved something", tally.touched["all"]),
        ("queries", counted["queries"]),
        ("refused queries", counted["queries refused"]),
        ("pairs whose plan, text and cost were compared", counted["pairs seen"]),
        ("pairs whose answers were compared", counted["pairs answered"]),
        ("pairs in which both sides were refused", counted["pairs refused"]),
        ("constructs and functions tried", len(tally.tried.keys() - WRITERS)),
        ("largest share of a claim that was used", f"{max(tally.ratios.values(), default=0.0):.1%}"),
    )


def _series(tally: Tally) -> tuple[PlotSeries, ...]:
    claims = sorted(tally.ratios.items())
    clauses = [name for name in tally.tried if not name.endswith("()") and name not in WRITERS]
    functions = [name for name in tally.tried if name.endswith("()")]
    return (
        PlotSeries("Largest share of each claim that was used, by rule and norm", "rule and norm", "share",
                   tuple(claims), limit=1.0),
        *(_touched(tally, names, what) for names, what in ((clauses, "construct"), (functions, "function"))),
        PlotSeries("Largest share of a claim that was used, by construct", "construct", "share",
                   tuple((name, tally.reached.get(name, 0.0)) for name in sorted(clauses)), limit=1.0),
    )  # fmt: skip


def _touched(tally: Tally, names: Sequence[str], what: str) -> PlotSeries:
    points = sorted(((name, float(tally.mattered[name])) for name in names), key=lambda point: (-point[1], point[0]))
    return PlotSeries(f"Pairs in which the unit moved something, by {what}", what, "pairs", tuple(points))


NEIGHBOURS = AuditCheck(
    "No unit moves an exact total further than claimed, nor anything else that an analyst sees.",
    check_neighbours,
    merge_neighbours,
)
