"""What each statement is answered with.

**Theorem.** Describing a statement releases nothing; answering one asks dpsql for one answer.
**Proof.** `Connection.query` is called in `_query` and (for the Python door) in `calls.answer` only, which `answer`
reaches once; `describe` calls `Connection.describe` or asks the empty database. A portal keeps its answer
(`conversation.py`), so that fetching the rest of it asks nobody.
**Requires** one connection of dpsql for each of the client's, and a statement that is answered in the order in which it
came (`conversation.py`).
**Checked by** `tests/server/test_protocol.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsql.budget import FREE
from dpsql.interfaces.server import calls, faults, wire
from dpsql.interfaces.server.asking import Asking
from dpsql.interfaces.server.calls import Results
from dpsql.interfaces.server.catalogue import Catalogue
from dpsql.interfaces.server.columns import one_text, shown
from dpsql.interfaces.server.commands import Commands
from dpsql.interfaces.server.faults import Stop
from dpsql.interfaces.server.notices import notices
from dpsql.interfaces.server.portal import Portal, Prepared, Reply
from dpsql.interfaces.server.relay import Bound
from dpsql.interfaces.server.statements import Kind, Statement
from dpsql.interfaces.server.values import data_rows

if TYPE_CHECKING:
    from dpsql.session import Connection


@dataclass(slots=True)
class Answers:
    """The answers to one client."""

    asking: Asking
    catalogue: Catalogue
    commands: Commands
    results: Results

    async def answer(self, portal: Portal) -> Reply:
        """Run a statement: the only place where dpsql is asked."""
        statement = portal.prepared.statement
        if statement.kind is Kind.EMPTY:
            return Reply(wire.EMPTY_QUERY)
        if self.commands.session.status == "E" and statement.word not in ("rollback", "commit"):
            raise Stop(faults.IN_FAILED)
        match statement.kind:
            case Kind.SESSION:
                return await self.commands.answer(statement, portal)
            case Kind.CATALOGUE:
                return await self.catalogue.answer(statement.text, portal)
            case Kind.BOTH:
                raise Stop(faults.BOTH)
            case Kind.CALL:
                return await self._call(statement)
            case _:
                return await self._query(statement, portal)

    async def _query(self, statement: Statement, portal: Portal) -> Reply:
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
        return Reply(wire.complete(f"SELECT {len(rows)}"), description, held, said)

    async def _call(self, statement: Statement) -> Reply:
        """A call of the Python door; what it refuses points into the SQL inside it."""

        def task(db: Connection) -> str:
            return calls.answer(db, statement.word, calls.read_words(statement.text), self.results)

        text = await self.asking.run(statement.word, task, same=statement.text)
        self.asking.counters.count("dpsql_calls_total")
        rows = self.asking.room.rows(self.asking.user.analyst, [wire.data_row([text.encode()])])
        return Reply(wire.complete("SELECT 1"), one_text("dpsql"), rows)

    async def describe(self, prepared: Prepared, given: tuple[Any, ...], bound: Bound) -> bytes | None:
        """The row description of a statement; nothing is run for it."""
        statement = prepared.statement
        if statement.kind is Kind.CATALOGUE or statement.word == "show":
            return await self.catalogue.columns(statement.text, prepared.types, bound)
        if statement.word == "explain" and statement.kind is Kind.SESSION:
            return one_text("QUERY PLAN")
        if statement.kind is Kind.CALL:
            return one_text("dpsql")
        if statement.kind is not Kind.QUERY:
            return None
        asked = self.commands.session.asked

        def task(db: Connection) -> tuple[tuple[str, ...], tuple[str, ...]]:
            db.asked = asked  # the connection is shared: another client of the account may have set its own
            return db.describe(statement.text, given or None)

        names, types = await self.asking.run("describe", task, statement.start)
        return wire.row_description(shown(names, types, bound.results))
