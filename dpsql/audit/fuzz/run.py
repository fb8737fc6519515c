"""Statements by number: the same seed and number give the same statement, so that a run can be split and resumed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpsql.audit.fuzz.corpus import built_in
from dpsql.audit.fuzz.grammar import Grammar
from dpsql.audit.fuzz.judge import Judge
from dpsql.audit.fuzz.mutate import mutated
from dpsql.audit.outcome import Finding, Progress

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
    findings: list[Finding] = field(default_factory=list)

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
