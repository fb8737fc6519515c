"""What tests do and dpsql may not: open exact values, seal made-up ones, and run a release that no query asked for.

The locks stay on: a ledger of the tests' own makes each reservation, and the tokens are those of the modules that have
the right. `tests/unit/test_locks.py` shows that nothing else passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import dpsql.answers.noise_stage as noise_stage
from dpsql.answers.noise_stage import Released
from dpsql.budget import Caps, Cost, Ledger, Request, Reservation, open_ledger, pure_charge
from dpsql.budget.fingerprint import fingerprint
from dpsql.budget.pricing import Priced
from dpsql.engines.base import Engine
from dpsql.engines.sealed import Exact, Integers
from dpsql.plan.nodes.released_scan import Content

DATASET = "tests"


@cache
def _ledger() -> Ledger:
    return open_ledger(":memory:", DATASET)


def reserved(*marks: bytes, version: str = "") -> Reservation:
    """A reservation for these marks."""
    charge, cost = pure_charge(1e-6), Cost(1e-6, 0.0, 0.0)
    return _ledger().reserve(Request(None, charge, cost, Caps(1e6), None, "a test", marks, version=version))


def paid(engine: Engine, release: Priced, salt: bytes) -> Reservation:
    """A reservation for one run of this release."""
    version = engine.version()
    return reserved(fingerprint(release, engine.emit(release, salt), version, DATASET), version=version)


def run(engine: Engine, release: Priced, salt: bytes, contents: Mapping[str, Content] | None = None) -> Exact:
    """The release, paid for and run."""
    return engine.run(release, salt, paid(engine, release, salt), contents)


def integers(engine: Engine, release: Priced, salt: bytes, contents: Mapping[str, Content] | None = None) -> Integers:
    """The same, open."""
    return unsealed(run(engine, release, salt, contents))


def unsealed(exact: Exact) -> Integers:
    """What the noise stage reads."""
    return exact.open(noise_stage._OPEN)


def sealed(keys: Any, values: Any, selection: Any, histograms: Any = ()) -> Exact:
    """Made-up integers, as an engine hands them over."""
    return Exact(Integers(keys, values, selection, histograms), reserved())


def released(priced: Priced, keys: Any, noisy: Any, **more: Any) -> Released:
    """A made-up released table."""
    return Released(priced, keys, noisy, **more, by=noise_stage._RELEASE)


def with_spread(table: Released, *spread: float) -> Released:
    """A table as if its values were fitted."""
    return replace(table, spread=spread, by=noise_stage._RELEASE)
