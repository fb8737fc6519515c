"""The Gaussian mechanism: its delta in many digits, its forms at their edges, and the least noise that is enough."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import Gaussian, ShiftedLaw, gaussian_delta, hockey_stick, textbook_sigma
from dpsql.mechanisms.gaussian import LIMIT, DiscreteGaussian
from dpsql.mechanisms.textbook.gaussian_mechanism import _meets, _noise, _root_up, _suffices


def _phi(x: Decimal) -> Decimal:
    """The normal law by its series ½ + φ(x)·Σ x^(2k+1)/(2k+1)!!, in as many digits as are set."""
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707")
    term, total, k = x, x, 1
    while abs(term) > Decimal(10) ** -140:
        k += 2
        term *= x * x / k
        total += term
    return Decimal("0.5") + (-x * x / 2).exp() / (2 * pi).sqrt() * total


def _terms(size: float, sigma: float, epsilon: float) -> tuple[Decimal, Decimal]:
    half, far = Decimal(size) / Decimal(sigma) / 2, Decimal(epsilon) * Decimal(sigma) / Decimal(size)
    return _phi(half - far), Decimal(epsilon).exp() * _phi(-half - far)


@pytest.mark.parametrize("size", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("sigma", [0.75, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.125, 1.0, 2.5])
def test_delta_is_that_of_balle_and_wang_and_a_trifle_more(size: float, sigma: float, epsilon: float) -> None:
    """More by one part in 10**12 of what is subtracted: far more than the rounding, and no more than that."""
    with localcontext(prec=120):
        here, there = _terms(size, sigma, epsilon)
        excess = (Decimal(gaussian_delta(size, sigma, epsilon)) - (here - there)) / (here + there)
    assert Decimal("0.8e-12") < excess < Decimal("1.2e-12")


def test_a_delta_is_a_probability() -> None:
    assert gaussian_delta(100.0, 1.0, 0.5) == 1.0
    assert gaussian_delta(1e-6, 1.0, 10.0) == 0.0


@pytest.mark.parametrize("epsilon", [0, 0.01, 1, 7, 100])
@pytest.mark.parametrize("delta", [1e-12, 1e-3, 0.3])
def test_the_analytic_sigma_is_the_least_that_meets_delta(epsilon: float, delta: float) -> None:
    if (epsilon, delta) == (0, 1e-12):
        return
    sigma = textbook_sigma("analytic", 2, epsilon, delta)
    assert gaussian_delta(2, sigma, epsilon) <= delta
    assert gaussian_delta(2, sigma * (1 - 1e-7), epsilon) > delta


@pytest.mark.parametrize("epsilon", [0.001, 0.5, 1])
@pytest.mark.parametrize("delta", [1e-9, 0.25])
def test_the_classical_forms_are_their_formulas(epsilon: float, delta: float) -> None:
    classical, lecture = (textbook_sigma(form, 3, epsilon, delta) for form in ("classical", "lecture"))
    assert (classical * epsilon / 3) ** 2 == pytest.approx(2 * (math.log(5) - math.log(4) - math.log(delta)))
    assert (lecture * epsilon / 3) ** 2 == pytest.approx(-2 * math.log(delta))


def test_the_lecture_form_is_for_a_delta_up_to_its_bound() -> None:
    for epsilon in (0.25, 1):
        most = math.exp(-epsilon / 4)
        assert textbook_sigma("lecture", 1, epsilon, most) > 0
        assert textbook_sigma("classical", 1, epsilon, math.nextafter(most, 1)) > 0
        with pytest.raises(ProgrammingError, match="lecture form fails"):
            textbook_sigma("lecture", 1, epsilon, math.nextafter(most, 1))


@pytest.mark.parametrize("form", ["classical", "lecture"])
@pytest.mark.parametrize("epsilon", [0, -0.5, math.nextafter(1, 2), 2])
def test_the_classical_forms_are_proved_up_to_epsilon_1_only(form: str, epsilon: float) -> None:
    assert textbook_sigma(form, 1, 1, 1e-6) < textbook_sigma(form, 1, 0.001, 1e-6)  # type: ignore[arg-type]
    with pytest.raises(ProgrammingError, match="0 < epsilon ≤ 1 only"):
        textbook_sigma(form, 1, epsilon, 1e-6)  # type: ignore[arg-type]


def test_other_forms_are_refused_by_name() -> None:
    with pytest.raises(ProgrammingError, match="no form 'exact'"):
        textbook_sigma("exact", 1, 1, 1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "grid"), [(1, 1), (3, 2), (2.5, None)])
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (10, 1e-9), (0, 0.2)])
def test_the_noise_is_the_least_that_meets_the_claim_for_the_steps_that_a_unit_moves(
    size: float, grid: float | None, epsilon: float, delta: float
) -> None:
    mechanism = Gaussian(size, epsilon, delta, grid=grid)
    steps = math.ceil(Fraction(size) / mechanism.step)

    def needed(scale: Fraction) -> float:
        noise = DiscreteGaussian(scale)
        return hockey_stick(ShiftedLaw(noise, steps), ShiftedLaw(noise, 0), epsilon).high

    places = max(2**k for k in range(21) if k == 0 or mechanism.noise.scale * 2**k < LIMIT * 0.79)
    assert grid is None or mechanism.step == Fraction(grid)
    assert needed(mechanism.noise.scale) <= delta
    assert needed(mechanism.noise.scale - Fraction(1, places)) > delta


@pytest.mark.parametrize("form", ["classical", "lecture"])
def test_a_classical_form_has_its_own_sigma_though_less_would_do(form: str) -> None:
    sigma = textbook_sigma(form, 1, 1, 1e-6)  # type: ignore[arg-type]
    for grid in (None, 1, Fraction(1, 64)):
        mechanism = Gaussian(1, 1, 1e-6, form=form, grid=grid)  # type: ignore[arg-type]
        assert sigma <= mechanism.sigma < sigma * (1 + 1e-5)


@pytest.mark.parametrize("touched", [2, 9, 1000])
def test_for_several_coordinates_the_steps_have_a_root_more(touched: int) -> None:
    """The same noise as for a distance of size/grid + √touched steps, by the continuous law and its price."""
    mechanism = Gaussian(3, 1, 1e-6, touched=touched)
    steps = 3 / mechanism.step + _root_up(touched)
    meets = partial(_suffices, steps=steps, touched=touched, epsilon=Fraction(1), delta=1e-6)
    assert meets(mechanism.noise.scale)
    assert not meets(mechanism.noise.scale * (1 - Fraction(1, 10**6)))
    assert float(steps) == pytest.approx(float(3 / mechanism.step) + math.sqrt(touched), rel=1e-9)


def test_the_root_of_a_number_of_coordinates_is_rounded_up_by_a_millionth_at_most() -> None:
    for value in [*range(1, 300), 10**6, 10**12 + 1]:
        root = _root_up(value)
        assert (root - Fraction(1, 2**20)) ** 2 <= value < root**2


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-7, 8.5e-7), (1e-7, 1.1e-6), (1e-4, 1e-5), (0.001, 1e-6), (1, 1e-6)])
@pytest.mark.parametrize("size", [1, 0.1])
def test_a_large_sigma_has_the_finest_grid_on_which_it_can_be_drawn(epsilon: float, delta: float, size: float) -> None:
    """A quarter of what the sampler draws at most; and at most 1024 steps for a unit where they are counted."""
    mechanism = Gaussian(size, epsilon, delta)
    steps = Fraction(size) / mechanism.step
    sigma = textbook_sigma("analytic", 1, epsilon, delta) * float(steps)
    assert sigma <= LIMIT // 4 or steps == 1
    if steps in [2**k for k in range(10)]:
        assert 2 * sigma > LIMIT // 4
    else:
        assert steps >= 1024


def test_what_lies_beyond_twelve_sigma_must_be_less_than_delta() -> None:
    meets = partial(_suffices, Fraction(2**20), steps=Fraction(1), touched=2, epsilon=Fraction(0))
    with pytest.raises(ProgrammingError, match="too large for a unit that changes 2 coordinates"):
        meets(delta=2e-31)
    assert not meets(delta=2.1e-31)


def test_what_lies_beyond_twelve_sigma_adds_to_the_delta() -> None:
    """Where the law itself needs a delta of about 10**-31, as much as that."""
    scale, touched, far = Fraction(2**20), 2, 2 * math.e * 1e-31
    there, back = touched / 2**43, 18 * touched / 2**40
    steps = Fraction(2**20, 11)
    moved = math.exp(there) * gaussian_delta(float(steps), 2.0**20, 1 - there - back)
    assert far / 100 < moved < 10 * far
    meets = partial(_suffices, scale, steps=steps, touched=touched, epsilon=Fraction(1))
    assert meets(delta=(moved + far) * (1 + 1e-9))
    assert not meets(delta=(moved + far) * (1 - 1e-9))


@pytest.mark.parametrize("epsilon", [-0.001, 500.001, 501])
def test_an_epsilon_lies_between_0_and_500(epsilon: float) -> None:
    assert Gaussian(1, 500, 0.1, grid=1).noise.scale > 0
    with pytest.raises(ProgrammingError, match="between 0 and 500, not at"):
        Gaussian(1, epsilon, 0.1, grid=1)


@pytest.mark.parametrize("touched", [16, 4096])
def test_an_epsilon_that_the_grid_uses_up_leaves_one_of_nothing(touched: int) -> None:
    """At σ = 2^12 there and back cost 145·k/2^27; with just this ε what is left is 0, which is a guarantee still."""
    sigma, epsilon = 2**12, Fraction(145 * touched, 2**27)
    meets = partial(_suffices, Fraction(sigma), steps=Fraction(sigma), touched=touched)
    delta = math.exp(touched / (8 * sigma**2)) * gaussian_delta(1, 1, 0) + touched * 1e-31 * math.exp(epsilon)
    assert meets(epsilon=epsilon, delta=delta * (1 + 1e-12))
    assert not meets(epsilon=epsilon, delta=delta * (1 - 1e-9))
    less = epsilon - Fraction(1, 2**40)
    assert not meets(epsilon=less, delta=delta * (1 + 1e-12))


def _from(least: Fraction) -> partial[bool]:
    """A predicate that holds from this scale on."""
    return partial(lambda least, scale: scale >= least, least)


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        (1.0, 2**20),
        (13421771 / 2**20, 2**20),
        (13421771.5 / 2**20, 2**20),
        (13421772 / 2**20, 2**19),
        (13421771 / 2**10, 2**10),
        (13421772 / 2**10, 2**9),
        (LIMIT / 2 - 1, 1),
    ],
)
def test_a_sigma_has_as_many_binary_places_as_leave_a_quarter_of_room(wanted: float, places: int) -> None:
    """With a place for rounding up: 13,421,772 and a quarter of it, and one, are 2**24, which cannot be drawn."""
    for least in (Fraction(wanted) + Fraction(k, 3 * places) for k in (-1, 1, 3, 5, 100)):
        found = _noise(wanted, _from(least), exactly=False).scale
        assert found == Fraction(math.ceil(least * places), places)
        exactly = _noise(wanted, _from(least), exactly=True).scale
        assert exactly == max(found, Fraction(math.ceil(Fraction(wanted) * places), places))


def test_the_least_sigma_of_all_is_one_binary_place() -> None:
    assert _noise(1.0, _from(Fraction(0)), exactly=False).scale == Fraction(1, 2**20)


@pytest.mark.parametrize("epsilon", [0, 1])
def test_a_delta_that_is_met_exactly_is_met(epsilon: int) -> None:
    noise = DiscreteGaussian(Fraction(3))
    one = hockey_stick(ShiftedLaw(noise, 2), ShiftedLaw(noise, 0), epsilon).high
    meets = partial(_suffices, Fraction(3), steps=Fraction(2), touched=1, epsilon=Fraction(epsilon))
    assert meets(delta=one)
    assert not meets(delta=math.nextafter(one, 0))
    found = gaussian_delta(1.0, 3.0, epsilon)
    assert _meets(3.0, rate=epsilon, chance=found)
    assert not _meets(3.0, rate=epsilon, chance=math.nextafter(found, 0))


def test_a_delta_that_several_coordinates_meet_exactly_is_met() -> None:
    sigma, touched = 2**12, 2
    added = gaussian_delta(sigma, sigma, 0.0) + math.expm1(2 / 2**27) + math.expm1(36 / 2**24)
    meets = partial(_suffices, Fraction(sigma), steps=Fraction(sigma), touched=touched, epsilon=Fraction(0))
    assert meets(delta=added + 2e-31)
    assert not meets(delta=math.nextafter(added + 2e-31, 0))


def test_a_sigma_of_half_the_limit_is_more_than_can_be_drawn() -> None:
    for wanted in (LIMIT / 2, LIMIT, math.inf, math.nan):
        with pytest.raises(ProgrammingError, match="more than can be drawn"):
            _noise(wanted, _from(Fraction(0)), exactly=True)
