"""The mark of a release: two that differ in anything that shows have two marks, and what is stored comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from unlocked import run

import dpsql
from dpsql.answers.noise_stage import add_noise
from dpsql.answers.serialize import deserialize, serialize
from dpsql.budget.fingerprint import fingerprint
from dpsql.budget.pricing import Priced
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, ExponentialLaw

POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 100, "delta": 1e-6},
    "tables": {
        "t": {"unit": "u", "columns": {"x": {"min": 0, "max": 9}, "k": {"values": ["a", "b"]}, "free": {}, "n": {"min": 0, "max": 15}}},
    },
}  # fmt: skip
QUERIES = (
    "SELECT k, count(*), sum(x) FROM t GROUP BY k",
    "SELECT free, count(*) FROM t GROUP BY free",
    "SELECT k, median(x), count(*) FROM t GROUP BY k",
    f"SELECT {', '.join(f'quantile_cont(n, 0.{q})' for q in range(1, 10))} FROM t",
)


@pytest.fixture(scope="module")
def db() -> Iterator[dpsql.Connection]:
    frame = pd.DataFrame(
        {"u": range(40), "x": [3.5] * 40, "k": ["a", "b"] * 20, "free": ["p", "q"] * 20, "n": [3, 5] * 20}
    )
    with dpsql.connect({"t": frame}, policy=POLICY, ledger=":memory:") as connection:
        yield connection


def priced(db: dpsql.Connection, sql: str) -> Priced:
    return db.prepare(sql, epsilon=5.0, delta=1e-7, mechanism="gaussian").bill.releases[0]


def _others(each: Priced) -> Iterator[Priced]:
    """The same release with another noise, threshold, list of keys, law or grid."""
    for number, noised in enumerate(each.noised):
        for changed in (
            replace(noised, noise=DiscreteGaussian(noised.noise.scale + 1)),
            replace(noised, noise=DiscreteLaplace(noised.noise.scale)),
            replace(noised, shift=noised.shift + 1),
        ):
            yield replace(each, noised=(*each.noised[:number], changed, *each.noised[number + 1 :]))
    if each.selection is not None and each.threshold is not None:
        yield replace(each, threshold=each.threshold + 1)
        yield replace(each, selection=replace(each.selection, noise=DiscreteGaussian(each.selection.noise.scale + 1)))
        yield replace(each, selection=replace(each.selection, noise=DiscreteLaplace(each.selection.noise.scale)))
    for number, key in enumerate(each.bounded.keys):
        keys = [*each.bounded.keys]
        keys[number] = replace(key, values=("a", "c"))
        yield replace(each, bounded=replace(each.bounded, keys=tuple(keys)))
    for chosen in each.chosen[:1]:
        yield replace(each, chosen=(replace(chosen, law=ExponentialLaw(chosen.law.scale + 1)),))
        yield replace(each, chosen=(replace(chosen, choice=replace(chosen.choice, at=Fraction(1, 3))),))
        yield replace(each, chosen=(replace(chosen, choice=replace(chosen.choice, kind="mode")),))
    for tree in each.trees:
        yield replace(each, trees=(replace(tree, noise=DiscreteGaussian(tree.noise.scale + 1)),))
        yield replace(each, trees=(replace(tree, shift=tree.shift + 1),))
    for histogram in each.bounded.histograms:
        for change in ({"upper": histogram.grid.upper + 1}, {"lower": -1}, {"width": 7}, {"values": (1.0,)}):
            grid = replace(histogram.grid, **change)  # type: ignore[arg-type]
            yield replace(each, bounded=replace(each.bounded, histograms=(replace(histogram, grid=grid),)))


def test_the_queries_have_all_that_can_be_released(db: dpsql.Connection) -> None:
    made = [priced(db, sql) for sql in QUERIES]
    assert all(
        any(map(bool, parts)) for parts in zip(*((p.noised, p.selection, p.chosen, p.trees) for p in made), strict=True)
    )


@pytest.mark.parametrize("sql", QUERIES)
def test_everything_that_shows_is_in_the_mark(db: dpsql.Connection, sql: str) -> None:
    each = priced(db, sql)
    marks = [fingerprint(each, *told) for told in (("q", "v", "d"), ("Q", "v", "d"), ("q", "w", "d"), ("q", "v", "e"))]
    marks += [fingerprint(other, "q", "v", "d") for other in _others(each)]
    assert len(marks) > 6
    assert len(set(marks)) == len(marks)
    assert fingerprint(priced(db, sql), "q", "v", "d") == marks[0]


@pytest.mark.parametrize("sql", QUERIES)
def test_what_was_stored_comes_back(db: dpsql.Connection, sql: str) -> None:
    each = priced(db, sql)
    released = add_noise(each, run(db.engine, each, b"salt"))
    again = deserialize(serialize(released), each)
    assert again.keys == released.keys and len(again.keys)
    for name in ("noisy", "chosen", "trees"):
        one, two = getattr(released, name), getattr(again, name)
        assert [values.tolist() for values in one] == [values.tolist() for values in two]
