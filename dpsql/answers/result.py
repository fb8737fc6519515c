"""The answer: a table, its error bars, its cost, and notes on what the error bars do not cover."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from dpsql.answers.analytic_bars import half_width, interval, whole_of
from dpsql.answers.chosen_rows import Columns, choosing_columns, chosen_notes, confidence_of_each, noises_of, reads_of
from dpsql.answers.chosen_values import chosen_ends
from dpsql.answers.consistent_totals import fit_tables
from dpsql.answers.error_bars import (
    Bars,
    Draw,
    Ends,
    bar_columns,
    nearest,
    number,
    resampled,
    resampled_intervals,
    row_ends,
)
from dpsql.answers.estimation import estimates, tabulate
from dpsql.answers.finish import AnswerTable, Finisher, direct_index
from dpsql.answers.missing_groups import only_present
from dpsql.answers.noise_stage import Released
from dpsql.answers.notes import inner_notes, nobody_notes, notes_of, owner_notes, table_notes
from dpsql.answers.quality import Qualities, quality_of
from dpsql.budget import Cost
from dpsql.budget.status import BudgetStatus
from dpsql.errors import Error, InterfaceError
from dpsql.plan.plan import Output, Plan
from dpsql.sensitivity.clip_checks import ClipCheck

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dpsql.answers.execute import Executed
    from dpsql.answers.way_out import WayOut
    from dpsql.query_draft import PreparedQuery


CONFIDENCE = 0.95
"""The confidence of the interval of a clipped share."""


@dataclass(frozen=True, slots=True)
class Clipped:
    """The share that the bounds cut off, between 0 and 1 (NaN if too few were counted), and its 95% interval."""

    what: str
    effect: str
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.high - self.low > 0.9:
            return f"the noise hides how many {self.what}: ask with a larger epsilon"
        about = f"about {100 * self.share:.2g}% ({100 * self.low:.2g}% to {100 * self.high:.2g}%) {self.what}"
        return f"{about}, {self.effect}" if self.low > 0 else about


@dataclass(frozen=True)
class Result:
    """A private answer. Everything on it is computed from what was released; nothing here touches the data.

    `finisher` is None in an answer that came from a server, which computes its error bars.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    cost: Cost
    replayed: bool
    mechanism: str
    notes: tuple[str, ...]
    clipped: tuple[Clipped, ...]
    wholes: tuple[float, ...]
    table: AnswerTable = field(repr=False)
    plan: Plan = field(repr=False)
    released: Mapping[str, Released] = field(repr=False)
    bar_columns: Mapping[str, Bars] = field(repr=False)
    finisher: Finisher | None = field(repr=False)
    account: Callable[[], BudgetStatus] | None = field(default=None, repr=False, compare=False)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows as tuples."""
        width = len(self.columns)
        return [row[:width] for row in self.table.rows]

    def df(self) -> pd.DataFrame:
        """The answer as a pandas DataFrame; the dtype of a column follows from its SQL type, never from its values."""
        import pandas as pd

        rows = self.fetchall()
        columns = {i: _series([row[i] for row in rows], type_) for i, type_ in enumerate(self.types)}
        frame = pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))
        frame.columns = pd.Index(self.columns)
        return frame

    def arrow(self) -> pa.Table:
        """The answer as an Arrow table (needs pyarrow)."""
        return arrow_table(self.columns, self.types, self.fetchall())

    def pl(self) -> pl.DataFrame:
        """The answer as a polars DataFrame (needs polars)."""
        try:
            import polars as pl
        except ImportError:
            raise InterfaceError("polars frames need polars", hint="pip install 'dpsql[polars]'") from None
        return pl.DataFrame(self.arrow())

    def intervals(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pd.DataFrame:
        """For every noisy output column, `<name>_low` and `<name>_high`, row by row as in `df()`.

        Counts, sums, averages, and sums and quotients of them have the law of their noise; any other expression is
        computed again over resampled noise. The interval of a quantile, minimum or maximum is part of its price; MODE
        has none (NaN).
        Where LIMIT, HAVING or the like picked rows by their noisy values, the intervals of what they were picked by
        allow for it. With `simultaneous`, all intervals of one column hold together with that confidence: over all
        released groups (for what mixes groups: over the rows of the answer).
        The intervals cover the noise; `notes` names what they do not.
        """
        import pandas as pd

        if not 0 < confidence < 1:
            raise InterfaceError(f"a confidence lies between 0 and 1, not at {confidence}", hint="use 0.95")
        noisy = [i for i, output in enumerate(self.plan.outputs) if output.noisy]
        ends = partial(self.ends, together=True) if simultaneous else self._allowing_for_choice
        found = ends(noisy, confidence)
        columns = {(i, end): values for i in noisy for end, values in enumerate(found[i])}
        frame = pd.DataFrame(columns)
        frame.columns = pd.Index([f"{self.columns[i]}_{'high' if end else 'low'}" for i, end in columns])
        return frame

    def bars(self, confidence: float = 0.95) -> list[list[tuple[float, float]] | None]:
        """For each column, by its place (two may have one name), the interval in each row; None if it has no noise."""
        noisy = [i for i, output in enumerate(self.plan.outputs) if output.noisy]
        found = self._allowing_for_choice(noisy, confidence)
        return [
            list(zip(*(end.tolist() for end in found[i]), strict=True)) if i in found else None
            for i in range(len(self.columns))
        ]

    def budget(self) -> BudgetStatus | None:
        """The budget of the session that asked; None once that is closed."""
        try:
            return None if self.account is None else self.account()
        except Error:
            return None

    @cached_property
    def shown_bars(self) -> list[list[tuple[float, float]] | None]:
        """The 95% intervals, as they are shown."""
        return self.bars(CONFIDENCE)

    @property
    def has_quick_bars(self) -> bool:
        """Whether no interval takes repeated runs of the finishing SQL: each is of one row of a release."""
        return all(o.direct or o.formula or o.chosen for o in self.plan.outputs if o.noisy)

    @property
    def quality(self) -> pd.DataFrame:
        """A verdict for each number, in a frame of the shape of `df()`, by its 95% interval and its size.

        A number is "reliable" if its error is at most 10% of it, "rough" up to 50%, and else "noise"; a share below 20%
        is judged as one of 20%. Values without noise are "exact"; missing ones, and those without interval, are None.
        """
        import pandas as pd

        columns = enumerate(self.qualities)
        frame = pd.DataFrame({i: ["exact"] * len(self) if c is None else c for i, c in columns}, dtype=object)
        frame.columns = pd.Index(self.columns)
        return frame

    @property
    def way_out(self) -> WayOut | None:
        """What to ask instead, where the answer is mostly noise; computed from what was released, so it is free."""
        from dpsql.answers.way_out import way_out

        return way_out(self)

    @cached_property
    def qualities(self) -> list[Qualities | None]:
        """The same for each column, by its place; None if it has no noise."""
        rows = self.fetchall()
        return [
            None if ends is None else [quality_of(row[i], *end, whole) for row, end in zip(rows, ends, strict=True)]
            for i, (ends, whole) in enumerate(zip(self.shown_bars, self.wholes, strict=True))
        ]

    def half_widths(self, confidence: float = 0.95) -> list[tuple[str, float | None]]:
        """For each noisy column, the half width of its interval where that is the same in all rows, else None."""
        widths = []
        for place, output in ((place, output) for place, output in enumerate(self.plan.outputs) if output.noisy):
            direct, each = output.direct, self._confidence_of_each(place, confidence)
            widths.append((output.name, direct and half_width(self.released[direct[0]].priced, direct[1], each)))
        return widths

    def _allowing_for_choice(self, columns: list[int], confidence: float) -> Ends:
        """Both ends of the intervals of these columns, wider where rows were chosen by their noisy values."""
        together: dict[float, list[int]] = {}
        for column in columns:
            together.setdefault(self._confidence_of_each(column, confidence), []).append(column)
        return {i: ends for each, several in together.items() for i, ends in self.ends(several, each).items()}

    @cached_property
    def _choosing(self) -> Columns:
        return choosing_columns(self.plan)

    def _confidence_of_each(self, column: int, confidence: float) -> float:
        """The confidence of one interval of a column: higher where its rows were chosen by the same noise."""
        choosing, output = self._choosing, self.plan.outputs[column]
        if not choosing or (output.formula is None and output.direct is None):
            return confidence
        read = reads_of(output, self.plan)
        families = {name: self.plan.family(name) for name in {each.partition(".")[0] for each in choosing | read}}
        priced = {name: self.released[family.members[0].release].priced for name, family in families.items()}
        if noises_of(choosing, priced).isdisjoint(noises_of(read, priced)):
            return confidence
        sizes = [sum(len(self.released[m.release].keys) for m in family.members) for family in families.values()]
        alone = all(len(family.members) == 1 for family in families.values())
        return confidence_of_each(confidence, len(self) if alone else 1, max(sizes))

    def ends(self, columns: list[int], confidence: float, draw: Draw = resampled, *, together: bool = False) -> Ends:
        """Both ends of the intervals of these noisy columns; `draw` resamples the noise where that is needed."""
        assert self.finisher is not None
        nothing = np.full(len(self), np.nan)
        chosen = [i for i in columns if self.plan.outputs[i].chosen]
        found: Ends = {i: self._chosen(i, confidence, together) or (nothing, nothing) for i in chosen}
        found |= self._by_row([i for i in columns if i not in found], confidence, draw, together)
        found |= {i: ends for i in columns if i not in found and (ends := self._direct(i, confidence, together))}
        return found | resampled_intervals(
            self.finisher, self.plan, self.released, self.bar_columns, self.table,
            [i for i in columns if i not in found], confidence, together=together, draw=draw,
        )  # fmt: skip

    def _by_row(self, columns: list[int], confidence: float, draw: Draw, together: bool) -> Ends:
        """The intervals of columns that are expressions over the released row which the answer carries along."""
        row = self.plan.row
        formulas = {i: f[1] for i in columns if (f := self.plan.outputs[i].formula) is not None and f[0] == row}
        if row is None or not formulas:
            return {}
        assert self.finisher is not None
        family, tables = self.plan.family(row), fit_tables(self.plan, self.released)
        codes = np.array([row[-1] for row in self.table.rows], dtype=np.int64)
        rows, places = np.divmod(codes, len(family.members))
        sizes = [len(tables[member.release].keys) for member in family.members]
        at = np.concatenate([[0], np.cumsum(sizes)[:-1]])[places] + rows
        found = []
        for place, member in enumerate(family.members):
            share = sizes[place] / max(1, sum(sizes)) if together and len(sizes) > 1 else 1
            found.append(row_ends(
                self.finisher, self.plan, tables[member.release], self.bar_columns[member.release],
                [family.over(place, formula) for formula in formulas.values()], 1 - (1 - confidence) * share,
                together=together, draw=draw,
            ))  # fmt: skip
        each = [[np.concatenate(side)[at] for side in zip(*ends, strict=True)] for ends in zip(*found, strict=True)]
        return {i: (low, high) for i, (low, high) in zip(formulas, each, strict=True)}

    def _chosen(self, index: int, confidence: float, together: bool) -> tuple[Any, Any] | None:
        """The interval of a quantile from a tree, where each row of the answer tells which row was released."""
        formula = self.plan.outputs[index].formula
        place = None if formula is None or formula[0] != self.plan.row else direct_index(formula[1])
        if formula is None or place is None or formula[0] not in self.released:
            return None
        released = self.released[formula[0]]
        each = confidence ** (1 / max(1, len(released.keys))) if together else confidence
        ends = chosen_ends(released, place, each)
        rows = np.array([row[-1] for row in self.table.rows], dtype=np.int64)
        return None if ends is None else (ends[0][rows], ends[1][rows])

    def _direct(self, index: int, confidence: float, together: bool) -> tuple[Any, Any] | None:
        """The exact interval of a column that is one aggregate of one release, unchanged, in an answer of its own.

        Each value reaches as far as the released one that it is: the noise is the same for every row, unless it is an
        average, and what a clip may have cut off follows from the value.
        """
        direct = self.plan.outputs[index].direct
        if direct is None:
            return None
        name, place = direct
        released = fit_tables(self.plan, self.released)[name]
        each = confidence ** (1 / max(1, len(released.keys))) if together else confidence
        if not released.keys or half_width(released.priced, place, each) is None:
            return None
        ends = interval(released, place, each)
        known = np.asarray(tabulate(released)[f"_a{place}"], dtype=np.float64)
        values = np.array([number(row[index]) for row in self.table.rows])
        at = nearest(known, values)
        low, high = (values + (np.asarray(end, dtype=np.float64) - known)[at] for end in ends)
        return (np.rint(low), np.rint(high)) if self.types[index] == "BIGINT" else (low, high)

    def plot(
        self,
        x: str | None = None,
        y: str | list[str] | None = None,
        *,
        kind: str | None = None,
        confidence: float = 0.95,
        backend: str | None = None,
        ax: Any = None,
    ) -> Any:
        """Bars (or lines, over dates and numbers) with error bars, by matplotlib or altair."""
        from dpsql.answers.plot import plot

        return plot(self, x, y, kind, confidence, backend, ax)

    def __float__(self) -> float:
        """The number, where the answer is a single one."""
        if len(self.columns) != 1 or len(self) != 1:
            raise InterfaceError("this answer is a table, not one number", hint="take a column of it: answer.df()['n']")
        return float(number(self.fetchall()[0][0]))

    def __len__(self) -> int:
        return len(self.table.rows)

    def _repr_html_(self) -> str:
        from dpsql.answers.render import result_html

        return result_html(self)

    def __str__(self) -> str:
        from dpsql.answers.render import result_text

        return result_text(self)

    __repr__ = __str__


# from released tables to a result
# --------------------------------------------------------------------------------------


def finished(
    finisher: Finisher,
    prepared: PreparedQuery,
    executed: Executed,
    engine_notes: Sequence[str],
    *,
    nonnegative: bool,
) -> Result:
    """The analyst's own outer SQL over what was released."""
    plan = prepared.plan
    released = {release.name: executed.tables[release.name] for release in plan.releases}
    shares = clipped_shares(prepared.checks, executed.tables)
    fitted = fit_tables(plan, released)
    bars = bar_columns(finisher, plan, fitted)
    columns = {
        name: only_present(released[name], tabulate(table, bars[name], nonnegative=nonnegative))
        for name, table in fitted.items()
    }
    table = finisher.run(plan, columns)
    notes = (
        *nobody_notes(released),
        *map(str, shares),
        *owner_notes(plan.releases),
        *chosen_notes(plan),
        *notes_of([each.priced for each in released.values()], prepared.checks),
        *executed.notes,
        *inner_notes(plan),
        *plan.notes,
        *engine_notes,
        *table_notes(plan, released, fitted),
    )
    names = tuple(output.name for output in plan.outputs)
    return Result(
        names,
        prepared.types,
        executed.cost,
        executed.replayed,
        prepared.bill.mechanism,
        notes,
        shares,
        tuple(_whole(output, plan, released) for output in plan.outputs),
        table,
        plan,
        released,
        bars,
        finisher,
    )


