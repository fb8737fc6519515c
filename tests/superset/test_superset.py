"""Superset 6.1 in headless chromium against a real `dpsql serve`: the steps and their assertions are in tour.py."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent / "run.py"


@pytest.mark.superset
@pytest.mark.skipif(
    not (shutil.which("chromium") or shutil.which("chromium-browser")), reason="there is no chromium to drive"
)
@pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="pip install playwright")
def test_superset_from_the_connection_to_a_dashboard_over_budget(capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        done = subprocess.run([sys.executable, RUN], check=False, timeout=3600)
    assert done.returncode == 0
