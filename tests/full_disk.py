"""A disk that is really full: a small one in memory, which only root may make."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NoDisk(Exception):
    """This user may not make one."""


@contextmanager
def disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """So much room in a folder, for as long as the block lasts."""
    folder.mkdir(exist_ok=True)
    if not _done("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)):
        raise NoDisk
    try:
        yield folder
    finally:
        _done("umount", "-l", str(folder))


def grown(folder: Path, kilobytes: int) -> None:
    """The steward finds more room."""
    assert _done("mount", "-o", f"remount,size={kilobytes}k", str(folder))


def _done(*words: str) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
