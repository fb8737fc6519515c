"""A server for the audit, as a steward starts it, for as long as a check asks it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpsql.errors import OperationalError

PASSWORD = "a password for the audit only"  # noqa: S105 - of a server that lives as long as the check


@contextmanager
def served(folder: Path, database: str, analyst: str) -> Iterator[tuple[int, int]]:
    """`dpsql serve` of a database in a folder, in a process of its own: its port and its number."""
    start = [sys.executable, "-u", "-m", "dpsql"]
    add = [*start, "user", "add", analyst, "--password-stdin"]
    subprocess.run(add, cwd=folder, input=PASSWORD + "\n", text=True, check=True, capture_output=True)  # noqa: S603
    command, words = [*start, "serve", database, "--port", "0"], {**os.environ, "COLUMNS": "200"}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env=words)  # noqa: S603
    assert process.stdout is not None
    try:
        line = next((found for said in process.stdout if (found := re.search(r"on 127\.0\.0\.1:(\d+) ", said))), None)
        if line is None:
            raise OperationalError(f"the server did not start: {(folder / 'server.log').read_text()[-300:]}")
        yield int(line[1]), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
