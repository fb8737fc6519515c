"""Which groups are shown: those of private keys that may be, and those of public keys that exist.

Each unit spreads a weight over its groups: w_g to each of its g groups, at most `groups_per_unit` of them (chosen by a
salted hash of the unit and the key). A key is shown if its total weight plus noise reaches a threshold.

**Theorem.** With Gaussian noise, w_g = ⌊c/√g⌋ gives a vector of L2 norm at most c; with Laplace noise, w_g = ⌊c/g⌋
gives L1 norm at most c. Released keys are then δ-approximately ρ-zCDP (or (ε, δ)-DP): on keys that other units also
have it is the noise mechanism; on keys that only this unit has, the threshold of `dpsql.mechanisms.threshold` keeps the
chance that any is shown below δ.
**Proof.** g·⌊c/√g⌋² ≤ c² and g·⌊c/g⌋ ≤ c. Only keys with a positive weight are ever shown
(`dpsql.answers.noise_stage`), so a key that no unit supports never is, and the rest is the threshold's theorem. The
order of the hash has the keys themselves as tie-breaker, so which groups a unit supports depends on its own rows and
the salt alone.
**Requires** δ > 0. **Checked by** the neighbour test (rule `selection`), `test_threshold.py`, and the planted bugs
"delta doubled", "continuous threshold" and "no group cap".

Public keys need no such care: which of them exist is read from a noisy number of units.

**Theorem (existing groups).** Of public keys, those whose noisy weight reaches a threshold that is public are a private
answer at the cost of the noise, without δ, whatever the threshold is. Each unit gives ⌊c/√g⌋, or ⌊c/g⌋ under Laplace
noise, to each of its g groups, however many they are.
**Proof.** The list of keys is a function of the query and the policy, every key on it gets noise, and the comparison is
post-processing. The norm is as above: with a single unit and g groups it is at most c for any g. In SQL the weight is
the floor of a quotient of DOUBLEs: let m be a whole number above c/√g. Then m²·g ≥ c² + 1, so that c/√g is below m by
more than one part in 2c² + 2, which is at least 2⁻²⁶; the root and the quotient are each right to one part in 2⁵⁰, so
the floor is below m. For c/g, with m·g ≥ c + 1, it is one part in 2³³ and more.
**Requires** noise for every key on the list (`dpsql.answers.noise_stage`), a unit that counts once in each group
(`dpsql.engines.sql.emit`), and fewer than 2²⁰ keys.
**Checked by** `tests/unit/sensitivity/test_existing_groups.py`, the neighbour test, and the planted bugs "a unit gives
one to each of its groups" and "groups without units are told from the exact weight".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from dpsql.mechanisms import selection_weights
from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.clip import Norm

SELECTION_BITS = 12


@dataclass(frozen=True, slots=True)
class Selection:
    """`weights[g-1]` is what a unit in g groups gives to each; the claim is in the same integers.

    Without weights a unit may be in any number of groups, to which it gives equally, so that its `norm` is that of one.
    """

    weights: tuple[int, ...]
    claim: Claim
    norm: Norm = "l2"

    @property
    def groups(self) -> int:
        """The most groups to which one unit gives weight."""
        return len(self.weights)

    @property
    def one(self) -> int:
        """The weight of a unit with a single group."""
        return self.claim.linf

    def least(self, keys: int) -> int:
        """The weight of a unit that is in all of so many public groups."""
        if self.weights:
            return self.weights[-1]
        return self.one // keys if self.norm == "l1" else isqrt(self.one**2 // keys)


def select_keys(groups: int, mechanism: str) -> Selection:
    """The weights for at most `groups` groups per unit."""
    if groups == 1:
        return Selection((1,), Claim(1, 1, 1, 1, 1))
    one = 1 << SELECTION_BITS
    weights = (
        selection_weights(groups, SELECTION_BITS)
        if mechanism == "gaussian"
        else tuple(one // g for g in range(1, groups + 1))
    )
    l1 = max(g * w for g, w in enumerate(weights, 1))
    return Selection(weights, Claim(groups, one, l1, one, groups))


def existing_groups(keys: int, mechanism: str) -> Selection:
    """The weights by which so many public keys are known to have units, of which each may be in all of them."""
    if mechanism == "laplace":
        one = 1 << SELECTION_BITS + keys.bit_length()
        return Selection((), Claim(keys, one, one, one, keys), "l1")
    one = 1 << SELECTION_BITS
    return Selection((), Claim(keys, one, one * (isqrt(keys) + 1), one, keys), "l2")
