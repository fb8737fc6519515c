"""A process of its own that starts the empty databases, and ends them when the server is gone, however it went.

It is run as a script, with Python's standard library alone, and reads orders from its standard input. **Theorem.** Once
the server's process is gone, whether by SIGTERM in the middle of its start or by SIGKILL, no process and no folder of
the empty databases is left. **Proof.** The server starts this process and nothing else of them. It makes the one folder
in which they live and is the parent of their processes, orphans included (it is their subreaper). The end of the
server, of whatever kind, closes the pipe; the caretaker then ends each of its children, waits until it has none, and
removes the folder. **Requires** that nobody kills the caretaker itself: then its children get SIGKILL from the kernel,
and the folder is removed by the next start, as nobody holds its lock.
**Checked by** `tests/server/test_start_and_end.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PREFIX, LOCK = "dpsql-catalogue-", "lock"
PATIENCE = 5.0
"""Seconds in which a database may end by itself."""
NICENESS = 5
LONGEST = 60
"""Characters of the folder in which the databases' own is made."""
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
_PDEATHSIG, _SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    """Ask the kernel (Linux; elsewhere there is no such thing)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def sweep(parent: Path) -> None:
    """Remove what a caretaker that was killed left behind: folders of this user whose lock nobody holds."""
    for folder in parent.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.lstat().st_uid not in (os.geteuid(), *_unprivileged()[:1]):
                continue
            lock = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _unprivileged() -> tuple[int, ...]:
    """The user and group that the databases run as if this process is root, which PostgreSQL refuses to run as."""
    if os.geteuid() != 0:
        return ()
    import pwd

    names = {each.pw_name: (each.pw_uid, each.pw_gid) for each in pwd.getpwall()}
    return next((names[name] for name in ("pgserver", "postgres", "nobody") if name in names), ())


def _temporary() -> Path:
    """Where folders are made: at a short path, because sockets need one, which the databases can reach."""
    for place in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108
        reached = os.geteuid() != 0 or all(each.stat().st_mode & 0o001 for each in (place, *place.parents))
        if len(str(place)) <= LONGEST and reached:
            return place
    return Path("/tmp")  # noqa: S108


class Supervisor:
    """The folder, the processes in it, and their end."""

    def __init__(self) -> None:
        parent = _temporary()
        sweep(parent)
        self._user = _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if self._user:
            os.chown(self.folder, *self._user)
        self._children: dict[int, tuple[int, subprocess.Popen[bytes]]] = {}

    def start(self, number: int, words: list[str], given: str | None, memory: int | None) -> None:
        """Start a program in the folder; what it reads is a file there, and its memory is limited."""

        def limited() -> None:
            _prctl(_PDEATHSIG, signal.SIGKILL)
            for ignored in _IGNORED:
                signal.signal(ignored, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.nice(NICENESS)
            if memory is not None:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

        user: dict[str, Any] = {"user": self._user[0], "group": self._user[1], "extra_groups": ()} if self._user else {}
        with Path(given or os.devnull).open("rb") as source:
            child = subprocess.Popen(  # noqa: S603  (the server's own words)
                words, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}, preexec_fn=limited,  # noqa: PLW1509  (there is one thread)
                **user,
            )  # fmt: skip
        self._children[child.pid] = number, child

    def end(self, number: int) -> None:
        """Tell a database to end at once."""
        for order, child in self._children.values():
            if order == number:
                os.kill(child.pid, signal.SIGQUIT)  # it is waited for in one place only, so the id is still its own

    def reap(self) -> list[tuple[int, int]]:
        """Which programs have ended, and how; orphans are only waited for."""
        ended: list[tuple[int, int]] = []
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] in self._children:
                    number, child = self._children.pop(found[0])
                    child.returncode = os.waitstatus_to_exitcode(found[1])
                    ended.append((number, child.returncode))
        return ended

    def close(self) -> None:
        """End everything: at first politely, so that nothing stays in the kernel's tables either."""
        for pid in self._children:
            os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + PATIENCE
        while self._any(kill=time.monotonic() > deadline):
            time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _any(self, *, kill: bool) -> bool:
        """Is there a child left?"""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        for pid in _children_of(os.getpid()) if kill else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True


def _children_of(parent: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    return []


def main() -> None:
    """Follow orders until the input ends."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _prctl(_SUBREAPER, 1)
    caretaker = Supervisor()
    try:
        _say(folder=str(caretaker.folder))
        _follow(caretaker, woken)
    except (BrokenPipeError, ValueError):
        pass
    finally:
        caretaker.close()


def _follow(caretaker: Supervisor, woken: int) -> None:
    selector, rest = selectors.DefaultSelector(), b""
    selector.register(0, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while True:
        ready = {key.fd for key, _ in selector.select()}
        if woken in ready:
            os.read(woken, 4096)
        for number, code in caretaker.reap():
            _say(ended=number, code=code)
        if 0 in ready:
            got = os.read(0, 2**16)
            if not got:
                return
            *lines, rest = (rest + got).split(b"\n")
            for line in lines:
                _obey(caretaker, json.loads(line))


def _obey(caretaker: Supervisor, order: dict[str, Any]) -> None:
    if "end" in order:
        caretaker.end(order["end"])
        return
    try:
        caretaker.start(order["start"], order["words"], order["given"], order["memory"])
    except (OSError, subprocess.SubprocessError):
        _say(ended=order["start"], code=127)


def _say(**words: object) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


if __name__ == "__main__":
    main()
