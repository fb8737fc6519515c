"""The report of an audit: JSON for programs, and one self-contained HTML page for people."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dpsql.audit.blackbox_check import BLACKBOX
from dpsql.audit.neighbour_check import NEIGHBOURS
from dpsql.audit.outcome import AuditCheck, AuditFinding, Figures, Outcome, PlotSeries
from dpsql.errors import InterfaceError
from dpsql.notebook_html import STYLE, element, listed, text
from dpsql.policy.identifiers import nearest

FORMAT = 1
MAX_BARS = 45
"""A plot with more bars than this is folded."""
WIDTH, ROW, LABEL, RIGHT = 720, 18, 250, 70
HEIGHT = 240

PAGE = """
:root{color-scheme:light dark}body{margin:0;background:Canvas}
.dpsql.audit{max-width:900px;margin:0 auto;padding:28px 20px 60px;font-size:14px}
.audit h1{font-size:22px;margin:0 0 .2em}.audit h2{font-size:17px;margin:1.8em 0 .2em}
.audit .verdict{display:inline-block;padding:.1em .7em;border-radius:1em;font-size:12px;font-weight:600;color:#fff;
vertical-align:.15em;margin-left:.6em}.audit .plain{background:#6b7280}
.audit .good{background:#2b8a4b}.audit .bad{background:#c93a3a}
.audit figure{margin:1em 0}.audit figcaption{font-weight:600;margin-bottom:.3em}
.audit svg{display:block;width:100%;height:auto;font:11px system-ui,sans-serif}
.audit svg text{fill:var(--dp-ink)}.audit svg text.dim{fill:var(--dp-dim)}
.audit svg .mark{fill:var(--dp-fill)}.audit svg .over{fill:#c93a3a}
.audit svg .limit{stroke:#c9762a;stroke-width:1.5;stroke-dasharray:4 3}
.audit svg .grid{stroke:var(--dp-line)}.audit svg .line{fill:none;stroke:var(--dp-fill);stroke-width:1.5}
.audit pre{overflow:auto;padding:.8em 1em;border:1px solid var(--dp-line);border-radius:6px;
font:12px/1.45 ui-monospace,monospace}
.audit .found{border-left:3px solid #c93a3a;padding-left:.9em;margin:1em 0}
.audit details{margin:.6em 0}.audit a{color:var(--dp-fill)}
""".replace("\n", "")

# the checks -----------------------------------------------------------------------------------------------------------
# The checks that `dpsql audit` runs on the steward's own policy and data.


CHECKS: Mapping[str, AuditCheck] = {"neighbours": NEIGHBOURS, "blackbox": BLACKBOX}
"""All checks by name, in the order in which they run."""


def find_check(name: str, checks: Mapping[str, AuditCheck] = CHECKS) -> AuditCheck:
    """The check with this name."""
    if name not in checks:
        close = nearest(name, tuple(checks))
        meant = f"did you mean {close}? " if close else ""
        raise InterfaceError(f"there is no check {name!r}", hint=f"{meant}checks: {', '.join(checks)}")
    return checks[name]


# the report -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """What was audited, with which settings, and the outcomes; and which part of the audit this is.

    `checks` are those that could have been run.
    """

    subject: str
    how: str
    outcomes: tuple[Outcome, ...]
    part: int = 1
    parts: int = 1
    checks: Mapping[str, AuditCheck] = field(default_factory=lambda: CHECKS, repr=False, compare=False)

    @property
    def passed(self) -> bool:
        """Whether there were checks and all of them passed."""
        return bool(self.outcomes) and all(outcome.passed for outcome in self.outcomes)

    @property
    def verdict(self) -> str:
        """`passed`, `failed` or `measured`, over the checks that were run."""
        judged = any(outcome.judged for outcome in self.outcomes)
        return "failed" if not self.passed else "passed" if judged else "measured"

    @property
    def not_run(self) -> tuple[str, ...]:
        """The checks that were not run."""
        return tuple(name for name in self.checks if name not in {each.check for each in self.outcomes})

    @property
    def broken(self) -> bool:
        """Whether any check found something."""
        return any(outcome.findings for outcome in self.outcomes)

    def json(self) -> str:
        """The report as JSON, from which parts can be merged."""
        checks = [{**asdict(each), "passed": each.passed} for each in self.outcomes]
        head = {"format": FORMAT, "subject": self.subject, "how": self.how, "part": self.part, "parts": self.parts}
        return json.dumps({**head, "passed": self.passed, "checks": checks}, indent=1)

    @classmethod
    def read(cls, text: str, checks: Mapping[str, AuditCheck] = CHECKS) -> Report:
        """Read what `json` wrote."""
        try:
            read = json.loads(text)
            outcomes = tuple(_outcome(each) for each in read["checks"])
            return cls(read["subject"], read["how"], outcomes, read["part"], read["parts"], checks)
        except (ValueError, KeyError, TypeError) as problem:
            raise InterfaceError(
                "this is not a report of an audit", hint="pass files written by `dpsql audit --json`"
            ) from problem

    def html(self) -> str:
        """The report as an HTML page."""
        head = element("h1", "Audit of " + text(self.subject) + _verdict(self.verdict)) + element(
            "p", text(self.how), "dim"
        )
        body = head + listed([text(line) for line in self._reading()]) + self._table()
        body += "".join(_section(each, self._shows(each)) for each in self.outcomes)
        style = f"<style>{STYLE}{PAGE}</style>"
        title = element("title", f"dpsql audit: {text(self.subject)}")
        meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        made = f"<head>{meta}{title}{style}</head>" + element("body", element("main", body, "dpsql audit"))
        return f'<!doctype html><html lang="en">{made}</html>\n'

    def _reading(self) -> list[str]:
        """What the steward should know before reading the figures."""
        lines = ["This page is for the steward only: it contains exact counts of units, and findings show rows."]
        if self.not_run:
            lines.append(f"Not run, so nothing is known about: {', '.join(self.not_run)}.")
        lines.append(
            "“Passed” means that this search found nothing. A bar may reach its limit: the claim is then tight."
            " A bar beyond its limit breaks the promise: stop answering queries, and report it."
        )
        return lines

    def _shows(self, outcome: Outcome) -> str:
        return self.checks[outcome.check].shows if outcome.check in self.checks else ""

    def _table(self) -> str:
        rows = [
            element("tr", "".join(element("td", cell, kind) for cell, kind in (
                (element("a", text(each.check), href=f"#{each.check}"), ""), (_verdict(each.verdict), ""),
                (text(self._shows(each)), "w"), (f"{each.seconds:,.0f} s", "n"))))
            for each in self.outcomes
        ]  # fmt: skip
        head = "".join(element("th", name) for name in ("check", "", "what it shows", "time"))
        return element("table", element("thead", element("tr", head)) + element("tbody", "".join(rows)))


def _outcome(read: Mapping[str, Any]) -> Outcome:
    return Outcome(
        read["check"],
        tuple((name, value) for name, value in read["figures"]),
        tuple(AuditFinding(**each) for each in read["findings"]),
        tuple(PlotSeries(**{**each, "points": tuple((x, y) for x, y in each["points"])}) for each in read["series"]),
        tuple(read["notes"]),
        read["seconds"],
        read["saved"],
        read["incomplete"],
        read["judged"],
        _figures(read.get("table")),
    )


def _figures(read: Mapping[str, Any] | None) -> Figures | None:
    return None if read is None else Figures(tuple(read["columns"]), tuple(map(tuple, read["rows"])))


def _verdict(verdict: str) -> str:
    kind = {"failed": "bad", "measured": "plain"}.get(verdict, "good")
    return element("span", verdict, f"verdict {kind}")


def _section(outcome: Outcome, shows: str) -> str:
    figures = [
        element("tr", element("td", text(name)) + element("td", text(shown(value)), "n"))
        for name, value in outcome.figures
    ]
    made = element("h2", text(outcome.check) + _verdict(outcome.verdict), id=outcome.check)
    made += element("p", text(shows), "dim")
    made += element("div", element("p", text(outcome.incomplete)), "found") if outcome.incomplete else ""
    made += element("table", element("tbody", "".join(figures)))
    made += _side_by_side(outcome.table) if outcome.table is not None else ""
    made += "".join(map(_found, outcome.findings))
    made += "".join(map(_folded, outcome.series))
    return made + listed([text(note) for note in outcome.notes])


def _side_by_side(table: Figures) -> str:
    head = "".join(element("th", text(name)) for name in table.columns)
    rows = [
        "".join(element("td", text(shown(value)), "n" if i else "") for i, value in enumerate(row))
        for row in table.rows
    ]
    body = "".join(element("tr", row) for row in rows)
    return element("table", element("thead", element("tr", head)) + element("tbody", body))


def _found(finding: AuditFinding) -> str:
    again = element("pre", text(finding.again)) if finding.again else ""
    return element("div", element("p", text(finding.what)) + again, "found")


def _folded(series: PlotSeries) -> str:
    drawn = plot(series)
    if len(series.points) <= MAX_BARS:
        return drawn
    return element("details", element("summary", f"{text(series.title)} ({len(series.points)})") + drawn)


def shown(value: object) -> str:
    """A figure as text."""
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


# parts ----------------------------------------------------------------------------------------------------------------


def merged(reports: Sequence[Report]) -> Report:
    """The parts of one audit as one report. A missing part is refused: what it would have found is not known."""
    _require_one_audit(reports)
    checks = reports[0].checks
    run = dict.fromkeys(outcome.check for report in reports for outcome in report.outcomes)
    by_name = {name: [o for report in reports for o in report.outcomes if o.check == name] for name in run}
    outcomes = tuple(find_check(name, checks).merged(each) for name, each in by_name.items())
    subjects, hows = (dict.fromkeys(getattr(r, part) for r in reports) for part in ("subject", "how"))
    return Report(" and ".join(subjects), "; ".join(hows), outcomes, checks=checks)


def _require_one_audit(reports: Sequence[Report]) -> None:
    subjects = dict.fromkeys(report.subject for report in reports)
    if len(subjects) > 1:
        raise InterfaceError(f"these are audits of {' and of '.join(subjects)}", hint="merge the parts of one audit")
    given = [(report.how, report.part) for report in reports]
    if len(set(given)) < len(given):
        raise InterfaceError("a part is given twice", hint="give each report once")
    parts = {report.parts for report in reports}
    missing = sorted(set(range(1, max(parts) + 1)) - {report.part for report in reports})
    if len(parts) > 1 or missing:
        what = f"part {missing[0]} of {max(parts)} is missing" if missing else "these are parts of different audits"
        raise InterfaceError(what, hint="give the reports of all parts")


# plots ----------------------------------------------------------------------------------------------------------------


def plot(series: PlotSeries) -> str:
    """A plot as SVG: bars for names, a line for numbers, and the limit if there is one."""
    if not series.points:
        return ""
    named = any(isinstance(x, str) for x, _ in series.points)
    drawing = _bars(series) if named else _line(series)
    caption = element("figcaption", text(series.title))
    return element("figure", caption + drawing, "plot")


def _bars(series: PlotSeries) -> str:
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


def _line(series: PlotSeries) -> str:
    """Points joined in the order of x, with three ticks on each axis."""
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


def _top(series: PlotSeries) -> float:
    values = [y for _, y in series.points if math.isfinite(y)]
    return max([*values, series.limit or 0.0]) * (1.05 if series.limit else 1.0) or 1.0


def _svg(height: float, parts: list[str], title: str) -> str:
    inside = element("title", text(title)) + "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" style="max-width:{WIDTH}px">{inside}</svg>'


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    short = words if len(words) <= 38 else words[:37] + "…"
    return element("text", text(short), kind, x=f"{x:.1f}", y=f"{y:.1f}", **{"text-anchor": anchor})


def _kind(over: bool) -> str:
    return ' class="over"' if over else ' class="mark"'


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.3g}"
