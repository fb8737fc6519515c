"""Server failures as LedgerErrors that state what was charged and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpsql.errors import LedgerError

if TYPE_CHECKING:
    from psycopg import Error

    from dpsql.budget.ledger.postgres.server_connection import LedgerAddress

NOTHING = "nothing was charged"
"""True of all that fails in a transaction before its commit."""
AT_MOST = "nothing was released, and at most this one query was charged"
"""All that can be said outside of one: the query that reads may be the one that has just been charged."""


@contextmanager
def explained(address: LedgerAddress, safe: str) -> Iterator[None]:
    """Every failure of the driver or the server by its meaning; no password of the address is in any of them."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise explain(address, error, safe) from None


def explain(address: LedgerAddress, error: Error, safe: str) -> LedgerError:
    """One failure, by its SQLSTATE; without one the connection itself failed."""
    where, state = f"the ledger {address.name}", error.sqlstate or ""
    if state in ("55P03", "57014"):
        return LedgerError(
            f"{where} is busy: another session holds it, or its server makes no progress; {safe}",
            hint="try again in a moment; if it stays, look for `dpsql ledger` in the server's pg_stat_activity",
        )
    if state == "42501":
        return LedgerError(
            f"{where} is closed to this role: {_said(address, error)}; {safe}",
            hint="its owner grants USAGE on the schema dpsql_ledger, and SELECT and INSERT on both of its tables",
        )
    if state in ("53100", "53200"):
        return LedgerError(
            f"the server of {where} is out of memory or disk space; {safe}, and what was charged before is kept",
            hint="free some space and ask again: the ledger needs no repair",
        )
    if state in ("23001", "23503", "23505"):
        return LedgerError(
            f"{where} rejected the entry because another one was written in the meantime: something wrote it without"
            f" its lock; {safe}",
            hint="ask again; if it stays, see `dpsql ledger verify`",
        )
    if state == "25006":
        return read_only(address)
    return LedgerError(
        f"{where} cannot be read or written: {_said(address, error)}; {safe}",
        hint="check that the server runs and that this machine and role may connect to it; then ask again",
    )


def read_only(address: LedgerAddress) -> LedgerError:
    """A standby, or a database that takes no writes."""
    return LedgerError(
        f"the ledger {address.name} is refused: that server is a read-only replica, which may lag behind",
        hint="name the primary server; with several hosts add target_session_attrs=read-write to the address",
    )


def unsafe(address: LedgerAddress, setting: str) -> LedgerError:
    """A server that may forget what it has confirmed."""
    return LedgerError(
        f"the ledger {address.name} is refused: its server has {setting}, so a charge could be lost in a crash;"
        " nothing was charged",
        hint=f"set {setting.partition(' ')[0]} = on in postgresql.conf and reload the server",
    )


def unknown(address: LedgerAddress) -> LedgerError:
    """The connection went while a charge was being made, and the server cannot be asked."""
    return LedgerError(
        f"the connection to the ledger {address.name} was lost during a commit, and the server cannot be asked about"
        " it; nothing was released, and the query counts as charged if the commit arrived",
        hint="ask again when the server is back: `dpsql ledger log` shows whether it was charged",
    )


def lost(address: LedgerAddress) -> LedgerError:
    """The connection went, and the server says that nothing was written."""
    return LedgerError(
        f"the connection to the ledger {address.name} was lost before the charge was made; nothing was charged",
        hint="ask again",
    )


def not_replicated(address: LedgerAddress) -> LedgerError:
    """The server confirmed a commit with a warning: a standby that it should have waited for did not answer."""
    return LedgerError(
        f"the ledger {address.name} has the charge, but its server warned that a standby may not; nothing was released",
        hint="see the server's log and its synchronous standbys, then ask again",
    )


def closed(address: LedgerAddress) -> LedgerError:
    """After `close`."""
    return LedgerError(f"the ledger {address.name} is closed", hint="open it again")


def _said(address: LedgerAddress, error: Error) -> str:
    return address.discreet(error.diag.message_primary or str(error) or type(error).__name__)
