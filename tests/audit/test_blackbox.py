"""The black-box audit accepts what keeps its promise and flags what does not, whatever gives it away."""

from __future__ import annotations

import math
from contextlib import nullcontext
from statistics import NormalDist

import numpy as np
import pytest
from planted import half_the_noise

from dpsql.audit.blackbox.audit import Seen, Verdict, audit, judged, refuted
from dpsql.audit.blackbox.binomial import BETA, Counts, interval, lower_bound, p_value
from dpsql.audit.blackbox.cases import QUERIES, cases
from dpsql.audit.blackbox.observe import Changed, Observation, opened, remember_integers, through
from dpsql.audit.blackbox.promise import Limit
from dpsql.interfaces.audit_doors import dbapi, server
from dpsql.mechanisms.convert import rho_for

RUNS = 600


@pytest.mark.parametrize("name", ["count, Laplace", "average, Laplace"])
@pytest.mark.parametrize("planted", [False, True])
def test_half_the_noise_is_flagged_and_all_of_it_is_not(name: str, planted: bool) -> None:
    with half_the_noise() if planted else nullcontext():
        made = audit(cases((name,))[0], RUNS, lambda _: None)
    assert bool(refuted(made.tests)) == planted, made.tests


def test_no_run_is_refused_although_each_one_takes_of_a_delta_that_adds_up() -> None:
    made = audit(cases(("private keys, Laplace",))[0], 600, lambda _: None)
    assert made.answered == made.runs


def test_an_audit_goes_through_a_door_that_only_gives_rows() -> None:
    with half_the_noise():
        made = audit(cases(("count, Laplace",))[0], 300, lambda _: None, dbapi)
    assert made.tests and refuted(made.tests)


def test_an_audit_goes_through_a_server_that_draws_fresh_noise_each_time() -> None:
    case = cases(("sum, Laplace",))[0]
    with server(case.world) as ask:
        observe = through(ask)
        seen = {observe(case.sql) for _ in range(5)}
        assert len(seen) == 5 and all(each.rows and not each.error for each in seen)
        assert observe("SELECT income FROM people").error.startswith("UnsupportedQuery")


def test_every_query_can_be_asked_of_both_neighbours() -> None:
    """At least twenty of them, and each answers."""
    assert len(QUERIES) >= 20
    for case in cases():
        with opened(case.world.without(case.unit)) as db:
            assert db.query(case.sql).columns


# the promise --------------------------------------------------------------------------------------------------------------


def laplace(shift: float, cut: float) -> float:
    """P[Z + shift ≥ cut] for Laplace noise of scale 1."""
    z = cut - shift
    return 0.5 * math.exp(-z) if z >= 0 else 1 - 0.5 * math.exp(z)


@pytest.mark.parametrize("cut", np.linspace(-3, 4, 15))
def test_laws_that_keep_a_promise_lie_inside_it(cut: float) -> None:
    limit = Limit("epsilon", 1.0, 0.0)
    assert laplace(1, cut) <= limit.most(np.array([laplace(0, cut)]))[0] + 1e-9
    mu = math.sqrt(2 * 0.06)
    normal, zcdp = NormalDist(), Limit("rho", 0.06, 0.0)
    assert normal.cdf(mu - cut) <= zcdp.most(np.array([normal.cdf(-cut)]))[0] + 1e-9


def test_laws_with_half_the_noise_lie_outside() -> None:
    limit = Limit("epsilon", 1.0, 0.0)
    assert laplace(2, 2) > limit.most(np.array([laplace(0, 2)]))[0] + 0.1
    rho = float(rho_for(1, 1e-3))
    mu, normal = 2 * math.sqrt(2 * rho), NormalDist()
    assert normal.cdf(mu / 2) > Limit("rho", rho, 0.0).most(np.array([normal.cdf(-mu / 2)]))[0] + 0.03


def test_slack_widens_a_promise() -> None:
    q = np.array([0.0, 0.2])
    assert np.all(Limit("rho", 0.1, 0.01).most(q) > Limit("rho", 0.1, 0.0).most(q))
    assert Limit("epsilon", 1.0, 0.01).most(q)[0] == pytest.approx(0.01)


