"""Answers and explanations as text and as HTML: no number is shown without its error bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.answers.notes import SHOWN, first_notes
from dpsql.answers.number_format import numeric, plain, with_error
from dpsql.answers.quality import Qualities, Quality, quality_line, quality_words
from dpsql.budget.status import account_bar
from dpsql.notebook_html import element, listed, page, text

if TYPE_CHECKING:
    from dpsql.answers.explain import ClipPlan, Explanation, KeyPlan, ReleasePlan
    from dpsql.answers.result import Result

MOST_ROWS = 60


def result_text(result: Result) -> str:
    """The table with an error bar beside every noisy value, what it cost, and what the bars do not cover."""
    rows = result.fetchall()
    bars = result.shown_bars
    columns = []
    judged = result.qualities
    for index, (name, ends, found) in enumerate(zip(result.columns, bars, judged, strict=True)):
        values = [row[index] for row in rows[:MOST_ROWS]]
        if ends is not None:
            cells, right = [with_error(value, *end) for value, end in zip(values, ends, strict=False)], True
        else:
            cells, right = [_printable(plain(value)) for value in values], bool(values) and numeric(values)
        columns.append(_aligned([_printable(name), *cells], right=right))
        if words := quality_words((found or ())[:MOST_ROWS]):
            columns.append(_aligned(["", *words], right=False))
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    if len(rows) > MOST_ROWS:
        lines.append(f"… {len(rows) - MOST_ROWS:,} more rows")
    return "\n".join([*lines, *_footer(result, judged)])


def _aligned(cells: list[str], *, right: bool) -> list[str]:
    width = max(map(len, cells))
    return [cell.rjust(width) if right else cell.ljust(width) for cell in cells]


def _footer(result: Result, judged: Sequence[Qualities | None]) -> list[str]:
    lines = ["± is the 95% error bar of the noise"] if any(each is not None for each in judged) else []
    lines += [line] if (line := quality_line(judged)) else []
    lines += [str(way)] if (way := result.way_out) else []
    lines.append(f"cost: {'free (replayed)' if result.replayed else _price(result)}{left_text(result)}")
    return lines + [f"note: {note}" for note in first_notes(result.notes, "result.notes has them all")]


def _price(result: Result) -> str:
    return f"{result.cost} of your budget" if result.cost.epsilon else "free"


def left_text(result: Result) -> str:
    """What is left of the session's own account."""
    status = result.budget()
    return "" if status is None else f"; left: {status.own.left_share}"


def _printable(text: str) -> str:
    """Text that stays inside its line and tells the terminal nothing."""
    return "".join(each if each.isprintable() else "?" for each in text)


# an explanation as text


RULES = {
    "row": "each row is its own unit",
    "single_row": "each unit has one row (verified)",
    "at_rest": "a copy of it keeps each unit within its bound, and is read instead",
    "one_group": "each unit is in one group; its total is down-weighted to its bound",
    "clip": "each unit's whole contribution is down-weighted to its bound",
    "vector": "what each unit adds to all groups and statistics is one vector, which is clipped",
}


def format_explanation(plan: Explanation) -> str:
    """The explanation as plain text."""
    lines = [f"cost: {_foreseen(plan)}"]
    lines += [f"  {plan.remark}"] if plan.remark else []
    lines += [line for stage in _stages(plan) for line in stage]
    if plan.alternatives:
        lines += ["", *_alternatives(plan)]
    if plan.notes:
        lines += ["", *(f"note: {note}" for note in plan.notes)]
    return "\n".join(lines)


def _foreseen(plan: Explanation) -> str:
    if not plan.releases:
        return "free (public tables only)"
    return str(plan.cost) if plan.cost.share is None else f"{plan.cost} of your budget ({plan.cost.details})"


def _stages(plan: Explanation) -> Iterator[list[str]]:
    """The releases in the order of their stages; a stage has a heading where there are several."""
    last = max((release.stage for release in plan.releases), default=1)
    for stage in range(min((each.stage for each in plan.nested), default=1), last + 1):
        head = [] if last == 1 else ["", f"stage {stage} of {last}, all in one price"]
        yield head if any(release.stage == stage for release in plan.releases) else []
        yield [line for release in plan.releases if release.stage == stage for line in _release(release)]
        for each in (each for each in plan.nested if each.stage == stage):
            kind = "public rows" if each.public else "with noise, then read as public rows"
            yield ["", f"{each.name} ({kind}): {each.sql}"]


