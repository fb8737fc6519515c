"""An answer as a picture: bars for groups, lines over dates and numbers, always with error bars.

Ink is a grey that reads on white and on black, and the background is transparent: a notebook may be light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.answers.error_bars import number
from dpsql.answers.number_format import plain
from dpsql.errors import InterfaceError

if TYPE_CHECKING:
    from dpsql.answers.result import Result

INK, INK_TOO = "#7a7a7a", "#828282"
"""One looks like the other; but where all labels are called dark, IPython puts white behind a transparent picture."""
COLORS = ("#2f7de1", "#e0782f", "#3a9d5d", "#b2569b", "#9a8220", "#5f6fc0")
KINDS = ("bar", "line")
LONG = 9


@dataclass(frozen=True, slots=True)
class Series:
    """One noisy column: its values and both ends of their intervals."""

    name: str
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn, whatever draws it."""

    x: str
    places: Sequence[Any]
    series: tuple[Series, ...]
    kind: str
    title: str
    edges: Sequence[float] | None


def plot(
    result: Result,
    x: str | None,
    y: str | Sequence[str] | None,
    kind: str | None,
    confidence: float,
    backend: str | None,
    ax: Any,
) -> Any:
    """Draw with matplotlib, or with altair if that was asked for or is all there is."""
    drawing = draw(result, x, y, kind, confidence)
    chosen = backend or ("matplotlib" if find_spec("matplotlib") is not None else "altair")
    if chosen not in ("matplotlib", "altair"):
        raise InterfaceError(f"there is no backend {backend!r}", hint="use matplotlib or altair")
    if find_spec(chosen) is None:
        raise InterfaceError(f"plots need {chosen}", hint="pip install 'dpsql[plot]'")
    return _matplotlib(drawing, ax) if chosen == "matplotlib" else _altair(drawing)


def draw(result: Result, x: str | None, y: str | Sequence[str] | None, kind: str | None, confidence: float) -> Drawing:
    """Choose the columns and the kind: noisy columns over the keys; lines where the key is a date."""
    if kind is not None and kind not in KINDS:
        raise InterfaceError(f"there is no kind {kind!r}", hint=f"use {' or '.join(KINDS)}")
    bars, rows = result.intervals(confidence), result.fetchall()
    noisy = [name for name in result.columns if f"{name}_low" in bars]
    wanted = noisy if y is None else [y] if isinstance(y, str) else list(y)
    keys = [name for name in result.columns if name not in noisy] if x is None else [x]
    for name in (*wanted, *keys):
        if name not in result.columns:
            raise InterfaceError(f"there is no column {name!r}", hint=f"columns: {', '.join(result.columns)}")
    if not wanted or not rows:
        raise InterfaceError("there is nothing with noise to draw", hint="name a column: .plot(y='n')")
    at = [result.columns.index(name) for name in keys]
    edges = None
    if len(keys) == 2 and keys[1] == f"{keys[0]}_to":
        edges, at, keys = [*(row[at[0]] for row in rows), rows[-1][at[1]]], at[:1], keys[:1]
    places = [row[at[0]] if len(at) == 1 else ", ".join(plain(row[i]) for i in at) for row in rows] if at else [""]
    dated = all(isinstance(place, date) for place in places)
    places = places if dated or edges else [_label(each) for each in places]
    series = tuple(_series(result, name, bars) for name in wanted)
    return Drawing(", ".join(keys), places, series, kind or ("line" if dated else "bar"),
                   f"{', '.join(wanted)}" + (f" by {', '.join(keys)}" if keys else ""), edges)  # fmt: skip


def _label(value: Any) -> str:
    """A key as it reads; control characters have no glyph, and `$` begins no formula."""
    shown = "missing" if value is None else plain(value)
    return "".join(each if each.isprintable() else "�" for each in shown).replace("$", r"\$")


def _series(result: Result, name: str, bars: Any) -> Series:
    """Intervals that are open on a side are drawn without a bar."""
    index = result.columns.index(name)
    values = np.array([number(row[index]) for row in result.fetchall()])
    if f"{name}_low" not in bars:
        return Series(name, values.tolist(), values.tolist(), values.tolist())
    low, high = (np.asarray(bars[f"{name}_{end}"], dtype=float) for end in ("low", "high"))
    open_ = ~(np.isfinite(low) & np.isfinite(high))
    return Series(name, values.tolist(), np.where(open_, values, low).tolist(), np.where(open_, values, high).tolist())


