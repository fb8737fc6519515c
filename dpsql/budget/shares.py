"""Prices and costs as shares of a budget: the one currency that people add up.

The unit of a share is the sum that a filter of the account limits: ρ where δ* > 0, ε where δ* = 0. ε by itself is not
additive under Gaussian noise, which is why nobody can add up what queries cost in ε.

**Theorem.** Let an account have spent nothing, and let each of its queries be asked for at a share pᵢ, with Σpᵢ ≤ 1
and no `delta` of its own. Then all of them are admitted, whatever the noise, the bounds and the group keys are.
**Proof.** A share of the cap is a charge: with R, D the limits of Σρ and Σδ in whole UNITs, a query at the share p may
cost ⌊pR⌋ and ⌊pD⌋ (with δ* = 0: ⌊pE⌋ of the limit E of Σε). Noise is scaled to that price with a scale that is rounded
up, so the loss is at most the price (`dpsql.budget.pricing`); the charge is the loss rounded up to UNITs, the dearer
way, which stays within the price as that is a whole number of UNITs. Under Laplace noise ε is the largest one whose
ε·tanh(ε/2), the ρ of any ε-DP event, is within the price. So Σρ ≤ Σ⌊pᵢR⌋ ≤ R, and Σδ ≤ D (or Σε ≤ E), which is what the
filter asks for (`dpsql.budget.accountant.admits`). ∎
What is left, as a share that is rounded down, can be asked for by the same proof, with R − Σρ in place of R.

**Requires** that an account's caps are those in force, and integers that are rounded as said here.
**Checked by** `tests/unit/budget/test_shares.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.budget.accountant import Caps, FilterLimits, Spent, laplace_within, limits
from dpsql.budget.costs import Charge
from dpsql.mechanisms.exact_numbers import UNIT, exact
from dpsql.mechanisms.zcdp_conversion import pure_rho, rho_for


@dataclass(frozen=True, slots=True)
class Price:
    """What a query may cost: (ε, δ), or as a share of the budget ρ and δ, and the ε that Laplace noise has for that ρ.

    `whole` has the limits of the account of which costs are shown as shares, where there is one.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None
    whole: FilterLimits | None = None

    def within(self, epsilon: Fraction, conversion: Fraction) -> Price:
        """This price, or less where Gaussian noise of less would cost this ε, converted at this δ."""
        rho = self.rho if self.rho is None or not conversion else min(self.rho, rho_for(epsilon, conversion))
        return replace(self, epsilon=min(self.epsilon, epsilon), rho=rho)


def share_price(caps: Caps, share: Fraction) -> Price:
    """The price of a query that may cost this share of an account."""
    whole = limits(caps)
    if whole.rho is None:
        return Price(int(share * whole.epsilon) * UNIT, Fraction(0), None, whole)
    rho, delta = int(share * whole.rho) * UNIT, int(share * whole.delta) * UNIT
    return Price(exact(laplace_within(rho)), 2 * delta, rho, whole)


def share_of(whole: FilterLimits, charge: Charge | Spent) -> Fraction:
    """The share of an account that a charge costs; above 1 for Laplace noise that only the pure filter admits."""
    if whole.rho is not None:
        return Fraction(charge.rho, whole.rho)
    return Fraction(charge.epsilon or 0, whole.epsilon)


def largest_share(caps: Caps, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest share that one query may cost which may ask for this ε and δ."""
    whole = limits(caps)
    if whole.rho is None:
        return min(Fraction(1), epsilon / (whole.epsilon * UNIT))
    rho = rho_for(epsilon, delta) if delta else pure_rho(epsilon)
    return min(Fraction(1), rho / (whole.rho * UNIT))
