"""One statement through the session: what must hold of it, whatever it is."""

from __future__ import annotations

import logging
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from attack.fuzz.canaries import CANARY, opened, stored
from attack.fuzz.equal import Reference, Unequal
from dpsql.audit.outcome import AuditFinding
from dpsql.errors import EngineError, Error, InternalError

SECONDS = 2.0
"""The most that one statement may take of a processor."""
HANG = 20.0


class Hang(BaseException):
    """A statement that does not end."""


class Listener(logging.Handler):
    """Keeps what is logged at the default level."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@dataclass
class Judge:
    """An analyst's connection to the canaries, and what DuckDB itself says without any privacy."""

    seen: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    listener: Listener = field(default_factory=Listener)

    def __post_init__(self) -> None:
        self._stored = stored()
        path = self._stored.__enter__()
        self.db, self.reference = opened(path), Reference(path)
        logging.getLogger().addHandler(self.listener)

    def close(self) -> None:
        """Let go of the databases."""
        logging.getLogger().removeHandler(self.listener)
        self.db.close()
        self.reference.close()
        self._stored.__exit__(None, None, None)

    def judge(self, sql: str, *, explain: bool) -> list[AuditFinding]:
        """What is wrong with how the statement was taken: nothing, one hopes."""
        self.listener.said.clear()
        began, before, found = time.process_time(), self._spent(), list[AuditFinding]()
        accepted = False
        try:
            with _watched():
                accepted = self._ask(sql, explain)
        except Error as error:
            self.seen[f"refused: {type(error).__name__}"] += 1
            found += self._refused(sql, error)
            if self._spent() != before and not _finishing(error):
                found.append(AuditFinding("a refusal was charged", sql))
        except Hang:
            found.append(AuditFinding(f"it does not end within {HANG:.0f} s", sql))
        except Exception as problem:
            found.append(AuditFinding(f"{type(problem).__name__} is no error of dpsql: {str(problem)[:200]}", sql))
        took = time.process_time() - began
        self.slowest = max(self.slowest, (took, sql))
        if took > SECONDS:
            found.append(AuditFinding(f"it took {took:.1f} s", sql))
        found += [
            AuditFinding(f"the log has a stored value: {said[:200]}", sql) for said in _leaks(sql, self.listener.said)
        ]
        return found + (self._compared(sql) if accepted else [])

    def _spent(self) -> object:
        everyone = self.db.accounts.standings()[0]
        assert everyone is not None
        return everyone.spent

    def _ask(self, sql: str, explain: bool) -> bool:
        texts = [str(self.db.explain(sql))] if explain else []
        result = self.db.query(sql)
        self.seen["answered"] += 1
        leaks = _leaks(sql, [*texts, *result.notes, *result.columns])
        if leaks:
            raise AssertionError(f"a text has a stored value: {leaks[0][:300]}")
        return True

    def _refused(self, sql: str, error: Error) -> list[AuditFinding]:
        try:
            said = f"{error} {error.hint} {error.message} {error.line} {error.column}"
        except Exception as problem:
            return [AuditFinding(f"the error cannot be shown: {type(problem).__name__}", sql)]
        if isinstance(error, InternalError | EngineError):
            return [AuditFinding(f"{type(error).__name__}: {error.message[:200]}", sql)]
        return [AuditFinding(f"the error has a stored value: {leak[:300]}", sql) for leak in _leaks(sql, [said])]

    def _compared(self, sql: str) -> list[AuditFinding]:
        try:
            with _watched():
                self.seen["compared with DuckDB"] += self.reference.agrees(sql)
        except Unequal as problem:
            return [AuditFinding(f"not what DuckDB answers: {problem}", sql)]
        except Hang:
            self.seen["too slow to compare"] += 1
        except Error as problem:
            if isinstance(problem, InternalError | EngineError):
                return [AuditFinding(f"without noise: {type(problem).__name__}: {problem.message[:200]}", sql)]
        return []


def _finishing(error: Error) -> bool:
    """Was it about released values, after they were released?"""
    return error.message.startswith("above the aggregate")


def _leaks(sql: str, texts: list[str]) -> list[str]:
    """Texts with a stored value that the statement itself does not have."""
    return [text for text in texts if any(found not in sql for found in CANARY.findall(text))]


@contextmanager
def _watched() -> Iterator[None]:
    """Stop what does not end; only where signals can be had."""

    def ring(_: int, __: FrameType | None) -> None:
        raise Hang

    try:
        before = signal.signal(signal.SIGPROF, ring)
    except ValueError:
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
