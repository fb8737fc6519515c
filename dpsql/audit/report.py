"""A report of an audit, for programs (JSON) and for people (one HTML page that needs nothing else)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpsql.audit.outcome import Figures, Finding, Outcome, Series
from dpsql.audit.plots import plot
from dpsql.audit.registry import about, names
from dpsql.errors import InterfaceError
from dpsql.html import STYLE, element, listed, text

FORMAT = 1
MANY = 45
"""A picture with more bars than this is folded."""

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


@dataclass(frozen=True, slots=True)
class Report:
    """What was audited, how, and what came of it; and which part of it this is."""

    subject: str
    how: str
    outcomes: tuple[Outcome, ...]
    part: int = 1
    parts: int = 1

    @property
    def passed(self) -> bool:
        """There were checks, and none found anything."""
        return bool(self.outcomes) and all(outcome.passed for outcome in self.outcomes)

    @property
    def verdict(self) -> str:
        """Of those checks that were run."""
        judged = any(outcome.judged for outcome in self.outcomes)
        return "failed" if not self.passed else "passed" if judged else "measured"

    @property
    def unasked(self) -> tuple[str, ...]:
        """Checks that were not run."""
        return tuple(name for name in names() if name not in {each.check for each in self.outcomes})

    @property
    def broken(self) -> bool:
        """Something was found."""
        return any(outcome.findings for outcome in self.outcomes)

    def json(self) -> str:
        """For programs, and to be added up."""
        checks = [{**asdict(each), "passed": each.passed} for each in self.outcomes]
        said = {"format": FORMAT, "subject": self.subject, "how": self.how, "part": self.part, "parts": self.parts}
        return json.dumps({**said, "passed": self.passed, "checks": checks}, indent=1)

    @classmethod
    def read(cls, said: str) -> Report:
        """What `json` wrote."""
        try:
            read = json.loads(said)
            outcomes = tuple(_outcome(each) for each in read["checks"])
            return cls(read["subject"], read["how"], outcomes, read["part"], read["parts"])
        except (ValueError, KeyError, TypeError) as problem:
            raise InterfaceError(
                "this is no report of an audit", hint="give files of `dpsql audit --json`"
            ) from problem

    def html(self) -> str:
        """One page for people."""
        head = element("h1", "Audit of " + text(self.subject) + _verdict(self.verdict)) + element(
            "p", text(self.how), "dim"
        )
        body = head + listed([text(line) for line in self._reading()]) + self._table()
        body += "".join(map(_section, self.outcomes))
        style = f"<style>{STYLE}{PAGE}</style>"
        title = element("title", f"dpsql audit: {text(self.subject)}")
        meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        made = f"<head>{meta}{title}{style}</head>" + element("body", element("main", body, "dpsql audit"))
        return f'<!doctype html><html lang="en">{made}</html>\n'

    def _reading(self) -> list[str]:
        """What a steward should know before the figures."""
        lines = ["This page is for the steward: it counts units exactly, and where something was found it shows rows."]
        if self.unasked:
            lines.append(f"Not run, so nothing is known of: {', '.join(self.unasked)}.")
        lines.append(
            "Passed means that this search found nothing. A bar up to its limit is as it should be: what was claimed is"
            " needed, and no more. A bar beyond it breaks the promise: stop answering, and report it."
        )
        return lines

    def _table(self) -> str:
        rows = [
            element("tr", "".join(element("td", cell, kind) for cell, kind in (
                (element("a", text(each.check), href=f"#{each.check}"), ""), (_verdict(each.verdict), ""),
                (text(about(each.check)), "w"), (f"{each.seconds:,.0f} s", "n"))))
            for each in self.outcomes
        ]  # fmt: skip
        head = "".join(element("th", name) for name in ("check", "", "what it shows", "time"))
        return element("table", element("thead", element("tr", head)) + element("tbody", "".join(rows)))


def _outcome(read: Mapping[str, Any]) -> Outcome:
    return Outcome(
        read["check"],
        tuple((name, value) for name, value in read["figures"]),
        tuple(Finding(**each) for each in read["findings"]),
        tuple(Series(**{**each, "points": tuple((x, y) for x, y in each["points"])}) for each in read["series"]),
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


def _section(outcome: Outcome) -> str:
    figures = [
        element("tr", element("td", text(name)) + element("td", text(shown(value)), "n"))
        for name, value in outcome.figures
    ]
    made = element("h2", text(outcome.check) + _verdict(outcome.verdict), id=outcome.check)
    made += element("p", text(about(outcome.check)), "dim")
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


def _found(finding: Finding) -> str:
    again = element("pre", text(finding.again)) if finding.again else ""
    return element("div", element("p", text(finding.what)) + again, "found")


def _folded(series: Series) -> str:
    drawn = plot(series)
    if len(series.points) <= MANY:
        return drawn
    return element("details", element("summary", f"{text(series.title)} ({len(series.points)})") + drawn)


def shown(value: object) -> str:
    """A figure as it reads."""
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def merged(reports: Sequence[Report]) -> Report:
    """The parts of one audit together: each once, and none missing, for what is not there found nothing either."""
    from dpsql.audit.registry import merge

    _one_audit(reports)

    run = dict.fromkeys(outcome.check for report in reports for outcome in report.outcomes)
    by_name = {name: [o for report in reports for o in report.outcomes if o.check == name] for name in run}
    outcomes = tuple(merge(name, each) for name, each in by_name.items())
    subjects, hows = (dict.fromkeys(getattr(r, part) for r in reports) for part in ("subject", "how"))
    return Report(" and ".join(subjects), "; ".join(hows), outcomes)


def _one_audit(reports: Sequence[Report]) -> None:
    subjects = dict.fromkeys(report.subject for report in reports)
    if len(subjects) > 1:
        raise InterfaceError(f"these are audits of {' and of '.join(subjects)}", hint="merge the parts of one audit")
    told = [(report.how, report.part) for report in reports]
    if len(set(told)) < len(told):
        raise InterfaceError("one part is given twice", hint="give each report once")
    parts = {report.parts for report in reports}
    missing = sorted(set(range(1, max(parts) + 1)) - {report.part for report in reports})
    if len(parts) > 1 or missing:
        what = f"part {missing[0]} of {max(parts)} is missing" if missing else "these are parts of different audits"
        raise InterfaceError(what, hint="give the reports of all parts")
