"""Private keys: which of them may be shown.

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
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.mechanisms import selection_weights
from dpsql.sensitivity.claim import Claim

SELECTION_BITS = 12


@dataclass(frozen=True, slots=True)
class Selection:
    """`weights[g-1]` is what a unit in g groups gives to each; the claim is in the same integers."""

    weights: tuple[int, ...]
    claim: Claim

    @property
    def groups(self) -> int:
        """The most groups to which one unit gives weight."""
        return len(self.weights)

    @property
    def one(self) -> int:
        """The weight of a unit with a single group."""
        return self.weights[0]


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
