"""The demo's shop behind a real `dpsql serve`, with a small account for dashboards, and what its ledger says."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "server"))

from served import PASSWORD, Served, run, start, stop

import dpsql
from dpsql.budget.ledger import open_ledger
from dpsql.interfaces.cli.demo import make_shop

USER, ANALYST = "superset", "dashboards"
CHANGES = {
    "analysts: {demo: {epsilon: 5}, ana: {epsilon: 5}}": "analysts: {dashboards: {epsilon: 0.9}}",
    "placed: {min: 2024-01-01, max: 2024-12-31, nulls: false}": (
        "placed: {min: 2024-01-01, max: 2024-12-31, nulls: false, minmax: policy}"
    ),
}
"""The demo's policy with an account that four questions use up, and a range picker that is free."""


@dataclass(frozen=True)
class Spent:
    """How often the ledger was charged so far, and what that adds up to in the account of the dashboards."""

    charges: int
    epsilon: float
    rho: float


@dataclass(frozen=True)
class Shop:
    """Where it is served."""

    served: Served

    @property
    def words(self) -> dict[str, str]:
        """What the form of Superset asks for."""
        where = {"host": "127.0.0.1", "port": str(self.served.port), "database": "shop"}
        return {**where, "username": USER, "password": PASSWORD}

    def spent(self) -> Spent:
        """As the ledger has it, read beside the running server."""
        folder = self.served.folder
        with open_ledger(folder / "shop.ledger", None, create=False) as ledger:
            charges = sum(1 for line in ledger.log() if line.kind == "charge")
        policy = folder / "policy.yaml"
        with dpsql.connect(folder / "shop.duckdb", policy=policy, ledger=folder / "shop.ledger", analyst=ANALYST) as db:
            account = db.budget().analyst
        assert account is not None
        return Spent(charges, account.spent.epsilon, account.spent.rho)

    def counted(self, name: str) -> int:
        """One of the server's own metrics, such as how many queries reached it."""
        address = f"http://127.0.0.1:{self.served.steward_port}/metrics"
        with urllib.request.urlopen(address, timeout=30) as page:
            words = dict(line.split() for line in page.read().decode().splitlines() if not line.startswith("#"))
        return int(float(words[name]))


@contextmanager
def serving(folder: Path) -> Iterator[Shop]:
    """The shop in a new folder, served until the end."""
    folder.mkdir()
    policy = make_shop(folder).policy
    text = policy.read_text()
    for old, new in CHANGES.items():
        assert old in text
        text = text.replace(old, new)
    policy.write_text(text)
    run(folder, "user", "add", USER, "--analyst", ANALYST, "--password-stdin", stdin=PASSWORD + "\n")
    served = start(folder)
    try:
        yield Shop(served)
    finally:
        stop(served)
