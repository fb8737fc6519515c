"""The durable ledger: one SQLite file, append-only, hash-chained, shared by threads and processes.

Every change runs in one exclusive transaction: read what others appended, verify it, decide, append, commit
to disk. So all admissions have one serial order, and a charge is on disk before `reserve` returns.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpsql.budget.account import Ledger, LogEntry, Request, Stored
from dpsql.budget.accountant import Caps, Spent
from dpsql.budget.admission import Account, admit
from dpsql.budget.book import Book, write_charge
from dpsql.budget.chain import ROOT, Row, following
from dpsql.budget.event import Cost
from dpsql.budget.store import check, connect, create, damaged, entries, explained, fill, insert, last_number
from dpsql.errors import LedgerError

__all__ = ["Ledger", "LogEntry", "Request", "SqliteLedger", "Stored", "open_ledger"]


def open_ledger(path: str | Path, dataset: str, *, create: bool = True) -> Ledger:
    """The account of a dataset in a file; ":memory:" gives a throw-away one.

    A file that is not a ledger, is damaged, or belongs to another dataset is refused.
    """
    if not dataset:
        raise LedgerError("a ledger needs the name of its dataset")
    if str(path) == ":memory:":
        return SqliteLedger(_in_memory(dataset), ":memory:", dataset)
    place = str(Path(path).expanduser().resolve())
    with explained(place):
        if not os.path.lexists(place):
            _create(place, dataset, allowed=create)
        return SqliteLedger(connect(place), place, dataset)


def _create(place: str, dataset: str, *, allowed: bool) -> None:
    if not allowed:
        raise LedgerError(f"there is no ledger at {place}", hint="the steward creates it, or corrects the path")
    create(place, _first(dataset))


def _in_memory(dataset: str) -> sqlite3.Connection:
    db = connect(":memory:")
    fill(db, _first(dataset))
    return db


def _first(dataset: str) -> Row:
    salt = os.urandom(32).hex()
    return following(ROOT, 0, {"kind": "account", "at": _now(), "dataset": dataset, "salt": salt})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class SqliteLedger(Ledger):
    """A ledger in one SQLite file: a lock orders the threads of this process, SQLite's own the processes."""

    def __init__(self, db: sqlite3.Connection, path: str, dataset: str) -> None:
        """Verify the whole file; the connection is closed if it is refused."""
        self._db, self._path, self._process = db, path, os.getpid()
        self._lock = threading.Lock()
        self._book = Book()
        try:
            self._verify(dataset)
        except BaseException:
            db.close()
            raise

    def reserve(self, request: Request) -> int:
        """See `Ledger`. The transaction that checks the caps is the one that records the charge."""
        body = {
            "analyst": request.analyst,
            "charge": write_charge(request.charge),
            "cost": [repr(request.cost.epsilon), repr(request.cost.delta), repr(request.cost.rho)],
            "fingerprints": [fingerprint.hex() for fingerprint in request.fingerprints],
            "sql": request.sql,
        }
        with self._writing():
            admit(request.charge, request.cost, self._accounts(request))
            return self._append("charge", body)

    def spent(self, analyst: str | None) -> Spent:
        """See `Ledger`."""
        with self._reading():
            return self._book.spent(analyst)

    def store(self, entry: int, fingerprint: bytes, payload: bytes) -> None:
        """See `Ledger`. The chain holds the payload's digest, so a changed payload is never replayed."""
        key = fingerprint.hex()
        with self._writing():
            if not self._book.may_keep(entry, key):
                raise LedgerError(f"entry {entry} did not pay for this release, or it is kept already")
            digest = hashlib.sha256(payload).hexdigest()
            number = self._append("release", {"entry": entry, "fingerprint": key, "digest": digest})
            self._db.execute("INSERT INTO payload VALUES (?, ?)", (number, payload))

    def find(self, fingerprint: bytes) -> Stored | None:
        """See `Ledger`."""
        with self._reading():
            kept = self._book.kept.get(fingerprint.hex())
            if kept is None:
                return None
            row = self._db.execute("SELECT bytes FROM payload WHERE number = ?", (kept.number,)).fetchone()
            if row is None or hashlib.sha256(row[0]).hexdigest() != kept.digest:
                raise damaged(self._path, f"the release kept in entry {kept.number} was changed")
            analyst = self._book.paid(kept.entry)["analyst"]
            return Stored(kept.entry, analyst, row[0], self._book.charge(kept.entry))

    def replayed(self, entry: int, analyst: str | None, caps: Caps | None) -> bool:
        """See `Ledger`. Nothing is written, and no disk is waited for, unless there is something to count."""
        with self._reading():
            if not self._owes(entry, analyst):
                return False
        with self._writing():
            if analyst is None or not self._owes(entry, analyst):
                return False
            if caps is not None:
                cost = _read_cost(self._book.paid(entry))
                admit(self._book.charge(entry), cost, [(analyst, caps, self._book.spent(analyst))])
            self._append("replay", {"analyst": analyst, "entry": entry})
            return True

    def salt(self) -> bytes:
        """See `Ledger`."""
        return self._book.salt

    def record_fact(self, table: str, fact: str, data_version: str) -> None:
        """See `Ledger`. A fact that is known already is not written again."""
        with self._writing():
            if (table, fact) not in self._book.facts.get(data_version, ()):
                self._append("fact", {"table": table, "fact": fact, "data_version": data_version})

    def facts(self, data_version: str) -> frozenset[tuple[str, str]]:
        """See `Ledger`."""
        with self._reading():
            return frozenset(self._book.facts.get(data_version, ()))

    def log(self) -> Iterator[LogEntry]:
        """See `Ledger`."""
        with self._reading():
            rows = list(entries(self._db, 1))
        return map(_line, rows)

    def close(self) -> None:
        """See `Ledger`."""
        with self._lock:
            self._db.close()

    def _verify(self, dataset: str) -> None:
        with self._transaction("BEGIN"):
            check(self._db, self._path)
            self._catch_up()
        if self._book.dataset != dataset:
            raise LedgerError(
                f"the ledger {self._path} is the account of '{self._book.dataset}', not of '{dataset}'",
                hint="name the ledger of this dataset, or correct `dataset` in the policy",
            )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, self._transaction("BEGIN"):
            self._catch_up()
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, self._transaction("BEGIN IMMEDIATE"):
            self._catch_up()
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        """Commit, or roll back and raise. What was appended enters the book only by being read back."""
        if os.getpid() != self._process:
            raise LedgerError("a ledger does not survive a fork", hint="open it again in the new process")
        with explained(self._path):
            self._db.execute(begin)
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _catch_up(self) -> None:
        """Take in what was appended since; the last entry known must still be there, unchanged."""
        rows = entries(self._db, self._book.number)
        if self._book.number and self._book.head not in next(rows, ()):
            raise damaged(self._path, "entries that were there before are gone")
        try:
            self._book.extend(rows)
        except LedgerError as error:
            raise damaged(self._path, error.message) from error
        except (LookupError, TypeError, ValueError) as error:
            raise damaged(self._path) from error
        if not 1 <= self._book.number == last_number(self._db):
            raise damaged(self._path, "its last entries are missing")

    def _append(self, kind: str, body: dict[str, Any]) -> int:
        stamped = {"kind": kind, "at": _now(), **body}
        entry = following(self._book.head, self._book.number, stamped)
        insert(self._db, entry)
        return entry[0]

    def _owes(self, entry: int, analyst: str | None) -> bool:
        if entry not in self._book.charges:
            raise LedgerError(f"the ledger has no charge with number {entry}")
        return self._book.owes(entry, analyst)

    def _accounts(self, request: Request) -> list[Account]:
        """Those that must admit the request: the analyst's own, where it has a cap, inside the dataset's."""
        accounts = [(f"everyone on '{self._book.dataset}'", request.dataset_caps, self._book.spent(None))]
        if request.analyst is not None and request.analyst_caps is not None:
            accounts.insert(0, (request.analyst, request.analyst_caps, self._book.spent(request.analyst)))
        return accounts


def _line(entry: Row) -> LogEntry:
    body = json.loads(entry[1])
    at = datetime.fromisoformat(body["at"])
    cost = _read_cost(body) if "cost" in body else None
    return LogEntry(entry[0], at, body["kind"], body.get("analyst"), _text(body), cost)


def _text(body: dict[str, Any]) -> str:
    match body["kind"]:
        case "charge":
            return str(body["sql"])
        case "fact":
            return f"{body['table']}: {body['fact']} (data version {body['data_version']})"
        case "account":
            return f"account of dataset '{body['dataset']}'"
        case kind:
            return f"{kind} of entry {body['entry']}"


def _read_cost(body: dict[str, Any]) -> Cost:
    return Cost(*map(float, body["cost"]))
