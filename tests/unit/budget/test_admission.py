"""The refusal of a charge: what it says is left can be asked for, and nothing is said to be left that is not."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import pytest

from dpsql.budget import UNIT, Caps, Charge, Cost, Spent, admits, limits, pure_charge, rho_for, zcdp_charge
from dpsql.budget.accountant import Account, admit
from dpsql.errors import BudgetExceeded

CAPS = Caps(3, 1e-6)
IMPURE = zcdp_charge(0.01)
OVER = zcdp_charge(0.01, 5e-5)
"""More δ than the caps allow, as after they were lowered."""
ACCOUNTS = {
    "pure": (Caps(1, 0), [pure_charge(0.7)]),
    "pure and spent": (Caps(1, 0), [pure_charge(1)]),
    "both filters": (CAPS, [pure_charge(0.5)] * 5),
    "zcdp only": (CAPS, [IMPURE] * 3),
    "lowered": (CAPS, [OVER]),
    "lowered to pure": (Caps(3, 0), [IMPURE]),
}


def asked(epsilon: float, mechanism: str) -> tuple[Charge, Cost]:
    if mechanism == "laplace":
        return pure_charge(epsilon), Cost(epsilon, 0.0, 0.0)
    rho = rho_for(epsilon, 1e-7)
    return zcdp_charge(rho), Cost(epsilon, 1e-7, float(rho))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", ACCOUNTS)
def test_what_is_said_to_fit_is_admitted(name: str, mechanism: str) -> None:
    caps, charges = ACCOUNTS[name]
    spent = Spent()
    for charge in charges:
        spent = spent.after(charge)
    with pytest.raises(BudgetExceeded) as refusal:
        admit(*asked(9.0, mechanism), [Account("ana", caps, spent)])
    fits = refusal.value.fits
    assert (fits is None) == ("left for ana: nothing" in str(refusal.value))
    if fits is not None:
        assert admits(caps, spent, asked(fits, mechanism)[0])
    else:
        assert not admits(caps, spent, asked(0.002, mechanism)[0])


@pytest.mark.parametrize(("left", "fits"), [("0.0015", 0.0015), ("0.001", 0.001), ("0.0009", None)])
def test_next_to_nothing_is_not_offered(left: str, fits: float | None) -> None:
    spent = Spent().after(pure_charge(1 - Fraction(left)))
    with pytest.raises(BudgetExceeded) as refusal:
        admit(*asked(0.5, "laplace"), [Account("ana", Caps(1, 0), spent)])
    assert refusal.value.fits == fits


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("spent", [(0.5, 0.2), (0.2, 0.5), (0.9995, 0.2), (0.2, 0.9995)])
def test_what_is_said_to_fit_is_admitted_by_every_account_that_refused(
    spent: tuple[float, float], mechanism: str
) -> None:
    """The analyst's and the dataset's: the one with less left decides, whichever comes first."""
    caps = Caps(1, 1e-6)
    accounts = [Account(name, caps, Spent().after(asked(e, mechanism)[0])) for name, e in zip("ab", spent, strict=True)]
    with pytest.raises(BudgetExceeded) as refusal:
        admit(*asked(9.0, mechanism), accounts)
    fits = refusal.value.fits
    if max(spent) > 0.99 and mechanism == "laplace":
        assert fits is None
        return
    assert fits is not None
    for account in accounts:
        assert admits(caps, account.spent, asked(fits, mechanism)[0])
    assert not all(admits(caps, account.spent, asked(fits * 1.02, mechanism)[0]) for account in accounts)


def refusal(charge: Charge, cost: Cost, *accounts: Account) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as refused:
        admit(charge, cost, list(accounts))
    return refused.value


LIMIT = limits(CAPS)
ALL = LIMIT.rho or 0
"""The ρ of the caps, in UNITs."""


def test_what_every_account_admits_is_admitted_and_one_that_does_not_is_enough_to_refuse() -> None:
    rich, poor = Account("rich", Caps(1), Spent()), Account("poor", Caps(0.1), Spent())
    admit(*asked(0.5, "laplace"), [rich, rich])
    for accounts in ([rich, poor], [poor, rich]):
        refused = refusal(*asked(0.5, "laplace"), *accounts)
        assert "left for rich: ε = 1" in refused.message and "left for poor: ε = 0.1" in refused.message
        assert refused.fits == 0.1


@pytest.mark.parametrize(("left", "fits"), [("0.98765", 0.987), ("0.12345", 0.123), ("0.0012345", 0.00123)])
def test_what_fits_is_offered_in_three_digits_rounded_down(left: str, fits: float) -> None:
    spent = Spent().after(pure_charge(1 - Fraction(left)))
    refused = refusal(*asked(2.0, "laplace"), Account("ana", Caps(1), spent))
    assert refused.fits == fits
    assert refused.hint == f"ask for epsilon {fits} or less, or repeat a query of your own (it is free)"


def test_noise_that_needs_delta_is_told_so_where_one_account_has_none() -> None:
    none, some = Account("none", Caps(0.1), Spent()), Account("some", Caps(0.1, 1e-6), Spent())
    for accounts in ([none], [none, some], [some, none]):
        assert "this budget has delta 0" in (refusal(*asked(1.0, "gaussian"), *accounts).hint or "")
    assert "this budget has delta 0" not in (refusal(*asked(1.0, "gaussian"), some).hint or "")
    for account in (none, some):
        assert (refusal(*asked(1.0, "laplace"), account).hint or "").startswith("ask for epsilon 0.1 or less")


@pytest.mark.parametrize(("more", "short"), [(-1, True), (0, True), (1, False)])
def test_only_delta_is_short_where_rho_would_just_fit(more: int, short: bool) -> None:
    charge, cost = Charge(ALL // 2, LIMIT.delta + 1), Cost(0.5, 1e-6, 0.1)
    refused = refusal(charge, cost, Account("ana", CAPS, Spent(ALL - ALL // 2 + more, 0, None)))
    assert ("delta for private group keys is spent" in (refused.hint or "")) == short
    assert (refused.fits is None) == short


def test_a_smaller_epsilon_is_not_offered_where_one_of_two_accounts_is_short_of_delta() -> None:
    charge, cost = Charge(ALL // 2, LIMIT.delta // 2), Cost(0.5, 1e-6, 0.1)
    short, spent = Account("a", CAPS, Spent(0, LIMIT.delta, None)), Account("b", CAPS, Spent(ALL * 3 // 4, 0, None))
    for accounts in ([short, spent], [spent, short]):
        refused = refusal(charge, cost, *accounts)
        assert refused.fits is None and "delta for private group keys is spent" in (refused.hint or "")


def test_waiting_helps_on_the_day_when_the_last_account_starts_afresh_if_all_do() -> None:
    early, late = date(2026, 12, 1), date(2027, 1, 1)

    def hint(*days: date | None) -> str:
        accounts = [Account("ana", Caps(1, 0), Spent().after(pure_charge(1)), day) for day in days]
        return refusal(*asked(0.5, "laplace"), *accounts).hint or ""

    assert hint(early).endswith("; or wait until 2026-12-01")
    assert hint(early, late).endswith("; or wait until 2027-01-01") and hint(late, early) == hint(early, late)
    assert "wait" not in hint(None) + hint(None, late) + hint(late, None)


@pytest.mark.parametrize(
    ("asks", "spent", "words"),
    [
        (1, "0.0000000433", ", δ = 4.56e-07 for private keys"),
        (0, "0.0000000433", ""),
        (1, "0.0000005", ""),
    ],
)
def test_the_delta_that_is_left_is_told_to_those_who_ask_for_private_keys(asks: int, spent: str, words: str) -> None:
    used = Spent(0, int(Fraction(spent) / UNIT), None)
    refused = refusal(Charge(2 * ALL, asks), Cost(1.0, 0.0, 0.1), Account("ana", CAPS, used))
    assert refused.message.split("ε = ")[-1].partition(",")[1:] == (words[:1], words[1:])


def test_noise_is_offered_in_proportion_to_the_rho_that_is_left_but_never_more_than_was_asked() -> None:
    """Laplace noise with private keys: less ρ than any event of its ε has, so the proportion says the most."""
    charge, cost = Charge(4 * (ALL // 8), 10**31), Cost(2.0, 1e-9, 0.1)
    tight = Account("tight", CAPS, Spent(ALL - 3 * (ALL // 8), 0, None))
    refused = refusal(charge, cost, tight, Account("wide", CAPS, Spent()))
    assert "left for tight: ε = 1.5, δ = 5e-07" in refused.message and "left for wide: ε = 2, δ" in refused.message
    assert refused.fits == 1.5


@pytest.mark.parametrize("keys", [0.0, 5e-9])
def test_gaussian_noise_is_offered_at_the_delta_that_its_threshold_leaves(keys: float) -> None:
    spent = Spent(ALL // 2, 0, None)
    charge, cost = zcdp_charge(rho_for(9, 1e-8), keys), Cost(9.0, 1e-8, 0.1)
    told = float(refusal(charge, cost, Account("ana", CAPS, spent)).message.split("ε = ")[-1].split(",")[0])
    left = (ALL - ALL // 2) * UNIT
    assert rho_for(told, 1e-8 - keys) <= left < rho_for(told * 1.002, 1e-8 - keys)


def test_where_a_cap_is_all_spent_nothing_is_left_and_a_replay_or_the_steward_helps() -> None:
    refused = refusal(*asked(0.5, "laplace"), Account("ana", Caps(1), Spent().after(pure_charge(1))))
    assert refused.message.endswith("left for ana: nothing")
    assert refused.hint == "repeat a query of your own (it is free), or ask the steward to raise the cap"
