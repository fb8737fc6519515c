"""Options of the whole suite, and the table of the neighbour search."""

from __future__ import annotations

import json
from collections import Counter

import pytest

NEIGHBOURS = "neighbour search"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-update", action="store_true", help="rewrite the golden files (refused in CI)")
    parser.addoption("--pairs", type=int, default=2_000, help="how many neighbouring pairs the neighbour test compares")
    parser.addoption("--pairs-seed", type=int, default=0, help="another seed, for other pairs")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the neighbour search saw, added up over its chunks (and over processes)."""
    pairs: Counter[str] = Counter()
    touched: Counter[str] = Counter()
    ratios: dict[str, float] = {}
    for report in (r for reports in terminalreporter.stats.values() for r in reports):
        for name, value in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
            if name == NEIGHBOURS:
                seen = json.loads(value)
                pairs.update(seen["pairs"])
                touched.update(seen["touched"])
                ratios |= {rule: max(ratio, ratios.get(rule, 0.0)) for rule, ratio in seen["ratios"].items()}
    if not pairs:
        return
    terminalreporter.section(NEIGHBOURS)
    terminalreporter.write_line(f"{'rule':<12}{'pairs':>8}{'touched':>10}{'most of a claim':>18}")
    for rule in sorted(pairs, key=lambda name: (name == "all", name)):
        most = f"{ratios[rule]:.1%}" if rule in ratios else ""
        terminalreporter.write_line(f"{rule:<12}{pairs[rule]:>8}{touched[rule]:>10}{most:>18}")
