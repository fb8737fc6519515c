"""Statements by number: the same seed and number give the same statement, so that a run can be split and resumed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from attack.fuzz.corpus import built_in
from attack.fuzz.grammar import Grammar
from attack.fuzz.judge import Judge
from attack.fuzz.mutate import mutated
from dpsql.audit.outcome import AuditCheck, AuditFinding, Outcome, Progress, Settings
from dpsql.audit.world import World

EXPLAINED = 4
"""One in so many is explained as well as asked."""
MOST_FINDINGS = 50


def statement(seed: int, number: int, corpus: Sequence[str]) -> str:
    """Half are sentences of the grammar, some of them changed; half are changed statements of the corpus."""
    rng = random.Random(f"{seed} {number}")
    if number % 2:
        return mutated(rng, rng.choice(corpus), corpus)
    sentence = Grammar(rng).sentence()
    return mutated(rng, sentence, corpus) if rng.random() < 0.3 else sentence


@dataclass
class Run:
    """A range of numbers of one seed."""

    seed: int
    first: int
    last: int
    extra: Sequence[str] = ()
    findings: list[AuditFinding] = field(default_factory=list)

    def run(self, progress: Progress) -> Judge:
        """Judge them all."""
        judge, corpus, seen = Judge(), [*built_in(), *self.extra], set[str]()
        try:
            for number in range(self.first, self.last):
                sql = statement(self.seed, number, corpus)
                for finding in judge.judge(sql, explain=number % EXPLAINED == 0):
                    if finding.what[:60] not in seen and len(self.findings) < MOST_FINDINGS:
                        self.findings.append(finding)
                        seen.add(finding.what[:60])
                    judge.seen["findings"] += 1
                progress(number + 1 - self.first, self.last - self.first)
        finally:
            judge.close()
        return judge


SHORT, LONG = 3_000, 100_000


def check(_: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """The part of the statements that the settings ask for, over a world of canaries."""
    many = LONG if settings.long else SHORT
    first, last = (many * (settings.part - 1) // settings.parts, many * settings.part // settings.parts)
    run = Run(settings.seed, first, last)
    judge = run.run(progress)
    figures = (("statements", last - first), *sorted(judge.seen.items()), ("slowest (s)", round(judge.slowest[0], 2)))
    unasked = "" if judge.seen["compared with DuckDB"] else "no answer was compared with DuckDB's"
    return Outcome("fuzz", figures, tuple(run.findings), incomplete=unasked)


FUZZ = AuditCheck(
    "Random statements: no foreign error, no stored value in any text, bounded time, and DuckDB's own answers.", check
)
