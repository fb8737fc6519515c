"""How good is the clip that the private search finds, against the best one in hindsight, over many made-up worlds?

`python tests/bench/clip_worlds.py` simulates worlds (units with rows in groups, counted or summed) in numpy. A run
draws the search's noisy histogram at its share of the price, chooses C, and has the root mean square error over the
cells that a release with this C at the rest of the price has (the clip's bias exactly, the noise by its variance).
That is divided by the least error that any fixed C has *at the full price*. No mechanism can know that C.

The chooser was tuned on the worlds of `tuned`, and some of its constants were also compared on those of `fresh`; only
those of `later`, a third of all, were written after its last change. `> cap` is the share of runs with a greater error than the declared cap (50 rows of the largest
value) at the same noise, `cap p50` the cap's median ratio. A price that buys no useful answer even with the best clip
is also counted apart: there, the best clip answers next to zero.

11,880 runs in 198 worlds: median 1.21, p95 2.17, p99 4.8 (with 2 cells and more 1.18, 1.95, 3.6); the useful ones alone
1.26, 2.29, 5.2 (1.21, 1.96, 3.4). The rules that were here before, which fell back to the cap where no run of buckets
stood out by 4.5 sd, had 1.25, 2.64, 15.6 on the useful runs of the first two kinds, and a p99 of hundreds on the others.
What is left of the tail: a few heavy units apart from the others in a single total, too few for the search to see (at a
higher share of the price it sees them, and all others pay), and heavy units crowded in one cell.

Tried and worse, on the tuned worlds: the mean of the errors' ratios instead of their logarithms (p95 2.15, p99 5.6);
clusters that end sooner or counts that wander farther; a share of 20% for a single cell (p99 5.2). 10% under Laplace
noise with 2 cells and more gains 2% on average. By the former rules: octaves (median 1.3); an allowance for the noise
of the cut (median 1.3); the observed tail continued (median 1.4, p95 9); C by bucket middles (no better, and fragile).
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.zcdp_conversion import rho_for
from dpsql.sensitivity.clip_choice import (
    COUNT_WEIGHT,
    SPREAD_WEIGHT,
    Mechanism,
    NormHistogram,
    choose_clip,
    search_share,
    widen,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = Callable[[np.random.Generator, int], Ints]
Amounts = Callable[[np.random.Generator, int], Floats]

EPSILONS = (0.1, 0.5, 2.0)
DELTA = 1e-8
MECHANISMS: tuple[Mechanism, ...] = ("gaussian", "laplace")
FIRST, LAST = -60, 124
"""The half-octave indices of the search: norms from 2^-30 to 2^62."""
STEPS = 4
"""Clips tried in hindsight for each half octave."""
ROWS_DECLARED = 50
USEFUL = 0.25
"""A price buys an answer at all if the best clip's error is below this part of the cells' own root mean square: then
95% bars are within about 50%, which the product calls rough. Below that, the best clip of all answers next to zero."""


@dataclass(frozen=True, slots=True)
class World:
    """Rows of units in groups."""

    name: str
    law: str
    units: int
    groups: int
    rows: Rows
    placing: str = "uniform"
    amounts: Amounts | None = None
    most: float = 1.0
    """The largest value of a row that the policy declares."""

    @property
    def declared(self) -> float:
        return ROWS_DECLARED * self.most

    def contributions(self) -> tuple[Ints, Ints, Floats]:
        """Units, groups and what the one adds to the other, one item per pair."""
        rng = np.random.default_rng(zlib.crc32(f"{self.name}/{self.units}/{self.groups}/{self.placing}".encode()))
        rows = np.maximum(self.rows(rng, self.units), 1)
        units = np.repeat(np.arange(self.units), rows)
        groups = _place(rng, self.placing, units, rows, self.groups)
        values = np.ones(len(units)) if self.amounts is None else np.minimum(self.amounts(rng, len(units)), self.most)
        pairs, where = np.unique(units * self.groups + groups, return_inverse=True)
        return pairs // self.groups, pairs % self.groups, np.bincount(where, values)


def _place(rng: np.random.Generator, placing: str, units: Ints, rows: Ints, groups: int) -> Ints:
    """The group of each row: anywhere, by popularity, in the unit's own group or few groups, or the heavy in one."""
    home = rng.integers(groups, size=len(rows))
    if placing == "home":
        return home[units]
    if placing == "popular":
        weights = 1 / np.arange(1, groups + 1)
        return rng.choice(groups, size=len(units), p=weights / weights.sum())
    if placing == "few":
        return (home[units] + rng.integers(3, size=len(units))) % groups
    placed = rng.integers(groups, size=len(units))
    if placing == "crowded":
        placed[(rows >= np.quantile(rows, 0.98))[units]] = 0
    return placed


