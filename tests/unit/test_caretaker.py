"""The process that starts the server's empty databases: where its folder is, what its children may do, and its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.interfaces.server import catalogue_supervisor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server does not run on Windows")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name that everybody can reach."""
    with tempfile.TemporaryDirectory(prefix="dpsql-care-", dir="/tmp") as name:
        made = Path(name)
        made.chmod(0o755)
        yield made


@pytest.mark.parametrize(("user", "mode", "taken"), [(0, 0o755, True), (0, 0o700, False), (1000, 0o700, True)])
def test_of_root_the_folder_is_where_the_databases_get_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch, user: int, mode: int, taken: bool
) -> None:
    folder.chmod(mode)
    monkeypatch.setattr(catalogue_supervisor.tempfile, "gettempdir", lambda: str(folder))
    monkeypatch.setattr(catalogue_supervisor.os, "geteuid", lambda: user)
    assert catalogue_supervisor._temporary() == (folder if taken else Path("/tmp"))


def test_a_folder_with_a_long_name_is_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for letters, taken in ((catalogue_supervisor.LONGEST, True), (catalogue_supervisor.LONGEST + 1, False)):
        place = folder / ("x" * (letters - len(str(folder)) - 1))
        place.mkdir()
        monkeypatch.setattr(catalogue_supervisor.tempfile, "gettempdir", lambda place=place: str(place))
        assert catalogue_supervisor._temporary() == (place if taken else Path("/tmp"))


def test_a_program_leaves_no_core_has_little_memory_and_its_folder_goes_with_the_server(folder: Path) -> None:
    words = [sys.executable, "-I", "-S", catalogue_supervisor.__file__]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        own = Path(json.loads(process.stdout.readline())["folder"])
        assert own.parent == folder and (own / catalogue_supervisor.LOCK).exists()
        script = "ulimit -c > limits; ulimit -Hc >> limits; ulimit -v >> limits; nice >> limits"
        order = {"start": 7, "words": ["/bin/sh", "-c", script], "given": None, "memory": 2**30}
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"ended": 7, "code": 0}
        niceness = os.nice(0) + catalogue_supervisor.NICENESS
        assert (own / "limits").read_text().split() == ["0", "0", str(2**20), str(min(niceness, 19))]
        process.stdin.close()
        assert process.wait(30) == 0
    assert list(folder.iterdir()) == []
