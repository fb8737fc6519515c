"""A verdict for each number: reliable within 10%, rough within 50%, else noise; the same through every door."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf, nan

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.answers.quality import quality_line, quality_of, quality_words
from dpsql.interfaces.cli import output

POLICY = {
    "dataset": "quality", "search": False, "budget": {"epsilon": 1000, "delta": 1e-6},
    "tables": {"t": {"unit": "row", "columns": {
        "x": {"min": 0, "max": 9, "nulls": False}, "f": {"nulls": False},
        "k": {"values": ["a", "b", "c"], "nulls": False}}}},
}  # fmt: skip


@pytest.fixture
def db() -> Iterator[dpsql.Connection]:
    key = np.repeat(np.array(["a", "b"], object), [3_000, 30])
    frame = pd.DataFrame({"k": key, "x": np.arange(len(key)) % 10 * 1.0, "f": np.arange(len(key)) % 50 == 0})
    with dpsql.connect({"t": frame}, policy=POLICY, ledger=":memory:") as connection:
        yield connection


@pytest.mark.parametrize(
    ("value", "low", "high", "whole", "quality"),
    [
        (100, 90, 110, 0.0, "reliable"),
        (100, 90, 111, 0.0, "rough"),
        (-100, -150, -60, 0.0, "rough"),
        (100, 49, 100, 0.0, "noise"),
        (0, 0, 0, 0.0, "reliable"),
        (0, 0, 1, 0.0, "noise"),
        (0.01, 0.0, 0.03, 1.0, "reliable"),
        (0.01, 0.0, 0.031, 1.0, "rough"),
        (0.0, 0.0, 0.11, 1.0, "noise"),
        (90.0, 80.0, 95.0, 100.0, "rough"),
        (5.0, 4.0, inf, 0.0, "noise"),
        (5.0, nan, nan, 0.0, None),
        (nan, 1.0, 2.0, 0.0, None),
        (None, 1.0, 2.0, 0.0, None),
    ],
)
def test_a_number_is_judged_by_its_error_and_a_share_by_points(
    value: float | None, low: float, high: float, whole: float, quality: str | None
) -> None:
    assert quality_of(value, low, high, whole) == quality


def test_the_line_counts_what_is_shown() -> None:
    assert quality_line([None, ["reliable", None]]) == "the number is reliable (within 10%)"
    assert quality_line([["noise", "noise"], ["noise"]]) == "all 3 numbers are noise"
    mixed = quality_line([["reliable", "rough", "noise"], ["reliable"]])
    assert mixed == "of 4 numbers 2 reliable (within 10%), 1 rough (within 50%) and 1 noise"
    assert quality_line([None, [None]]) is None
    assert quality_words(["reliable", None]) is None
    assert quality_words(["reliable", "rough", None, "noise"]) == ["", "rough", "", "noise"]


@pytest.mark.parametrize(
    ("expression", "whole"),
    [
        ("avg(CASE WHEN f THEN 1 ELSE 0 END)", 1),
        ("100 * avg(CASE WHEN f THEN 1.0 ELSE 0.0 END)", 100),
        ("count(*) FILTER (WHERE f) / count(*)", 1),
        ("100.0 * count(*) FILTER (WHERE f) / count(*)", 100),
        ("1 - sum(CASE WHEN f THEN 1 ELSE 0 END) / count(*)", 1),
        ("avg(x)", 0),
        ("sum(x) / count(*)", 0),
        ("count(*)", 0),
        ("median(x)", 0),
        ("sqrt(count(*))", 0),
    ],
)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_shares_are_told_from_other_numbers(
    db: dpsql.Connection, expression: str, whole: float, mechanism: str
) -> None:
    by_row = f"SELECT k, {expression} AS v FROM t GROUP BY k"
    for sql in (by_row, f"SELECT {expression} AS v FROM t", f"SELECT k, {expression} AS v FROM t GROUP BY ROLLUP (k)"):
        assert db.query(sql, epsilon=1, mechanism=mechanism).wholes[-1] == pytest.approx(whole)


def test_the_frame_has_the_shape_of_the_values(db: dpsql.Connection) -> None:
    answer = db.query(
        "SELECT k, count(*) AS n, median(x) AS m, mode(CAST(x AS INTEGER)) AS mode FROM t GROUP BY k", epsilon=1
    )
    quality = answer.quality
    assert list(quality.columns) == list(answer.df().columns) and quality.shape == answer.df().shape
    assert quality["k"].tolist() == ["exact"] * 3
    assert quality["n"].tolist() == ["reliable", quality["n"][1], "noise"] and quality["n"][1] in ("rough", "noise")
    assert quality["mode"].tolist() == [None] * 3
    assert quality["m"][2] is None, "NULL: too few values"


def test_every_door_shows_it(db: dpsql.Connection) -> None:
    answer = db.query("SELECT k, count(*) AS n FROM t GROUP BY k", epsilon=1)
    first, second, third = answer.quality["n"]
    line = quality_line(answer.qualities)
    assert line is not None
    text, html = str(answer).splitlines(), answer._repr_html_()
    assert not text[1].endswith(first) and text[2].endswith(second) and text[3].endswith(third) and line in text
    assert f'<span class="{third}">{third}</span>' in html and "reliable</span>" not in html and line in html
    assert json.loads(output.to_json(answer))["quality"] == {"n": [first, second, third]}
    assert line in output.footer(answer)
    table = output.answer_table(answer)
    assert [str(each) for each in table.columns[-1].cells] == ["", second, third]
    assert [str(each) for each in output.rows_as_lines(answer).columns[1].cells][-1].endswith(third)


def test_an_answer_without_noise_has_no_verdict(db: dpsql.Connection) -> None:
    answer = db.query("SELECT 1 AS one")
    assert answer.quality["one"].tolist() == ["exact"] and "reliable" not in str(answer) + output.footer(answer)
