"""One client, from its first message to its last: the protocol's states, and what each statement is answered with.

**Theorem.** Parse, Bind and Describe release nothing; one Execute (or one statement of a simple query) asks dpsql once.
**Proof.** `Connection.query` is called in `_query` and (for the Python door) in `_call` only, which `_execute` and
`_simple` reach once a statement;
a portal keeps its answer, so that fetching the rest of it asks nobody. Everything else calls `describe` or `explain`,
which touch no data. **Checked by** `tests/server/test_protocol.py`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from dpsql.budget import FREE
from dpsql.errors import Error
from dpsql.interfaces.server import faults, values, wire
from dpsql.interfaces.server.calls import Results, answer, read_words
from dpsql.interfaces.server.faults import fault_of
from dpsql.interfaces.server.relay import Answer, Bound, Relay
from dpsql.interfaces.server.statements import Kind, Statement, TooMany, split
from dpsql.interfaces.server.values import SIZES, TEXT, data_rows, decode, oid_of
from dpsql.interfaces.server.wire import Body, Fault, Malformed, Shown
from dpsql.parse import Asked, read_setting
from dpsql.steward_log import places

if TYPE_CHECKING:
    from dpsql.interfaces.server.users import User
    from dpsql.release.result import Result
    from dpsql.session import Connection

log = logging.getLogger("dpsql.server")
MOST_PARAMETERS = 1_000
MOST_PREPARED = 1_000
_PARAMETER = re.compile(r"\$(\d{1,5})")
_TRACKED = {"application_name": "application_name", "datestyle": "DateStyle", "timezone": "TimeZone"}
_SET = re.compile(
    r"\s*SET\s+(?:(?:SESSION|LOCAL)\s+)?(?P<name>[\w.]+)\s*(?:=|\bTO\b)\s*(?P<value>.*?)\s*$", re.I | re.S
)
_TAGS = {"begin": "BEGIN", "set": "SET", "reset": "RESET", "discard": "DISCARD ALL", "deallocate": "DEALLOCATE",
         "listen": "LISTEN", "close": "CLOSE CURSOR", "savepoint": "SAVEPOINT"}  # fmt: skip


class Stop(Exception):
    """An error of one statement, as the client is told."""

    def __init__(self, fault: Fault | bytes) -> None:
        super().__init__()
        self.encoded = fault if isinstance(fault, bytes) else fault.encode()


class Counters(Protocol):
    """What the metrics count."""

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a counter."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement that was parsed, with the types of its parameters."""

    statement: Statement
    types: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A statement with values; once it ran, the rows that are left and the tag at their end."""

    prepared: Prepared
    bound: Bound
    values: tuple[Any, ...]
    description: bytes | None = None
    rows: Iterator[bytes] | None = None
    sent: int = 0
    tag: bytes = b""
    tail: bytes = b""


@dataclass(slots=True)
class Conversation:
    """What one client has said so far. `work` runs blocking tasks with a connection of the user's account."""

    user: User
    tables: frozenset[str]
    relay: Relay
    work: Callable[[User, Callable[[Connection], Any]], Any]
    send: Callable[[bytes], Any]
    counters: Counters
    seconds: float
    status: str = "I"
    asked: Asked = field(default_factory=Asked)
    settings: dict[str, str] = field(default_factory=dict)
    prepared: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    results: Results = field(default_factory=Results)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    _skipping: bool = False

    # messages -------------------------------------------------------------------------------------------------------

    async def handle(self, kind: bytes, body: Body) -> bool:
        """Answer one message; False at the end of the conversation."""
        if kind == b"X":
            return False
        if kind == b"S":
            self._skipping = False
            self._end_of_statement()
            await self.send(wire.ready(self.status))
            return True
        if kind == b"Q":
            self._skipping = False
            text = body.text()
            body.done()
            await self._simple(text)
            await self.send(wire.ready(self.status))
            return True
        if self._skipping or kind == b"H":
            return True
        try:
            await self._extended(kind, body)
        except Stop as stop:
            self._failed()
            self._skipping = True
            await self.send(stop.encoded)
        return True

    async def _extended(self, kind: bytes, body: Body) -> None:
        match kind:
            case b"P":
                await self._parse(body)
            case b"B":
                await self._bind(body)
            case b"D":
                await self._describe(body)
            case b"E":
                await self._execute(body)
            case b"C":
                await self._close(body)
            case b"F":
                raise Stop(Fault("function calls are not supported", "0A000", "write a SELECT"))
            case b"d" | b"c" | b"f":
                raise Stop(faults.COPY)
            case _:
                raise Malformed("a message of an unknown kind")

    def _end_of_statement(self) -> None:
        """Outside a transaction, portals end with it."""
        if self.status == "I":
            self.portals.clear()

    def _failed(self) -> None:
        self.status = "E" if self.status in "TE" else "I"

    # simple queries -------------------------------------------------------------------------------------------------

    async def _simple(self, text: str) -> None:
        try:
            statements = split(text, self.tables)
        except TooMany:
            self._failed()
            await self.send(faults.STATEMENTS.encode())
            return
        for statement in statements:
            try:
                await self._send_answer(await self._answer(statement, (), Bound()))
            except Stop as stop:
                self._failed()
                await self.send(stop.encoded)
                return
        self._end_of_statement()

    async def _send_answer(self, portal: Portal) -> None:
        if portal.description is not None:
            await self.send(portal.description)
        for chunk, _ in _chunks(portal.rows or iter(())):
            await self.send(chunk)
        await self.send(portal.tail + portal.tag)

    # extended queries -----------------------------------------------------------------------------------------------

    async def _parse(self, body: Body) -> None:
        name, text = body.text(), body.text()
        types = [body.int32() for _ in range(_few(body.int16()))]
        body.done()
        try:
            statements = split(text, self.tables)
        except TooMany:
            raise Stop(faults.STATEMENTS) from None
        if len(statements) > 1:
            raise Stop(Fault("a prepared statement is one statement", "42601", "prepare them one by one"))
        if name and name in self.prepared:
            raise Stop(Fault("there is a prepared statement of this name", "42P05", "take another name"))
        if len(self.prepared) >= MOST_PREPARED:
            raise Stop(Fault("too many prepared statements", "54000", "close some of them"))
        self.prepared[name] = Prepared(statements[0], await self._types(statements[0], types))
        await self.send(wire.PARSE_COMPLETE)

    async def _types(self, statement: Statement, declared: Sequence[int]) -> tuple[int, ...]:
        """The types of the parameters: as declared, or as the empty database infers them, else text."""
        wanted = max((int(number) for number in _PARAMETER.findall(statement.text)), default=0)
        if wanted == 0 or statement.kind is Kind.SESSION:
            return tuple(declared)
        listed = [declared[i] if i < len(declared) else 0 for i in range(_few(max(wanted, len(declared))))]
        if all(listed):
            return tuple(listed)
        answer = await self._asked_catalogue(statement.text, listed, None)
        if answer.error is None:
            return answer.parameters
        if statement.kind is Kind.CATALOGUE:
            raise Stop(answer.error)
        return tuple(each or TEXT for each in listed)

    async def _bind(self, body: Body) -> None:
        name, source = body.text(), body.text()
        formats = [body.int16() for _ in range(_few(body.int16()))]
        given = [_value(body) for _ in range(_few(body.int16()))]
        results = [body.int16() for _ in range(_few(body.int16()))]
        body.done()
        prepared = self.prepared.get(source)
        if prepared is None:
            raise Stop(faults.NO_STATEMENT)
        if len(given) != len(prepared.types) or len(formats) not in (0, 1, len(given)):
            raise Stop(Fault(f"{len(prepared.types)} values are needed, {len(given)} were given", "08P01"))
        each = formats * len(given) if len(formats) == 1 else formats or [wire.TEXT] * len(given)
        decoded: tuple[Any, ...] = ()
        if prepared.statement.kind is Kind.QUERY:
            try:
                decoded = tuple(decode(t, f, v) for t, f, v in zip(prepared.types, each, given, strict=True))
            except Malformed as problem:
                raise Stop(Fault(str(problem), "22P02", "send a value of the parameter's type")) from None
        if len(self.portals) >= MOST_PREPARED:
            raise Stop(Fault("too many portals", "54000", "close some of them"))
        self.portals[name] = Portal(prepared, Bound(tuple(formats), tuple(given), tuple(results)), decoded)
        await self.send(wire.BIND_COMPLETE)

    async def _describe(self, body: Body) -> None:
        what, name = body.take(1), body.text()
        body.done()
        if what == b"S":
            prepared = self.prepared.get(name)
            if prepared is None:
                raise Stop(faults.NO_STATEMENT)
            samples = tuple(_SAMPLES.get(oid, "") for oid in prepared.types)
            described = await self._columns(prepared, samples, Bound())
            await self.send(wire.parameter_description(prepared.types) + (described or wire.NO_DATA))
            return
        if what != b"P":
            raise Malformed("neither a statement nor a portal")
        portal = self.portals.get(name)
        if portal is None:
            raise Stop(faults.NO_PORTAL)
        described = portal.description or await self._columns(portal.prepared, portal.values, portal.bound)
        await self.send(described or wire.NO_DATA)

    async def _columns(self, prepared: Prepared, given: tuple[Any, ...], bound: Bound) -> bytes | None:
        """The row description of a statement; nothing is run for it."""
        statement = prepared.statement
        if statement.kind is Kind.CATALOGUE or (statement.kind is Kind.SESSION and statement.word == "show"):
            answer = await self._asked_catalogue(statement.text, prepared.types, None)
            if answer.error is not None:
                raise Stop(answer.error)
            return None if answer.description is None else _with_formats(answer.description, bound.results)
        if statement.kind is Kind.SESSION and statement.word == "explain":
            return wire.row_description([Shown("QUERY PLAN", TEXT)])
        if statement.kind is Kind.CALL:
            return wire.row_description([Shown("dpsql", TEXT)])
        if statement.kind is not Kind.QUERY:
            return None
        names, types = await self._worked(statement, lambda db: db.describe(statement.text, given or None))
        return wire.row_description(_shown(names, types, bound.results))

    async def _execute(self, body: Body) -> None:
        name, limit = body.text(), body.int32()
        body.done()
        portal = self.portals.get(name)
        if portal is None:
            raise Stop(faults.NO_PORTAL)
        if portal.rows is None:
            prepared = portal.prepared
            done = await self._answer(prepared.statement, portal.values, portal.bound, prepared.types)
            portal.rows, portal.tag, portal.tail = done.rows or iter(()), done.tag, done.tail
        count = 0
        for chunk, size in _chunks(portal.rows if limit <= 0 else islice(portal.rows, limit)):
            await self.send(chunk)
            count += size
        portal.sent += count
        if 0 < limit == count:
            await self.send(wire.SUSPENDED)
            return
        await self.send(portal.tail + _tagged(portal.tag, portal.sent))
        portal.tail = b""

    async def _close(self, body: Body) -> None:
        what, name = body.take(1), body.text()
        body.done()
        if what == b"S":
            self.prepared.pop(name, None)
        elif what == b"P":
            self.portals.pop(name, None)
        else:
            raise Malformed("neither a statement nor a portal")
        await self.send(wire.CLOSE_COMPLETE)

    # statements -----------------------------------------------------------------------------------------------------

    async def _answer(
        self, statement: Statement, given: tuple[Any, ...], bound: Bound, types: Sequence[int] = ()
    ) -> Portal:
        """Run one statement: the only place where dpsql is asked."""
        portal = Portal(Prepared(statement, tuple(types)), bound, given)
        if statement.kind is Kind.EMPTY:
            portal.tag = wire.EMPTY_QUERY
            return portal
        if self.status == "E" and statement.word not in ("rollback", "commit"):
            raise Stop(faults.IN_FAILED)
        match statement.kind:
            case Kind.SESSION:
                await self._session(statement, portal)
            case Kind.CATALOGUE:
                await self._from_catalogue(statement.text, portal)
            case Kind.BOTH:
                raise Stop(faults.BOTH)
            case Kind.CALL:
                await self._call(statement, portal)
            case _:
                await self._query(statement, portal)
        return portal

    async def _query(self, statement: Statement, portal: Portal) -> None:
        asked, formats = self.asked, portal.bound.results

        def task(db: Connection) -> tuple[Result, str, list[bytes]]:
            db.asked = asked
            result = db.query(statement.text, portal.values or None)
            left = "" if result.cost.rho == 0 else f"; left: {_left(db)}"
            shown = _shown(result.columns, result.types, formats)
            return result, left, data_rows(result.fetchall(), [(column.oid, column.format) for column in shown])

        result, left, rows = await self._worked(statement, task)
        self.counters.count("dpsql_queries_total")
        self.counters.count("dpsql_replays_total", float(result.cost.rho == 0))
        portal.description = wire.row_description(_shown(result.columns, result.types, formats))
        portal.rows = iter(rows)
        free = "replayed: free" if result.replayed else "free"
        said = free if result.cost == FREE else f"cost: {result.cost}{left}"
        notices = [
            Fault(said, "00000", severity="NOTICE"),
            *(Fault(note, "00000", severity="NOTICE") for note in result.notes),
        ]
        portal.tail = b"".join(notice.encode() for notice in notices)
        portal.tag = wire.complete(f"SELECT {len(rows)}")

    async def _call(self, statement: Statement, portal: Portal) -> None:
        """A call of the Python door; what it refuses points into the SQL inside it."""

        def task(db: Connection) -> str:
            return answer(db, statement.word, read_words(statement.text), self.results)

        text = await self._worked(Statement("", 0, Kind.CALL), task)
        self.counters.count("dpsql_calls_total")
        portal.description = wire.row_description([Shown("dpsql", TEXT)])
        portal.rows, portal.tag = iter([wire.data_row([text.encode()])]), wire.complete("SELECT 1")

    async def _from_catalogue(self, sql: str, portal: Portal) -> None:
        answer = await self._asked_catalogue(sql, portal.prepared.types, portal.bound)
        if answer.error is not None:
            raise Stop(answer.error)
        portal.description, portal.rows = answer.description, iter(answer.rows)
        portal.tag = wire.message(b"C", answer.tag) if answer.tag else wire.EMPTY_QUERY

    async def _asked_catalogue(self, sql: str, types: Sequence[int], bound: Bound | None) -> Answer:
        try:
            return await self.relay.ask(sql, types, bound)
        except (TimeoutError, OSError, Malformed):
            raise Stop(Fault("the catalogue did not answer", "58000", "ask again")) from None

    async def _worked(self, statement: Statement, task: Callable[[Connection], Any]) -> Any:
        """A task in a thread, until it is done, cancelled, or takes too long; nobody waits for one that goes on."""
        self.cancelled.clear()
        working = asyncio.ensure_future(self.work(self.user, task))
        stopping = asyncio.ensure_future(self.cancelled.wait())
        try:
            await asyncio.wait({working, stopping}, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.add_done_callback(_forget)
                raise Stop(faults.CANCELLED if self.cancelled.is_set() else faults.TIMED_OUT)
            return working.result()
        except Error as error:
            self.counters.count("dpsql_refusals_total")
            raise Stop(fault_of(error, statement.start)) from None
        except Stop:
            raise
        except Exception as failure:
            log.error("a query failed unexpectedly: %s", type(failure).__name__)
            log.debug("at %s", places(failure))
            raise Stop(faults.UNEXPECTED) from None
        finally:
            stopping.cancel()

    # settings and transactions --------------------------------------------------------------------------------------

    async def _session(self, statement: Statement, portal: Portal) -> None:
        text, word = statement.text, statement.word
        portal.tag = wire.complete(_TAGS.get(word, ""))
        match word:
            case "begin":
                self.status = "T"
            case "commit":
                portal.tag = wire.complete("COMMIT" if self.status != "E" else "ROLLBACK")
                self.status = "I"
            case "rollback":
                back = re.match(r"\s*ROLLBACK\s+(?:WORK\s+|TRANSACTION\s+)?TO\b", text, re.I)
                self.status = "T" if back and self.status in "TE" else "I"
                portal.tag = wire.complete("ROLLBACK")
            case "savepoint":
                portal.tag = wire.complete(text.split()[0].upper())
            case "set":
                portal.tail = await self._set(statement)
            case "reset":
                self.asked = read_setting(text, self.asked) or self.asked
            case "discard" | "deallocate":
                if word == "discard" or re.search(r"\bALL\b", text, re.I):
                    self.prepared.clear()
            case "copy":
                raise Stop(faults.COPY)
            case "explain":
                await self._explain(statement, portal)
            case "show":
                await self._show(text, portal)

    async def _set(self, statement: Statement) -> bytes:
        """Take in `SET`: what dpsql knows, what clients need; the rest is taken for a setting of theirs, and kept."""
        found = _SET.match(statement.text)
        if found is None:
            return b""
        name, value = found["name"].lower(), found["value"].strip("'\"")
        if name.startswith("dpsql."):

            def settle(db: Connection) -> Asked:
                db.asked = self.asked
                db.settle(statement.text)
                return db.asked

            self.asked = await self._worked(statement, settle)
            return b""
        if name == "client_encoding" and value.lower().replace("-", "") not in ("utf8", "unicode", "default"):
            raise Stop(Fault("this server speaks UTF8 only", "22023", "SET client_encoding = 'UTF8'"))
        self.settings[name] = value
        tracked = _TRACKED.get(name)
        return b"" if tracked is None else wire.parameter_status(tracked, value)

    async def _show(self, text: str, portal: Portal) -> None:
        words = text.split()
        name = words[1].strip('"').lower() if len(words) == 2 else ""
        own = {
            "dpsql.epsilon": self.asked.epsilon,
            "dpsql.delta": self.asked.delta,
            "dpsql.mechanism": self.asked.mechanism,
        }
        if name in own or name in self.settings:
            value = str(own[name] or "default") if name in own else self.settings[name]
            portal.description = wire.row_description([Shown(name, TEXT)])
            portal.rows, portal.tag = iter([wire.data_row([value.encode()])]), wire.complete("SHOW")
            return
        await self._from_catalogue(text, portal)

    async def _explain(self, statement: Statement, portal: Portal) -> None:
        found = re.match(r"\s*EXPLAIN\s*(?P<options>\([^)]*\)|(?:(?:ANALYZE|VERBOSE)\b\s*)*)", statement.text, re.I)
        assert found is not None
        if "ANALYZE" in found["options"].upper():
            raise Stop(Fault("EXPLAIN ANALYZE would run the query", "0A000", "EXPLAIN shows what it would do and cost"))
        query, start = statement.text[found.end() :], statement.start + found.end()
        inner = Statement(query, start, Kind.QUERY)

        def task(db: Connection) -> str:
            db.asked = self.asked
            return str(db.explain(query, portal.values or None))

        text = await self._worked(inner, task)
        portal.description = wire.row_description([Shown("QUERY PLAN", TEXT)])
        portal.rows = iter([wire.data_row([line.encode()]) for line in text.splitlines()])
        portal.tag = wire.complete("EXPLAIN")


def _forget(future: asyncio.Future[Any]) -> None:
    """The outcome of work that nobody waits for any more: it stays charged, and stored for a replay."""
    if not future.cancelled():
        future.exception()


def _left(db: Connection) -> str:
    status = db.budget()
    account = status.analyst or status.dataset
    return str(account.remaining)


def _few(count: int) -> int:
    if count > MOST_PARAMETERS:
        raise Stop(Fault(f"a statement may have {MOST_PARAMETERS} parameters and columns", "54000", "send fewer"))
    return count


def _value(body: Body) -> bytes | None:
    size = body.int32()
    return None if size == -1 else body.take(size)


def _shown(names: Sequence[str], types: Sequence[str], formats: Sequence[int]) -> list[Shown]:
    each = list(formats) * len(names) if len(formats) == 1 else list(formats) or [wire.TEXT] * len(names)
    if len(each) != len(names) or any(f not in (wire.TEXT, wire.BINARY) for f in each):
        raise Stop(Fault("the formats do not fit the columns", "08P01"))
    oids = [oid_of(type_) for type_ in types]
    return [Shown(n, oid, SIZES.get(oid, -1), f) for n, oid, f in zip(names, oids, each, strict=True)]


def _with_formats(description: bytes, formats: Sequence[int]) -> bytes:
    """A row description of the catalogue with the formats that the client asked for."""
    body = Body(description[5:])
    count = body.int16()
    each = list(formats) * count if len(formats) == 1 else list(formats) or [wire.TEXT] * count
    parts = []
    for index in range(count):
        parts += [wire.zero(body.text()), body.take(16), each[index].to_bytes(2)]
        body.take(2)
    return wire.message(b"T", count.to_bytes(2), *parts)


def _chunks(rows: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    """Rows by the thousand, with their number, so that neither a row nor the whole answer is one write."""
    while part := list(islice(rows, 1024)):
        yield b"".join(part), len(part)


def _tagged(tag: bytes, sent: int) -> bytes:
    """The tag at the end of a portal counts what was sent."""
    return wire.complete(f"SELECT {sent}") if tag.startswith(b"C") and b"SELECT " in tag else tag


_SAMPLES: dict[int, Any] = {
    values.BOOL: True, values.INT2: 1, values.INT4: 1, values.INT8: 1, values.FLOAT4: 1.5, values.FLOAT8: 1.5,
    values.NUMERIC: Decimal("1.5"), values.DATE: date(2020, 1, 1), values.TIMESTAMP: datetime(2020, 1, 1),
    values.TIMESTAMPTZ: datetime(2020, 1, 1), values.TIME: time(),
}  # fmt: skip
"""A value of each type, to plan a statement whose values are not known yet."""