def _matplotlib(drawing: Drawing, ax: Any) -> Any:
    import matplotlib.pyplot as plt

    many = drawing.kind == "bar" and (len(drawing.places) > LONG or any(len(str(p)) > 12 for p in drawing.places))
    flat = many and drawing.edges is None
    if ax is None:
        figure, ax = plt.subplots(figsize=(6.4, max(2.4, 0.3 * len(drawing.places) + 1.2) if flat else 3.4))
        figure.patch.set_alpha(0)
    ax.patch.set_alpha(0)
    for index, series in enumerate(drawing.series):
        _one(drawing, ax, index, series, flat)
    _axes(drawing, ax, flat)
    ax.figure.tight_layout()
    return ax


def _one(drawing: Drawing, ax: Any, index: int, series: Series, flat: bool) -> None:
    values = np.array(series.values)
    arms = np.vstack([values - np.array(series.low), np.array(series.high) - values]).clip(0)
    color = COLORS[index % len(COLORS)]
    style: dict[str, Any] = {"color": color, "label": series.name}
    if drawing.kind == "line":
        ax.errorbar(drawing.places, values, yerr=arms, ecolor=INK, capsize=2, marker="o", ms=4, lw=1.5, **style)
        return
    style["alpha"] = 0.6  # so that the lower arm is seen, too
    if drawing.edges is not None:
        edges = np.array(drawing.edges, dtype=float)
        ax.bar(edges[:-1], values, np.diff(edges) * 0.94, align="edge", **style)
        ax.errorbar((edges[:-1] + edges[1:]) / 2, values, yerr=arms, fmt="none", ecolor=INK, capsize=3, lw=1.2)
        return
    width = 0.8 / len(drawing.series)
    places = np.arange(len(drawing.places)) + (index - (len(drawing.series) - 1) / 2) * width
    if flat:
        ax.barh(places, values, width * 0.92, xerr=arms, ecolor=INK, capsize=2, **style)
    else:
        ax.bar(places, values, width * 0.92, yerr=arms, ecolor=INK, capsize=3, **style)


def _axes(drawing: Drawing, ax: Any, flat: bool) -> None:
    named = drawing.kind == "bar" and drawing.edges is None
    if named and flat:
        ax.set_yticks(range(len(drawing.places)), [str(place) for place in drawing.places])
        ax.invert_yaxis()
    elif named:
        ax.set_xticks(range(len(drawing.places)), [str(place) for place in drawing.places])
    elif drawing.kind == "line" and isinstance(drawing.places[0], date):
        ax.figure.autofmt_xdate(rotation=30)
    value = drawing.series[0].name if len(drawing.series) == 1 else ""
    ax.set_xlabel(value if flat else drawing.x, color=INK)
    ax.set_ylabel(drawing.x if flat else value, color=INK)
    ax.set_title(drawing.title, color=INK, fontsize=11, loc="left")
    ax.tick_params(axis="x", colors=INK)
    ax.tick_params(axis="y", colors=INK_TOO)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
    ax.grid(axis="x" if flat else "y", color=INK, alpha=0.25, lw=0.6)
    ax.set_axisbelow(True)
    (ax.xaxis if flat else ax.yaxis).set_major_formatter("{x:,.6g}")
    if len(drawing.series) > 1:
        ax.legend(frameon=False, labelcolor=INK)


def _altair(drawing: Drawing) -> Any:
    import altair as alt
    import pandas as pd

    places = drawing.places if drawing.edges is None else [f"{e:g}" for e in drawing.edges[:-1]]
    table = pd.DataFrame(
        [
            {"x": place, "series": series.name, "value": value, "low": low, "high": high}
            for series in drawing.series
            for place, value, low, high in zip(places, series.values, series.low, series.high, strict=True)
        ]
    )
    kind = "T" if drawing.kind == "line" and isinstance(drawing.places[0], date) else "N"
    x = alt.X(f"x:{kind}", title=drawing.x or None, sort=None)
    title = drawing.series[0].name if len(drawing.series) == 1 else ""
    base = alt.Chart(table, title=drawing.title).encode(x=x)
    if len(drawing.series) > 1 and drawing.kind == "bar":
        base = base.encode(xOffset=alt.XOffset("series:N", sort=None))
    scale = alt.Scale(range=list(COLORS))
    legend = None if len(drawing.series) == 1 else alt.Legend(title=None)
    color = alt.Color("series:N", sort=None, scale=scale, legend=legend)
    marks = base.mark_line(point=True) if drawing.kind == "line" else base.mark_bar()
    rules = base.mark_rule(color=INK).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    chart = marks.encode(y=alt.Y("value:Q", title=title), color=color) + rules
    return (
        chart.properties(width=420, height=240, background="transparent")
        .configure_axis(labelColor=INK, titleColor=INK, gridOpacity=0.25, domainColor=INK, tickColor=INK)
        .configure_title(color=INK, anchor="start")
        .configure_legend(labelColor=INK)
        .configure_view(stroke=None)
    )
