"""Sessions on a PostgreSQL server: read-only, with all settings made before the first query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import psycopg
from psycopg.adapt import Loader

from dpsql.cancellation import interruptible, run_after
from dpsql.engines.base import Resources
from dpsql.engines.postgres.total_functions import statements
from dpsql.errors import InterfaceError
from dpsql.server_address import ServerAddress
from dpsql.steward_log import failed

Session = psycopg.Connection[Any]
SETTINGS = {
    "search_path": "pg_catalog", "TimeZone": "UTC", "DateStyle": "ISO, YMD", "IntervalStyle": "postgres",
    "extra_float_digits": "1", "standard_conforming_strings": "on", "bytea_output": "hex",
    "lc_numeric": "C", "lc_monetary": "C", "lc_time": "C", "row_security": "off", "jit": "off", "xmloption": "content",
    "array_nulls": "on", "transform_null_equals": "off", "backslash_quote": "safe_encoding",
    "idle_in_transaction_session_timeout": "600s", "lock_timeout": "30s", "default_transaction_read_only": "on",
}  # fmt: skip
"""What the emitted SQL relies on, and what keeps a session from hanging or writing."""
_NETWORK = {
    "connect_timeout": "10", "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3",
    "tcp_user_timeout": "30000", "application_name": "dpsql", "client_encoding": "UTF8",
}  # fmt: skip


_FIRST = (
    "SELECT current_schemas(false)::text[], current_setting('server_encoding'), "
    "current_setting('server_version_num')::int"
)


class NumericLoader(Loader):
    """A `numeric` is a decimal, or without a point a whole number of any length."""

    def load(self, data: Any) -> Any:
        from decimal import Decimal

        written = bytes(data).decode()
        return int(written) if written.lstrip("-").isdigit() else Decimal(written)


def open_session(address: ServerAddress, limits: Resources) -> tuple[Session, list[str]]:
    """Open a session with its settings, and return the schemas in which table names are looked up."""
    session = _connected(address)
    try:
        with session.cursor() as cursor:
            [(schemas, encoding, version)] = cursor.execute(_FIRST).fetchall()
            if encoding != "UTF8" or version < 140000:
                raise InterfaceError(
                    "dpsql reads databases in UTF-8, of PostgreSQL 14 or later",
                    hint=f"this one is in {encoding}, of version {version // 10000}",
                )
            cursor.execute("; ".join([*statements(), *_settings(limits)]))
            if limits.spill is not None:
                _attempt(cursor, f"SET temp_file_limit = '{max(limits.spill // 1024, 1)}kB'")
    except psycopg.Error as problem:
        session.close()
        failed("a session of the database server cannot be settled", problem)
        raise InterfaceError(
            f"the role may not do what dpsql needs in {address.place}",
            hint="it needs TEMPORARY on the database, for functions that vanish with the session, and SELECT on tables:"
            " GRANT TEMPORARY ON DATABASE … TO …; GRANT SELECT ON … TO …",
        ) from None
    except BaseException:
        session.close()
        raise
    return session, list(schemas)


def _connected(address: ServerAddress) -> Session:
    try:
        session = psycopg.connect(**{**_NETWORK, **address.told}, autocommit=True, prepare_threshold=None)
    except psycopg.Error as problem:
        failed("the database server cannot be reached", problem)
        session = None
    if session is None:
        raise InterfaceError(
            f"the database server cannot be reached, or refuses this user: {address.place}",
            hint="check the address, postgresql://user@host:5432/database, the user,"
            " and the password in ~/.pgpass or PGPASSWORD",
        )
    session.adapters.register_loader("numeric", NumericLoader)
    return session


def _settings(limits: Resources) -> list[str]:
    memory = {} if limits.memory is None else {"work_mem": f"{max(limits.memory // 4096, 64)}kB"}
    return [f"SET SESSION {name} = '{value}'" for name, value in {**SETTINGS, **memory}.items()]


def _attempt(cursor: Any, text: str) -> None:
    """A setting that not every role may change; where it may not, the server's own limit holds."""
    with suppress(psycopg.Error):
        cursor.execute(text)


@contextmanager
def stopped_after(seconds: float | None, session: Session) -> Iterator[None]:
    """What runs in the transaction is stopped after so many seconds: by the server, and if it does not, from here.

    So it is, from here, once nobody waits for it.

    Whether a query is answered then depends on how long it takes; see `dpsql.engines.duckdb.engine`, which holds here.
    """
    with interruptible(partial(_cancel, session)):
        if seconds is None:
            yield
            return
        session.execute(f"SET LOCAL statement_timeout = {max(int(seconds * 1000), 1)}")
        with run_after(seconds + 0.2, partial(_cancel, session)):
            yield


def _cancel(session: Session) -> None:
    with suppress(Exception):
        session.cancel_safe(timeout=10)
