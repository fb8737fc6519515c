"""The address of a ledger: the server's, with what is dpsql's own in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from dpsql.budget import storage
from dpsql.errors import InterfaceError, LedgerError
from dpsql.server_address import HINT, ServerAddress, read_server

if TYPE_CHECKING:
    from dpsql.budget.postgres.patient import PatientConnection

_OWN = ("dataset", "witness")
_QUIET = 10.0
"""Seconds that a client may be silent inside a transaction, with the lock in hand, before the server ends it."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect; which account, if the address says so; and the witness of this machine, if it has one."""

    server: ServerAddress
    dataset: str | None = None
    witness: str | None = None

    @property
    def name(self) -> str:
        return self.server.name

    def connect(self) -> PatientConnection:
        """A connection on which nothing waits for ever: each statement, each lock, and each silence has its end."""
        from dpsql.budget.postgres.patient import PatientConnection

        own = {"connect_timeout": "10", "tcp_user_timeout": f"{storage.PATIENCE * 1000:.0f}"}
        db = PatientConnection.connect(
            **{**own, **self.server.told, "application_name": "dpsql ledger", "client_encoding": "utf8"},
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
        for secret in self.server.secrets:
            text = text.replace(secret, "…")
        return " ".join(text.split())


def read_address(text: str) -> Address:
    """The parts of `postgresql://user@host/database?dataset=shop&witness=/var/lib/dpsql/shop`."""
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True)
        others = urlencode([each for each in query if each[0] not in _OWN], quote_via=quote)
        server = read_server(urlunsplit(parts._replace(query=others)))
    except ImportError:
        raise InterfaceError(
            "a ledger in PostgreSQL needs the package psycopg", hint="pip install 'dpsql[postgres]'"
        ) from None
    except ValueError:
        raise LedgerError("the address of the ledger cannot be read", hint=HINT) from None
    own = {key: value for key, value in query if key in _OWN}
    return Address(server, own.get("dataset"), own.get("witness"))
