"""Fresh answers of two neighbours are no easier to tell apart than the charge allows, whatever one looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter

from dpsql.audit.blackbox.audit import FIRST, LEVEL, Audited, Case, Verdict, audit, refuted
from dpsql.audit.blackbox.cases import cases
from dpsql.audit.blackbox.own import own_cases
from dpsql.audit.file_writers import writers_of
from dpsql.audit.outcome import Finding, Outcome, Progress, Series
from dpsql.audit.settings import Settings
from dpsql.audit.world import World

RUNS, LONG_RUNS = 1_600, 6_400
"""The most runs of each neighbour; an audit whose outcome is clear ends earlier."""
ON_FILES = (
    "the rows of your files were copied into a database for this check; the check `neighbours` reads them as files",
)
SHORT = ("count, Laplace", "count, Gaussian", "private keys only, Gaussian", "median, Gaussian")
HALF = 0.5


def check(worlds: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """Made worlds that show a unit most, and units of a steward's own; through each door that is given."""
    started, runs = perf_counter(), LONG_RUNS if settings.long else RUNS
    if settings.own:
        asked = [case for world in worlds for case in own_cases(world, 20 if settings.long else 4)]
    else:
        asked = list(cases(None if settings.long else SHORT))
    level = LEVEL / max(1, 2 * (len(asked) + len(settings.doors)))
    made = [
        audit(case, runs, partial(_told, progress, number, len(asked), runs), level=level)
        for number, case in enumerate(asked)
    ]
    for name, door in settings.doors.items() if asked else ():
        case = asked[0]
        through = Case(f"{case.name}, through {name}", case.world, case.unit, case.sql)
        made.append(audit(through, FIRST, lambda _: None, door, level))
    progress(len(asked) * runs, len(asked) * runs)
    copied = ON_FILES if settings.own and any(map(writers_of, worlds)) else ()
    outcome = report(made, perf_counter() - started)
    return replace(outcome, notes=(*outcome.notes, *settings.door_notes, *copied))


def report(made: Sequence[Audited], seconds: float) -> Outcome:
    """What all audits together show: which queries are flagged, and with how little noise each would have been."""
    tests = [test for each in made for test in each.tests]
    level = LEVEL / max(1, len(tests))
    factors = [(each.case.name, each.factor(level)) for each in made]
    weak = [f"{name} ({factor:.2f}×)" for name, factor in factors if factor < HALF]
    figures = (
        ("queries audited", len(made)),
        ("runs", sum(2 * each.runs for each in made)),
        ("flagged", len({test.case for test in refuted(tests)})),
        ("queries in which half the right noise would have been flagged", len(made) - len(weak)),
        ("share of the right noise that every query would have flagged", min((f for _, f in factors), default=0.0)),
    )
    title = "Power: noise up to this share of the right noise would have been flagged (more is better)"
    series = Series(title, "query", "share of the right noise", tuple(factors))
    findings = [Finding(_said(test, level), _sql(made, test)) for test in refuted(tests)]
    notes = (
        (f"half the right noise might have gone unnoticed here; --long makes more runs: {'; '.join(weak)}",)
        if weak
        else ()
    )
    return Outcome("blackbox", figures, tuple(findings), (series,), notes, seconds=seconds, incomplete=_unasked(made))


def _unasked(made: Sequence[Audited]) -> str:
    """Two sides that refuse alike cannot be told apart, and show nothing."""
    if not made:
        return "there was no question that the policy answers"
    names = [
        f"{each.case.name} ({each.runs - each.answered} of {each.runs})" for each in made if each.answered < each.runs
    ]
    return f"runs were refused: {'; '.join(names)}" if names else ""


def _said(test: Verdict, level: float) -> str:
    counts, limit = test.counts, test.limit
    name = {"epsilon": "ε", "rho": "ρ"}[limit.kind]
    return (
        f"{test.case}: charged {name} = {limit.value:.4g}, costs at least {test.lower(level):.4g}: “{test.event}” was "
        f"seen {counts.hits} times in {counts.runs} runs {test.direction}, {counts.misses} in {counts.others} otherwise"
    )


def _sql(made: Sequence[Audited], test: Verdict) -> str:
    return next(each.case.sql for each in made if each.case.name == test.case)


def _told(progress: Progress, number: int, of: int, runs: int, done: int) -> None:
    progress(number * runs + done, of * runs)
