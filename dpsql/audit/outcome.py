"""What a check of the audit is asked to do (`Settings`) and what it returns (`Outcome`), as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dpsql.audit.comparison import Comparison
from dpsql.audit.world import World

Figure = str | int | float
Progress = Callable[[int, int], None]
"""Called with the amount of work done and the total."""
Ask = Callable[[str], Sequence[tuple[Any, ...]]]
"""Takes SQL and returns rows; raises `dpsql.Error` if the query is refused."""
Door = Callable[[World], AbstractContextManager[Ask]]
"""Opens a world for an analyst through one of the interfaces."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much to try, with which seed, and which part of it. Parts of one seed never overlap.

    `resume` names a file that records the progress of a long check and from which it continues. `absent` lists the
    doors that are not installed, each with the command that installs it.
    """

    seed: int = 0
    pairs: int = 5_000
    long: bool = False
    part: int = 1
    parts: int = 1
    jobs: int = 1
    resume: Path | None = None
    doors: Mapping[str, Door] = field(default_factory=dict)
    absent: tuple[str, ...] = ()

    @property
    def door_notes(self) -> tuple[str, ...]:
        """A note for each door that was not tried."""
        return tuple(f"not installed, so not tried: {each}" for each in self.absent)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One violation of the promise: what was observed, and what reproduces it."""

    what: str
    again: str = ""


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """Points to plot; values must stay below `limit`."""

    title: str
    x: str
    y: str
    points: tuple[tuple[str | float, float], ...]
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """A table of figures."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Figure, ...], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one check. It passes if it tested something and found nothing.

    `incomplete` says why the check tested less than it was asked to; finding nothing is then no evidence.
    `judged` is false for a check that only measures and cannot fail.
    `saved` holds plain values from which the check's own `merge` combines the outcomes of several parts.
    """

    check: str
    figures: tuple[tuple[str, Figure], ...]
    findings: tuple[AuditFinding, ...] = ()
    series: tuple[PlotSeries, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    saved: Mapping[str, Any] = field(default_factory=dict)
    incomplete: str = ""
    judged: bool = True
    table: Figures | None = None

    @property
    def passed(self) -> bool:
        """Whether the check was complete and found nothing."""
        return not self.findings and not self.incomplete

    @property
    def verdict(self) -> str:
        """`passed`, `failed` or `measured`."""
        return "failed" if not self.passed else "passed" if self.judged else "measured"


def merge_findings(outcomes: Sequence[Outcome]) -> Outcome:
    """The last outcome with the findings of all parts."""
    findings = tuple(dict.fromkeys(finding for each in outcomes for finding in each.findings))
    return replace(outcomes[-1], findings=findings)


@dataclass(frozen=True, slots=True)
class AuditCheck:
    """A check of the audit: `shows` says in one line what it tests, `merge` combines the outcomes of several parts."""

    shows: str
    run: Callable[[Sequence[World], Settings, Progress], Outcome]
    merge: Callable[[Sequence[Outcome]], Outcome] = merge_findings

    def merged(self, outcomes: Sequence[Outcome]) -> Outcome:
        """All parts as one outcome; it is incomplete if any part is."""
        made = self.merge(outcomes) if len(outcomes) > 1 else outcomes[0]
        reasons = dict.fromkeys(reason for each in (*outcomes, made) if (reason := each.incomplete))
        return replace(made, seconds=sum(each.seconds for each in outcomes), incomplete="; ".join(reasons))


def write_private(path: Path, text: str) -> None:
    """Write a file that only the steward can read: audits of real data contain exact counts and rows."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text, encoding="utf-8")


# what a search saw ----------------------------------------------------------------------------------------------------
# What a search saw: pairs, those in which the unit mattered, and the largest part of each claim; it adds up.


COUNTERS = ("pairs", "touched", "tried", "mattered", "counted")
MOST = 20
"""How many findings are kept."""


@dataclass(slots=True)
class Tally:
    """Counts by rule ("all": of all), by construct, and the largest parts of claims by "rule norm" and construct."""

    pairs: Counter[str] = field(default_factory=Counter)
    touched: Counter[str] = field(default_factory=Counter)
    ratios: dict[str, float] = field(default_factory=dict)
    tried: Counter[str] = field(default_factory=Counter)
    mattered: Counter[str] = field(default_factory=Counter)
    reached: dict[str, float] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    findings: list[AuditFinding] = field(default_factory=list)

    def add(self, rules: Iterable[str], constructs: Iterable[str], comparison: Comparison) -> None:
        """Count one pair."""
        touched, constructs = comparison.touched, tuple(constructs)
        self.pairs.update({*rules, "all"})
        self.touched.update(touched | ({"all"} if touched else set()))
        self.tried.update(constructs)
        if touched:
            self.mattered.update(constructs)
        for (rule, norm), ratio in comparison.ratios.items():
            self.ratios[f"{rule} {norm}"] = max(ratio, self.ratios.get(f"{rule} {norm}", 0.0))
        for name in constructs:
            self.reached[name] = max(comparison.most, self.reached.get(name, 0.0))

    def counted_for(self, writers: Iterable[str]) -> Tally:
        """The same tally, with all of its pairs counted for these writers of files."""
        most = max(self.ratios.values(), default=0.0)
        for name in writers:
            self.tried[name], self.mattered[name] = self.pairs["all"], self.touched["all"]
            self.reached[name], self.counted[f"violations, {name}"] = most, len(self.findings)
        return self

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            self.pairs + other.pairs,
            self.touched + other.touched,
            _larger(self.ratios, other.ratios),
            self.tried + other.tried,
            self.mattered + other.mattered,
            _larger(self.reached, other.reached),
            self.counted + other.counted,
            [*self.findings, *other.findings][:MOST],
        )

    def saved(self) -> dict[str, Any]:
        """As plain values."""
        counters = {name: dict(getattr(self, name)) for name in COUNTERS}
        return {
            **counters, "ratios": self.ratios, "reached": self.reached, "findings": [asdict(f) for f in self.findings],
        }  # fmt: skip

    @classmethod
    def loaded(cls, saved: Mapping[str, Any]) -> Tally:
        """From plain values."""
        counters = {name: Counter(saved[name]) for name in COUNTERS}
        findings = [AuditFinding(**each) for each in saved["findings"]]
        return cls(**counters, ratios=dict(saved["ratios"]), reached=dict(saved["reached"]), findings=findings)


def _larger(one: Mapping[str, float], two: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), two.get(name, 0.0)) for name in {**one, **two}}
