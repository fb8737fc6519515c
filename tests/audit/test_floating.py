"""Released numbers lie on their grid; the check notices those that do not."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attack import floating
from attack.blackbox_cases import cases

from dpsql.answers import estimation
from dpsql.audit.blackbox.observations import opened
from dpsql.audit.outcome import Settings

SOME = ("sum, Laplace", "by declared keys, Gaussian", "join", "standard deviation, Gaussian")


def test_the_check_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floating, "RUNS", 1)
    monkeypatch.setattr(floating, "ORDERS", 2)
    monkeypatch.setattr(floating, "cases", lambda: cases(SOME))
    found = floating.check((), Settings(), lambda done, of: None)
    assert found.findings == () and dict(found.figures)["values looked at"] > 40


def test_a_quotient_of_nobody_is_no_division_by_a_noisy_zero() -> None:
    """It would be infinite in some runs, by the query's own arithmetic above the noise: a false alarm."""
    assert all("/" not in sql or "nullif" in sql for sql in floating.EMPTY_QUERIES)
    assert any("/" in sql for sql in floating.EMPTY_QUERIES)


def test_values_on_and_off_a_grid() -> None:
    assert floating.on_grid(0.75, Fraction(1, 4)) and not floating.on_grid(0.7, Fraction(1, 4))
    assert floating.on_grid(0.07, Fraction(1, 100)) and not floating.on_grid(0.07 + 1e-12, Fraction(1, 100))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 0.1234567891234])
def test_special_values_and_floating_noise_are_found(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum to which something was added after its conversion to a float."""
    case, real = cases(("sum, Laplace",))[0], estimation.real
    monkeypatch.setattr(estimation, "real", lambda *args: np.full_like(real(*args), value))
    with opened(case.world) as db:
        result = db.query(case.sql)
    shown = result.fetchall()[0][0]
    assert list(floating.unfit(result)) or shown is None


def test_totals_that_depend_on_the_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def totals(*args: Any) -> str:
        seen.append(1)
        return str(len(seen))

    monkeypatch.setattr(floating, "_totals", totals)
    assert floating.reordered(floating.mixed(), floating.MIXES[0], random.Random(0))
