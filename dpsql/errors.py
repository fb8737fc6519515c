"""Every error that dpsql raises: one PEP 249 root, and messages that say what, where and what to do."""

from __future__ import annotations

from dataclasses import dataclass


class Warning(Exception):  # noqa: A001 - the name is PEP 249's
    """PEP 249's warning class; dpsql raises none."""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters in the analyst's SQL."""

    start: int
    end: int


class Error(Exception):
    """The root of all dpsql errors.

    `str(error)` is the message, then (where known) the line of SQL with a caret, then the hint. A refusal has a
    `reason`: a code of `dpsql refusals`.
    """

    reason: str | None = None

    def __init__(
        self, message: str, *, hint: str | None = None, sql: str | None = None, span: Span | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.sql = sql
        self.span = span

    @property
    def line(self) -> int | None:
        """1-based line of the offending clause."""
        return None if self.sql is None or self.span is None else self.sql.count("\n", 0, self.span.start) + 1

    @property
    def column(self) -> int | None:
        """1-based column of the offending clause."""
        if self.sql is None or self.span is None:
            return None
        return self.span.start - (self.sql.rfind("\n", 0, self.span.start) + 1) + 1

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message, the caret and the hint, which say more than a traceback would."""
        first, *rest = str(self).split("\n")
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {first}", *rest]

    def __str__(self) -> str:
        parts = [self.message]
        if self.sql is not None and self.span is not None:
            parts.append(_underline(self.sql, self.span))
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


def _underline(sql: str, span: Span) -> str:
    """The line that holds the span, with carets below it; long lines are cut around the span."""
    begin = sql.rfind("\n", 0, span.start) + 1
    stop = sql.find("\n", span.start)
    stop = len(sql) if stop < 0 else stop
    end = max(span.start + 1, min(span.end, stop))
    left = begin if stop - begin <= 120 else max(begin, span.start - 60)
    right = min(stop, max(end, left + 120))
    number = f"line {sql.count(chr(10), 0, span.start) + 1}: "
    text = sql[left:right].replace("\t", " ")
    lead = "…" if left > begin else ""
    tail = "…" if right < stop else ""
    carets = " " * (len(number) + len(lead) + span.start - left) + "^" * max(1, min(end, right) - span.start)
    return f"{number}{lead}{text}{tail}\n{carets}"


class InterfaceError(Error):
    """A wrong use of the Python interface."""


class DatabaseError(Error):
    """PEP 249: anything about the database."""


class DataError(DatabaseError):
    """PEP 249: a problem with the processed data; dpsql never raises it about private data."""


class OperationalError(DatabaseError):
    """PEP 249: the database's operation failed."""


class IntegrityError(DatabaseError):
    """PEP 249: relational integrity; a read-only layer never raises it."""


class InternalError(DatabaseError):
    """A broken invariant of dpsql itself: the query is stopped, nothing is released."""


class ProgrammingError(DatabaseError):
    """PEP 249: an error in the query or the policy."""


class NotSupportedError(DatabaseError):
    """PEP 249: a feature that is not supported."""


class ParseError(ProgrammingError):
    """The text is not one SQL query, or names a table or column that does not exist for this analyst."""


class UnsupportedQuery(NotSupportedError):
    """A query that cannot be answered privately; the hint is a rewriting that passes."""


class UnboundedColumn(UnsupportedQuery):
    """A sum or average whose bounds cannot be inferred."""


class PolicyError(ProgrammingError):
    """The policy is wrong, or forbids what was asked."""


class BudgetExceeded(OperationalError):
    """The query costs more than what is left, or more than the policy allows for one query.

    `fits` is the epsilon at which it would be admitted, where there is one.
    """

    fits: float | None = None


class LedgerError(OperationalError):
    """The ledger cannot be read or written safely; nothing is released."""


class EngineError(OperationalError):
    """The engine failed. The text is constant: what the engine said goes to the steward's log only."""

    TEXT = "the database could not run this query; the steward's log has the details"

    def __init__(self) -> None:
        super().__init__(self.TEXT)


class Pep249Errors:
    """The error classes as attributes of a connection, so that code with several drivers can name the right ones."""

    Warning, Error, InterfaceError, DatabaseError, DataError = Warning, Error, InterfaceError, DatabaseError, DataError
    OperationalError, IntegrityError, InternalError = OperationalError, IntegrityError, InternalError
    ProgrammingError, NotSupportedError = ProgrammingError, NotSupportedError
