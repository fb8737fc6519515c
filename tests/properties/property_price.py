"""Does the price that is charged cover the noise that is drawn? Recomputed here, by other means than the product's."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from property_world import SALT, Database
from scipy.optimize import minimize_scalar
from unlocked import run, sealed, unsealed

from dpsql.answers import noise_stage as release_noise
from dpsql.audit import ReleaseTrace, StatisticTrace, trace
from dpsql.audit.grammar.query_writer import Query
from dpsql.budget.pricing import Priced, charge_of
from dpsql.mechanisms import DiscreteGaussian, Noise
from dpsql.mechanisms.exact_numbers import UNIT
from dpsql.query_draft import PreparedQuery

SLACK = 1 + 1e-9
"""What the floats of this file may be off."""


def price_violations(database: Database, query: Query) -> list[str]:
    """Asked ≥ charged ≥ spent, where spent follows from the traced claims and scales."""
    prepared = database.db.prepare(query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism)
    releases = trace(
        database.db, query.sql, salt=SALT, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism
    )
    charge = charge_of(prepared.bill.releases)
    assert charge is not None
    exposed = sum(exposure(p) for p in prepared.bill.releases)
    found = (
        []
        if exposed <= float(charge.delta * UNIT) * SLACK
        else [f"thresholds expose {exposed}, charged {float(charge.delta * UNIT)}"]
    )
    if query.mechanism == "laplace":
        return found + _pure(prepared, releases, None if charge.epsilon is None else charge.epsilon * UNIT)
    return found + _concentrated(prepared, releases, charge.rho * UNIT, float(charge.delta * UNIT))


def _pure(prepared: PreparedQuery, releases: list[ReleaseTrace], charged: Fraction | None) -> list[str]:
    spent = sum((Fraction(l1) / scale for r in releases for l1, _, scale in _shares(r)), Fraction(0))
    found = (
        [f"epsilon {float(spent)} is spent, {float(prepared.bill.epsilon)} was asked"]
        if spent > prepared.bill.epsilon
        else []
    )
    if charged is not None and spent > charged:
        found.append(f"epsilon {float(spent)} is spent, {float(charged)} is charged")
    return found


def _concentrated(prepared: PreparedQuery, releases: list[ReleaseTrace], charged: Fraction, tails: float) -> list[str]:
    spent = sum((Fraction(l2) ** 2 / (2 * scale**2) for r in releases for _, l2, scale in _shares(r)), Fraction(0))
    found = [f"rho {float(spent)} is spent, {float(charged)} is charged"] if spent > charged else []
    total = tails + _delta(float(spent), float(prepared.bill.epsilon))
    if total > float(prepared.bill.delta) * SLACK:
        found.append(f"delta is {total} at the asked epsilon, {float(prepared.bill.delta)} was asked")
    return found


def _shares(release: ReleaseTrace) -> list[tuple[int, int, Fraction]]:
    """L1, L2 and scale of each part of the release that is noised for itself: a joint claim covers its statistics."""
    named = {s.name: s for s in release.statistics}
    shares = [(l1, l2, named[names[0]].scale) for names, l1, l2 in release.joint]
    joined = {name for names, _, _ in release.joint for name in names}
    return shares + [(_claim(s.l1), _claim(s.l2), s.scale) for s in release.statistics if s.name not in joined]


def _claim(norm: int | None) -> int:
    assert norm is not None
    return norm


def _delta(rho: float, epsilon: float) -> float:
    """The tight conversion of zCDP, minimised numerically over the order."""

    def log_delta(u: float) -> float:
        order = 1 + math.exp(u)
        return (order - 1) * (order * rho - epsilon) - math.log(order - 1) + order * math.log1p(-1 / order)

    return math.exp(minimize_scalar(log_delta, bounds=(-10, 15), method="bounded", options={"xatol": 1e-10}).fun)


# thresholds -------------------------------------------------------------------------------------------------------------


def exposure(priced: Priced) -> float:
    """The chance that a unit's own keys show, at the worst number of groups; by the discrete law."""
    selection, cut = priced.bounded.selection, priced.threshold
    if priced.bounded.public or selection is None or cut is None or priced.selection is None:
        return 0.0
    chances = [tail(priced.selection.noise, cut - weight) for weight in selection.weights]
    return max(-math.expm1(groups * math.log1p(-chance)) for groups, chance in enumerate(chances, 1))


def tail(noise: Noise, x: int) -> float:
    """P[Z ≥ x] for x ≥ 1, summed up from the definition of the law."""
    assert x >= 1
    if isinstance(noise, DiscreteGaussian):
        sigma = float(noise.scale)
        z = np.arange(-math.ceil(40 * sigma), math.ceil(40 * sigma) + 1, dtype=np.float64)
        weights = np.exp(-z * z / (2 * sigma * sigma))
        return float(weights[z >= x].sum() / weights.sum())
    with localcontext() as context:
        context.prec = 60
        q = (-Decimal(noise.scale.denominator) / Decimal(noise.scale.numerator)).exp()
        return float(q**x / (1 + q))


# the noise itself -------------------------------------------------------------------------------------------------------


def variance_violations(database: Database, query: Query, times: int = 30) -> list[str]:
    """The noise on a real query has the variance of its traced scale: six standard errors are allowed."""
    prepared = database.db.prepare(query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism)
    [priced], [release] = prepared.bill.releases, trace(
        database.db, query.sql, salt=SALT, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism
    )  # fmt: skip
    ran = run(database.db.engine, priced, SALT)
    draws = [release_noise.add_noise(priced, ran).noisy for _ in range(times)]
    found = []
    for index, statistic in enumerate(release.statistics):
        noise = np.concatenate([draw[index] - unsealed(ran).values[index] for draw in draws]).astype(np.float64)
        variance, kurtosis = _law(statistic)
        ratio = float((noise**2).mean()) / variance
        if abs(ratio - 1) > 6 * math.sqrt((kurtosis - 1) / noise.size):
            found.append(f"{statistic.name}: the noise has {ratio:.3f} times the variance of its scale")
    return found


def _law(statistic: StatisticTrace) -> tuple[float, float]:
    """Variance and kurtosis; scales here are large, where the discrete laws have those of the continuous."""
    scale = float(statistic.scale)
    assert scale > 20
    return (2 * scale**2, 6.0) if statistic.mechanism == "laplace" else (scale**2, 3.0)


def shown_bias(database: Database, query: Query) -> list[str]:
    """Numbers shown beside private keys are unbiased, even for keys that just reached the threshold."""
    [priced] = database.db.prepare(
        query.sql, epsilon=query.epsilon, delta=query.delta, mechanism=query.mechanism
    ).bill.releases
    assert priced.threshold is not None
    size = 4_000
    keys = tuple((f"key {i:05}",) for i in range(size))
    level = np.full(size, priced.threshold, dtype=np.int64)
    released = release_noise.add_noise(priced, sealed(keys, tuple(level for _ in priced.noised), level))
    noise = released.noisy[0] - priced.threshold
    error = math.sqrt(priced.noised[0].noise.variance() / max(1, noise.size))
    found = [] if size / 3 < noise.size < size else [f"{noise.size} of {size} keys at the threshold are shown"]
    if abs(float(noise.mean())) > 6 * error:
        found.append(f"the numbers shown are off by {float(noise.mean()):.2f} on average")
    return found