def rule_of(release: ReleasePlan) -> str:
    """How the release is bounded, in words."""
    copied = f"; only units with more than {release.rows_per_unit} rows need this, which a prepared copy keeps apart"
    return RULES[release.rule] + (copied if release.apart else "")


def _release(release: ReleasePlan) -> list[str]:
    lines = ["", f"release over {release.table}: {rule_of(release)}"]
    for key in release.keys:
        lines.append(f"  key {key.text}: {_key(key)}")
    if release.threshold is not None:
        lines.append(f"  shown: groups with at least about {release.threshold:.4g} units")
    elif release.keys:
        lines.append(f"  shown: all {release.groups} groups, also empty ones")
    lines += [f"  {clip_text(clip)}" for clip in release.clips]
    for statistic in release.statistics:
        origin = ", ".join(statistic.bounds.origin) or "the query"
        lines.append(
            f"  {statistic.name}: a row adds {statistic.bounds.lower:g} to {statistic.bounds.upper:g} ({origin}); "
            f"sensitivity {statistic.sensitivity:.6g}, {statistic.mechanism} scale {statistic.scale:.6g}"
        )
    for choice in release.choices:
        origin = ", ".join(choice.origin) or "the query"
        lines.append(
            f"  {choice.name}: one of {choice.cells} values, {choice.lowest} to {choice.highest} ({origin}); "
            f"sensitivity {choice.sensitivity:.6g} in rank, {choice.mechanism} scale {choice.scale:.6g}"
        )
    for tree in release.trees:
        norm = tree.l1 if tree.mechanism == "laplace" else tree.l2
        lines.append(
            f"  {tree.name}: counts of {tree.cells} values on {tree.height} level{'s' * (tree.height > 1)}; "
            f"sensitivity {norm:.6g} in all, {tree.mechanism} scale {tree.scale:.6g}"
        )
    for aggregate in release.aggregates:
        if aggregate.rank is not None:
            lines.append(f"  {aggregate.text}: rank ± {aggregate.rank:.3g} (95%)")
            continue
        error = "depends on the count" if aggregate.error is None else f"± {aggregate.error:.6g} (95%)"
        lines.append(f"  {aggregate.text}: {error}")
    return lines


def clip_text(clip: ClipPlan) -> str:
    """Where the clip comes from, and what it is expected to cut off."""
    if clip.units is None:
        return (
            "the clip is the limit of the policy, or a guess: nothing was searched for yet, or too few units were found"
        )
    above = "nearly none" if clip.above < 0.5 else f"about {clip.above:,.0f}"
    cut = ", ".join(f"{each:.3g} of {name}" for name, each in clip.cut.items() if each)
    lost = f": in all groups together at most about {cut} is cut off" if cut else ""
    search = "the private search of the same query with fewer conditions" if clip.wider else "a private search"
    return f"the clip was found by {search}: of about {clip.units:,.0f} units {above} add more{lost}"


def _key(key: KeyPlan) -> str:
    if key.values is None:
        return "private values, shown above a threshold"
    shown = ", ".join("NULL" if v is None else str(v) for v in key.values[:6])
    more = ", …" if len(key.values) > 6 else ""
    return f"{len(key.values)} public values: {shown}{more} ({', '.join(key.origin) or 'the query'})"


def _alternatives(plan: Explanation) -> list[str]:
    """Both mechanisms side by side, for the same asked price."""
    lines = [f"{'mechanism':<12}{'cost':>8}   errors (95%)"]
    for name in ("laplace", "gaussian"):
        other = plan if plan.mechanism == name else plan.alternatives.get(name)
        if other is None:
            continue
        errors = ", ".join(
            f"{a.text} ± {a.error:.5g}" for r in other.releases for a in r.aggregates if a.error is not None
        )
        mark = "*" if other is plan else ""
        lines.append(f"{name + mark:<12}{other.cost!s:>8}   {errors or 'depend on the counts'}")
    other = plan.alternatives.get("laplace" if plan.mechanism == "gaussian" else "gaussian")
    if other is not None and plan.cost.rho and other.cost.rho:
        times = other.cost.rho / plan.cost.rho
        word = f"{times:.3g} times as much" if times > 1 else f"{1 / times:.3g} times less"
        lines.append(f"(* is used; {other.mechanism} would take {word} of the dataset's budget, which adds up in ρ)")
    return lines


