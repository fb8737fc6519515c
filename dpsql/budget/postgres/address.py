"""The address of a server: what is dpsql's own in it, what libpq is told, and what people may see."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from dpsql.budget import storage
from dpsql.errors import InterfaceError, LedgerError

if TYPE_CHECKING:
    from dpsql.budget.postgres.patient import PatientConnection

_OWN = ("dataset", "witness")
_QUIET = 10.0
"""Seconds that a client may be silent inside a transaction, with the lock in hand, before the server ends it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect; which account, if the address says so; and the witness of this machine, if it has one."""

    name: str
    _told: str = field(repr=False)
    _secrets: tuple[str, ...] = field(repr=False)
    dataset: str | None = None
    witness: str | None = None

    def connect(self) -> PatientConnection:
        """A connection on which nothing waits for ever: each statement, each lock, and each silence has its end."""
        from psycopg.conninfo import conninfo_to_dict

        from dpsql.budget.postgres.patient import PatientConnection

        own = {"connect_timeout": "10", "tcp_user_timeout": f"{storage.PATIENCE * 1000:.0f}"}
        given = conninfo_to_dict(self._told)
        db = PatientConnection.connect(
            **{**own, **given, "application_name": "dpsql ledger", "client_encoding": "utf8"},  # type: ignore[arg-type]
            autocommit=True,
            prepare_threshold=None,
        )
        try:
            limits = {"statement_timeout": storage.PATIENCE, "lock_timeout": storage.PATIENCE}
            for name, seconds in {**limits, "idle_in_transaction_session_timeout": _QUIET}.items():
                db.execute("SELECT set_config(%s, %s, false)", (name, f"{seconds * 1000:.0f}"))
            db.execute("SET search_path = pg_catalog")
        except BaseException:
            db.close()
            raise
        return db.hear()

    def discreet(self, text: str) -> str:
        """A text of the server's or the driver's without any password of the address."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return " ".join(text.split())


def read_address(text: str) -> Address:
    """The parts of `postgresql://user@host/database?dataset=shop&witness=/var/lib/dpsql/shop`.

    What is wrong with it is never quoted: it may be the password.
    """
    try:
        import psycopg  # noqa: F401 - only whether it is there
    except ImportError:
        raise InterfaceError(
            "a ledger in PostgreSQL needs the package psycopg", hint="pip install 'dpsql[postgres]'"
        ) from None
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True)
        told = urlunsplit(
            parts._replace(query=urlencode([each for each in query if each[0] not in _OWN], quote_via=quote))
        )
        known = known_parts(told)
    except ValueError:
        raise LedgerError(
            "the address of the ledger cannot be read",
            hint="write postgresql://user@host:5432/database, with %-signs for what a URL does not take; the password"
            " is best kept in a password file (~/.pgpass) or in PGPASSWORD",
        ) from None
    own = {key: value for key, value in query if key in _OWN}
    secrets = tuple(str(known[key]) for key in ("password", "sslpassword") if known.get(key))
    return Address(_name(known), told, secrets, own.get("dataset"), own.get("witness"))


def known_parts(text: str) -> dict[str, Any]:
    """What libpq reads in an address; ValueError, without a word of it, where that cannot be what was meant."""
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        known = conninfo_to_dict(text)
    except Error:
        raise ValueError("no address") from None
    _refuse_strange(known)
    return known


def _refuse_strange(known: dict[str, Any]) -> None:
    """A password that was not written as a URL wants it would be read as a part of what people see."""
    shapes = {
        "host": r"[\w.:,%/\-]*",
        "hostaddr": r"[\w.:,%]*",
        "port": r"[\d,]*",
        "dbname": r"[^@/:]*",
        "user": r"[^@/:]*",
    }
    for key, shape in shapes.items():
        if not re.fullmatch(shape, str(known.get(key) or "")):
            raise ValueError(key)


def _name(known: dict[str, Any]) -> str:
    """Who, where and which database: as far as the address says so, and without what is secret."""
    user = f"{known['user']}@" if known.get("user") else ""
    host, port = str(known.get("host") or known.get("hostaddr") or ""), known.get("port")
    service = f"?service={known['service']}" if known.get("service") else ""
    return f"postgresql://{user}{host}{f':{port}' if port else ''}/{known.get('dbname') or ''}{service}"
