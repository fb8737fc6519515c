"""`explain` for people: cost, each release with its bounds and errors, and the other mechanism beside it."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.release.explain import ClipPlan, Explanation, KeyPlan, ReleasePlan

RULES = {
    "row": "each row is its own unit",
    "single_row": "each unit has one row (verified)",
    "at_rest": "a copy of it keeps each unit within its bound, and is read instead",
    "one_group": "each unit is in one group; its total is weighed down to its bound",
    "clip": "each unit's whole contribution is weighed down to its bound",
    "vector": "what each unit adds to all groups and statistics is one vector, which is clipped",
}


def format_explanation(plan: Explanation) -> str:
    """The explanation as plain text."""
    lines = [f"cost: {plan.cost if plan.releases else 'free (public tables only)'}"]
    lines += [f"  {plan.remark}"] if plan.remark else []
    lines += [line for stage in _stages(plan) for line in stage]
    if plan.alternatives:
        lines += ["", *_alternatives(plan)]
    if plan.notes:
        lines += ["", "not covered by the error bars: " + "; ".join(plan.notes)]
    return "\n".join(lines)


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
    copied = f"; read from a copy that has those with more than {release.rows_per_unit} rows apart: no others need it"
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
    return f"the clip was found by a private search: of about {clip.units:,.0f} units {above} add more{lost}"


def _key(key: KeyPlan) -> str:
    if key.values is None:
        return "private values, shown above a threshold"
    shown = ", ".join("NULL" if v is None else str(v) for v in key.values[:6])
    more = ", …" if len(key.values) > 6 else ""
    return f"{len(key.values)} public values: {shown}{more} ({', '.join(key.origin) or 'the query'})"


def _alternatives(plan: Explanation) -> list[str]:
    """Both mechanisms side by side, for the same asked price."""
    lines = [f"{'mechanism':<12}{'ε':>8}{'δ':>10}{'ρ':>10}   errors (95%)"]
    for name in ("laplace", "gaussian"):
        other = plan if plan.mechanism == name else plan.alternatives.get(name)
        if other is None:
            continue
        errors = ", ".join(
            f"{a.text} ± {a.error:.5g}" for r in other.releases for a in r.aggregates if a.error is not None
        )
        mark = "*" if other is plan else ""
        cost = other.cost
        price = f"{cost.epsilon:>8.4g}{cost.delta:>10.3g}{cost.rho:>10.4g}"
        lines.append(f"{name + mark:<12}{price}   {errors or 'depend on the counts'}")
    other = plan.alternatives.get("laplace" if plan.mechanism == "gaussian" else "gaussian")
    if other is not None and plan.cost.rho and other.cost.rho:
        times = other.cost.rho / plan.cost.rho
        word = f"{times:.3g} times as much" if times > 1 else f"{1 / times:.3g} times less"
        lines.append(f"(* is used; {other.mechanism} would take {word} of the dataset's budget, which adds up in ρ)")
    return lines
