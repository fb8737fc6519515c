"""Files that are on disk when a call returns, whole or not at all; and which file system holds a path."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dpsql.budget.ledger import durable_files
from dpsql.budget.ledger.durable_files import (
    create_file,
    filesystem_of,
    link_new,
    refuse_network,
    sync_data,
    sync_file,
    temporary_file,
)
from dpsql.errors import LedgerError

MOUNTS = """\
22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:40 / /mnt/a rw,noatime shared:7 - nfs4 server:/x - rw
31 30 0:41 / /mnt/a/my\\040disk rw - xfs /dev/b rw
32 30 0:42 / /mnt/a/t\\011\\134 rw - btrfs /dev/c rw
40 22 0:43 / /srv rw - tmpfs none rw
41 40 0:44 / /srv rw - zfs pool rw
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "mountinfo"
    file.write_text(MOUNTS)
    monkeypatch.setattr(durable_files, "_MOUNTS", file)
    return file


def opened() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/x.ledger", "ext4"),
        ("/mnt/a", "nfs4"),
        ("/mnt/a/x.ledger", "nfs4"),
        ("/mnt/ab/x.ledger", "ext4"),
        ("/mnt/a/my disk/x.ledger", "xfs"),
        ("/mnt/a/my disks/x.ledger", "nfs4"),
        ("/mnt/a/t\t\\/x.ledger", "btrfs"),
        ("/srv/x.ledger", "zfs"),
    ],
)
@pytest.mark.usefixtures("mounts")
def test_a_path_is_held_by_the_innermost_mount_and_of_two_at_one_place_by_the_later(path: str, kind: str) -> None:
    assert filesystem_of(path) == kind


def test_the_order_of_the_mounts_does_not_matter_where_one_lies_inside_the_other(mounts: Path) -> None:
    mounts.write_text("".join(reversed(MOUNTS.splitlines(keepends=True)[:4])))
    assert [filesystem_of(path) for path in ("/x", "/mnt/a/x", "/mnt/a/my disk/x")] == ["ext4", "nfs4", "xfs"]


def test_where_the_system_does_not_tell_nothing_is_refused(mounts: Path) -> None:
    mounts.unlink()
    assert filesystem_of("/mnt/a/x.ledger") == ""
    refuse_network("/mnt/a/x.ledger")


@pytest.mark.parametrize(
    ("kind", "fine"),
    [
        ("ext4", True),
        ("overlay", True),
        ("fuse.fuse-overlayfs", True),
        ("fuse.sshfs", False),
        ("fuse.x", False),
        ("nfs", False),
        ("virtiofs", False),
    ],
)
def test_only_local_file_systems_hold_a_ledger(mounts: Path, kind: str, fine: bool) -> None:
    mounts.write_text(f"22 1 254:0 / / rw - {kind} /dev/vda rw\n")
    if fine:
        refuse_network("/x.ledger")
    else:
        with pytest.raises(LedgerError, match=f"on a {kind} file system"):
            refuse_network("/x.ledger")


def test_content_is_synced_by_the_best_call_that_the_system_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux has fdatasync; a Mac F_FULLFSYNC, after which nothing is left to do; where neither works there is fsync."""
    import fcntl

    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda handle: calls.append("fdatasync"))
    monkeypatch.setattr(fcntl, "fcntl", lambda handle, what: calls.append(f"fcntl {what}"))
    with (tmp_path / "file").open("wb") as file:
        sync_data(file.fileno())
        monkeypatch.delattr(os, "fdatasync")
        sync_data(file.fileno())
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        sync_data(file.fileno())
    assert calls == ["fdatasync", "fsync", "fcntl 51"]


@pytest.mark.parametrize(("name", "directory"), [("posix", True), ("nt", False)])
def test_files_are_synced_everywhere_and_directories_where_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, directory: bool
) -> None:
    file, synced = tmp_path / "file", list[bool]()
    file.write_bytes(b"x")
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(stat.S_ISDIR(os.fstat(handle).st_mode)))
    before = opened()
    with monkeypatch.context() as system:
        system.setattr(os, "name", name)
        sync_file(file)
        sync_file(tmp_path)
    assert synced == [False, True][: 1 + directory]
    assert opened() == before


def test_a_draft_is_its_owners_and_stands_beside_its_target(tmp_path: Path) -> None:
    before = opened()
    draft = temporary_file(tmp_path / "shop.ledger")
    assert opened() == before
    assert (draft.parent, draft.read_bytes(), stat.S_IMODE(draft.stat().st_mode)) == (tmp_path, b"", 0o600)
    assert draft.name.startswith(".shop.ledger.")


def test_a_new_file_is_whole_and_never_replaces_another(tmp_path: Path) -> None:
    target = tmp_path / "x.head"
    assert create_file(target, b"first")
    assert not create_file(target, b"second")
    assert target.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [target]


def test_the_name_of_a_new_file_is_on_disk_also_for_the_loser_of_a_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable_files, "sync_file", synced.append)
    target = tmp_path / "x.head"
    for _ in range(2):
        link_new(temporary_file(target), target)
    assert synced == [tmp_path, tmp_path]
    create_file(target, b"x")
    assert synced[2].name.startswith(".x.head.") and synced[3] == tmp_path


def test_a_file_that_could_not_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        create_file(tmp_path / "x.head", "text")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_who_clears_drafts_away_neither_undoes_a_file_nor_hides_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, link = tmp_path / "x.head", os.link

    def link_and_clear(draft: Path, name: Path) -> None:
        link(draft, name)
        draft.unlink()

    def clear_and_fail(draft: Path) -> None:
        draft.unlink()
        raise KeyError

    monkeypatch.setattr(os, "link", link_and_clear)
    assert create_file(target, b"x") and target.read_bytes() == b"x"
    monkeypatch.setattr(durable_files, "sync_file", clear_and_fail)
    with pytest.raises(KeyError):
        create_file(target, b"y")