def _whole(output: Output, plan: Plan, released: Mapping[str, Released]) -> float:
    """What the values of a column are shares of (1, or 100 in percent); 0 if they are not shares."""
    direct = None if output.direct is None else (output.direct[0], exp.column(f"_a{output.direct[1]}"))
    read = output.formula or direct
    if output.chosen or read is None:
        return 0.0
    name, node = read
    family = plan.family(name)
    return whole_of(family.over(0, node), released[family.members[0].release].priced)


def clipped_shares(checks: Sequence[ClipCheck], released: Mapping[str, Released]) -> tuple[Clipped, ...]:
    """The share that each check measured, in the order of the checks."""
    shares = []
    for check in checks:
        table = released[check.bounded.release.name]
        [share] = estimates(table.priced, table.noisy)
        low, high = interval(table, 0, CONFIDENCE)
        shares.append(Clipped(check.what, check.effect, float(share[0]), float(low[0]), float(high[0])))
    return tuple(shares)


# the answer as a pandas frame
# -------------------------------------------------------------------------------------------


_DTYPES = {
    "BOOLEAN": "boolean", "TINYINT": "Int8", "SMALLINT": "Int16", "INTEGER": "Int32", "BIGINT": "Int64",
    "HUGEINT": "Int64", "UTINYINT": "UInt8", "USMALLINT": "UInt16", "UINTEGER": "UInt32", "UBIGINT": "UInt64",
    "FLOAT": "float64", "DOUBLE": "float64", "VARCHAR": "str", "INTERVAL": "timedelta64[us]",
}  # fmt: skip
"""Dtypes with room for a missing value; dates, decimals and whatever has no dtype of its own stay Python objects."""


