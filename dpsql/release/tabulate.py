"""A released table as the columns `_row, _k…, _a…` that the finishing SQL reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.release.estimate import estimates
from dpsql.release.noise import Released


def tabulate(
    released: Released, noisy: Sequence[NDArray[np.int64]] | None = None, *, nonnegative: bool = False
) -> dict[str, Any]:
    """Keys and estimated aggregates; with `noisy`, those of other draws, as many times over as they hold."""
    values = released.noisy if noisy is None else [draw.reshape(-1) for draw in noisy]
    rows = len(released.keys)
    times = len(values[0]) // rows if values and rows else 1
    columns: dict[str, Any] = {"_row": np.arange(rows * times, dtype=np.int64)}
    for index, key in enumerate(released.priced.bounded.keys):
        columns[key.name] = [row[index] for row in released.keys] * times
    made = estimates(released.priced, values, nonnegative=nonnegative)
    return columns | {f"_a{i}": estimate for i, estimate in enumerate(made)}
