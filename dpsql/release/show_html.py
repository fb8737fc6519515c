"""Answers and explanations as HTML, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsql.budget.status import account_bar
from dpsql.errors import Error
from dpsql.html import element, listed, page, text
from dpsql.release.format import clip_text, rule_of
from dpsql.release.numbers import numeric, plain, with_error

if TYPE_CHECKING:
    from dpsql.release.explain import Explanation, KeyPlan, ReleasePlan
    from dpsql.release.result import Result

MOST_ROWS = 60


def result_html(result: Result) -> str:
    """The table with an error bar beside every noisy value, what it cost, and what is left."""
    rows = result.fetchall()
    heads, cells = [], []
    for index, (name, ends) in enumerate(zip(result.columns, result.bars(), strict=True)):
        values = [row[index] for row in rows[:MOST_ROWS]]
        if ends is not None:
            heads.append(element("th", text(name), "n") + element("th", "±", "e dim"))
            cells.append([_noisy(value, *end) for value, end in zip(values, ends, strict=False)])
        else:
            kind = "n" if values and numeric(values) else ""
            heads.append(element("th", text(name), kind))
            cells.append([_exact(value, kind) for value in values])
    body = "".join(element("tr", "".join(row)) for row in zip(*cells, strict=True))
    table = element("table", element("thead", element("tr", "".join(heads))) + element("tbody", body))
    more = element("p", f"… {len(rows) - MOST_ROWS:,} more rows", "dim") if len(rows) > MOST_ROWS else ""
    return page(table + more + _footer(result))


def _exact(value: Any, kind: str) -> str:
    return element("td", "missing", f"null {kind}") if value is None else element("td", text(plain(value)), kind)


def _noisy(value: Any, low: float, high: float) -> str:
    """`1,234` and `± 56` in two cells, so that both line up; a lopsided interval is written out."""
    written = with_error(value, low, high)
    if written == "NULL":
        return element("td", "missing", "null n") + element("td", "", "e")
    at = written.find(" ± ") if " ± " in written else written.find(" (")
    return element("td", text(written[:at]), "n") + element("td", text(written[at + 1 :]), "e")


def _footer(result: Result) -> str:
    noisy = any(output.noisy for output in result._plan.outputs)
    price = "free (released before)" if result.replayed else str(result.cost) if result.cost.epsilon else "free"
    said = f"cost: {price}" + (" · ± is the 95% error bar of the noise" if noisy else "")
    left = _left(result)
    notes = listed([text(note) for note in result.notes])
    more = element("details", element("summary", "not covered by the error bars") + notes) if notes else ""
    return element("p", text(said), "dim") + left + more


def _left(result: Result) -> str:
    """The account that binds: the analyst's where there is one."""
    if result._account is None:
        return ""
    try:
        status = result._account()
    except Error:
        return ""
    own = status.purpose or status.analyst or status.dataset
    return element("p", "budget" + account_bar(own), "dim")


def explanation_html(plan: Explanation) -> str:
    """A tree: the cost, each release with its keys, bounds and where they come from, and its errors."""
    cost = text(plan.cost) if plan.releases else "free (public tables only)"
    remark = [text(plan.remark)] if plan.remark else []
    tree = [element("b", "cost ") + cost + listed(remark), *map(_release, plan.releases)]
    if plan.notes:
        tree.append(element("b", "not covered by the error bars") + listed([text(note) for note in plan.notes]))
    statements = "".join(element("pre", element("code", text(r.sql))) for r in plan.releases if r.sql)
    shown = element("details", element("summary", "the database's SQL") + statements) if statements else ""
    return page(listed(tree, "tree") + _mechanisms(plan) + shown)


def _release(release: ReleasePlan) -> str:
    items = [f"group by {_code(key.text)}: {_key(key)}" for key in release.keys]
    if release.threshold is not None:
        items.append(f"groups with at least about {release.threshold:.4g} units are shown")
    elif release.keys:
        items.append(f"all {release.groups} groups are shown, also empty ones")
    items += [text(clip_text(clip)) for clip in release.clips]
    for statistic in release.statistics:
        bounds = statistic.bounds
        origin = text(", ".join(bounds.origin) or "the query")
        items.append(
            _code(statistic.name)
            + listed(
                [
                    f"a row adds {bounds.lower:g} to {bounds.upper:g} " + element("span", f"({origin})", "dim"),
                    f"sensitivity {statistic.sensitivity:.6g}, {text(statistic.mechanism)} scale {statistic.scale:.6g}",
                ]
            )
        )
    for aggregate in release.aggregates:
        error = "depends on the count" if aggregate.error is None else f"± {aggregate.error:.6g} (95%)"
        items.append(f"{_code(aggregate.text)}: {error}")
    return element("b", f"release over {text(release.table)}") + f": {text(rule_of(release))}" + listed(items)


def _key(key: KeyPlan) -> str:
    if key.values is None:
        return "private values, shown above a threshold"
    shown = ", ".join("missing" if v is None else str(v) for v in key.values[:6]) + ", …" * (len(key.values) > 6)
    origin = element("span", f"({text(', '.join(key.origin) or 'the query')})", "dim")
    return f"{len(key.values)} public values: {text(shown)} {origin}"


def _mechanisms(plan: Explanation) -> str:
    """Both mechanisms side by side, for the same asked price."""
    if not plan.alternatives:
        return ""
    rows = []
    for name in ("laplace", "gaussian"):
        other = plan if plan.mechanism == name else plan.alternatives.get(name)
        if other is not None:
            errors = [f"{a.text} ± {a.error:.5g}" for r in other.releases for a in r.aggregates if a.error is not None]
            cells = (f"{other.cost.epsilon:.4g}", f"{other.cost.delta:.3g}", f"{other.cost.rho:.4g}")
            title = f"{name} (used)" if other is plan else name
            rows.append(
                element("td", text(title))
                + "".join(element("td", cell, "n") for cell in cells)
                + element("td", text(", ".join(errors) or "depend on the counts"))
            )
    head = "".join(element("th", title, kind) for title, kind in
                   (("mechanism", ""), ("ε", "n"), ("δ", "n"), ("ρ", "n"), ("errors (95%)", "")))  # fmt: skip
    body = "".join(element("tr", row) for row in rows)
    return element("table", element("thead", element("tr", head)) + element("tbody", body))


def _code(source: str) -> str:
    return element("code", text(source))