# the test -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "n"), [(Limit("epsilon", 1.0, 0.0), 24), (Limit("epsilon", 1.0, 0.02), 24), (Limit("rho", 0.3, 0.0), 5)]
)
@pytest.mark.parametrize("q", [0.12, 0.4])
def test_on_the_edge_of_a_promise_a_p_value_is_as_rare_as_it_says(limit: Limit, n: int, q: float) -> None:
    """All counts, weighed by their chance: P[p-value ≤ x] ≤ x, wherever the event was thought to lie."""
    p = float(limit.most(np.array([q]))[0])
    one, two = ([math.comb(n, k) * c**k * (1 - c) ** (n - k) for k in range(n + 1)] for c in (p, q))
    for thought in (q, 0.8):
        found = {(k, m): p_value(Counts(k, n, m, n), limit, thought) for k in range(n + 1) for m in range(n + 1)}
        for x in (0.001, 0.01, 0.05, 0.2):
            assert sum(one[k] * two[m] for (k, m), value in found.items() if value <= x) <= x


def test_what_is_rare_on_both_sides_is_judged_where_it_lies() -> None:
    """Over all q the worst would be one far from what was seen, and 222 against 32 of 2,000 would be no evidence."""
    limit = Limit("epsilon", 1.0, 1e-3)
    assert p_value(Counts(222, 2000, 32, 2000), limit, 0.015) < 1e-4
    assert p_value(Counts(92, 2000, 32, 2000), limit, 0.015) > 0.3


def test_the_interval_is_clopper_and_pearsons() -> None:
    stats = pytest.importorskip("scipy.stats")
    for hits, runs in ((0, 50), (3, 50), (50, 50), (32, 2000)):
        wanted = stats.binomtest(hits, runs).proportion_ci(1 - 1e-5, "exact")
        assert interval(hits, runs, 1e-5) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


def test_a_lower_bound_is_below_the_truth_and_near_it() -> None:
    limit = Limit("epsilon", 1.0, 0.0)
    counts = Counts(round(2000 * 0.88), 2000, round(2000 * 0.119), 2000)
    found = lower_bound(counts, limit, 0.119, 0.001)
    assert 1.6 < found < 2.0
    kept = lower_bound(Counts(1430, 2000, 552, 2000), limit, 0.27, 0.01)
    assert 0.7 < kept < 1.0
    assert p_value(counts, limit, 0.119) < 1.1 * BETA


# what gives it away ---------------------------------------------------------------------------------------------------------


def leaking(what: str, chance: float, rng: np.random.Generator) -> Observation:
    """An answer that leaks in one way and no other."""
    hit = bool(rng.random() < chance)
    rows = [("a", 1 + int(rng.integers(9))), ("b", 2)]
    match what:
        case "key":
            rows = rows[:1] if hit else rows
        case "order":
            rows = rows[::-1] if hit else rows
        case "NULL":
            rows = [("a", None if hit else 5), ("b", 2)]
        case "error":
            return Observation((), "EngineError: …") if hit else Observation(tuple(rows))
        case "value":
            rows = [("a", 100 if hit else 5), ("b", 2)]
        case "pair":
            one = int(rng.integers(100))
            rows = [("a", one), ("b", 300 - one if hit else int(rng.integers(100)))]
    return Observation(tuple(rows))


@pytest.mark.parametrize("what", ["key", "order", "NULL", "error", "value", "pair"])
def test_values_keys_order_nulls_and_errors_all_count(what: str) -> None:
    rng = np.random.default_rng(1)
    limits = (Limit("epsilon", 1.0, 0.0), Limit("rho", 0.3, 0.0))

    def seen(ours: float, theirs: float) -> tuple[Verdict, ...]:
        sides = tuple([leaking(what, chance, rng) for _ in range(800)] for chance in (ours, theirs))
        return judged(what, Seen((sides[0], sides[1]), (False, True), limits))

    assert refuted(seen(0.5, 0.05))
    assert not refuted(seen(0.2, 0.2))


def test_integers_that_change_by_themselves_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases(("count, Laplace",))[0]
    monkeypatch.setattr("dpsql.audit.blackbox.observe.RECHECKED", 2)
    with opened(case.world) as db:
        compute, calls = db._engine.run, list[int]()

        def drifting(*args: object) -> object:
            calls.append(1)
            exact = compute(*args)  # type: ignore[arg-type]
            exact.values[0][0] += len(calls)
            return exact

        monkeypatch.setattr(db._engine, "run", drifting)
        remember_integers(db)
        db.query(case.sql)
        with pytest.raises(Changed):
            db.query(case.sql)
