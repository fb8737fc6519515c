"""Groups of rows whose key is missing: shown where the policy declares that it may be, or where numbers stand out.

Unless the policy says `nulls: false`, a public key has a cell for rows without a value, and for values that the policy
does not list. Mostly no row is there, and the noise of an empty cell would look like a group.

**Theorem.** Which groups are left out is a function of the released table, the query and the policy.
**Proof.** `present` reads noisy integers, the laws of their noise, and keys with what the policy declares of them.
**Requires** released tables that hold no exact value (`dpsql.answers.noise_stage`).
**Checked by** `tests/unit/session/test_missing_groups.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.noise_stage import NoisyTable
from dpsql.mechanisms import Noise
from dpsql.sensitivity.group_keys import Key

GHOST = 0.01
"""The most that the chance may be to show the group of a missing key if no row is in it."""

Flags = NDArray[np.bool_]


def present(released: NoisyTable) -> Flags:
    """For each row of a released table, whether the answer may show it."""
    rows = np.ones(len(released.keys), np.bool_)
    for _, missing in _left_out(released):
        rows &= ~missing
    return rows


def decided_by_noise(released: NoisyTable) -> bool:
    """Whether it depends on noise which rows of a released table are shown."""
    return released.priced.threshold is not None or any(True for _ in _optional(released))


def left_out(released: NoisyTable) -> tuple[Key, ...]:
    """The keys of which no group is shown for a missing value, although rows may be without one."""
    return tuple(key for key, _ in _left_out(released))


def only_present(released: NoisyTable, columns: Mapping[str, Sequence[Any]], times: int = 1) -> dict[str, Any]:
    """The columns of a table, or of so many draws of it one after the other, without the rows that are left out."""
    rows = present(released)
    if rows.all():
        return dict(columns)
    kept = np.flatnonzero(np.tile(rows, times))
    return {
        name: [values[i] for i in kept] if isinstance(values, list) else np.asarray(values)[kept]
        for name, values in columns.items()
    }


def _left_out(released: NoisyTable) -> Iterator[tuple[Key, Flags]]:
    """Keys without a visible group for a missing value, each with the rows of that group."""
    for place, key in _optional(released):
        missing = np.array([row[place] is None for row in released.keys], np.bool_)
        if not _stands_out(released, missing):
            yield key, missing


def _optional(released: NoisyTable) -> Iterator[tuple[int, Key]]:
    """Keys whose group of a missing value is shown only if it stands out, each after its place."""
    if released.priced.selection is None:
        for place, key in enumerate(released.priced.bounded.keys):
            if key.values is not None and None in key.values and not key.null_declared:
                yield place, key


def _stands_out(released: NoisyTable, rows: Flags) -> bool:
    """Are the numbers of these rows, together or one by one, too large to be noise alone?

    Noise has this outcome with probability at most `GHOST`: the numbers and the two ways share it. The sum of m
    noises stays within √m times the bound of one, because in units of its deviation it has no heavier tail.
    """
    priced, m = released.priced, int(rows.sum())
    tests = [(values[rows], n.noise) for values, n in zip(released.noisy, priced.noised, strict=True)]
    tests += [(nodes[rows].reshape(-1), n.noise) for nodes, n in zip(released.trees, priced.trees, strict=True)]
    return m > 0 and any(_far(values, noise, GHOST / (2 * len(tests))) for values, noise in tests)


def _far(values: NDArray[np.number[Any]], noise: Noise, chance: float) -> bool:
    each = float(np.abs(values).max()) > noise.reach(chance / len(values))
    return each or abs(float(values.sum())) > noise.reach(chance) * len(values) ** 0.5
