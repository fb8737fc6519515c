"""What may be written as `accuracy=`."""

from __future__ import annotations

from decimal import Decimal

import pytest

import dpsql
from dpsql.answers.accuracy import read_goals
from dpsql.options import Accuracy
from dpsql.plan.plan import Output

OUTPUTS = (Output("k", False), Output("n", True, ("_r0", 0)), Output("Total", True, ("_r0", 1)))


def test_a_target_is_a_number_a_percentage_or_within() -> None:
    assert (dpsql.Within(100).size, dpsql.Within(100).relative) == (100, False)
    assert (dpsql.Within("2%").size, dpsql.Within("2%").relative) == (0.02, True)
    assert dpsql.Within(" 2.5 % ".replace(" %", "%")).size == 0.025
    assert dpsql.Within("12").size == 12
    assert dpsql.Within(Decimal("0.5")).size == 0.5
    assert [str(dpsql.Within(a, confidence=c)) for a, c in ((100, 0.95), ("2%", 0.9), ("12.5%", 0.99), ("10%", 0.95))] == [
        "± 100 (95%)", "± 2% (90%)", "± 12.5% (99%)", "± 10% (95%)",
    ]  # fmt: skip


@pytest.mark.parametrize("amount", [0, -1, float("nan"), float("inf"), "much", "%", "2%%", "0%", True, None, [1]])
def test_what_is_no_amount_is_refused(amount: object) -> None:
    with pytest.raises(dpsql.InterfaceError, match="not an accuracy"):
        dpsql.Within(amount)  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, float("nan"), "0.95"])
def test_what_is_no_confidence_is_refused(confidence: object) -> None:
    with pytest.raises(dpsql.InterfaceError, match="confidence"):
        dpsql.Within(1, confidence)  # type: ignore[arg-type]


def test_one_target_holds_for_all_columns_with_noise_and_a_mapping_for_those_it_names() -> None:
    assert [(g.column, g.name, g.within) for g in read_goals("2%", OUTPUTS)] == [
        (1, "n", dpsql.Within("2%")), (2, "Total", dpsql.Within("2%")),
    ]  # fmt: skip
    [goal] = read_goals({"total": dpsql.Within(5, 0.9)}, OUTPUTS)
    assert (goal.column, goal.within.confidence) == (2, 0.9)


@pytest.mark.parametrize("accuracy", [{"k": 1}, {"nn": 1}, {"n": 1, "x": 2}, {}])
def test_a_name_that_is_no_column_with_noise_is_refused_with_those_there_are(accuracy: Accuracy) -> None:
    with pytest.raises(dpsql.InterfaceError) as caught:
        read_goals(accuracy, OUTPUTS)
    assert caught.value.hint == "columns with noise: n, Total"


def test_a_query_without_noise_has_nothing_to_aim_at() -> None:
    with pytest.raises(dpsql.InterfaceError, match="no column of this query carries noise"):
        read_goals(1, OUTPUTS[:1])
