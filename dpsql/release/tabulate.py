"""A released table as the columns `_row, _k…, _a…, _b…` that the finishing SQL reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.release.estimate import estimates
from dpsql.release.noise import Noisy, Table


def tabulate(
    released: Table,
    bars: Mapping[str, NDArray[Any]] | None = None,
    noisy: Sequence[Noisy] | None = None,
    *,
    times: int = 1,
    nonnegative: bool = False,
) -> dict[str, Any]:
    """Keys, estimated aggregates and their bars; with `noisy`, those of that many other draws, one after the other.

    The bars stay as they were shown: an answer that they choose (HAVING DP_LOW(n) > 100) is chosen in every draw.
    Chosen values are not drawn again: there they are NULL, and whatever is computed from them has no interval.
    """
    values = released.noisy if noisy is None else [draw.reshape(-1) for draw in noisy]
    rows = len(released.keys)
    columns: dict[str, Any] = {"_row": np.arange(rows * times, dtype=np.int64)}
    for index, key in enumerate(released.priced.bounded.keys):
        columns[key.name] = [row[index] for row in released.keys] * times
    chosen = released.chosen if noisy is None else rows * times
    made = estimates(released.priced, values, chosen, released.trees, nonnegative=nonnegative)
    columns |= {f"_a{i}": estimate for i, estimate in enumerate(made)}
    return columns | {name: np.tile(values, times) for name, values in (bars or {}).items()}
