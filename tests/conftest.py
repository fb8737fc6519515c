"""Options of the whole suite, its tiers, its repeatable randomness, and the table of the neighbour search."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest
import tiers

from dpsql.mechanisms import sampler as entropy

if TYPE_CHECKING:
    from postgres_server import Server

NEIGHBOURS = "neighbour search"
collect_ignore = ["interfaces/alchemy_suite"]
"""SQLAlchemy's own suite has a plugin that takes over pytest: tests/interfaces/test_alchemy_suite.py runs it apart."""

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run all tests, not only the core: see tests/tiers.py")
    parser.addoption("--golden-update", action="store_true", help="rewrite the golden files (refused in CI)")
    parser.addoption("--pairs", type=int, help="how many neighbouring pairs the neighbour test compares")
    parser.addoption("--pairs-seed", type=int, default=0, help="another seed, for other pairs")
    parser.addoption("--noise-seed", type=int, default=0, help="another seed, for other noise in every test")


# tiers ------------------------------------------------------------------------------------------------------------------


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file out before it is imported; None leaves the decision to others."""
    return None if collection_path.is_dir() or tiers.chosen(config, collection_path) else True


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return tiers.Module.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept, left = [], []
    for item in items:
        (kept if tiers.chosen(config, item.path, item) else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One PostgreSQL for all tests that need one; who kills it starts it again."""
    from postgres_server import running

    with running() as server:
        yield server


# repeatable randomness --------------------------------------------------------------------------------------------------
# What dpsql asks of the operating system is answered from a stream that the name of the test (or of the fixture) fixes,
# so that no test of noise, in this process, fails by chance: what passes once passes everywhere, in any order and on any
# worker. The samplers and the laws are the real ones, so a wrong law fails as it would with true randomness. A process
# that a test starts draws true noise (two that drew the same would have the same ids): such a test asks for nothing that
# noise decides, or for what fails with a chance below 1e-9. Nothing is run twice to pass.

_operating_system = os.urandom


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "true_randomness: the test is about the operating system's own random bytes")


def _stream(name: str) -> Callable[[int], bytes]:
    """Bytes in place of the operating system's, the same for the same name."""
    generator = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()))
    lock = threading.Lock()

    def urandom(count: int) -> bytes:
        with lock:
            return generator.bytes(count)

    return urandom


def _answer_from(source: Callable[[int], bytes]) -> None:
    os.urandom = source
    entropy._buffer.clear()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    named = f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]"
    before = os.urandom
    _answer_from(_stream(f"{request.config.getoption('--noise-seed')} {named}"))
    try:
        return (yield)
    finally:
        _answer_from(before)  # of a fixture, or a test, that asked for this one in the middle: it is made only once


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    seeded = item.get_closest_marker("true_randomness") is None
    _answer_from(_stream(f"{item.config.getoption('--noise-seed')} {item.nodeid}") if seeded else _operating_system)
    try:
        return (yield)
    finally:
        _answer_from(_operating_system)


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
