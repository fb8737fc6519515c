"""The checks that `python tests/attack/run.py` runs, in their order."""

from __future__ import annotations

from collections.abc import Mapping

from attack.blackbox_cases import BLACKBOX
from attack.doors.check import DOORS
from attack.floating import FLOATING
from attack.fuzz.run import FUZZ
from attack.neighbours import FILES, NEIGHBOURS
from attack.timing import TIMING
from attack.totality.sweep import TOTALITY
from dpsql.audit.outcome import AuditCheck

ATTACKS: Mapping[str, AuditCheck] = {
    "neighbours": NEIGHBOURS, "files": FILES, "blackbox": BLACKBOX, "floating": FLOATING, "totality": TOTALITY,
    "doors": DOORS, "timing": TIMING, "fuzz": FUZZ,
}  # fmt: skip
