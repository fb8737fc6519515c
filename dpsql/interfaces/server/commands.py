"""What a client says about its session: transactions, SET, SHOW, EXPLAIN, and what is only taken note of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpsql.interfaces.server import faults, wire
from dpsql.interfaces.server.asking import Asking
from dpsql.interfaces.server.catalogue import Catalogue
from dpsql.interfaces.server.columns import one_text
from dpsql.interfaces.server.faults import Stop
from dpsql.interfaces.server.portal import Portal, Reply, Shelf
from dpsql.interfaces.server.statements import Statement
from dpsql.interfaces.server.wire import Fault
from dpsql.parse import Asked, read_setting

if TYPE_CHECKING:
    from dpsql.session import Connection

MOST_SETTINGS = 200
_TRACKED = {"application_name": "application_name", "datestyle": "DateStyle", "timezone": "TimeZone"}
_SET = re.compile(r"\s*SET\s+(?:(?:SESSION|LOCAL)\s+)?(?P<name>[\w.]+)\s*(?:=|\bTO\b)(?P<value>.*)", re.I | re.S)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s*(?P<options>\([^)]*\)|(?:(?:ANALYZE|VERBOSE)\b\s*)*)", re.I)
_BACK = re.compile(r"\s*ROLLBACK\s+(?:WORK\s+|TRANSACTION\s+)?TO\b", re.I)
_TAGS = {"begin": "BEGIN", "set": "SET", "reset": "RESET", "discard": "DISCARD ALL", "deallocate": "DEALLOCATE",
         "listen": "LISTEN", "close": "CLOSE CURSOR"}  # fmt: skip


@dataclass(slots=True)
class Session:
    """What a client has set so far. `status` is the protocol's: I(dle), T(ransaction), E(rror in one)."""

    status: str = "I"
    asked: Asked = field(default_factory=Asked)
    settings: dict[str, str] = field(default_factory=dict)

    def failed(self) -> None:
        """A statement did not succeed."""
        self.status = "E" if self.status in "TE" else "I"


@dataclass(slots=True)
class Commands:
    """The commands of one client."""

    session: Session
    shelf: Shelf
    asking: Asking
    catalogue: Catalogue

    async def answer(self, statement: Statement, portal: Portal) -> Reply:
        """Do what a command says."""
        match statement.word:
            case "begin" | "commit" | "rollback" | "savepoint":
                return Reply(wire.complete(self._transaction(statement)))
            case "set":
                return Reply(wire.complete("SET"), tail=await self._set(statement))
            case "reset":
                self.session.asked = read_setting(statement.text, self.session.asked) or self.session.asked
            case "discard" | "deallocate":
                if statement.word == "discard" or re.search(r"\bALL\b", statement.text, re.I):
                    self.shelf.prepared.clear()
            case "copy":
                raise Stop(faults.COPY)
            case "explain":
                return await self._explain(statement, portal)
            case "show":
                return await self._show(statement.text, portal)
        return Reply(wire.complete(_TAGS[statement.word]))

    def _transaction(self, statement: Statement) -> str:
        """Nothing can be undone, so a transaction is only a state of the conversation; its tag."""
        session, word = self.session, statement.word
        if word == "savepoint":
            return statement.text.split()[0].upper()
        if word == "begin":
            session.status = "T"
            return "BEGIN"
        if word == "rollback":
            session.status = "T" if _BACK.match(statement.text) and session.status in "TE" else "I"
            return "ROLLBACK"
        failed, session.status = session.status == "E", "I"
        return "ROLLBACK" if failed else "COMMIT"

    async def _set(self, statement: Statement) -> bytes:
        """Take in `SET`: what dpsql knows, what clients need; the rest is taken for a setting of theirs, and kept."""
        found = _SET.match(statement.text)
        if found is None:
            return b""
        name, value = found["name"].lower(), found["value"].strip().strip("'\"")
        if name.startswith("dpsql."):
            self.session.asked = await self.asking.run("set", self._settle(statement.text), statement.start)
            return b""
        if name == "client_encoding" and value.lower().replace("-", "") not in ("utf8", "unicode", "default"):
            raise Stop(Fault("this server speaks UTF8 only", "22023", "SET client_encoding = 'UTF8'"))
        settings = self.session.settings
        if len(value) > 1000 or (name not in settings and len(settings) >= MOST_SETTINGS):
            raise Stop(faults.TOO_MUCH)
        settings[name] = value
        tracked = _TRACKED.get(name)
        return b"" if tracked is None else wire.parameter_status(tracked, value)

    def _settle(self, text: str) -> Callable[[Connection], Asked]:
        def task(db: Connection) -> Asked:
            db.asked = self.session.asked
            db.settle(text)
            return db.asked

        return task

    async def _show(self, text: str, portal: Portal) -> Reply:
        words, asked, settings = text.split(), self.session.asked, self.session.settings
        name = words[1].strip('"').lower() if len(words) == 2 else ""
        own = {"dpsql.epsilon": asked.epsilon, "dpsql.delta": asked.delta, "dpsql.mechanism": asked.mechanism}
        if name not in own and name not in settings:
            return await self.catalogue.answer(text, portal)
        value = str(own[name] or "default") if name in own else settings[name]
        return self._lines(name, [value], "SHOW")

    async def _explain(self, statement: Statement, portal: Portal) -> Reply:
        found, asked = _EXPLAIN.match(statement.text), self.session.asked
        assert found is not None
        if "ANALYZE" in found["options"].upper():
            raise Stop(Fault("EXPLAIN ANALYZE would run the query", "0A000", "EXPLAIN shows what it would do and cost"))
        query = statement.text[found.end() :]

        def task(db: Connection) -> str:
            db.asked = asked
            return str(db.explain(query, portal.values or None))

        text = await self.asking.run("explain", task, statement.start + found.end())
        return self._lines("QUERY PLAN", text.splitlines(), "EXPLAIN")

    def _lines(self, name: str, lines: Sequence[str], tag: str) -> Reply:
        """Lines of text under a name."""
        rows = self.asking.room.rows(self.asking.user.analyst, [wire.data_row([line.encode()]) for line in lines])
        return Reply(wire.complete(tag), one_text(name), rows)
