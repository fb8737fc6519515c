"""What a search saw: pairs, those in which the unit mattered, and the largest part of each claim; it adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dpsql.audit.comparison import Comparison
from dpsql.audit.outcome import AuditFinding

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
