"""Forms by the dozen in one query, on neighbours: what fails is halved until it is one form."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from attack.totality.edges import TABLE, world
from attack.totality.forms import Form, forms, written
from dpsql.audit.outcome import AuditCheck, AuditFinding, Outcome, Progress, Settings
from dpsql.audit.world import RowUnit, World
from dpsql.errors import EngineError, Error, InternalError
from dpsql.session import Connection

TOGETHER = 60
SECONDS = 2.0
"""The most that one form may take of a processor, on all rows."""
Query = Callable[[Sequence[Form]], str]


def counted(forms: Sequence[Form]) -> str:
    """How many rows have a value."""
    return f"SELECT {', '.join(f'count({form.sql}) AS n{i}' for i, form in enumerate(forms))} FROM {TABLE}"


def filtered(forms: Sequence[Form]) -> str:
    """How many rows fulfil a condition."""
    parts = [f"count(*) FILTER (WHERE ({form.sql}) IS NOT NULL) AS n{i}" for i, form in enumerate(forms)]
    return f"SELECT {', '.join(parts)} FROM {TABLE}"


def summed(forms: Sequence[Form]) -> str:
    """A number on the data grid, between bounds of the query's own."""
    parts = [f"sum(least(greatest({form.sql}, -7), 1000)) AS n{i}" for i, form in enumerate(forms)]
    return f"SELECT {', '.join(parts)} FROM {TABLE}"


def grouped(forms: Sequence[Form]) -> str:
    """A private key."""
    return f"SELECT {', '.join(form.sql for form in forms)}, count(*) FROM {TABLE} GROUP BY ALL"


@dataclass
class Sweep:
    """The worlds: all edges; those without one row (neighbours); no row at all; and what was found."""

    findings: list[AuditFinding] = field(default_factory=list)
    done: int = 0
    refused: int = 0
    slowest: tuple[float, str] = (0.0, "")

    def __post_init__(self) -> None:
        whole = world()
        last = len(whole.tables[TABLE].rows) - 1
        worlds: list[World] = [whole, whole.without(RowUnit(TABLE, 0)), whole.without(RowUnit(TABLE, last))]
        self.databases: list[Connection] = [each.open() for each in (*worlds, whole.keeping(lambda _: False))]

    def close(self) -> None:
        """Let go of the databases."""
        for db in self.databases:
            db.close()

    def run(self, forms: Sequence[Form], query: Query, together: int = TOGETHER) -> Iterator[int]:
        """All forms in queries of that kind; how many are done after each."""
        for start in range(0, len(forms), together):
            part = forms[start : start + together]
            self._look(part, query)
            self.done += len(part)
            yield len(part)

    def _look(self, forms: Sequence[Form], query: Query) -> None:
        began = time.process_time()
        seen = [_seen(db, query(forms)) for db in self.databases]
        took = (time.process_time() - began) / len(seen)
        wrong = _wrong(seen) or (f"it took {took:.1f} s" if took > SECONDS else None)
        refused = isinstance(seen[0], str)
        if len(forms) > 1 and (wrong or refused):
            middle = len(forms) // 2
            self._look(forms[:middle], query)
            self._look(forms[middle:], query)
            return
        self.refused += refused and not wrong
        self.slowest = max(self.slowest, (took, query(forms[:1])))
        if wrong:
            self.findings.append(AuditFinding(wrong, query(forms)))


Seen = tuple[tuple[str, ...], tuple[str, ...], str] | str


def _seen(db: Connection, sql: str) -> Seen:
    """Columns, types and cost; or the error, as it is shown."""
    try:
        result = db.query(sql)
    except Error as error:
        return f"{type(error).__name__}: {error}"
    except Exception as problem:
        return f"{type(problem).__name__} (no error of dpsql): {problem}"
    return result.columns, result.types, str(result.cost)


def _wrong(seen: Sequence[Seen]) -> str | None:
    first = seen[0]
    if any(each != first for each in seen):
        return f"neighbours are told apart: {' / '.join(dict.fromkeys(str(each)[:150] for each in seen))}"
    failed = isinstance(first, str) and first.startswith((EngineError.__name__, InternalError.__name__))
    if isinstance(first, str) and (failed or "no error of dpsql" in first):
        return first[:300]
    return None


# the check ---


def check(_: Sequence[World], settings: Settings, progress: Progress) -> Outcome:
    """As arguments of a count and of a sum; a part of them, or in the long version all, as conditions and as keys."""
    every = list(forms())
    some = every if settings.long else every[:: 1 + len(every) // 150]
    numbers = [form for form in every if form.gives.numeric][:: 1 if settings.long else 3]
    plan: list[tuple[Query, Sequence[Form], int]] = [
        (counted, every, 60), (summed, numbers, 40), (filtered, some, 40), (grouped, some, 1),
    ]  # fmt: skip
    total, done, sweep = sum(len(each) for _, each, _ in plan), 0, Sweep()
    try:
        for query, chosen, together in plan:
            for count in sweep.run(chosen, query, together):
                done += count
                progress(done, total)
    finally:
        sweep.close()
    figures = (
        ("forms", len(written())),
        ("forms × types", len(every)),
        ("expressions on neighbours", sweep.done),
        ("refused alike", sweep.refused),
        ("slowest (s)", round(sweep.slowest[0], 2)),
    )
    notes = (f"slowest: {sweep.slowest[1][:200]}",)
    few = "" if 2 * sweep.refused < sweep.done else f"{sweep.refused:,} of {sweep.done:,} were refused"
    return Outcome("totality", figures, tuple(sweep.findings), notes=notes, incomplete=few)


TOTALITY = AuditCheck(
    "Every function, operator and cast over the edge values of every type, with a row and without: the same outcome.",
    check,
)
