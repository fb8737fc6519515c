"""The address of a PostgreSQL server, for the engine and the ledger: what libpq is told, and what people may see."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMES = ("postgresql://", "postgres://")
HINT = (
    "write postgresql://user@host:5432/database, with %-signs for what a URL does not take; the password"
    " is best kept in a password file (~/.pgpass) or in PGPASSWORD"
)
_SHAPES = {
    "host": r"[\w.:,%/\-]*",
    "hostaddr": r"[\w.:,%]*",
    "port": r"[\d,]*",
    "dbname": r"[^@/:]*",
    "user": r"[^@/:]*",
    "service": r"[^@/:]*",
}


class NoAddress(ValueError):
    """The text is no address; what is wrong with it is never quoted, as it may be the password."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """What libpq reads in an address, of which people see only who, where and which database."""

    told: Mapping[str, Any] = field(repr=False, hash=False)

    @property
    def place(self) -> str:
        """Where a database is, without who asks and how."""
        return self._named("")

    @property
    def name(self) -> str:
        """Who, where and which database, as far as the address says so."""
        return self._named(f"{self.told['user']}@" if self.told.get("user") else "")

    @property
    def written(self) -> str:
        """The same as an address that can be given again: a socket's folder is no part of a URL's path."""
        host = str(self.told.get("host") or "")
        if not host.startswith("/"):
            return self.name
        user = f"{self.told['user']}@" if self.told.get("user") else ""
        port = f"&port={self.told['port']}" if self.told.get("port") else ""
        return f"postgresql://{user}/{self.told.get('dbname') or ''}?host={host}{port}"

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(str(self.told[key]) for key in ("password", "sslpassword") if self.told.get(key))

    def _named(self, user: str) -> str:
        host, port = str(self.told.get("host") or self.told.get("hostaddr") or ""), self.told.get("port")
        host = f"[{host}]" if ":" in host and "," not in host else host
        service = f"?service={self.told['service']}" if self.told.get("service") else ""
        return f"postgresql://{user}{host}{f':{port}' if port else ''}/{self.told.get('dbname') or ''}{service}"


def read_server(text: str) -> ServerAddress:
    """The address as libpq reads it.

    A password that is not written as a URL wants it (with `/`, `?` or `@`) would be read as a part of what people see:
    parts that do not look like what they stand for are refused.
    """
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        told = conninfo_to_dict(text)
    except (ValueError, Error):
        raise NoAddress from None
    if not all(re.fullmatch(shape, str(told.get(key) or "")) for key, shape in _SHAPES.items()):
        raise NoAddress
    return ServerAddress(told)
