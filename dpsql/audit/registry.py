"""All checks, found by their modules: a new one is a new file."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from dpsql.audit import checks
from dpsql.audit.outcome import Outcome
from dpsql.audit.settings import Check
from dpsql.errors import InterfaceError
from dpsql.policy.identifiers import nearest

ORDER = ("neighbours", "files", "blackbox", "floating", "totality", "doors", "timing", "fuzz")
"""How they are run and reported; others come last."""

OF_YOURS = ("neighbours", "blackbox")
"""Those that attack the steward's own policy and data; the others attack dpsql itself, over data that they make."""


def names() -> tuple[str, ...]:
    """The names of all checks."""
    found = {module.name for module in pkgutil.iter_modules(checks.__path__)}
    return (*(name for name in ORDER if name in found), *sorted(found - set(ORDER)))


def find(name: str) -> Check:
    """A check by its name."""
    if name not in names():
        close = nearest(name, names())
        meant = f"did you mean {close}? " if close else ""
        raise InterfaceError(f"there is no check {name!r}", hint=f"{meant}checks: {', '.join(names())}")
    check: Check = import_module(f"dpsql.audit.checks.{name}").check
    return check


def about(name: str) -> str:
    """What a check shows, in one line."""
    return (import_module(f"dpsql.audit.checks.{name}").__doc__ or "").partition("\n")[0]


def merge(name: str, outcomes: Sequence[Outcome]) -> Outcome:
    """The parts of one check together, as the check itself adds them up; else the last one with all findings."""
    module = import_module(f"dpsql.audit.checks.{name}")
    seconds = sum(each.seconds for each in outcomes)
    if len(outcomes) > 1 and hasattr(module, "merged"):
        made: Outcome = module.merged(outcomes)
        short = [each.incomplete for each in outcomes if each.incomplete]
        return replace(
            made, seconds=seconds, incomplete="; ".join(dict.fromkeys([*short, made.incomplete])).strip("; ")
        )
    findings = tuple(dict.fromkeys(finding for each in outcomes for finding in each.findings))
    incomplete = "; ".join(dict.fromkeys(each.incomplete for each in outcomes if each.incomplete))
    return replace(outcomes[-1], findings=findings, seconds=seconds, incomplete=incomplete)
