"""The refusal of a charge: what it says is left can be asked for, and nothing is said to be left that is not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.budget import Caps, Charge, Cost, Spent, admits, pure_charge, rho_for, zcdp_charge
from dpsql.budget.admission import Account, admit
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