@dataclass(frozen=True, slots=True)
class Norms:
    """A world as one mechanism sees it: its norms, and its cells at every clip of a fine grid."""

    world: World
    mechanism: Mechanism
    truth: Floats
    norms: Floats
    counts: Floats
    spreads: Floats
    clips: Floats
    clipped: Floats
    """The cells at each of the clips."""

    @property
    def bias(self) -> Floats:
        """The mean square of what each clip takes from a cell."""
        return np.mean((self.truth - self.clipped) ** 2, axis=1)

    def error(self, clip: float, noise: float) -> float:
        """The root mean square error over cells at the clip, whose noise has the standard deviation clip·noise."""
        return math.hypot(math.sqrt(np.mean((self.truth - self.cells(clip)) ** 2)), clip * noise)

    def cells(self, clip: float) -> Floats:
        """The cells at a clip of the grid, or at the one above every norm."""
        if clip >= self.clips[-1]:
            return self.truth
        if clip < self.clips[0]:
            return self.clipped[0] * (clip / self.clips[0])
        at = int(np.argmin(np.abs(np.log(self.clips / clip))))
        assert math.isclose(self.clips[at], clip, rel_tol=1e-9), "not on the grid"
        return self.clipped[at]

    def best(self, noise: float, cap: float | None) -> float:
        """The least error of any clip of the grid up to the cap."""
        errors = np.sqrt(self.bias + (self.clips * noise) ** 2)
        return float(np.min(errors if cap is None else errors[self.clips <= cap]))

    def useful(self, epsilon: float, cap: float | None) -> bool:
        """Does the price buy an answer at all, if the clip is known?"""
        best = self.best(noise_per_clip(self.mechanism, epsilon, 1.0), cap)
        return best < USEFUL * math.sqrt(np.mean(self.truth**2))


def seen_by(world: World, mechanism: Mechanism) -> Norms:
    """The world's norms and its cells at every clip, from the declared cap down to far below all norms."""
    units, groups, values = world.contributions()
    l1 = np.bincount(units, np.abs(values), minlength=world.units)
    l2 = np.sqrt(np.bincount(units, values**2, minlength=world.units))
    norms = l2 if mechanism == "gaussian" else l1
    spread = (l1 / l2 - 1) / (math.sqrt(world.groups) - 1) if world.groups > 1 else np.zeros(world.units)
    bucket = np.clip(np.ceil(2 * np.log2(norms) - 1e-12).astype(np.int64), FIRST - 1, LAST + 1) - (FIRST - 1)
    size = LAST - FIRST + 3
    lowest = math.floor(2 * math.log2(norms.min())) - 24
    highest = math.ceil(2 * math.log2(max(norms.max(), world.declared)))
    clips = np.exp2(np.arange(lowest * STEPS, highest * STEPS + 1) / (2 * STEPS))
    clips = np.unique(np.append(clips, world.declared))
    level = np.searchsorted(clips, norms * (1 - 1e-12))
    cell = level[units] * world.groups + groups
    shape = (len(clips), world.groups)
    whole = np.bincount(cell, values, minlength=math.prod(shape)).reshape(shape)
    parts = np.bincount(cell, values / norms[units], minlength=math.prod(shape)).reshape(shape)
    below, inside = np.cumsum(whole, axis=0), np.cumsum(parts, axis=0)
    clipped = below + clips[:, None] * (inside[-1] - inside)
    counts = np.bincount(bucket, minlength=size).astype(float)
    return Norms(
        world, mechanism, below[-1], norms, counts, np.bincount(bucket, spread, minlength=size), clips, clipped
    )


@cache
def noise_per_clip(mechanism: Mechanism, epsilon: float, share: float) -> float:
    """The standard deviation of the noise on a cell at C = 1, for a share of the price."""
    if mechanism == "gaussian":
        return 1 / math.sqrt(2 * share * float(rho_for(epsilon, DELTA)))
    return math.sqrt(2) / (share * epsilon)


