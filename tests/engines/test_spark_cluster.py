"""A real cluster of several processes: run where DPSQL_SPARK_CLUSTER=yes, since it takes minutes on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import spark_session


def test_a_cluster_of_several_processes() -> None:
    if (reason := spark_session.absent()) is not None:
        pytest.skip(reason)
    if os.environ.get("DPSQL_SPARK_CLUSTER") != "yes":
        pytest.skip("a cluster takes minutes: set DPSQL_SPARK_CLUSTER=yes, or run tests/engines/spark_cluster.py")
    script = Path(__file__).parent / "spark_cluster.py"
    done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True, timeout=900)
    assert done.stdout.strip().endswith("ok"), done.stdout + done.stderr[-3000:]
