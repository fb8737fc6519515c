"""The mark of a release: what the ledger names it by, when it is paid for, run, kept and replayed.

**Theorem (the replay fingerprint).** Two releases with the same mark are the same mechanism on the same version of the
same data: whatever one of them shows, the other would show with the same probability.
**Proof.** A release is what its emitted SQL computes, then its noise (`dpsql.answers.noise_stage`), and the mark is a
SHA-256 of all that either reads. The SQL names tables, filters, bounds, grids and the secret salt, and the content of
nested results by its digest; beside it stand the law, scale and shift of every noise, tree and selection, the
threshold, the kind, laws and grid of every choice, and the values of public keys, in whose order numbers are stored.
JSON of such parts is unambiguous: each is a list of fixed form. The rows are those that the version of the dataset
names.
**Requires** SHA-256 without collisions, a version that changes whenever rows may have changed (an engine's label, and
the steward's `dpsql data bump`), and an engine whose integers are a function of SQL and rows (integers only, no order).
**Checked by** `tests/unit/release/test_stored.py`, and the planted bugs "the version is not in the mark of a release",
"the scale is not in the mark of a release", "the keys are not in the mark of a release", and "the law of the selection
is not in the mark of a release".
"""

from __future__ import annotations

import hashlib
import json

from dpsql.budget.pricing import Priced, PricedChoice
from dpsql.expressions.expression import write_value


def fingerprint(priced: Priced, sql: str, version: str, dataset: str) -> bytes:
    """What identifies a release: the emitted query, every noise parameter, and the version of the data."""
    noise = [(type(n.noise).__name__, str(n.noise.scale), n.shift) for n in priced.noised]
    drawn = priced.selection
    selection = None if drawn is None else (type(drawn.noise).__name__, str(drawn.noise.scale), priced.threshold)
    keys = [None if k.values is None else [write_value(v) for v in k.values] for k in priced.bounded.keys]
    parts: list[object] = [dataset, version, sql, noise, selection, keys]
    if priced.chosen:
        parts.append([_choice(priced, chosen) for chosen in priced.chosen])
    if priced.trees:
        parts.append(["trees", *(_tree(priced, number) for number in range(len(priced.trees)))])
    text = json.dumps(parts, ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()


def _choice(priced: Priced, chosen: PricedChoice) -> list[object]:
    """What identifies a choice: its kind, the laws of value, ends and totals, and its grid."""
    choice, total = chosen.choice, chosen.total
    laws: list[object] = [str(chosen.law.scale)]
    if chosen.ends is not None:
        laws.append([str(chosen.ends.law.scale), chosen.ends.beyond])
    if total is not None:
        laws.append([type(total.noise).__name__, str(total.noise.scale), total.shift])
    return [choice.histogram, choice.kind, str(choice.at), *laws, *_grid(priced, choice.histogram)]


def _tree(priced: Priced, number: int) -> list[object]:
    """The same for a tree: its noise and its grid. Which quantiles are read from it is post-processing."""
    tree, noised = priced.bounded.trees[number], priced.trees[number]
    law = [type(noised.noise).__name__, str(noised.noise.scale), noised.shift]
    return [tree.histogram, tree.height, *law, *_grid(priced, tree.histogram)]


def _grid(priced: Priced, histogram: int) -> list[object]:
    grid = priced.bounded.histograms[histogram].grid
    values = None if grid.values is None else [write_value(v) for v in grid.values]
    return [grid.lower, grid.upper, grid.width, values]
