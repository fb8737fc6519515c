"""No unit moves a traced vector further than claimed, nor anything else that an analyst sees.

Random databases and random SQL over all that the planner accepts. Each pair is a database with a unit and the same
without it, so it stands for adding the unit as for removing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.audit.blocks import search, share_of
from dpsql.audit.file_writers import WRITERS
from dpsql.audit.outcome import Figure, Figures, Outcome, Progress, Series
from dpsql.audit.settings import Settings
from dpsql.audit.tally import Tally
from dpsql.audit.world import World


def check(worlds: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """Random queries over random neighbours."""
    notes = tuple(f"{world.name}: {note}" for world in worlds for note in world.notes) if settings.own else ()
    tally, wanted = search(worlds, settings, progress), share_of(settings)
    return complete(outcome(tally, notes), tally, wanted)


def complete(made: Outcome, tally: Tally, wanted: int) -> Outcome:
    """The outcome; where fewer pairs were compared than were wanted, it says so."""
    if not tally.findings and tally.pairs["all"] < wanted:
        return replace(made, incomplete=f"{tally.pairs['all']:,} of {wanted:,} pairs were compared: no more were found")
    return made


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """The parts of a search together."""
    tally = Tally()
    for each in outcomes:
        tally = tally.plus(Tally.loaded(each.saved))
    notes = tuple(dict.fromkeys(note for each in outcomes for note in each.notes))
    return outcome(tally, notes)


def outcome(tally: Tally, notes: tuple[str, ...] = ()) -> Outcome:
    """What a tally shows."""
    unmoved = "" if tally.touched["all"] else "no unit moved anything: nothing was put to the test"
    return Outcome(
        "neighbours", _figures(tally), tuple(tally.findings), _series(tally), notes, saved=tally.saved(),
        incomplete=unmoved, table=by_writer(tally),
    )  # fmt: skip


def by_writer(tally: Tally) -> Figures | None:
    """What was seen of each writer's files, if there were any."""
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
        ("queries that were refused", counted["queries refused"]),
        ("pairs whose plan, text and cost were compared", counted["pairs seen"]),
        ("pairs whose answers were compared", counted["pairs answered"]),
        ("pairs that were refused alike", counted["pairs refused"]),
        ("constructs and functions tried", len(tally.tried.keys() - WRITERS)),
        ("largest part of a claim that was reached", f"{max(tally.ratios.values(), default=0.0):.1%}"),
    )


def _series(tally: Tally) -> tuple[Series, ...]:
    claims = sorted(tally.ratios.items())
    clauses = [name for name in tally.tried if not name.endswith("()") and name not in WRITERS]
    functions = [name for name in tally.tried if name.endswith("()")]
    return (
        Series("Largest part of each claim that was reached, by rule and norm", "rule and norm", "part",
               tuple(claims), limit=1.0),
        *(_touched(tally, names, what) for names, what in ((clauses, "construct"), (functions, "function"))),
        Series("Largest part of a claim that was reached, by construct", "construct", "part",
               tuple((name, tally.reached.get(name, 0.0)) for name in sorted(clauses)), limit=1.0),
    )  # fmt: skip


def _touched(tally: Tally, names: Sequence[str], what: str) -> Series:
    points = sorted(((name, float(tally.mattered[name])) for name in names), key=lambda point: (-point[1], point[0]))
    return Series(f"Pairs in which the unit moved something, by {what}", what, "pairs", tuple(points))
