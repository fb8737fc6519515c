"""CPU time of this process, interleaved repetitions, and the rows of the table that the benchmark prints."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what was measured, and what was asked for (empty: for information)."""

    what: str
    measured: str
    asked: str = ""
    value: float | None = None
    limit: float | None = None

    def as_dict(self) -> dict[str, object]:
        """For the JSON output."""
        missed = self.value is not None and self.limit is not None and self.value > self.limit
        return asdict(self) | {"met": None if self.limit is None else not missed}


def cpu() -> float:
    """User and system seconds of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begin = cpu()
    work()
    return cpu() - begin


def interleaved(works: Mapping[str, Callable[[], object]], times: int) -> dict[str, list[float]]:
    """CPU seconds of each work, in rounds, so that whatever else runs on the machine meets all of them alike."""
    spent: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(times):
        for name, work in works.items():
            spent[name].append(cpu_of(work))
    return spent


def progress(text: str) -> None:
    """Say on stderr what is being measured."""
    print(text, file=sys.stderr, flush=True)


def markdown(rows: list[Row]) -> str:
    """The table for docs/performance.md."""
    lines = ["| what | measured | asked |", "|---|---|---|"]
    return "\n".join(lines + [f"| {r.what} | {r.measured} | {r.asked} |" for r in rows])
