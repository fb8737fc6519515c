"""Questions that the empty database answers: the catalogue, and the types of parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.interfaces.server import faults, wire
from dpsql.interfaces.server.catalogue_language import check
from dpsql.interfaces.server.columns import with_formats
from dpsql.interfaces.server.faults import Stop
from dpsql.interfaces.server.portal import Portal, Reply
from dpsql.interfaces.server.relay import Answer, Bound, Relay
from dpsql.interfaces.server.room import Full, Room
from dpsql.interfaces.server.statements import Kind, Statement
from dpsql.interfaces.server.values import TEXT
from dpsql.interfaces.server.wire import Fault, Malformed

MOST_PARAMETERS = 1_000
_PARAMETER = re.compile(r"\$(\d{1,5})")


@dataclass(slots=True)
class Catalogue:
    """The empty database of one account."""

    relay: Relay
    room: Room
    account: str

    async def answer(self, sql: str, portal: Portal) -> Reply:
        """Run a statement there."""
        check(sql)
        answer = await self._ask(sql, portal.prepared.types, portal.bound)
        tag = wire.message(b"C", answer.tag) if answer.tag else wire.EMPTY_QUERY
        return Reply(tag, answer.description, self.room.rows(self.account, answer.rows))

    async def columns(self, sql: str, types: Sequence[int], bound: Bound) -> bytes | None:
        """The columns of a statement that is not run."""
        check(sql)
        answer = await self._ask(sql, types, None)
        return None if answer.description is None else with_formats(answer.description, bound.results)

    async def types(self, statement: Statement, declared: Sequence[int]) -> tuple[int, ...]:
        """The types of the parameters: as declared, or as PostgreSQL infers them, else text. Nothing is run."""
        wanted = max((int(number) for number in _PARAMETER.findall(statement.text)), default=0)
        if wanted == 0 or statement.kind is Kind.SESSION:
            return tuple(declared)
        listed = [declared[i] if i < len(declared) else 0 for i in range(few(max(wanted, len(declared))))]
        if all(listed):
            return tuple(listed)
        if statement.kind is Kind.CATALOGUE:
            check(statement.text)
        try:
            return (await self._ask(statement.text, listed, None)).parameters
        except Stop:
            if statement.kind is Kind.CATALOGUE:
                raise
            return tuple(each or TEXT for each in listed)

    async def _ask(self, sql: str, types: Sequence[int], bound: Bound | None) -> Answer:
        try:
            self.room.check(self.account)
            answer = await self.relay.ask(sql, types, bound)
        except Full:
            raise Stop(faults.FULL) from None
        except (TimeoutError, OSError, Malformed):
            raise Stop(Fault("the catalogue did not answer", "58000", "ask again")) from None
        if answer.error is not None:
            raise Stop(answer.error)
        return answer


def few(count: int) -> int:
    """A number of parameters or columns that one statement may have."""
    if count > MOST_PARAMETERS:
        raise Stop(Fault(f"a statement may have {MOST_PARAMETERS} parameters and columns", "54000", "send fewer"))
    return count
