"""The systemd unit and the Containerfile of `examples/bi`: they parse, and their very command lines serve."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import psycopg
import pytest
from served import PASSWORD, run, start_words, stop

from dpsql.interfaces.cli.demo import make_shop

ROOT = Path(__file__).parents[2]
BI = ROOT / "examples" / "bi"


def unit() -> dict[str, list[str]]:
    """The unit's keys with all their values."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (BI / "dpsql.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def containerfile() -> dict[str, list[str]]:
    """The instructions with all their arguments."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (BI / "Containerfile").read_text().splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            found[word].append(rest)
    return found


def commands() -> dict[str, list[str]]:
    return {
        "systemd": shlex.split(unit()["ExecStart"][0]),
        "container": json.loads(containerfile()["CMD"][0]),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_shop(tmp_path)
    run(tmp_path, "user", "add", "ana", "--password-stdin", stdin=PASSWORD + "\n")
    return tmp_path


@pytest.mark.parametrize("kind", ["systemd", "container"])
def test_its_command_line_serves_the_folder_that_it_describes(folder: Path, kind: str) -> None:
    """Only the program's path, the address and the ports are others here; the health check of the container passes."""
    program, *words = commands()[kind]
    assert Path(program).name == "dpsql"
    places = {"--host": "127.0.0.1", "--port": "0", "--steward-port": "0"}
    assert places.keys() <= set(words)
    changed = [places.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    served = start_words(folder, changed)
    try:
        with psycopg.connect(served.dsn(sslmode="verify-full", sslrootcert=folder / "server.crt")) as db:
            assert db.execute("SELECT count(*) FROM customers").fetchone()
        check = json.loads(containerfile()["HEALTHCHECK"][0].partition(" CMD ")[2])
        text = check[2].replace(":9433/", f":{served.steward_port}/")
        subprocess.run([sys.executable, check[1], text], check=True, timeout=30)
    finally:
        assert stop(served) == 0
    assert {path.name for path in folder.iterdir() if path.stat().st_mode & 0o077} <= {
        "shop.duckdb", "policy.yaml", "server.crt", "server.log",
    }  # fmt: skip


def test_the_container_installs_what_the_project_offers_and_needs_no_root() -> None:
    made = containerfile()
    [extra] = re.findall(r"'/src\[(\w+)\]'", made["RUN"][0])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra in project["optional-dependencies"] and made["COPY"] == [". /src"]
    [version] = re.findall(r"python:(\d+\.\d+)", made["FROM"][0])
    lowest = project["requires-python"].removeprefix(">=")
    assert tuple(map(int, version.split("."))) >= tuple(map(int, lowest.split(".")))
    assert made["USER"] == ["dpsql"] and list(made).index("USER") < list(made).index("CMD")
    assert commands()["container"][-1] == "9433" and made["EXPOSE"] == [commands()["container"][-3]]


def test_the_unit_takes_away_what_a_server_does_not_need() -> None:
    keys = unit()
    for name in (
        "NoNewPrivileges",
        "ProtectHome",
        "PrivateTmp",
        "PrivateDevices",
        "RestrictNamespaces",
        "LockPersonality",
    ):
        assert keys[name] == ["yes"]
    assert keys["ProtectSystem"] == ["strict"] and keys["CapabilityBoundingSet"] == [""] and keys["UMask"] == ["0077"]
    assert keys["ReadWritePaths"] == keys["WorkingDirectory"] and keys["User"] == ["dpsql"]
    assert "HUP" in keys["ExecReload"][0]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (Debian: systemd)"
)
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / "dpsql.service"
    copy.write_text((BI / "dpsql.service").read_text().replace("/opt/dpsql/bin/dpsql", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    copy.write_text(copy.read_text().replace("ProtectHome=yes", "ProtectHom=yes"))
    wrong = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "ProtectHom" in wrong.stderr
