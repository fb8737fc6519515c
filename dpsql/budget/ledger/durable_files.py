"""Durable file operations, and the file systems on which they cannot be relied on."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from dpsql.errors import LedgerError

_NETWORK = {
    "nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "ceph", "coda", "gfs", "gfs2",
    "ocfs2", "lustre", "gpfs", "beegfs", "pvfs2", "orangefs", "glusterfs", "davfs", "davfs2", "9p", "virtiofs",
    "vboxsf", "vmhgfs", "prl_fs", "drvfs", "wslfs", "sshfs",
}  # fmt: skip
_MOUNTS = Path("/proc/self/mountinfo")


def refuse_network(path: str) -> None:
    """A ledger needs locks and syncs that hold; over a network, or shared by a virtual machine, they may not."""
    kind = filesystem_of(path)
    if kind in _NETWORK or (kind.startswith("fuse.") and kind != "fuse.fuse-overlayfs"):
        raise LedgerError(
            f"the ledger {path} is on a {kind} file system, where locks and syncs cannot be relied on",
            hint="keep it on a local disk of the machine that answers, and let the others connect to that machine;"
            " `dpsql ledger backup` writes a copy to any place",
        )


def filesystem_of(path: str) -> str:
    """The type of the file system that holds a path, where the system tells; otherwise an empty text."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        point = _unescape(fields.split(" ")[4])
        if len(point) >= len(best) and (path == point or path.startswith(point.rstrip("/") + "/")):
            best, kind = point, rest.split(" ")[0]
    return kind


def sync_data(handle: int) -> None:
    """The content of a file whose size does not change, on disk; on a Mac also through the drive's own cache."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(handle)
        return
    try:
        import fcntl

        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined]
    except (ImportError, AttributeError, OSError):
        os.fsync(handle)


def sync_file(path: Path) -> None:
    """A file, or on systems that know it a directory, on disk."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporary_file(target: Path) -> Path:
    """A new empty file in the same directory, readable by its owner only."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    return Path(name)


def link_new(draft: Path, target: Path) -> bool:
    """Give a finished draft its name, unless something has it; whether it got it. The draft's own name goes."""
    try:
        os.link(draft, target)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
        sync_file(target.parent)
    return True


def create_file(target: Path, content: bytes) -> bool:
    """A small file, whole or not at all, unless one is there."""
    draft = temporary_file(target)
    try:
        draft.write_bytes(content)
        sync_file(draft)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return link_new(draft, target)


def _unescape(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda each: chr(int(each[1], 8)), point)
