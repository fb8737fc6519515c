"""Every statement through one door: refused by an error of dpsql's own, soon, without a stored value, and free."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from attack.doors.statements import Statement
from attack.fuzz.canaries import CANARY, policy, stored
from dpsql.audit.outcome import AuditFinding
from dpsql.errors import EngineError, Error, InternalError
from dpsql.session import Connection, connect

SECONDS = 10.0
"""The most that one statement may take of a processor."""
GROWTH = 300 * 2**20
"""The most by which the process may grow over all of them, in bytes."""
Send = Callable[[str], str]
"""Sends a statement; all that is shown of an answer, or an error of dpsql's own."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A door that is open: `process` is the one that does the work, `harmless` tells why an answer tells nothing."""

    send: Send
    harmless: Callable[[str], str | None] = lambda _: None
    process: int = field(default_factory=os.getpid)


Door = Callable[[Path], AbstractContextManager[Opened]]
"""Opens the folder of `prepared` for the analyst ana."""


@dataclass
class Swept:
    """What came of all statements at one door."""

    door: str
    refused: int = 0
    harmless: dict[str, int] = field(default_factory=dict)
    slowest: float = 0.0
    grown: int = 0
    findings: list[AuditFinding] = field(default_factory=list)


def sweep(swept: Swept, opened: Opened, statements: Sequence[Statement]) -> Iterator[Statement]:
    """Send them one by one, and note what comes of it."""
    name, before = swept.door, memory(opened.process)
    for statement in statements:
        began = processor(opened.process)
        for what in _sent(opened, statement, swept):
            swept.findings.append(AuditFinding(f"{name}: {what}", statement.brief))
        took = processor(opened.process) - began
        swept.slowest = max(swept.slowest, took)
        if took > SECONDS:
            swept.findings.append(AuditFinding(f"{name}: {statement.kind}: it took {took:.1f} s", statement.brief))
        yield statement
    swept.grown = max(0, memory(opened.process) - before)
    if swept.grown > GROWTH:
        swept.findings.append(AuditFinding(f"{name}: the process grew by {swept.grown // 2**20} MB"))


def _sent(opened: Opened, statement: Statement, swept: Swept) -> list[str]:
    try:
        said = opened.send(statement.sql)
    except (InternalError, EngineError) as error:
        return [f"{statement.kind}: {type(error).__name__}: {error.message}"]
    except Error as error:
        swept.refused += 1
        return _leaks(str(error), statement)
    except Exception as problem:
        return [f"{statement.kind}: {type(problem).__name__} is no error of dpsql: {str(problem)[:200]}"]
    reason = opened.harmless(statement.sql)
    if reason is None:
        return [f"{statement.kind}: it was answered: {said[:100]!r}"]
    swept.harmless[reason] = swept.harmless.get(reason, 0) + 1
    return _leaks(said, statement)


def _leaks(said: str, statement: Statement) -> list[str]:
    found = [each for each in CANARY.findall(said) if each not in statement.sql]
    return [f"{statement.kind}: a stored value is shown: {found[0]}"] if found else []


def processor(process: int) -> float:
    """Seconds of a processor that a process has had."""
    if process == os.getpid():
        return time.process_time()
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: int) -> int:
    """Bytes that a process holds, where that can be known."""
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return 0
    return 1024 * int(next(line for line in status.read_text().splitlines() if line.startswith("VmRSS")).split()[1])


# the folder that all doors open -----------------------------------------------------------------------------------------

ANALYST = "ana"


@contextmanager
def prepared() -> Iterator[Path]:
    """`canaries.duckdb` and `policy.yaml` in a folder of their own."""
    declared = policy()
    declared["budget"] = {**declared["budget"], "analysts": {ANALYST: {"epsilon": 10}}}
    with TemporaryDirectory() as folder, stored() as database:
        shutil.copy(database, Path(folder) / "canaries.duckdb")
        (Path(folder) / "policy.yaml").write_text(yaml.safe_dump(declared))
        yield Path(folder)


def entered(folder: Path) -> Connection:
    """The analyst's own connection."""
    return connect(folder / "canaries.duckdb", policy=folder / "policy.yaml", analyst=ANALYST)


def charges(folder: Path) -> list[str]:
    """What was charged so far: the texts of the queries."""
    with connect(folder / "canaries.duckdb", policy=folder / "policy.yaml", steward=True) as db:
        return [str(entry) for entry in db.ledger.log() if entry.kind == "charge"]