def _series(values: Sequence[Any], type_: str) -> pd.Series[Any]:
    """A column in the dtype of its type, with or without rows, with or without missing values."""
    import pandas as pd

    name = "VARCHAR" if type_.startswith("ENUM(") else type_
    dtype = "datetime64[us]" if name.startswith("TIMESTAMP") else _DTYPES.get(name, "object")
    if dtype == "str":
        return pd.Series(values, dtype=pd.Series(["", None]).dtype)
    wide = name == "HUGEINT" and any(value is not None and abs(value) >= 2**63 for value in values)
    return pd.Series(values, dtype="object" if wide else dtype)


# the answer as an Arrow table
# ------------------------------------------------------------------------------------------


_NAMES = {
    "BOOLEAN": "bool_", "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64",
    "UTINYINT": "uint8", "USMALLINT": "uint16", "UINTEGER": "uint32", "UBIGINT": "uint64", "FLOAT": "float32",
    "DOUBLE": "float64", "VARCHAR": "string", "DATE": "date32",
}  # fmt: skip


def arrow_table(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """The rows as an Arrow table; columns of the same name stay apart."""
    try:
        import pyarrow as pa
    except ImportError:
        raise InterfaceError("Arrow tables need pyarrow", hint="pip install 'dpsql[arrow]'") from None
    columns = [pa.array([row[i] for row in rows], type=_arrow_type(pa, type_)) for i, type_ in enumerate(types)]
    return pa.Table.from_arrays(columns, names=list(names))


def _arrow_type(pa: Any, name: str) -> pa.DataType | None:
    """Arrow's type of the same values; None, so that Arrow infers it, for the few that have none of their own."""
    if name in _NAMES:
        return getattr(pa, _NAMES[name])()
    if name == "HUGEINT":
        return pa.decimal256(39, 0)
    if name.startswith("TIMESTAMP"):
        return pa.timestamp("us")
    if found := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name):
        return pa.decimal128(int(found[1]), int(found[2]))
    return pa.string() if name == "UUID" or name.startswith("ENUM(") else None
