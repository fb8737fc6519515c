"""Superset takes minutes and 800 MB, so its test runs when it is asked for by name."""

from __future__ import annotations

import pytest

HOW = "Superset takes minutes: pytest -m superset tests/superset, or python tests/superset/run.py"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "superset: Superset in a browser against `dpsql serve`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "superset" not in config.option.markexpr:
        for item in items:
            if item.get_closest_marker("superset"):
                item.add_marker(pytest.mark.skip(reason=HOW))
