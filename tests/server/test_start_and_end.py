"""However a server ends, and whenever, it leaves no process and no folder: `python tests/server/test_start_and_end.py 60`
interrupts so many starts at random moments."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from inside import make, until

from dpsql.interfaces.server.catalogue_supervisor import PREFIX, sweep

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)


@contextmanager
def temporary() -> Iterator[Path]:
    """A folder for temporary files with a short name, which databases that run as nobody can reach."""
    folder = Path(tempfile.mkdtemp(prefix="dpsql-end-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def belonging(folder: Path) -> list[int]:
    """Processes that know of the folder: by their words, their environment or where they are."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            known = (each / "environ").read_bytes() + (each / "cmdline").read_bytes() + bytes((each / "cwd").readlink())
        except OSError:
            continue
        if str(folder).encode() in known and int(each.name) != os.getpid():
            found.append(int(each.name))
    return found


def serve(shop: Path, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dpsql", "serve", "shop.duckdb", "--port", "0", *words]
    return subprocess.Popen(
        command, cwd=shop, env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )  # fmt: skip


def interrupted(shop: Path, number: signal.Signals, moment: float, *, begun: bool, words: tuple[str, ...] = ()) -> str:
    """Start a server, send it a signal, and look at what is left; `begun`: the moment counts from its first folder on."""
    with temporary() as folder:
        server = serve(shop, folder, *words)
        if begun:
            assert until(lambda: any(folder.iterdir()), 60)
        time.sleep(moment)
        server.send_signal(number)
        server.wait(60)
        gone = until(lambda: not belonging(folder) and not any(folder.iterdir()), 30)
        left = "" if gone else f"{number.name} after {moment:.3f}: {belonging(folder)} {[*folder.iterdir()]}"
        for each in belonging(folder):
            os.kill(each, signal.SIGKILL)
        return left


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    make(folder)
    return folder


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("part", [0.0, 0.3])
def test_a_start_that_is_interrupted_leaves_nothing(shop: Path, number: signal.Signals, part: float) -> None:
    assert interrupted(shop, number, part + random.random() * 0.5, begun=True) == ""


def test_a_killed_server_leaves_nothing_of_its_engines_process_either(shop: Path) -> None:
    assert interrupted(shop, signal.SIGKILL, 0.2, begun=True, words=("--isolate",)) == ""


def test_what_a_killed_caretaker_left_is_removed_by_the_next_start() -> None:
    with temporary() as folder:
        script = Path(sys.modules[sweep.__module__].__file__ or "")
        environment = {**os.environ, "TMPDIR": str(folder)}
        words = [sys.executable, "-I", "-S", str(script)]

        def begin() -> subprocess.Popen[bytes]:
            made = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert made.stdout is not None and PREFIX.encode() in made.stdout.readline()
            return made

        first, second = begin(), begin()
        first.kill()
        first.wait()
        assert len(list(folder.iterdir())) == 2
        third = begin()
        assert len(list(folder.iterdir())) == 2  # those of the second and the third, which are there
        for each in (second, third):
            assert each.stdin is not None
            each.stdin.close()
            assert each.wait(30) == 0
        assert list(folder.iterdir()) == []
        for each in (first, second, third):
            assert each.stdout is not None
            each.stdout.close()


def main() -> None:
    """Many more, from the first moment of the process on."""
    draw, left = random.Random(), []
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
        for each in range(count):
            words = ("--isolate",) if each % 4 == 3 else ()
            left.append(interrupted(Path(name), SIGNALS[each % 3], draw.uniform(0, 3.5), begun=False, words=words))
    print(f"{count} starts were interrupted; {sum(map(bool, left))} left something behind")
    print("\n".join(each for each in left if each))
    sys.exit(any(left))


if __name__ == "__main__":
    main()
