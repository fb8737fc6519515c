"""`python examples/textbook.py` prints the figures of the notes; every claim holds, and with less noise fails."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import dpsql

SCRIPT = Path(dpsql.__file__).parents[1] / "examples" / "textbook.py"
FIGURES = ["1.0986", "2.164, 0.269", "0.00294", "2.996e-06", "9.9", "12.2", "4.2247", "5.2988", "0.02436", "0.632"]


def test_the_script_prints_the_figures_of_the_notes(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(SCRIPT), run_name="__main__")
    printed = capsys.readouterr().out
    assert [figure for figure in FIGURES if not re.search(rf"\s{re.escape(figure)}\s", printed)] == []
    assert printed.count("holds; with 0.9 of the noise") == printed.count("fails, as it must") == 6
    assert "FAILS" not in printed
    assert "HOLDS" not in printed
