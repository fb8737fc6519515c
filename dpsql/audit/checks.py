"""The checks that `dpsql audit` runs on the steward's own policy and data."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.audit.blackbox_check import BLACKBOX
from dpsql.audit.neighbour_check import NEIGHBOURS
from dpsql.audit.outcome import Check
from dpsql.errors import InterfaceError
from dpsql.policy.identifiers import nearest

CHECKS: Mapping[str, Check] = {"neighbours": NEIGHBOURS, "blackbox": BLACKBOX}
"""All checks by name, in the order in which they run."""


def find_check(name: str, checks: Mapping[str, Check] = CHECKS) -> Check:
    """The check with this name."""
    if name not in checks:
        close = nearest(name, tuple(checks))
        meant = f"did you mean {close}? " if close else ""
        raise InterfaceError(f"there is no check {name!r}", hint=f"{meant}checks: {', '.join(checks)}")
    return checks[name]
