"""The black-box audit accepts what keeps its promise and flags what does not, whatever gives it away."""

from __future__ import annotations

import math
from contextlib import nullcontext
from statistics import NormalDist

import numpy as np
import pytest
from attack.blackbox_cases import QUERIES, cases
from planted import half_the_noise
from tiers import SERVER, need
from unlocked import unsealed

from dpsql.audit.blackbox.observations import Changed, Observation, opened, remember_integers, through
from dpsql.audit.blackbox.promise_test import BETA, Counts, Limit, interval, lower_bound, p_value
from dpsql.audit.blackbox.rounds import (
    FIRST,
    LEVEL,
    Audited,
    BlackBoxCase,
    EventTest,
    Seen,
    audit,
    judged,
    refuted,
    rounds,
    settled,
)
from dpsql.audit.blackbox_check import own_cases, report_of
from dpsql.audit.world import StoredTable, World
from dpsql.interfaces.cli.audit_command import dbapi, server
from dpsql.mechanisms.zcdp_conversion import rho_for

CLEAR = (
    "count, Laplace",
    "count, Gaussian",
    "private keys only, Gaussian",
    "above a released average, Gaussian",
    "median, Gaussian",
)
"""One of each kind, of those that few runs make clear; `tests/audit/black_box.py` asks all of them."""


@pytest.mark.parametrize("name", CLEAR)
@pytest.mark.parametrize("planted", [False, True])
def test_half_the_noise_is_flagged_and_all_of_it_is_not(name: str, planted: bool) -> None:
    with half_the_noise() if planted else nullcontext():
        made = audit(cases((name,))[0], 2 * FIRST if planted else FIRST, lambda _: None)
    assert bool(refuted(made.tests)) == planted, made.tests


def test_every_kind_is_asked_with_both_kinds_of_noise() -> None:
    for kind in ("count", "private keys", "private keys with a sum", "average of totals", "joined results", "median"):
        assert {f"{kind}, Laplace", f"{kind}, Gaussian"} <= set(QUERIES)


def test_no_run_is_refused_although_each_one_takes_of_a_delta_that_adds_up() -> None:
    made = audit(cases(("private keys, Laplace",))[0], 600, lambda _: None)
    assert made.answered == made.runs


def test_an_audit_goes_through_a_door_that_only_gives_rows() -> None:
    with half_the_noise():
        made = audit(cases(("count, Laplace",))[0], 300, lambda _: None, dbapi)
    assert made.tests and refuted(made.tests)


def test_an_audit_goes_through_a_server_that_draws_fresh_noise_each_time() -> None:
    """Two draws of a scale of 8·10⁸ steps are the same with a chance of 3·10⁻¹⁰."""
    need(*SERVER)
    case = cases(("sum, Laplace",))[0]
    with server(case.world) as ask:
        observe = through(ask)
        seen = {observe(case.sql) for _ in range(3)}
        assert len(seen) == 3 and all(each.rows and not each.error for each in seen)
        assert observe("SELECT income FROM people").error.startswith("UnsupportedQuery")


def test_every_query_can_be_asked_of_both_neighbours() -> None:
    """At least twenty of them, and each answers."""
    assert len(QUERIES) >= 20
    for case in cases():
        with opened(case.world.without(case.unit)) as db:
            assert db.query(case.sql).columns


# rounds -------------------------------------------------------------------------------------------------------------------


def test_each_round_has_as_many_new_runs_as_there_were_before() -> None:
    assert rounds(3200) == [400, 800, 1600, 3200]
    assert rounds(600) == [600] and rounds(1000) == [500, 1000]


def verdict(hits: int, misses: int, p: float, runs: int = 2000, kind: str = "epsilon") -> EventTest:
    limit = Limit("rho" if kind == "rho" else "epsilon", 1.0, 0.0)
    return EventTest("case", "event", "with the unit", limit, Counts(hits, runs, misses, runs), misses / runs, p)


def test_an_audit_goes_on_while_something_hints_at_a_breach_or_half_the_noise_might_be_missed() -> None:
    clear, unclear = (1430, 552), (1010, 1000)
    assert settled([verdict(*clear, p=1.0)], 1e-4)
    assert not settled([verdict(*clear, p=0.9)], 1e-4)
    assert not settled([verdict(*unclear, p=1.0)], 1e-4)
    assert not settled([verdict(*clear, p=1.0), verdict(*unclear, p=0.5)], 1e-4)
    assert settled([verdict(*unclear, p=0.9), verdict(*unclear, p=1e-5)], 1e-4)


@pytest.mark.parametrize("kind", ["epsilon", "rho"])
def test_the_factor_is_the_noise_at_which_the_same_answers_are_refuted(kind: str) -> None:
    """A promise that calls for 1/f times the noise costs f times the ε, or f² times the ρ."""
    found = verdict(1430, 552, 0.9, kind=kind)
    factor = found.factor(1e-3)
    assert 0.3 < factor < 1
    for share, flagged in ((0.98, True), (1.02, False)):
        value = share * factor if kind == "epsilon" else (share * factor) ** 2
        assert (p_value(found.counts, found.limit.at(value), found.q) <= 1e-3) == flagged


def test_what_counts_for_several_rounds_counts_less() -> None:
    once, often = verdict(1430, 552, 0.9), EventTest(*_parts(verdict(1430, 552, 0.9)), rounds=8)
    assert often.lower(1e-3) == once.lower(1e-3 / 8) < once.lower(1e-3)


def _parts(v: EventTest) -> tuple[str, str, str, Limit, Counts, float, float]:
    return v.case, v.event, v.direction, v.limit, v.counts, v.q, v.p


