"""Kill, or fail, every durable system call of every workload; and look at the order of the calls.

`strace` strikes a child at its N-th call of a kind. In the suite some are drawn; all of them with DPSQL_ALL_FAULTS=1:

    DPSQL_ALL_FAULTS=1 pytest tests/faults/test_ledger_faults.py
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from ledger_workloads import WORKLOADS, ask

import dpsql
from dpsql.budget import open_ledger
from dpsql.budget.ledger.maintenance import restore, verify
from dpsql.errors import BudgetExceeded, LedgerError

CALLS = "write,pwrite64,fsync,fdatasync,ftruncate,fallocate,link,linkat,unlink,unlinkat,rename,renameat,renameat2"
ALL = bool(os.environ.get("DPSQL_ALL_FAULTS"))


def traced(folder: Path, names: list[str], *options: str) -> tuple[int, dict[str, list[list[str]]]]:
    """Run the workloads under strace: how it ended, and what each told its client."""
    for name in names:
        (folder / name).mkdir(parents=True)
    read, write = os.pipe()
    command = ["strace", "-f", "-qq", "-e", f"trace={CALLS}", *options, sys.executable]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path(dpsql.__file__).parents[1])}
    program = str(Path(__file__).with_name("ledger_workloads.py"))
    done = subprocess.run(
        [*command, program, str(folder), str(write), *names],
        pass_fds=[write], env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as pipe:
        told = defaultdict(list)
        for line in pipe:
            name, *words = line.split()
            told[name].append(words)
    return done.returncode, told


def works() -> bool:
    """Whether there is a strace that may trace here and knows the options."""
    found = shutil.which("strace")
    probe = [found or "", "-f", "-qq", "-e", "inject=fsync:error=EIO:when=1", "-o", os.devnull, "true"]
    return found is not None and subprocess.run(probe, capture_output=True, check=False).returncode == 0


needs_strace = pytest.mark.skipif(not works(), reason="strace is missing or may not trace here")


def judge(folder: Path, name: str, told: list[list[str]]) -> None:
    """The ledger opens; every release is charged; over-charged is at most what was in flight; it goes on."""
    path = folder / name / "shop.ledger"
    released = [(int(words[1]), int(words[2])) for words in told if words[0] == "R"]
    flying = int(told[-1][1]) if told and told[-1][0] == "A" else 0
    paid = sum(units for _, units in released)
    try:
        ledger = open_ledger(path, "shop")
    except LedgerError as refusal:
        assert name == "restored", (name, refusal)
        restore(path, path.with_name("copy"), "the steward")
        ledger = open_ledger(path, "shop", create=False)
    with ledger:
        spent = ledger.spent(None).epsilon
        assert spent is not None
        assert paid <= spent <= paid + flying, name
        charged = {line.number for line in ledger.log() if line.kind == "charge"}
        if name != "restored":
            assert {entry for entry, _ in released} <= charged
        try:
            ledger.reserve(ask(0.05, "zoe"))
        except BudgetExceeded:
            assert name == "refused_by_the_cap"
    verify(path)


def strike(folder: Path, names: list[str], inject: str) -> int:
    """One fault for every workload named; how it ended."""
    log = folder.with_suffix(".log")
    code, told = traced(folder, names, "-y", "-s", "64", "-o", str(log), "-e", f"inject={inject}")
    assert code in (0, 7), (inject, code)
    assert releases_in_order(log) == sum(words[0] == "R" for lines in told.values() for words in lines)
    log.unlink()
    for name in names:
        judge(folder, name, told[name])
    shutil.rmtree(folder)
    return code


def durable_calls(folder: Path) -> Counter[tuple[str, str]]:
    """How often each workload makes each call. The children come in the order of the workloads."""
    log = folder.with_suffix(".log")
    code, _ = traced(folder, list(WORKLOADS), "-o", str(log))
    assert code == 0
    lines = [(line.split()[0], match[1]) for line in log.read_text().splitlines() if (match := CALL.match(line))]
    children = dict(zip(dict.fromkeys(child for child, _ in lines), WORKLOADS, strict=True))
    return Counter((children[child], call) for child, call in lines)


@needs_strace
@pytest.mark.parametrize("kind", ["signal=KILL", "error=EIO", "error=ENOSPC"])
def test_a_fault_at_any_durable_call_loses_nothing(tmp_path: Path, kind: str) -> None:
    folder = Path("/dev/shm") / f"{os.getpid()}-{tmp_path.name}" if Path("/dev/shm").is_dir() else tmp_path
    folder.mkdir(exist_ok=True)
    counts = durable_calls(folder / "plain")
    most = {call: max(n for (_, each), n in counts.items() if each == call) for _, call in counts}
    every = [(call, number) for call in most for number in range(1, most[call] + 1)]
    assert len(WORKLOADS) >= 20
    for call, number in every if ALL else random.Random(kind).sample(every, 6):
        names = [name for name in WORKLOADS if counts[name, call] >= number]
        code = strike(folder / f"{call}-{number}", names, f"{call}:{kind}:when={number}")
        assert code == 7 or kind != "signal=KILL"
    shutil.rmtree(folder)


@needs_strace
def test_a_lasting_failure_of_the_disk_releases_nothing_more(tmp_path: Path) -> None:
    """From the N-th sync on, every sync fails."""
    for number in range(1, 40) if ALL else (2, 9):
        strike(tmp_path / str(number), list(WORKLOADS), f"fsync,fdatasync:error=EIO:when={number}+")


@needs_strace
def test_nothing_leaves_before_its_charge_is_on_disk_in_both_places(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    code, told = traced(tmp_path / "run", list(WORKLOADS), "-y", "-s", "64", "-o", str(log))
    assert code == 0
    assert releases_in_order(log) == sum(words[0] == "R" for lines in told.values() for words in lines) > 25


def test_the_order_check_can_fail(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    good = [
        '7 pwrite64(3</d/shop.ledger-wal>, "x", 1, 0) = 1', "7 fdatasync(3</d/shop.ledger-wal>) = 0",
        '7 pwrite64(4</d/shop.ledger.head>, "x", 1, 0) = 1', "7 fdatasync(4</d/shop.ledger.head>) = 0",
        '7 write(5<pipe:[1]>, "w R 3 4", 7) = 7',
    ]  # fmt: skip
    log.write_text("\n".join(good))
    assert releases_in_order(log) == 1
    failed = [
        line.replace("fdatasync(4</d/shop.ledger.head>) = 0", "fdatasync(4</d/shop.ledger.head>) = -1") for line in good
    ]
    for bad in (*(good[:each] + good[each + 1 :] for each in range(4)), failed, [*good[2:4], *good[:2], good[4]]):
        log.write_text("\n".join(bad))
        with pytest.raises(AssertionError):
            releases_in_order(log)


def releases_in_order(log: Path) -> int:
    """Check each release that a client was told: since it asked, the ledger was written and synced, then the head.

    And when it was told, neither the ledger's log nor the head had a change that was not synced with success.
    """
    releases, child, dirty, order = 0, "", set[str](), list[str]()
    for line in log.read_text().splitlines():
        if (match := LINE.match(line)) is None:
            continue
        if line.split()[0] != child:
            child, dirty, order = line.split()[0], set(), []
        call, rest, failed = match["call"], match["rest"], match["result"].startswith("-")
        path = match[1] if (match := re.search(r"<(/[^>]*)>", rest)) else ""
        if call == "write" and "pipe:" in rest:
            if " R " in rest and not failed:
                releases += 1
                assert not dirty, (line, dirty)
                assert order[-3:] == ["sync ledger", "write head", "sync head"], order
                assert "write ledger" in order, order
            order = []
        elif path.endswith(("-wal", ".head")):
            place = "head" if path.endswith(".head") else "ledger"
            if call in ("write", "pwrite64", "ftruncate"):
                dirty.add(path)
                order.append(f"write {place}")
            elif call in ("fsync", "fdatasync") and not failed:
                dirty.discard(path)
                order.append(f"sync {place}")
    return releases


CALL = re.compile(r"^\d+ +(\w+)\(")
LINE = re.compile(r"^\d+ +(?P<call>\w+)\((?P<rest>.*)\) += (?P<result>-?\d+)")
