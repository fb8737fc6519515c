"""Local privacy: an answer is drawn once, kept, and given again; shares are estimated with intervals that hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpsql.pandas
from dpsql.errors import Error, InterfaceError, LedgerError, ProgrammingError
from dpsql.local import Answers, estimate
from dpsql.mechanisms import RandomizedResponse

N = 4000
YES = ["yes", "no"]


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": np.arange(N) + 100,
            "smoker": np.where(np.arange(N) % 4 == 0, "yes", "no"),
            "ill": np.arange(N) % 10 == 0,
        }
    )


def test_the_answers_are_randomised_and_the_share_is_found() -> None:
    df = people()
    answers = df.dp.randomize("smoker", epsilon=1, values=YES)
    wrong = float(np.mean(answers.to_numpy() != df.smoker.to_numpy()))
    assert wrong == pytest.approx(RandomizedResponse(1).lie, abs=0.04)
    found = dpsql.local.estimate(answers)
    assert found.shares["yes"].low < 0.25 < found.shares["yes"].high
    assert found.df().value.tolist() == YES
    assert "Who answered is public" in str(found)
    assert dpsql.local.estimate(df.dp.randomize("ill", epsilon=2)).shares[True].share == pytest.approx(0.1, abs=0.05)


def test_the_same_again_when_asked_again() -> None:
    df = people()
    once = df.dp.randomize("smoker", epsilon=1, values=YES)
    again = df.dp.randomize("smoker", epsilon=1, values=YES)
    pd.testing.assert_series_equal(once, again)
    averaged = np.mean([df.dp.randomize("smoker", epsilon=1, values=YES) == "yes" for _ in range(5)], axis=0)
    assert set(averaged) <= {0.0, 1.0}


def test_another_frame_asks_anew_unless_the_survey_has_a_name_and_people_have_one() -> None:
    one, two = people(), people()
    assert (
        one.dp.randomize("smoker", epsilon=1, values=YES) != two.dp.randomize("smoker", epsilon=1, values=YES)
    ).any()
    named = [df.dp.randomize("smoker", epsilon=1, values=YES, unit="id", name="survey 1") for df in (one, two)]
    pd.testing.assert_series_equal(*named)
    shuffled = two.sample(frac=1, random_state=1)
    other = shuffled.dp.randomize("smoker", epsilon=1, values=YES, unit="id", name="survey 1")
    pd.testing.assert_series_equal(other.sort_index(), named[0].sort_index())
    with pytest.raises(InterfaceError, match="row numbers stand"):
        one.dp.randomize("smoker", epsilon=1, values=YES, name="survey 1")


def test_a_truth_that_changes_is_not_looked_at_again() -> None:
    """An answer that followed the truth would tell that it changed."""
    df = people().set_index("id")
    once = df.dp.randomize("smoker", epsilon=1, values=YES, name="survey 2")
    df["smoker"] = np.where(df.smoker == "yes", "no", "yes")
    pd.testing.assert_series_equal(once, df.dp.randomize("smoker", epsilon=1, values=YES, name="survey 2"))


def test_another_epsilon_or_other_values_are_refused_and_another_question_adds_up() -> None:
    store, response = Answers(), RandomizedResponse(1, values=YES)
    store.ask("smoker", [1, 2], ["yes", "no"], response)
    for other in (
        RandomizedResponse(2, values=YES),
        RandomizedResponse(1, values=["no", "yes"]),
        RandomizedResponse(1, values=[*YES, "?"]),
    ):
        with pytest.raises(ProgrammingError, match="was asked before, with epsilon = 1"):
            store.ask("smoker", [1, 2], ["yes", "no"], other)
    store.ask("smoker, a year later", [1, 2], ["yes", "no"], RandomizedResponse(2, values=YES))
    assert store.spent() == 3


def test_new_people_get_new_answers_and_the_others_keep_theirs() -> None:
    store, response = Answers(), RandomizedResponse(0.1, values=YES)
    first = store.ask("q", list(range(200)), ["yes"] * 200, response)
    assert store.ask("q", list(range(400)), ["no"] * 400, response)[:200] == first


def test_people_are_told_apart_by_type() -> None:
    store, response = Answers(), RandomizedResponse(0.01, values=YES)
    numbers = store.ask("q", list(range(100)), ["yes"] * 100, response)
    assert store.ask("q", [str(i) for i in range(100)], ["yes"] * 100, response) != numbers
    assert store.ask("q", list(np.arange(100)), ["yes"] * 100, response) == numbers


def test_a_file_remembers_for_another_process(tmp_path: Path) -> None:
    path = tmp_path / "survey.answers"
    code = (
        "import sys, pandas as pd, dpsql.pandas\n"
        "df = pd.DataFrame({'id': range(50), 'ill': [True] * 50})\n"
        "print(df.dp.randomize('ill', epsilon=0.1, unit='id', answers=sys.argv[1]).tolist())"
    )
    said = [
        subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said[0] == said[1]
    assert {"True", "False"} <= set(said[0].strip("[]\n").split(", "))


def test_a_refused_question_leaves_nothing_behind(tmp_path: Path) -> None:
    store = Answers(tmp_path / "a")
    with pytest.raises(ProgrammingError, match="not among the values") as refusal:
        store.ask("q", [1, 2], ["yes", "secret"], RandomizedResponse(1, values=YES))
    assert "secret" not in str(refusal.value)
    assert store.spent() == 0
    assert store._rows("SELECT person, answer FROM answers") == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"column": "smoker", "epsilon": 1}, "what may be answered"),
        ({"column": "smokr", "epsilon": 1}, "did you mean smoker"),
        ({"column": "smoker", "epsilon": 1, "values": YES, "unit": "idd"}, "did you mean id"),
        ({"column": "smoker", "epsilon": 0, "values": YES}, "epsilon"),
        ({"column": "smoker", "epsilon": 1, "values": YES, "unit": "ill"}, "several rows"),
        ({"column": "smoker", "epsilon": 1, "values": ["yes", "never"]}, "not among the values"),
    ],
)
def test_what_is_refused(how: dict[str, object], said: str) -> None:
    with pytest.raises(Error) as refusal:
        people().dp.randomize(**how)
    assert said in str(refusal.value)


def test_a_person_without_a_name_and_a_file_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProgrammingError, match="is identified by"):
        Answers().ask("q", [None], ["yes"], RandomizedResponse(1, values=YES))
    with pytest.raises(LedgerError, match="cannot be kept"):
        Answers(tmp_path / "no" / "such")


def test_answers_from_elsewhere_say_how_they_were_randomised() -> None:
    with pytest.raises(InterfaceError, match="do not say"):
        estimate(["yes", "no"])
    found = estimate(["yes"] * 60 + ["no"] * 40, epsilon=1, values=YES, confidence=0.9)
    assert found.shares["yes"].share == pytest.approx((0.6 - 0.26894) * 2.16395, abs=1e-3)


def test_collected_answers_can_be_protected_and_counted_in_sql() -> None:
    df = people()
    collected = pd.DataFrame({"smoker": df.dp.randomize("smoker", epsilon=1, values=YES)})
    frame = collected.dp.protect(unit="row", epsilon=10, values={"smoker": YES}, randomized={"smoker": 1})
    answer = frame.sql("SELECT rr_count(smoker) AS n FROM df", epsilon=5)
    assert answer.df().n[0] == pytest.approx(N / 4, abs=5 * 0.96 * N**0.5)
    assert any("not in the error bars" in note for note in answer.notes)