# answers and explanations as HTML -------------------------------------------------------------------------------------


def result_html(result: Result) -> str:
    """The table with an error bar beside every noisy value, what it cost, and what is left."""
    rows = result.fetchall()
    heads, cells, bars = [], [], result.shown_bars
    judged = result.qualities
    for index, (name, ends, found) in enumerate(zip(result.columns, bars, judged, strict=True)):
        values = [row[index] for row in rows[:MOST_ROWS]]
        if ends is not None and found is not None:
            heads.append(element("th", text(name), "n") + element("th", "±", "e dim"))
            cells.append([_noisy(*each) for each in zip(values, ends, found, strict=False)])
        else:
            kind = "n" if values and numeric(values) else ""
            heads.append(element("th", text(name), kind))
            cells.append([_exact(value, kind) for value in values])
    body = "".join(element("tr", "".join(row)) for row in zip(*cells, strict=True))
    table = element("table", element("thead", element("tr", "".join(heads))) + element("tbody", body))
    more = element("p", f"… {len(rows) - MOST_ROWS:,} more rows", "dim") if len(rows) > MOST_ROWS else ""
    return page(table + more + _footer_html(result, quality_line(judged)))


def _exact(value: Any, kind: str) -> str:
    return element("td", "missing", f"null {kind}") if value is None else element("td", text(plain(value)), kind)


def _noisy(value: Any, ends: tuple[float, float], quality: Quality | None) -> str:
    """`1,234` and `± 56` in two cells, so that both line up, with its verdict; a lopsided interval is written out."""
    written = with_error(value, *ends)
    if written == "NULL":
        return element("td", "missing", "null n") + element("td", "", "e")
    at = written.find(" ± ") if " ± " in written else written.find(" (")
    word = f" {element('span', quality, quality)}" if quality in ("rough", "noise") else ""
    return element("td", text(written[:at]), "n") + element("td", text(written[at + 1 :]) + word, "e")


def _footer_html(result: Result, quality: str | None) -> str:
    noisy = any(output.noisy for output in result.plan.outputs)
    price = "free (released before)" if result.replayed else _price(result)
    said = f"cost: {price}" + (" · ± is the 95% error bar of the noise" if noisy else "")
    said += f" · {quality}" if quality else ""
    way = element("p", text(found)) if (found := result.way_out) else ""
    left = _left(result)
    first, others = result.notes[:SHOWN], result.notes[SHOWN:]
    notes = "".join(element("p", text(note), "dim") for note in first)
    title = f"{len(others)} more note{'s' * (len(others) > 1)}"
    more = element("details", element("summary", title) + listed(list(map(text, others)))) if others else ""
    return way + element("p", text(said), "dim") + left + notes + more


def _left(result: Result) -> str:
    status = result.budget()
    return "" if status is None else element("p", "budget" + account_bar(status.own), "dim")


def explanation_html(plan: Explanation) -> str:
    """A tree: the cost, each release with its keys, bounds and where they come from, and its errors."""
    cost = text(_foreseen(plan))
    remark = [text(plan.remark)] if plan.remark else []
    tree = [element("b", "cost ") + cost + listed(remark), *map(_release_html, plan.releases)]
    if plan.notes:
        tree.append(element("b", "notes") + listed([text(note) for note in plan.notes]))
    statements = "".join(element("pre", element("code", text(r.sql))) for r in plan.releases if r.sql)
    shown = element("details", element("summary", "the database's SQL") + statements) if statements else ""
    return page(listed(tree, "tree") + _mechanisms(plan) + shown)


def _release_html(release: ReleasePlan) -> str:
    items = [f"group by {_code(key.text)}: {_key_html(key)}" for key in release.keys]
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


def _key_html(key: KeyPlan) -> str:
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
            cells = (str(other.cost), other.cost.details)
            title = f"{name} (used)" if other is plan else name
            rows.append(
                element("td", text(title))
                + "".join(element("td", cell, "n") for cell in cells)
                + element("td", text(", ".join(errors) or "depend on the counts"))
            )
    head = "".join(element("th", title, kind) for title, kind in
                   (("mechanism", ""), ("cost", "n"), ("in detail", "n"), ("errors (95%)", "")))  # fmt: skip
    body = "".join(element("tr", row) for row in rows)
    return element("table", element("thead", element("tr", head)) + element("tbody", body))


def _code(source: str) -> str:
    return element("code", text(source))
