"""Over files of every writer: whether a row is read depends on that row alone, and no unit moves more than is claimed.

The neighbour search, with the tables of both neighbours written as Parquet (by pyarrow, polars, pandas and DuckDB), as
Arrow and as CSV: row groups of a few rows, several files, dictionaries, statistics and Bloom filters on and off. Most
worlds hold NaN, infinities and a unit whose values lie beyond everybody else's, and most queries are those that an
engine would answer by statistics. With `--resume FILE` the progress is kept in `FILE.files`, beside that of
`neighbours`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.audit.blocks import search, share_of
from dpsql.audit.checks import neighbours
from dpsql.audit.file_writers import absent_writers, installed_writers
from dpsql.audit.outcome import Outcome, Progress
from dpsql.audit.settings import Settings
from dpsql.audit.tally import Tally
from dpsql.audit.world import World

_UNREACHED = "too few pairs (--pairs) to reach every writer, so not tried"


def check(_: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """Random queries over random neighbours on files; the writers take turns, block by block."""
    if settings.resume is not None:
        settings = replace(settings, resume=settings.resume.with_name(f"{settings.resume.name}.files"))
    tally = search((), settings, progress, files=True)
    notes = tuple(f"not installed here, so not tried: {each}" for each in absent_writers())
    return neighbours.complete(outcome(tally, notes), tally, share_of(settings))


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """The parts of a search together."""
    tally = Tally()
    for each in outcomes:
        tally = tally.plus(Tally.loaded(each.saved))
    notes = dict.fromkeys(note for each in outcomes for note in each.notes if not note.startswith(_UNREACHED))
    return outcome(tally, tuple(notes))


def outcome(tally: Tally, notes: tuple[str, ...] = ()) -> Outcome:
    """What a tally shows, and which writers it says nothing of."""
    if unreached := [writer for writer in installed_writers() if not tally.tried[writer]]:
        notes = (*notes, f"{_UNREACHED}: {', '.join(unreached)}")
    return replace(neighbours.outcome(tally, notes), check="files")
