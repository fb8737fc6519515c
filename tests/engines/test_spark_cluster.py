"""A real cluster of several processes with its executors killed, and a Spark whose disk is full and whose Java is killed.

Each runs as a program of its own, since this process has a session already.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import spark_session


@pytest.mark.parametrize("script", ["spark_cluster.py", "spark_faults.py"])
def test_faults_in_the_middle_of_a_query(script: str) -> None:
    if (reason := spark_session.absent()) is not None:
        pytest.skip(reason)
    command = [sys.executable, Path(__file__).parent / script]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    last = done.stdout.strip().rpartition("\n")[2]
    if last.startswith("skipped"):
        pytest.skip(last)
    assert last == "ok", done.stdout + done.stderr[-3000:]
