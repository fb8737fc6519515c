"""The execution of each statement: its rows, and the notices with its cost and error bars.

**Theorem.** Describing a statement releases nothing; executing one asks dpsql for at most one answer.
**Proof.** `Connection.query` is called only in `_query` and, for the Python client, in `remote_calls.answer`, and
`answer` reaches each of them once; `describe` calls `Connection.describe` or asks the empty database. A portal keeps
its answer (`protocol.py`), so fetching the rest of it asks nothing.
**Requires** one dpsql connection for each task (`query_runner.py`), and statements that are answered in the order in
which they arrived (`protocol.py`).
**Checked by** `tests/server/test_protocol.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsql.answers.notes import first_notes
from dpsql.answers.number_format import plain
from dpsql.answers.quality import quality_line
from dpsql.budget import FREE
from dpsql.interfaces.server import remote_calls, sqlstates, wire
from dpsql.interfaces.server.client_catalogue import CatalogueQueries
from dpsql.interfaces.server.portal import BoundParameters, Portal, PreparedStatement, StatementReply
from dpsql.interfaces.server.query_runner import QueryRunner
from dpsql.interfaces.server.remote_calls import RecentResults
from dpsql.interfaces.server.session_commands import SessionCommands
from dpsql.interfaces.server.sqlstates import StatementError
from dpsql.interfaces.server.statement_routing import ClientStatement, StatementKind
from dpsql.interfaces.server.wire import ErrorResponse
from dpsql.interfaces.server.wire_values import data_rows, one_text, shown

if TYPE_CHECKING:
    from dpsql.answers.result import Result
    from dpsql.session import Connection


def notices(result: Result, db: Connection) -> Iterator[ErrorResponse]:
    """In the order in which they are shown."""
    for text in (
        _price(result, db),
        *_bars(result),
        *_quality(result),
        *first_notes(result.notes, "EXPLAIN lists them"),
    ):
        yield ErrorResponse(text, "00000", severity="NOTICE")


def _price(result: Result, db: Connection) -> str:
    if result.cost == FREE:
        return "replayed: free" if result.replayed else "free"
    return f"cost: {result.cost} of your budget; left: {db.budget().own.left_share}"


def _bars(result: Result) -> Iterator[str]:
    """The half width of each noisy column where all rows have the same; how to ask for those of the others."""
    known = result.half_widths()
    said = [f"{name} ± {plain(width)}" for name, width in known if width is not None]
    if said:
        yield f"errors (95%): {', '.join(said)}"
    others = [name for name, width in known if width is None]
    if others:
        yield f"error bars of {', '.join(others)} differ by row: select DP_LOW(…) and DP_HIGH(…) of the same expression"


def _quality(result: Result) -> Iterator[str]:
    """How good the numbers are, and a way out if they are mostly noise; said where it takes no repeated runs."""
    if result.has_quick_bars:
        yield from filter(None, [quality_line(result.qualities)])
        yield from map(str, filter(None, [result.way_out]))


# execution -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class StatementExecutor:
    """Executes the statements of one client."""

    asking: QueryRunner
    catalogue: CatalogueQueries
    commands: SessionCommands
    results: RecentResults

    async def answer(self, portal: Portal) -> StatementReply:
        """Execute a statement. Nothing else calls `Connection.query`."""
        statement = portal.prepared.statement
        if statement.kind is StatementKind.EMPTY:
            return StatementReply(wire.EMPTY_QUERY)
        if self.commands.session.status == "E" and statement.word not in ("rollback", "commit"):
            raise StatementError(sqlstates.IN_FAILED)
        match statement.kind:
            case StatementKind.SESSION:
                return await self.commands.answer(statement, portal)
            case StatementKind.CATALOGUE:
                return await self.catalogue.answer(statement.text, portal)
            case StatementKind.BOTH:
                raise StatementError(sqlstates.BOTH)
            case StatementKind.CALL:
                return await self._call(statement)
            case _:
                return await self._query(statement, portal)

    async def _query(self, statement: ClientStatement, portal: Portal) -> StatementReply:
        asked, formats = self.commands.session.asked, portal.bound.results
        same = (statement.text, repr(portal.values), asked)

        def task(db: Connection) -> tuple[bytes, list[bytes], bytes, bool]:
            db.asked = asked
            result = db.query(statement.text, portal.values or None)
            columns = shown(result.columns, result.types, formats)
            rows = data_rows(result.fetchall(), [(column.oid, column.format) for column in columns])
            said = b"".join(notice.encode() for notice in notices(result, db))
            return wire.row_description(columns), rows, said, result.cost == FREE

        description, rows, said, free = await self.asking.run("query", task, statement.start, same)
        self.asking.counters.count("dpsql_queries_total")
        self.asking.counters.count("dpsql_replays_total", float(free))
        held = self.asking.room.rows(self.asking.user.analyst, rows)
        return StatementReply(wire.complete(f"SELECT {len(rows)}"), description, held, said)

    async def _call(self, statement: ClientStatement) -> StatementReply:
        """A call of the Python door; what it refuses points into the SQL inside it."""

        def task(db: Connection) -> str:
            return remote_calls.answer(db, statement.word, remote_calls.read_call(statement.text), self.results)

        text = await self.asking.run(statement.word, task, same=statement.text)
        self.asking.counters.count("dpsql_calls_total")
        rows = self.asking.room.rows(self.asking.user.analyst, [wire.data_row([text.encode()])])
        return StatementReply(wire.complete("SELECT 1"), one_text("dpsql"), rows)

    async def describe(
        self, prepared: PreparedStatement, given: tuple[Any, ...], bound: BoundParameters
    ) -> bytes | None:
        """The row description of a statement; nothing is run for it."""
        statement = prepared.statement
        if statement.kind is StatementKind.CATALOGUE or statement.word == "show":
            return await self.catalogue.columns(statement.text, prepared.types, bound)
        if statement.word == "explain" and statement.kind is StatementKind.SESSION:
            return one_text("QUERY PLAN")
        if statement.kind is StatementKind.CALL:
            return one_text("dpsql")
        if statement.kind is not StatementKind.QUERY:
            return None
        asked = self.commands.session.asked

        def task(db: Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
            db.asked = asked  # the connection is shared: another client of the account may have set its own
            return db.describe(statement.text, given or None)

        names, types = await self.asking.run("describe", task, statement.start)
        return wire.row_description(shown(names, types, bound.results))
