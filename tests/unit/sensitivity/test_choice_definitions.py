"""Scores of a choice against their definition, and what one unit moves, over every small histogram."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest

from dpsql.expressions.expression import Column
from dpsql.expressions.types import BIGINT
from dpsql.mechanisms import ExponentialLaw
from dpsql.plan.nodes.relation import Aggregate
from dpsql.sensitivity.choice import Choice, choice_of, reach, scored

X = Column(BIGINT, name="x")
HALF = Fraction(1, 2)
LAW = ExponentialLaw(HALF)
CHOICES = [Choice("c", 0, "quantile", at) for at in (Fraction(0), Fraction(1, 3), HALF, Fraction(3, 4), Fraction(1))]
CHOICES += [Choice("c", 0, kind) for kind in ("least", "greatest", "mode")]  # type: ignore[arg-type]


def scores(choice: Choice, weights: tuple[int, ...], law: ExponentialLaw = LAW) -> list[int]:
    held = [cell for cell, weight in enumerate(weights) if weight]
    runs = scored(choice, law, len(weights), np.array(held, np.int64), np.array([weights[c] for c in held], np.int64))
    assert all(size > 0 for size in runs.sizes)
    assert runs.starts.tolist() == [sum(runs.sizes.tolist()[:i]) for i in range(len(runs.sizes))]
    assert sum(runs.sizes.tolist()) == len(weights)
    return [int(s) for s, size in zip(runs.scores, runs.sizes, strict=True) for _ in range(size)]


def defined(choice: Choice, weights: tuple[int, ...], law: ExponentialLaw = LAW) -> list[int]:
    """Of each cell: how far, in parts, the target is from the ranks which it holds; of a mode its weight, negated."""
    if choice.kind == "mode":
        return [-weight for weight in weights]
    total, parts = sum(weights), choice.at.denominator if choice.kind == "quantile" else 2
    little = min(reach(law, len(weights)), total)
    target = {"quantile": choice.at.numerator * total, "least": little, "greatest": 2 * total - little}[choice.kind]
    below = [sum(weights[:cell]) for cell in range(len(weights))]
    ranks = [(parts * b, parts * (b + w)) for b, w in zip(below, weights, strict=True)]
    return [low - target if target < low else target - high if target > high else 0 for low, high in ranks]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: f"{c.kind} {c.at}")
def test_every_small_histogram_has_the_scores_of_the_definition(choice: Choice) -> None:
    for weights in product((0, 1, 3), repeat=4):
        assert scores(choice, weights) == defined(choice, weights)
        assert scores(choice, (0, *weights, 0), ExponentialLaw(Fraction(4))) == defined(
            choice, (0, *weights, 0), ExponentialLaw(Fraction(4))
        )


@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: f"{c.kind} {c.at}")
def test_a_unit_moves_the_scores_of_every_small_histogram_as_far_as_is_said_and_no_further(choice: Choice) -> None:
    furthest = widest = 0
    for before in product((0, 1, 4), repeat=3):
        for added in product((0, 1, 2), repeat=3):
            if sum(added) > 2:
                continue
            after = tuple(b + a for b, a in zip(before, added, strict=True))
            moves = [two - one for one, two in zip(defined(choice, before), defined(choice, after), strict=True)]
            furthest, widest = max(furthest, *map(abs, moves)), max(widest, max(moves) - min(moves))
    assert furthest <= choice.sensitivity(2) and widest <= choice.spread(2)
    if choice.kind in ("quantile", "mode"):
        assert furthest == choice.sensitivity(2)
    if choice.kind == "mode":
        assert widest == choice.spread(2)


@pytest.mark.parametrize(
    ("choice", "parts", "sensitivity", "spread"),
    [
        (Choice("c", 0, "quantile", HALF), 2, 7, 14),
        (Choice("c", 0, "quantile", Fraction(1, 10)), 10, 63, 126),
        (Choice("c", 0, "quantile", Fraction(9, 10)), 10, 63, 126),
        (Choice("c", 0, "quantile", Fraction(2, 3)), 3, 14, 28),
        (Choice("c", 0, "least"), 2, 14, 28),
        (Choice("c", 0, "greatest", Fraction(1, 10)), 2, 14, 28),
        (Choice("c", 0, "mode", Fraction(1, 10)), 1, 7, 7),
    ],
)
def test_how_far_a_unit_that_adds_seven_moves_the_scores(
    choice: Choice, parts: int, sensitivity: int, spread: int
) -> None:
    assert (choice.parts, choice.sensitivity(7), choice.spread(7)) == (parts, sensitivity, spread)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(100)])
@pytest.mark.parametrize("cells", [1, 10, 2**16])
@pytest.mark.parametrize("missed", [0.05, 0.3])
def test_the_reach_is_the_least_score_that_is_exceeded_seldom_enough(
    scale: Fraction, cells: int, missed: float
) -> None:
    far = reach(ExponentialLaw(scale), cells, missed)
    assert cells * exp(-far / scale) <= missed < cells * exp(-(far - 1) / scale)
    assert reach(ExponentialLaw(scale), cells) == reach(ExponentialLaw(scale), cells, 1 / 20)


def test_the_choice_of_each_aggregate() -> None:
    made = [
        choice_of(Aggregate(function, X, at=at), 3)
        for function, at in (
            ("min", None),
            ("max", None),
            ("mode", None),
            ("quantile_cont", HALF),
            ("quantile_disc", Fraction(1, 4)),
        )
    ]
    assert made == [
        Choice("min(x)", 3, "least"), Choice("max(x)", 3, "greatest"), Choice("mode(x)", 3, "mode"),
        Choice("median(x)", 3, "quantile", HALF), Choice("quantile_disc(x, 0.25)", 3, "quantile", Fraction(1, 4)),
    ]  # fmt: skip
    assert [c.at for c in made[:3]] == [HALF] * 3
    with pytest.raises(ValueError, match="chooses nothing"):
        choice_of(Aggregate("sum", X), 3)


@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: f"{c.kind} {c.at}")
@pytest.mark.parametrize("weight", [2**57, 2**59 + 1, 2**61 - 1, 2**62])
def test_scores_of_heavy_cells_do_not_overflow(choice: Choice, weight: int) -> None:
    for weights in ((weight, 0, 3), (1, weight, weight), (weight, weight, weight)):
        assert scores(choice, weights) == defined(choice, weights)
