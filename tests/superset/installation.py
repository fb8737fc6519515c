"""Superset from PyPI in a virtual environment of its own, made once and kept; each run gets a fresh copy of its home.

Superset pins older versions of what dpsql uses (SQLAlchemy 1.4, pandas 2.1), so the two never share an environment.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

PACKAGES = ("apache-superset==6.1.*", "rich", "cachetools", "flask-caching<2.5", "psycopg2-binary")
ADMIN = ("admin", "a password for the tour")
CONFIG = """\
import os
SECRET_KEY = {secret!r}
SQLALCHEMY_DATABASE_URI = "sqlite:///" + os.path.join(os.environ["SUPERSET_HOME"], "superset.db")
SQL_VALIDATORS_BY_ENGINE = {{}}  # the default wants the program ecpg
"""


def default_folder() -> Path:
    """Where the environment is kept between runs: DPSQL_SUPERSET, or the user's cache."""
    named = os.environ.get("DPSQL_SUPERSET")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "dpsql" / "superset"


def install(folder: Path) -> None:
    """Make the environment and an initialised home in it, unless they are there and made of the same packages."""
    done, made_of = folder / "made-of.txt", "\n".join((*PACKAGES, sys.version))
    if done.exists() and done.read_text() == made_of:
        return
    print(f"installing Superset in {folder}: minutes, once", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    subprocess.run([folder / "env/bin/pip", "install", "-qq", *PACKAGES], check=True)
    home = folder / "home"
    home.mkdir()
    (home / "superset_config.py").write_text(CONFIG.format(secret=secrets.token_hex(32)))
    name, password = ADMIN
    who = (
        "--username",
        name,
        "--password",
        password,
        "--firstname",
        "A",
        "--lastname",
        "Dmin",
        "--email",
        "a@b.invalid",
    )
    for words in (("db", "upgrade"), ("fab", "create-admin", *who), ("init",)):
        _superset(folder, home, *words)
    done.write_text(made_of)


def _superset(folder: Path, home: Path, *words: str) -> None:
    command = [folder / "env/bin/superset", *words]
    done = subprocess.run(command, env=_surroundings(home), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"superset {words[0]} failed:\n{done.stderr[-3000:]}")


def _surroundings(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLASK", "SUPERSET", "PYTHON"))}
    own = {"SUPERSET_HOME": home, "SUPERSET_CONFIG_PATH": home / "superset_config.py"}
    return {**kept, **{name: str(path) for name, path in own.items()}, "FLASK_APP": "superset.app:create_app()"}


@contextmanager
def running(folder: Path, home: Path) -> Iterator[str]:
    """Superset with a fresh home, on loopback; its address."""
    shutil.copytree(folder / "home", home)
    with socket.create_server(("127.0.0.1", 0)) as door, (home / "superset.log").open("w") as log:
        address, number = f"http://127.0.0.1:{door.getsockname()[1]}", door.fileno()
        words = ("-k", "gthread", "--threads", "8", "--timeout", "300", "-b", f"fd://{number}")
        command = [folder / "env/bin/gunicorn", *words, "superset.app:create_app()"]
        process = subprocess.Popen(command, env=_surroundings(home), stdout=log, stderr=log, pass_fds=[number])
    try:
        _wait(address, process, home / "superset.log")
        yield address
    finally:
        process.terminate()
        process.wait(60)


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=10):
                return
        except (URLError, TimeoutError, ConnectionError):
            time.sleep(0.5)
    raise SystemExit(f"Superset did not start:\n{log.read_text()[-3000:]}")
