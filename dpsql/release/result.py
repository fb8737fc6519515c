"""The answer: a table, its error bars, what it cost, and what the error bars do not cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.budget import Cost
from dpsql.plan.plan import Plan
from dpsql.release.bootstrap import Draw, Ends, resampled_intervals
from dpsql.release.finish import Finisher, Table
from dpsql.release.intervals import half_width, interval
from dpsql.release.noise import Released, resampled

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class Result:
    """A private answer. Everything on it is computed from what was released; nothing here touches the data."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    cost: Cost
    replayed: bool
    mechanism: str
    notes: tuple[str, ...]
    _table: Table = field(repr=False)
    _plan: Plan = field(repr=False)
    _released: Mapping[str, Released] = field(repr=False)
    _finisher: Finisher = field(repr=False)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows as tuples."""
        width = len(self.columns)
        return [row[:width] for row in self._table.rows]

    def df(self) -> pd.DataFrame:
        """The answer as a pandas DataFrame."""
        import pandas as pd

        rows = self.fetchall()
        frame = pd.DataFrame(rows, columns=list(self.columns))
        for index, type_ in enumerate(self.types):
            if type_ == "BIGINT" and any(row[index] is None for row in rows):
                frame.isetitem(index, pd.array([row[index] for row in rows], dtype="Int64"))
        return frame

    def arrow(self) -> pa.Table:
        """The answer as an Arrow table (needs pyarrow)."""
        try:
            import pyarrow as pa
        except ImportError:
            from dpsql.errors import InterfaceError

            raise InterfaceError("Arrow tables need pyarrow", hint="pip install 'dpsql[arrow]'") from None
        rows = self.fetchall()
        return pa.table({n: [row[i] for row in rows] for i, n in enumerate(self.columns)})

    def intervals(self, confidence: float = 0.95) -> pd.DataFrame:
        """For every noisy output column, `<name>_low` and `<name>_high`, row by row as in `df()`.

        Counts, sums and averages have the exact law of their noise; any other expression is computed again over
        resampled noise. The intervals cover the noise; `notes` names what they do not.
        """
        import pandas as pd

        if not 0 < confidence < 1:
            from dpsql.errors import InterfaceError

            raise InterfaceError(f"a confidence lies between 0 and 1, not at {confidence}", hint="use 0.95")
        noisy = [i for i, output in enumerate(self._plan.outputs) if output.noisy]
        both = self.ends(noisy, confidence)
        ends = {(i, end): values for i in noisy for end, values in enumerate(both[i])}
        frame = pd.DataFrame(ends)
        frame.columns = pd.Index([f"{self.columns[i]}_{'high' if end else 'low'}" for i, end in ends])
        return frame

    def ends(self, columns: list[int], confidence: float, draw: Draw = resampled) -> Ends:
        """Both ends of the intervals of these noisy columns; `draw` resamples the noise where that is needed."""
        exact = {i: self._direct(i, confidence) for i in columns}
        others = [i for i in columns if exact[i] is None]
        drawn = resampled_intervals(self._finisher, self._plan, self._released, self._table, others, confidence, draw)
        return {i: exact[i] or drawn[i] for i in columns}

    def _direct(self, index: int, confidence: float) -> tuple[Any, Any] | None:
        """The exact interval of a column that is one aggregate of one release, unchanged.

        Where the answer carries the released row, its own interval; elsewhere the half width, which is the same for
        every row, unless it is an average.
        """
        direct = self._plan.outputs[index].direct
        if direct is None:
            return None
        if self._plan.row == direct[0]:
            rows = np.array([row[-1] for row in self._table.rows], dtype=np.int64)
            low, high = interval(self._released[direct[0]], direct[1], confidence)
            return low[rows], high[rows]
        width = half_width(self._released[direct[0]].priced, direct[1], confidence)
        if width is None:
            return None
        values = np.array([np.nan if row[index] is None else float(row[index]) for row in self._table.rows])
        low, high = values - width, values + width
        return (np.rint(low), np.rint(high)) if self.types[index] == "BIGINT" else (low, high)

    def __len__(self) -> int:
        return len(self._table.rows)

    def __str__(self) -> str:
        return f"{self.df()}\ncost: {'free (replayed)' if self.replayed else self.cost}"