def test_a_report_names_the_queries_whose_noise_might_be_halved_unnoticed() -> None:
    case = cases(("count, Laplace",))[0]
    made = report_of([Audited(case, 4000, (verdict(1010, 1000, 0.9),), 0.0, answered=4000)], 0.0)
    assert made.passed and "count, Laplace" in made.notes[0]
    seen = report_of([Audited(case, 4000, (verdict(1430, 552, 0.9),), 0.0, answered=4000)], 0.0)
    assert (
        seen.passed
        and not seen.notes
        and ("queries in which half the right noise would have been flagged", 1) in seen.figures
    )


# a steward's own world ----------------------------------------------------------------------------------------------------


def shop(delta: str) -> World:
    """Nobody is near a bound, no key has enough units, and no median turns."""
    columns = {"id": "INTEGER", "amount": "DECIMAL(8,2)", "city": "VARCHAR"}
    rows = tuple((i, "10", f"c{i}") for i in range(40) for _ in range(2))
    declared = {"amount": {"min": 0, "max": 500}, "city": {}}
    policy = {
        "dataset": "shop",
        "search": False,
        "budget": {"epsilon": 10, "delta": delta},
        "tables": {"orders": {"unit": "id", "max_rows_per_unit": 10, "columns": declared}},
    }
    return World.made("shop", policy, {"orders": StoredTable(columns, rows)})


@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_a_unit_of_a_stewards_world_is_made_to_show_all_that_it_may(delta: str) -> None:
    found = own_cases(shop(delta), 4)
    asked = [case.sql for case in found]
    assert [any(word in sql for sql in asked) for word in ("count(*)", "avg", "median", "DISTINCT")] == [
        True, True, True, delta != "0",
    ]  # fmt: skip
    total = next(case for case in found if "avg" in case.sql)
    assert [row[1] for row in total.world.rows_of(total.unit)["orders"]] == ["500"] * 10
    middle = next(case for case in found if "median" in case.sql)
    assert {row[1] for row in middle.world.tables["orders"].rows} == {"0", "250", "500"}


@pytest.mark.parametrize("number", [2, 3])
def test_half_the_noise_is_flagged_in_a_stewards_world(number: int) -> None:
    """A median and private keys, where the stored rows would show nothing."""
    case: BlackBoxCase = own_cases(shop("1e-6"), 4)[number]
    with half_the_noise():
        made = audit(case, 4 * FIRST, lambda _: None, level=LEVEL / 8)
    assert refuted(made.tests) and made.answered == made.runs


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


def test_a_price_without_a_conversion_is_its_own_epsilon() -> None:
    assert Limit("rho", 0.1, 0.0).epsilon() == 0.1
    assert Limit("rho", 0.1, 0.0, conversion=1e-6).epsilon() > 1


def test_slack_is_a_share_of_runs_for_which_nothing_is_promised() -> None:
    """A tenth of the runs tell everything; for the others the promise holds with what is left of q."""
    rest = Limit("rho", 0.1, 0.0).most(np.array([0.0, 0.2 / 0.9]))
    assert Limit("rho", 0.1, 0.1).most(np.array([0.0, 0.2])) == pytest.approx(0.1 + 0.9 * rest)


@pytest.mark.parametrize("rho", [0.3, 1.0, 3.0])
def test_no_order_is_left_out_of_a_promise_not_even_the_first(rho: float) -> None:
    """Of two bits far apart the divergence of Kullback and Leibler, either way round, is the first to exceed ρ."""
    q = np.array([0.01, 0.1, 0.3, 0.7, 0.9])
    p = Limit("rho", rho, 0.0).most(q)
    forth, back = (a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b)) for a, b in ((p, q), (q, p)))
    assert np.all(forth <= rho + 1e-6) and np.all(back <= rho + 1e-6)


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

    def seen(ours: float, theirs: float) -> tuple[EventTest, ...]:
        sides = tuple([leaking(what, chance, rng) for _ in range(800)] for chance in (ours, theirs))
        return judged(what, Seen((sides[0], sides[1]), (False, True), limits))

    assert refuted(seen(0.5, 0.05))
    assert not refuted(seen(0.2, 0.2))


@pytest.mark.parametrize("seed", range(12))
def test_both_directions_are_tested_and_find_half_the_noise(seed: int) -> None:
    """Two numbers share ε = 1. An event and its complement refute the same, so each direction has one of its own."""
    rng = np.random.default_rng(seed)
    limits = (Limit("epsilon", 1.0, 0.0), Limit("rho", 0.25, 0.0))

    def side(moved: float) -> list[Observation]:
        return [Observation((tuple(moved + rng.laplace(0, 1, 2)),)) for _ in range(1600)]

    tests = judged("two numbers", Seen((side(1.0), side(0.0)), (True, True), limits))
    assert {test.direction for test in tests} == {"with the unit", "without the unit"}
    assert all(test.counts.hits + test.counts.misses < 1.1 * test.counts.runs for test in tests)
    assert refuted(tests, 1e-4), "two tests, of which each may fail by an unlucky choice"


def test_integers_that_change_by_themselves_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases(("count, Laplace",))[0]
    monkeypatch.setattr("dpsql.audit.blackbox.observations.RECHECKED", 2)
    with opened(case.world) as db:
        compute, calls = db.engine._compute, list[int]()

        def drifting(*args: object) -> object:
            calls.append(1)
            exact = compute(*args)  # type: ignore[arg-type]
            unsealed(exact).values[0][0] += len(calls)
            return exact

        monkeypatch.setattr(db.engine, "_compute", drifting)
        remember_integers(db)
        db.query(case.sql)
        with pytest.raises(Changed):
            db.query(case.sql)
