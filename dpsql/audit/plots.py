"""Series as pictures: SVG drawn here, in the colours of the page, light or dark."""

from __future__ import annotations

import math

from dpsql.audit.outcome import Series
from dpsql.html import element, text

WIDTH, ROW, LABEL, RIGHT = 720, 18, 250, 70
HEIGHT = 240


def plot(series: Series) -> str:
    """Bars for names, a line over numbers; what must stay below a limit shows it."""
    if not series.points:
        return ""
    named = any(isinstance(x, str) for x, _ in series.points)
    drawing = _bars(series) if named else _line(series)
    caption = element("figcaption", text(series.title))
    return element("figure", caption + drawing, "plot")


def _bars(series: Series) -> str:
    top = _top(series)
    height, span = ROW * len(series.points) + 26, WIDTH - LABEL - RIGHT
    parts = []
    for i, (name, value) in enumerate(series.points):
        y, size = i * ROW, span * max(0.0, value) / top
        over = series.limit is not None and value > series.limit
        parts.append(_text(LABEL - 8, y + 13, str(name), anchor="end"))
        parts.append(f'<rect x="{LABEL}" y="{y + 3}" width="{size:.1f}" height="{ROW - 6}" rx="2"{_kind(over)}/>')
        parts.append(_text(LABEL + size + 6, y + 13, _short(value), kind="dim"))
    if series.limit is not None:
        x = LABEL + span * series.limit / top
        parts.append(f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 22}"/>')
        parts.append(_text(x, height - 8, f"limit {_short(series.limit)}", anchor="middle", kind="dim"))
    return _svg(height, parts, series.title)


def _line(series: Series) -> str:
    """Points joined in the order of x, with a few marks on both axes."""
    points = sorted((float(x), y) for x, y in series.points)
    low, high = points[0][0], points[-1][0]
    top, width, height = _top(series), WIDTH - 80, HEIGHT - 50

    def place(x: float, y: float) -> tuple[float, float]:
        return 60 + width * (x - low) / ((high - low) or 1.0), 10 + height * (1 - y / top)

    at = [place(x, max(0.0, y)) for x, y in points]
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    parts = [f'<polyline class="line" points="{joined}"/>']
    parts += [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"{_kind(series.limit is not None and v > series.limit)}/>'
        for (x, y), (_, v) in zip(at, points, strict=True)
    ]
    for share in (0.0, 0.5, 1.0):
        y = 10 + height * (1 - share)
        parts.append(f'<line class="grid" x1="60" x2="{60 + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(54, y + 4, _short(top * share), anchor="end", kind="dim"))
        parts.append(_text(60 + width * share, HEIGHT - 22, _short(low + (high - low) * share), "middle", "dim"))
    if series.limit is not None:
        y = place(low, series.limit)[1]
        parts.append(f'<line class="limit" x1="60" x2="{60 + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
    parts.append(_text(60 + width / 2, HEIGHT - 4, series.x, "middle", "dim"))
    return _svg(HEIGHT, parts, series.title)


def _top(series: Series) -> float:
    values = [y for _, y in series.points if math.isfinite(y)]
    return max([*values, series.limit or 0.0]) * (1.05 if series.limit else 1.0) or 1.0


def _svg(height: float, parts: list[str], title: str) -> str:
    inside = element("title", text(title)) + "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" style="max-width:{WIDTH}px">{inside}</svg>'


def _text(x: float, y: float, said: str, anchor: str = "start", kind: str = "") -> str:
    shown = said if len(said) <= 38 else said[:37] + "…"
    return element("text", text(shown), kind, x=f"{x:.1f}", y=f"{y:.1f}", **{"text-anchor": anchor})


def _kind(over: bool) -> str:
    return ' class="over"' if over else ' class="mark"'


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.3g}"
