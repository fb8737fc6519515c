"""A real server over the demo's shop, which tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from served import PASSWORD, Served, run, start, stop

from dpsql.interfaces.cli.demo import make_shop


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    make_shop(folder)
    policy = folder / "policy.yaml"
    text = policy.read_text().replace(
        "analysts: {demo: {epsilon: 5}, ana: {epsilon: 5}}", "analysts: {ana: {}, bob: {epsilon: 0.9}, carl: {}}"
    )
    policy.write_text(text.replace("epsilon: 10 ", "epsilon: 10000 "))
    for name in ("ana", "bob", "carl"):
        run(folder, "user", "add", name, "--password-stdin", stdin=PASSWORD + "\n")
    return folder


@pytest.fixture(scope="session")
def served(shop: Path) -> Iterator[Served]:
    running = start(shop)
    yield running
    stop(running)
