"""Forbidden statements through every door: refused, charged nothing, in bounded time and memory, telling nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.audit.doors.folder import charges, prepared
from dpsql.audit.doors.in_process import DOORS
from dpsql.audit.doors.statements import statements
from dpsql.audit.doors.sweep import Swept, sweep
from dpsql.audit.outcome import Finding, Outcome, Progress, Series
from dpsql.audit.settings import Settings
from dpsql.audit.world import World


def check(_: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """All statements, one door after the other, over a database of canaries."""
    sent, doors, swept, charged = statements(), {**DOORS, **settings.forbidden}, list[Swept](), list[str]()
    for number, (name, door) in enumerate(doors.items()):
        with prepared() as folder:
            with door(folder) as opened:
                for place, so_far in enumerate(sweep(name, opened, sent)):
                    progress(number * len(sent) + place + 1, len(doors) * len(sent))
            swept.append(so_far)
            charged += [f"{name}: {entry}" for entry in charges(folder)]
    findings = [finding for each in swept for finding in each.findings]
    findings += [Finding(f"charged at {entry[:300]}") for entry in charged]
    return Outcome("doors", _figures(swept, len(sent)), tuple(findings), _series(swept), _notes(swept))


def _figures(swept: Sequence[Swept], sent: int) -> tuple[tuple[str, int | float], ...]:
    return (
        ("statements", sent),
        ("doors", len(swept)),
        ("refused", sum(each.refused for each in swept)),
        ("answered harmlessly", sum(sum(each.harmless.values()) for each in swept)),
        ("slowest (s)", round(max((each.slowest for each in swept), default=0.0), 2)),
        ("most memory (MB)", max((each.grown for each in swept), default=0) // 2**20),
    )


def _series(swept: Sequence[Swept]) -> tuple[Series, ...]:
    points = tuple((each.door, round(each.slowest, 3)) for each in swept)
    return (Series("the slowest refusal", "door", "seconds of a processor", points, 2.0),)


def _notes(swept: Sequence[Swept]) -> tuple[str, ...]:
    return tuple(
        f"{each.door}: {count} answered: {reason}" for each in swept for reason, count in sorted(each.harmless.items())
    )
