"""The neighbour search of `dpsql audit` over built-in worlds: in memory, and written as files by every writer.

Over files: row groups of a few rows, several files, dictionaries, statistics and Bloom filters on and off. Most worlds
hold NaN, infinities and a unit whose values lie beyond everybody else's, and most queries are those that an engine would
answer by statistics: whether a row is read must depend on that row alone. With `--resume FILE` the progress over files is
kept in `FILE.files`, beside that of the search in memory.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from attack.pruning import PruningQueries, readings
from attack.worlds import joins, kinds, kinds_policy, shop
from dpsql.audit.file_writers import absent_writers, installed_writers, on_files
from dpsql.audit.grammar.query_writer import Writer
from dpsql.audit.neighbour_check import complete, merge_neighbours, merged_tally, outcome_of, search_blocks, share_of
from dpsql.audit.neighbour_search import QUERIES, examine_world, with_extreme
from dpsql.audit.outcome import AuditCheck, Outcome, Progress, Settings, Tally
from dpsql.audit.world import World

DRAWN = (kinds, kinds, joins, joins, shop)
PRUNED = 0.75
"""The share of blocks over files whose world and queries are made for an engine that reads by statistics."""
_UNREACHED = "too few pairs (--pairs) to reach every writer, so not tried"


def drawn(rng: random.Random) -> World:
    """A built-in world with random rows and random caps."""
    world = rng.choice(DRAWN)(rng)
    if world.name == "kinds" and rng.random() < 0.5:
        unit = rng.choice(("id", {"id": "people.id"}))
        made = kinds_policy(rng.choice((1, 2, 4)), rng.choice((1, 2, 3)), unit)
        world = World.made("kinds", made, world.tables)
    if rng.random() < 0.4:
        world = with_extreme(world, rng) or world
    clipped = rng.random() < 0.6
    return replace(world, policy=world.policy.model_copy(update={"search": clipped}))


# in memory --------------------------------------------------------------------------------------------------------------


def run_block(seed: int, number: int, queries: int = QUERIES) -> Tally:
    """One block over a built-in world."""
    rng = random.Random(f"{seed} {number}")
    return examine_world(drawn(rng), rng, queries)


def search_memory(settings: Settings, progress: Progress) -> Tally:
    """Blocks until this part has its pairs."""
    return search_blocks(partial(run_block, settings.seed), "built-in worlds", settings, progress)


def check_memory(_: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """Random queries over random neighbours."""
    tally = search_memory(settings, progress)
    return complete(outcome_of(tally), tally, share_of(settings))


# on files ---------------------------------------------------------------------------------------------------------------


def run_file_block(seed: int, number: int, queries: int = QUERIES) -> Tally:
    """One block over files of one writer; the writers take turns, and most worlds are those of `pruning`."""
    rng, writers = random.Random(f"{seed} {number} files"), installed_writers()
    pruned = rng.random() < PRUNED
    world = on_files(readings(rng) if pruned else drawn(rng), writers[number % len(writers)], rng)
    return examine_world(world, rng, queries, PruningQueries if pruned else Writer.over)


def check_files(_: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """Random queries over random neighbours on files; the writers take turns, block by block."""
    if settings.resume is not None:
        settings = replace(settings, resume=settings.resume.with_name(f"{settings.resume.name}.files"))
    tally = search_blocks(partial(run_file_block, settings.seed), "built-in worlds as files", settings, progress)
    notes = tuple(f"not installed, so not tried: {each}" for each in absent_writers())
    return complete(files_outcome(tally, notes), tally, share_of(settings))


def merge_files(outcomes: Sequence[Outcome]) -> Outcome:
    """The parts of a search as one outcome."""
    notes = dict.fromkeys(note for each in outcomes for note in each.notes if not note.startswith(_UNREACHED))
    return files_outcome(merged_tally(outcomes), tuple(notes))


def files_outcome(tally: Tally, notes: tuple[str, ...] = ()) -> Outcome:
    """The outcome that a tally amounts to, with a note about the writers that no block reached."""
    if unreached := [writer for writer in installed_writers() if not tally.tried[writer]]:
        notes = (*notes, f"{_UNREACHED}: {', '.join(unreached)}")
    return replace(outcome_of(tally, notes), check="files")


NEIGHBOURS = AuditCheck(
    "No unit moves an exact total further than claimed, nor anything else that an analyst sees.",
    check_memory,
    merge_neighbours,
)
FILES = AuditCheck(
    "Over files of every writer: whether a row is read depends on that row alone, and no unit moves more than claimed.",
    check_files,
    merge_files,
)