def searched(norms: Norms, epsilon: float, share: float, rng: np.random.Generator) -> NormHistogram:
    """The histogram that a search would release."""
    sd, size = noise_per_clip(norms.mechanism, epsilon, share), len(norms.counts)
    if norms.mechanism == "laplace":
        noise = rng.laplace(scale=sd / math.sqrt(2), size=size)
        return NormHistogram(FIRST, norms.counts + noise, None, sd, None)
    sds = sd / COUNT_WEIGHT, sd / SPREAD_WEIGHT
    counts = norms.counts + rng.normal(0, sds[0], size)
    return NormHistogram(FIRST, counts, norms.spreads + rng.normal(0, sds[1], size), *sds)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the search: its error, the least in hindsight at the full price, and that of the declared cap."""

    world: str
    groups: int
    epsilon: float
    units: int
    found: bool
    clip: float
    error: float
    best: float
    declared: float
    useful: bool

    @property
    def ratio(self) -> float:
        return self.error / self.best


def run_all(worlds: Sequence[World], runs: int, mechanism: Mechanism, *, capped: bool = True) -> Iterator[Run]:
    for world in worlds:
        share = float(search_share(world.groups))
        norms = seen_by(world, mechanism)
        rng = np.random.default_rng(zlib.crc32(f"{world.name}/{mechanism}".encode()))
        cap = world.declared if capped else None
        for epsilon in EPSILONS:
            full, rest = noise_per_clip(mechanism, epsilon, 1.0), noise_per_clip(mechanism, epsilon, 1 - share)
            best, declared, useful = (
                norms.best(full, cap),
                norms.error(world.declared, rest),
                norms.useful(epsilon, cap),
            )
            for _ in range(runs):
                histogram = searched(norms, epsilon, share, rng)
                choice = choose_clip(histogram, groups=world.groups, noise_per_clip=rest, mechanism=mechanism, cap=cap)
                error = norms.error(choice.clip, rest)
                yield Run(
                    world.name,
                    world.groups,
                    epsilon,
                    world.units,
                    choice.found,
                    choice.clip,
                    error,
                    best,
                    declared,
                    useful,
                )


def constant(k: int) -> Rows:
    return lambda rng, n: np.full(n, k)


def geometric(mean: float) -> Rows:
    return lambda rng, n: rng.geometric(1 / mean, n)


def log_normal(median: float, sigma: float) -> Rows:
    return lambda rng, n: np.minimum(np.rint(median * np.exp(sigma * rng.normal(size=n))), 10_000).astype(np.int64)


def pareto(alpha: float, least: float) -> Rows:
    return lambda rng, n: np.minimum(least * (1 + rng.pareto(alpha, n)), 10_000).astype(np.int64)


def zipf(alpha: float) -> Rows:
    return lambda rng, n: np.minimum(rng.zipf(alpha, n), 2_000)


def bimodal(light: int, heavy: int, share: float) -> Rows:
    return lambda rng, n: np.where(rng.random(n) < share, rng.poisson(heavy, n), rng.poisson(light, n))


def skewed(median: float, sigma: float) -> Amounts:
    return lambda rng, n: median * np.exp(sigma * rng.normal(size=n))


def even(low: float, high: float) -> Amounts:
    return lambda rng, n: rng.uniform(low, high, n)


ROWS: dict[str, Rows] = {
    "constant 1": constant(1),
    "constant 7": constant(7),
    "geometric 3": geometric(3),
    "geometric 12": geometric(12),
    "log-normal 2, 0.8": log_normal(2, 0.8),
    "log-normal 6, 1.2": log_normal(6, 1.2),
    "Pareto 3": pareto(3, 2),
    "Zipf 2.5": zipf(2.5),
    "Zipf 1.9": zipf(1.9),
    "bimodal 2, 40 of 5%": bimodal(2, 40, 0.05),
    "bimodal 3, 60 of 3%": bimodal(3, 60, 0.03),
}


def negative_binomial(mean: float, shape: float) -> Rows:
    return lambda rng, n: 1 + rng.negative_binomial(shape, shape / (shape + mean), n)


def weibull(scale: float, shape: float) -> Rows:
    return lambda rng, n: np.ceil(scale * rng.weibull(shape, n)).astype(np.int64)


def anything_up_to(most: int) -> Rows:
    return lambda rng, n: rng.integers(1, most, n, endpoint=True)


def gamma(mean: float, shape: float) -> Amounts:
    return lambda rng, n: rng.gamma(shape, mean / shape, n)


def power(least: float, alpha: float) -> Amounts:
    return lambda rng, n: least * (1 + rng.pareto(alpha, n))


def prices(*choices: float) -> Amounts:
    return lambda rng, n: rng.choice(choices, n)


FRESH_ROWS: dict[str, Rows] = {
    "one row": constant(1),
    "negative binomial 4, 0.5": negative_binomial(4, 0.5),
    "negative binomial 9, 2": negative_binomial(9, 2),
    "Pareto 2.5": pareto(2.5, 1.5),
    "Pareto 3.5": pareto(3.5, 4),
    "Weibull 4, 0.7": weibull(4, 0.7),
    "anything up to 20": anything_up_to(20),
    "log-normal 3, 1": log_normal(3, 1),
    "bimodal 1, 25 of 10%": bimodal(1, 25, 0.1),
    "bimodal 4, 50 of 1%": bimodal(4, 50, 0.01),
    "Zipf 2.2": zipf(2.2),
}


def tuned() -> list[World]:
    """The worlds on which the chooser was tuned: each law of rows at six sizes, with groups and amounts that differ."""
    amounts = {"count": None, "skewed": skewed(40, 1.0), "even": even(5, 500)}
    return _worlds(1, ROWS, (1, 6, 12, 36, 100, 300, 1000), ("uniform", "popular", "home", "few"), amounts)


def fresh() -> list[World]:
    """Worlds that little was tuned on: other laws, sizes, groups and amounts, and heavy units crowded in one group."""
    amounts = {"count": None, "gamma": gamma(60, 0.5), "power": power(20, 2.5), "prices": prices(5, 9.99, 49, 399)}
    return _worlds(2, FRESH_ROWS, (1, 4, 8, 24, 52, 150, 500), ("uniform", "crowded", "popular", "home"), amounts)


LATER_ROWS: dict[str, Rows] = {
    "one or two": anything_up_to(2),
    "constant 30": constant(30),
    "geometric 1.5": geometric(1.5),
    "Poisson 8": bimodal(8, 8, 0.5),
    "log-normal 4, 0.6": log_normal(4, 0.6),
    "Pareto 4": pareto(4, 3),
    "Weibull 10, 0.5": weibull(10, 0.5),
    "negative binomial 2, 1": negative_binomial(2, 1),
    "anything up to 60": anything_up_to(60),
    "bimodal 1, 15 of 20%": bimodal(1, 15, 0.2),
    "Zipf 3": zipf(3),
}


def later() -> list[World]:
    """Worlds written after the chooser was last changed, for its final figures: nothing was tuned on these."""
    amounts = {"count": None, "lumps": prices(1, 20, 500), "even": even(0, 100), "skewed": skewed(15, 0.7)}
    return _worlds(3, LATER_ROWS, (1, 2, 7, 30, 60, 250, 800), ("uniform", "few", "home", "popular"), amounts)


def _worlds(
    seed: int,
    laws: Mapping[str, Rows],
    groups: Sequence[int],
    placings: Sequence[str],
    amounts: Mapping[str, Amounts | None],
) -> list[World]:
    rng = np.random.default_rng(seed)
    worlds = []
    for number, (law, rows) in enumerate(laws.items()):
        for size in range(6):
            units = round(300 * (50_000 / 300) ** ((size + rng.random()) / 6))
            cells, placing = int(rng.choice(groups)), str(rng.choice(placings))
            what = list(amounts)[(number + size) % len(amounts)]
            name = f"{law}; {what}, {units} units, {cells} groups, {placing}"
            most = 1.0 if amounts[what] is None else 500.0
            worlds.append(World(name, law, units, cells, rows, placing, amounts[what], most))
    return worlds


def row_of(title: str, runs: Sequence[Run]) -> str:
    if not runs:
        return f"{title:34}     0"
    ratios = np.array([run.ratio for run in runs])
    declared = np.median([run.declared / run.best for run in runs])
    worse = np.mean([run.error > 1.000001 * run.declared for run in runs])
    lost = np.mean([not run.found for run in runs])
    median, p95, p99 = np.quantile(ratios, [0.5, 0.95, 0.99])
    return (
        f"{title:34}{len(runs):6}{median:8.2f}{p95:8.2f}{p99:8.2f}{ratios.max():9.1f}"
        f"{worse:10.1%}{lost:10.1%}{declared:10.1f}"
    )


HEAD = f"{'':34}{'runs':>6}{'median':>8}{'p95':>8}{'p99':>8}{'worst':>9}{'> cap':>10}{'not found':>10}{'cap p50':>10}"
PARTS: dict[str, Callable[[Run], bool]] = {
    "found": lambda run: run.found,
    "not found": lambda run: not run.found,
    "under 1,000 units": lambda run: run.units < 1_000,
    "1,000 to 5,000 units": lambda run: 1_000 <= run.units < 5_000,
    "more units": lambda run: run.units >= 5_000,
    "one cell": lambda run: run.groups == 1,
    "2 to 12 cells": lambda run: 1 < run.groups <= 12,
    "more cells": lambda run: run.groups > 12,
    **{f"epsilon {epsilon}": lambda run, epsilon=epsilon: run.epsilon == epsilon for epsilon in EPSILONS},
}


def coverage(worlds: Sequence[World], runs: int, mechanism: Mechanism) -> str:
    """How often 95% bars hold the exact truth, by law of rows: from noise alone, and widened for the cut."""
    z = 1.96 if mechanism == "gaussian" else math.log(20) / math.sqrt(2)
    held: dict[str, list[tuple[float, float, float]]] = {}
    for world in worlds:
        norms, part = seen_by(world, mechanism), float(search_share(world.groups))
        rng = np.random.default_rng(zlib.crc32(f"{world.name}/{mechanism}/bars".encode()))
        for epsilon in EPSILONS:
            rest = noise_per_clip(mechanism, epsilon, 1 - part)
            if not norms.useful(epsilon, world.declared):
                continue
            for _ in range(runs):
                choice = choose_clip(
                    searched(norms, epsilon, part, rng),
                    groups=world.groups, noise_per_clip=rest, mechanism=mechanism, cap=world.declared,
                )  # fmt: skip
                sd = choice.clip * rest
                noise = (
                    rng.normal(0, sd, world.groups)
                    if mechanism == "gaussian"
                    else rng.laplace(0, sd / math.sqrt(2), world.groups)
                )
                values = norms.cells(choice.clip) + noise
                missing = norms.truth - values
                below, above = widen(values, choice)
                bars = (-z * sd - below <= missing) & (missing <= z * sd + above)
                width = 1 + float(np.mean(below + above)) / (2 * z * sd)
                held.setdefault(world.law, []).append(
                    (float(np.mean(abs(missing) <= z * sd)), float(np.mean(bars)), width)
                )
    lines = [f"{mechanism + ', 95% bars':34}{'runs':>6}{'noise':>8}{'widened':>9}{'width p50':>11}{'mean':>7}"]
    for law, each in held.items():
        alone, widened, width = np.mean(each, axis=0)
        lines.append(
            f"  {law:32}{len(each):6}{alone:8.3f}{widened:9.3f}{np.median([w for _, _, w in each]):11.2f}{width:7.2f}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="every fifth world")
    parser.add_argument("--runs", type=int, default=10, help="runs for each world and price")
    parser.add_argument(
        "--no-cap", action="store_true", help="the policy declares nothing; what is not found is left out"
    )
    parser.add_argument("--worst", type=int, default=0, help="list so many of the worst runs")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    kinds = {"tuned": tuned(), "fresh": fresh(), "later": later()}
    step = 5 if options.quick else 1
    print(HEAD)
    everything: list[Run] = []
    for (kind, worlds), mechanism in product(kinds.items(), MECHANISMS):
        runs = list(run_all(worlds[::step], options.runs, mechanism, capped=not options.no_cap))
        runs = [run for run in runs if run.found or not options.no_cap]
        useful = [run for run in runs if run.useful]
        everything += runs
        print(row_of(f"{kind}, {mechanism}", useful))
        for part, belongs in PARTS.items():
            print(row_of(f"  {part}", [run for run in useful if belongs(run)]))
        print(row_of("  no useful answer at this price", [run for run in runs if not run.useful]))
        for run in sorted(useful, key=lambda run: -run.ratio)[: options.worst]:
            print(
                f"    {run.ratio:8.1f}  epsilon {run.epsilon}, {'C = ' + format(run.clip, 'g') if run.found else 'not found'}; {run.world}"
            )
    for title, belongs in (
        ("all", lambda run: True),
        ("all, 2 cells and more", lambda run: run.groups > 1),
        ("all useful", lambda run: run.useful),
        ("all useful, 2 cells and more", lambda run: run.useful and run.groups > 1),
    ):
        print(row_of(title, [run for run in everything if belongs(run)]))
    for (kind, worlds), mechanism in product(kinds.items(), MECHANISMS):
        print(f"{kind}, {coverage(worlds[::step], options.runs, mechanism)}")
    print(f"{time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
