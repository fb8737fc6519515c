"""What the results come to: the list of mutants with their killers, and the share that was caught.

The score of mechanical mutants and that of bugs planted by hand is caught / (caught + missed). A mutant is caught if a
test fails (or dies, or takes ten times as long) with it and passes without it. One that survives is missed unless
`reasons.toml` gives its reason, by which it is no bug: equivalent, or only safer, only slower, only another text. Those
are listed apart, and count neither as caught nor as missed. "Below any test" is not such a reason: it counts as missed.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

REASONS = Path(__file__).with_name("reasons.toml")
EXCUSES = ("equivalent", "safe", "performance", "text")
Verdict = dict[str, Any]


def read_results(path: Path) -> dict[str, Verdict]:
    """The last verdict on each mutant."""
    if not path.exists():
        return {}
    return {each["id"]: each for each in map(json.loads, path.read_text().splitlines())}


def read_reasons() -> dict[str, tuple[str, str]]:
    """For each mutant with a written reason its kind and the reason."""
    if not REASONS.exists():
        return {}
    said = tomllib.loads(REASONS.read_text()).get("reason", [])
    return {one: (each["kind"], each["why"]) for each in said for one in each["mutants"]}


def excused(mutant: str) -> bool:
    """Is there a reason why this one is no bug?"""
    return read_reasons().get(mutant, ("", ""))[0] in EXCUSES


def report(results: Mapping[str, Verdict], wanted: Iterable[str] | None = None) -> str:
    """The list for people, and the figures."""
    chosen = [results[each] for each in (results if wanted is None else wanted) if each in results]
    reasons = read_reasons()
    lines = [_line(each, reasons) for each in sorted(chosen, key=lambda each: (each["module"], each["line"]))]
    figures = [_figure("by hand", [e for e in chosen if e["kind"] == "hand"], reasons)]
    figures.append(_figure("mechanical", [e for e in chosen if e["kind"] != "hand"], reasons))
    return "\n".join([*lines, "", *_tables(chosen, reasons), "", *figures])


def _line(each: Verdict, reasons: Mapping[str, tuple[str, str]]) -> str:
    name = f" [{each['id'].removeprefix('hand::')}]" if each["kind"] == "hand" else ""
    head = f"{each['module']}:{each['line']}{name}  {each['before']}  →  {each['after']}"
    if each["verdict"] == "killed":
        return f"{head}\n    killed by {each['killer']}"
    kind, why = reasons.get(each["id"], ("MISSED", ""))
    return f"{head}\n    survived: {kind} {why}".rstrip()


def _state(each: Verdict, reasons: Mapping[str, tuple[str, str]]) -> str:
    if each["verdict"] == "killed":
        return "caught"
    kind, _ = reasons.get(each["id"], ("missed", ""))
    return kind if kind in EXCUSES else "missed"


def _figure(name: str, chosen: list[Verdict], reasons: Mapping[str, tuple[str, str]]) -> str:
    counts = Counter(_state(each, reasons) for each in chosen)
    caught, missed = counts["caught"], counts["missed"]
    if not caught + missed:
        return f"{name}: none"
    low, high = interval(caught, caught + missed)
    excused = ", ".join(f"{counts[kind]} {kind}" for kind in EXCUSES if counts[kind]) or "none"
    raw = caught / len(chosen)
    return (
        f"{name}: {len(chosen)} mutants, {caught} caught, {missed} missed, excused: {excused}. "
        f"Score {caught / (caught + missed):.1%} (95% interval {low:.1%} to {high:.1%} as a sample); "
        f"without any excuse {raw:.1%}"
    )


def interval(hits: int, tries: int) -> tuple[float, float]:
    """Wilson's 95% interval for a share that was seen in a random sample."""
    z, p = 1.96, hits / tries
    middle, half = p + z * z / (2 * tries), z * math.sqrt(p * (1 - p) / tries + z * z / (4 * tries**2))
    return (middle - half) / (1 + z * z / tries), (middle + half) / (1 + z * z / tries)


def _tables(chosen: list[Verdict], reasons: Mapping[str, tuple[str, str]]) -> list[str]:
    by: dict[str, dict[str, Counter[str]]] = {"package": defaultdict(Counter), "kind": defaultdict(Counter)}
    for each in chosen:
        package = (
            "/".join(each["module"].split("/")[1:3]) if "engines" in each["module"] else each["module"].split("/")[1]
        )
        by["package"][package][_state(each, reasons)] += 1
        by["kind"][each["kind"]][_state(each, reasons)] += 1
    lines = []
    for title, rows in by.items():
        lines.append(f"{title:<18}{'mutants':>9}{'caught':>9}{'missed':>9}{'excused':>9}{'score':>9}")
        for name, counts in sorted(rows.items()):
            total, tried = sum(counts.values()), counts["caught"] + counts["missed"]
            share = f"{counts['caught'] / tried:>9.1%}" if tried else f"{'':>9}"
            lines.append(f"{name:<18}{total:>9}{counts['caught']:>9}{counts['missed']:>9}{total - tried:>9}{share}")
    return lines
