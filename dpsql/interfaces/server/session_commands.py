"""Session commands: transactions, SET, SHOW, EXPLAIN, and commands that are accepted and ignored."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpsql.interfaces.server import sqlstates, wire
from dpsql.interfaces.server.client_catalogue import CatalogueQueries
from dpsql.interfaces.server.portal import Portal, PreparedObjects, StatementReply
from dpsql.interfaces.server.query_runner import QueryRunner
from dpsql.interfaces.server.sqlstates import StatementError
from dpsql.interfaces.server.statement_routing import ClientStatement
from dpsql.interfaces.server.wire import ErrorResponse
from dpsql.interfaces.server.wire_values import one_text
from dpsql.options import QueryOptions
from dpsql.sql import SETTING_NAMES, read_setting

if TYPE_CHECKING:
    from dpsql.session import Connection

MOST_SETTINGS = 200
MOST_SAVEPOINTS = 100
TRACKED = {
    "application_name": ("application_name", ""),
    "datestyle": ("DateStyle", "ISO, MDY"),
    "timezone": ("TimeZone", "UTC"),
}
"""What clients are told when it changes: its name in the protocol, and what it is while nobody sets it."""
_SET = re.compile(r"\s*SET\s+(?:(?P<how>SESSION|LOCAL)\s+)?(?P<name>[\w.]+)\s*(?:=|\bTO\b)(?P<value>.*)", re.I | re.S)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s*(?P<options>\([^)]*\)|(?:(?:ANALYZE|VERBOSE)\b\s*)*)", re.I)
_BACK = re.compile(
    r"\s*(?:ROLLBACK|ABORT)\s+(?:WORK\s+|TRANSACTION\s+)?TO\s+(?:SAVEPOINT\s+)?(?P<name>.+)", re.I | re.S
)
_POINT = re.compile(r"\s*(?P<word>SAVEPOINT|RELEASE)\s+(?:SAVEPOINT\s+)?(?P<name>.+)", re.I | re.S)
_TAGS = {"begin": "BEGIN", "set": "SET", "reset": "RESET", "discard": "DISCARD ALL", "deallocate": "DEALLOCATE",
         "listen": "LISTEN", "close": "CLOSE CURSOR"}  # fmt: skip


Said = tuple[QueryOptions, Mapping[str, str], Mapping[str, str | None]]
"""All that a client has set, and what SET LOCAL hides until the transaction is over (None: nothing was set)."""


@dataclass(slots=True)
class ClientSession:
    """What a client has set. `status` is the protocol's: I(dle), T(ransaction), E(rror in one)."""

    status: str = "I"
    asked: QueryOptions = field(default_factory=QueryOptions)
    settings: Mapping[str, str] = field(default_factory=dict)
    _hidden: Mapping[str, str | None] = field(default_factory=dict)
    _told: Mapping[str, str] | None = None
    _before: Said | None = None
    _points: list[tuple[str, Said]] = field(default_factory=list)

    def begin(self) -> None:
        """A statement comes: the first one begins a transaction, whether or not it says so."""
        if self._before is None:
            self._before = self._said

    def failed(self) -> None:
        """A statement did not succeed; outside a transaction block, all that was sent with it is undone."""
        if self.status in "TE":
            self.status = "E"
        else:
            self.undo()

    def undo(self) -> None:
        """The transaction is rolled back: what was set in it never was."""
        self.asked, self.settings, self._hidden = self._before or self._said
        self.end()

    def end(self) -> None:
        """The transaction is over: what was set in it stays, unless it was set for the transaction only."""
        shown = {name: value for name, value in self.settings.items() if name not in self._hidden}
        again = {name: value for name, value in self._hidden.items() if value is not None}
        self.settings, self._hidden = {**shown, **again}, {}
        self.status, self._before = "I", None
        self._points.clear()

    def set(self, name: str, value: str, *, local: bool) -> None:
        """Keep a setting of the client's, or let it hold until the transaction is over."""
        hidden = {each: value for each, value in self._hidden.items() if each != name}
        if local:
            hidden[name] = self._hidden[name] if name in self._hidden else self.settings.get(name)
        self.settings, self._hidden = {**self.settings, name: value}, hidden

    def news(self) -> bytes:
        """The settings that the client must hear of, because they are not what it was told last."""
        now = {name: self.settings.get(name, default) for name, (_, default) in TRACKED.items()}
        before, self._told = self._told or {name: default for name, (_, default) in TRACKED.items()}, now
        return b"".join(
            wire.parameter_status(TRACKED[name][0], value) for name, value in now.items() if value != before[name]
        )

    def mark(self, name: str) -> None:
        """Set a savepoint."""
        if len(self._points) >= MOST_SAVEPOINTS:
            raise StatementError(sqlstates.TOO_MUCH)
        self._points.append((name, self._said))

    def release(self, name: str, *, back: bool) -> None:
        """Forget a savepoint and those after it; going `back` to it undoes what was set since, and keeps it."""
        at = max((at for at, (each, _) in enumerate(self._points) if each == name), default=None)
        if at is None:
            raise StatementError(
                ErrorResponse(f"there is no savepoint {name}", "3B001", "set it first: SAVEPOINT name")
            )
        if back:
            self.asked, self.settings, self._hidden = self._points[at][1]
        del self._points[at + back :]

    @property
    def _said(self) -> Said:
        return self.asked, self.settings, self._hidden


