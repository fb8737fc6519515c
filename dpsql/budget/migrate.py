"""From the first version of the file to this one: the same entries, in the same order, in a new chain."""

from __future__ import annotations

import json
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpsql.budget import storage, store
from dpsql.budget.chain import ROOT, Row, following
from dpsql.budget.durable import refuse_network
from dpsql.budget.file_place import FilePlace, put_in_place
from dpsql.budget.head import Head
from dpsql.budget.ledger import named, open_ledger
from dpsql.budget.places import place_of
from dpsql.budget.rescue import Restored
from dpsql.budget.storage import Payloads
from dpsql.budget.store import damaged, explained
from dpsql.budget.whole import end_of
from dpsql.errors import LedgerError

_OLD_ROOT = sha256(b"dpsql ledger 1").digest()


def migrate(path: str | Path, by: str) -> Restored | None:
    """Rewrite a ledger of an older version; None if it has this version already.

    The old file is put aside, whole. The new chain begins again, so its last entry names the hash at which the old
    one ended.
    """
    named(by)
    where = place_of(path)
    if not isinstance(where, FilePlace):
        raise LedgerError(f"{where.name} is no file", hint="only files were written by an older dpsql")
    place = where.name
    with explained(place):
        refuse_network(place)
        if not Path(place).is_file():
            raise LedgerError(f"there is no ledger at {place}", hint="check the path")
        with closing(store.connect(place)) as db:
            if db.execute("PRAGMA application_id").fetchone() != (store.APPLICATION,):
                raise damaged(place)
            if db.execute("PRAGMA user_version").fetchone() != (1,):
                open_ledger(place, None, create=False).close()
                return None
            db.execute("BEGIN EXCLUSIVE")
            rows = _rechained(db.execute("SELECT number, body, hash FROM entry ORDER BY number").fetchall(), place, by)
            return _exchange(place, rows, list(store.payloads(db)))


def _exchange(place: str, rows: list[Row], payloads: Payloads) -> Restored:
    """A migration that was cut short leaves the same head, because it depends on nothing but the file and the name."""
    head, mark = Head(place), end_of(place, rows)
    head.create(mark)
    with head.locked(storage.PATIENCE):
        if head.read() != mark:
            raise damaged(place, f"it has an old version, but {head.path} is of a new one")
        return Restored(mark, 0, put_in_place(place, head, rows, payloads))


def _rechained(old: list[tuple[int, str, bytes]], place: str, by: str) -> list[Row]:
    rows: list[Row] = []
    ended, head = _OLD_ROOT, ROOT
    for number, text, digest in old:
        ended = sha256(ended + b"%d " % number + text.encode()).digest()
        if number != len(rows) + 1 or digest != ended:
            raise damaged(place, f"entry {len(rows) + 1} is missing or was changed")
        rows.append(following(head, len(rows), *_translated(json.loads(text))))
        head = rows[-1][4]
    body = {"at": json.loads(old[-1][1])["at"] if old else "", "by": by, "version": 1, "ended": ended.hex()}
    return [*rows, following(head, len(rows), "migrate", [], body)]


def _translated(told: dict[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    """Kind, gist and body of an old entry."""
    kind, at = told["kind"], {"at": told["at"]}
    match kind:
        case "charge":
            charge = [None if part is None else int(part) for part in told["charge"]]
            return kind, [told["analyst"], *charge], at | {key: told[key] for key in ("cost", "fingerprints", "sql")}
        case "release":
            return kind, [told["entry"], told["fingerprint"], told["digest"]], at
        case "replay":
            return kind, [told["analyst"], told["entry"]], at
        case "fact":
            return kind, [told["table"], told["fact"], told["data_version"]], at
        case "account":
            return kind, [told["dataset"], told["salt"]], at
    raise LedgerError(f"an entry is of a kind that this dpsql does not know: {kind}")
