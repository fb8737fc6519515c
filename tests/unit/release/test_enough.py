"""How the chance to miss a goal is split between first releases and the main one, and how a size is said."""

from __future__ import annotations

from typing import Any

import pytest

from dpsql.answers.accuracy import Goal
from dpsql.answers.pilot_pricing import FIRST, MAIN, RISK, _Judged, _said
from dpsql.options import Within

NOTHING: Any = None


@pytest.mark.parametrize(("amount", "main"), [("2%", 1 - 0.05 * MAIN), (100, 0.95)])
def test_the_main_release_has_the_whole_chance_to_miss_unless_a_percentage_was_read_from_first_ones(
    amount: str | int, main: float
) -> None:
    judged = _Judged(NOTHING, Goal(0, "n", Within(amount)), NOTHING, 4)
    assert judged._main == pytest.approx(main)
    assert judged._sure == pytest.approx(1 - min(0.05 * FIRST, 2 * RISK / 4))
    assert judged._wary == pytest.approx(1 - 2 * RISK / 4)


@pytest.mark.parametrize(
    ("size", "relative", "said"),
    [
        (0.0213, True, "± 2.13%"),
        (3.0, True, "± 300%"),
        (3.01, True, "no useful error bar"),
        (12345.6, False, "± 1.235e+04"),
        (float("inf"), False, "no useful error bar"),
    ],
)
def test_an_error_of_three_times_the_value_is_the_largest_that_is_said(size: float, relative: bool, said: str) -> None:
    assert _said(size, relative) == said
