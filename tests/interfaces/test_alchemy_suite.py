"""SQLAlchemy's own dialect suite, the parts that apply, in a process of its own (its plugin takes over pytest)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from tiers import need

import dpsql

SUITE = Path(__file__).with_name("alchemy_suite")
LEAST = 250


def test_the_parts_of_the_dialect_suite_that_apply(tmp_path: Path) -> None:
    need("sqlalchemy")
    report = tmp_path / "report.xml"
    place = ["-c", str(SUITE / "pytest.ini"), "--rootdir", str(SUITE), "--confcutdir", str(SUITE)]
    paths = os.pathsep.join([str(Path(dpsql.__file__).parents[1]), str(SUITE)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *place, "-q", "--tb=short", f"--junitxml={report}", str(SUITE / "suite.py")],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": paths, "PYTEST_ADDOPTS": ""},
    )  # fmt: skip
    cases = Counter(
        next((part.tag for part in case if part.tag in ("failure", "error", "skipped")), "passed")
        for case in ElementTree.parse(report).iter("testcase")
    )
    assert done.returncode == 0, f"{cases}\n{done.stdout[-5000:]}"
    assert set(cases) == {"passed", "skipped"} and cases["passed"] >= LEAST, cases
