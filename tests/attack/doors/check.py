"""Forbidden statements through every door: refused, charged nothing, in bounded time and memory, telling nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from attack.doors.interfaces import ALL_DOORS
from attack.doors.statements import statements
from attack.doors.sweep import SECONDS, Swept, charges, prepared, sweep
from dpsql.audit.outcome import AuditCheck, AuditFinding, Outcome, PlotSeries, Progress, Settings
from dpsql.audit.world import World

WHOLE, FEWER = ("query", "server, simple protocol"), 6
"""The large statements cost seconds: in the short version two doors take them all, the others one in six."""


def check(__: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """All statements, one door after the other, over a database of canaries."""
    from dpsql.interfaces.cli.audit_command import installed_doors

    doors, absent = installed_doors(ALL_DOORS)
    swept, charged = list[Swept](), list[str]()
    sent = {name: statements(1 if settings.long or name in WHOLE else FEWER) for name in doors}
    done, total = 0, sum(map(len, sent.values()))
    for name, door in doors.items():
        with prepared() as folder:
            swept.append(Swept(name))
            with door(folder) as opened:
                for _ in sweep(swept[-1], opened, sent[name]):
                    done += 1
                    progress(done, total)
            charged += [f"{name}: {entry}" for entry in charges(folder)]
    findings = [finding for each in swept for finding in each.findings]
    findings += [AuditFinding(f"charged at {entry[:300]}") for entry in charged]
    return Outcome("doors", _figures(swept, len(statements())), tuple(findings), _series(swept),
                   (*replace(settings, absent=absent).door_notes, *_notes(swept)))  # fmt: skip


def _figures(swept: Sequence[Swept], sent: int) -> tuple[tuple[str, int | float], ...]:
    return (
        ("statements", sent),
        ("doors", len(swept)),
        ("refused", sum(each.refused for each in swept)),
        ("answered harmlessly", sum(sum(each.harmless.values()) for each in swept)),
        ("slowest (s)", round(max((each.slowest for each in swept), default=0.0), 2)),
        ("most memory (MB)", max((each.grown for each in swept), default=0) // 2**20),
    )


def _series(swept: Sequence[Swept]) -> tuple[PlotSeries, ...]:
    points = tuple((each.door, round(each.slowest, 3)) for each in swept)
    return (PlotSeries("the slowest refusal", "door", "seconds of a processor", points, SECONDS),)


def _notes(swept: Sequence[Swept]) -> tuple[str, ...]:
    return tuple(
        f"{each.door}: {count} answered: {reason}" for each in swept for reason, count in sorted(each.harmless.items())
    )


DOORS = AuditCheck(
    "Forbidden statements through every door: refused, free, in bounded time and memory, revealing nothing.", check
)