@dataclass(slots=True)
class SessionCommands:
    """The commands of one client."""

    session: ClientSession
    shelf: PreparedObjects
    asking: QueryRunner
    catalogue: CatalogueQueries

    async def answer(self, statement: ClientStatement, portal: Portal) -> StatementReply:
        """Execute a command."""
        match statement.word:
            case "begin" | "commit" | "rollback" | "savepoint":
                return StatementReply(wire.complete(self._transaction(statement)))
            case "set":
                await self._set(statement)
            case "reset":
                self.session.asked = read_setting(statement.text, self.session.asked) or self.session.asked
            case "discard" | "deallocate":
                if statement.word == "discard" or re.search(r"\bALL\b", statement.text, re.I):
                    self.shelf.prepared.clear()
            case "copy":
                raise StatementError(sqlstates.COPY)
            case "explain":
                return await self._explain(statement, portal)
            case "show":
                return await self._show(statement.text, portal)
        return StatementReply(wire.complete(_TAGS[statement.word]))

    def _transaction(self, statement: ClientStatement) -> str:
        """No release can be undone: a transaction is a state of the conversation and of what was set in it. Its tag."""
        session, word = self.session, statement.word
        if word == "savepoint":
            return self._savepoint(statement.text)
        if word == "begin":
            session.status = "T"
            return "BEGIN"
        if word == "rollback":
            if (back := _BACK.match(statement.text)) and session.status in "TE":
                session.release(_name(back["name"]), back=True)
                session.status = "T"
            else:
                session.undo()
            return "ROLLBACK"
        failed = session.status == "E"
        if failed:
            session.undo()
        else:
            session.end()
        return "ROLLBACK" if failed else "COMMIT"

    def _savepoint(self, text: str) -> str:
        """SAVEPOINT or RELEASE, which mean something in a transaction only."""
        found = _POINT.match(text)
        if found is not None and self.session.status == "T":
            name = _name(found["name"])
            if found["word"].upper() == "SAVEPOINT":
                self.session.mark(name)
            else:
                self.session.release(name, back=False)
        return text.split(maxsplit=1)[0].upper()

    async def _set(self, statement: ClientStatement) -> None:
        """Take in `SET`: what dpsql knows, what clients need; the rest is taken for a setting of theirs, and kept."""
        found = _SET.match(statement.text)
        if found is None:
            return
        name, value = found["name"].lower(), found["value"].strip().strip("'\"")
        if name.startswith("dpsql."):
            self.session.asked = await self.asking.run("set", self._settle(statement.text), statement.start)
            return
        if name == "client_encoding" and value.lower().replace("-", "") not in ("utf8", "unicode", "default"):
            raise StatementError(ErrorResponse("this server speaks UTF8 only", "22023", "SET client_encoding = 'UTF8'"))
        settings = self.session.settings
        if len(value) > 1000 or (name not in settings and len(settings) >= MOST_SETTINGS):
            raise StatementError(sqlstates.TOO_MUCH)
        self.session.set(name, value, local=(found["how"] or "").upper() == "LOCAL")

    def _settle(self, text: str) -> Callable[[Connection], QueryOptions]:
        def task(db: Connection) -> QueryOptions:
            db.asked = self.session.asked
            db.settle(text)
            return db.asked

        return task

    async def _show(self, text: str, portal: Portal) -> StatementReply:
        words, asked, settings = text.split(), self.session.asked, self.session.settings
        name = words[1].strip('"').lower() if len(words) == 2 else ""
        own = {f"dpsql.{each}": getattr(asked, each) for each in SETTING_NAMES}
        if name not in own and name not in settings:
            return await self.catalogue.answer(text, portal)
        value = str(own[name] or "default") if name in own else settings[name]
        return self._lines(name, [value], "SHOW")

    async def _explain(self, statement: ClientStatement, portal: Portal) -> StatementReply:
        found, asked = _EXPLAIN.match(statement.text), self.session.asked
        assert found is not None
        if "ANALYZE" in found["options"].upper():
            raise StatementError(
                ErrorResponse("EXPLAIN ANALYZE would run the query", "0A000", "EXPLAIN shows what it would do and cost")
            )
        query = statement.text[found.end() :]

        def task(db: Connection) -> str:
            db.asked = asked
            return str(db.explain(query, portal.values or None))

        text = await self.asking.run("explain", task, statement.start + found.end())
        return self._lines("QUERY PLAN", text.splitlines(), "EXPLAIN")

    def _lines(self, name: str, lines: Sequence[str], tag: str) -> StatementReply:
        """Lines of text under a name."""
        rows = self.asking.room.rows(self.asking.user.analyst, [wire.data_row([line.encode()]) for line in lines])
        return StatementReply(wire.complete(tag), one_text(name), rows)


def _name(text: str) -> str:
    """A savepoint's name: in quotes it is taken as it is."""
    word = text.strip()
    return word[1:-1] if word[:1] == word[-1:] == '"' else word.lower()
