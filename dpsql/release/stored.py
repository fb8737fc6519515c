"""A released table as bytes in the ledger, so that the same release is answered again, exactly and free."""

from __future__ import annotations

import hashlib
import json
from itertools import product

import numpy as np

from dpsql.budget.allocate import Chosen, Priced
from dpsql.expressions.write import read_value, write_value
from dpsql.release.noise import Released


def fingerprint(priced: Priced, sql: str, version: str, dataset: str) -> bytes:
    """What makes two releases the same: the emitted query, every noise parameter, and the version of the data."""
    noise = [(type(n.noise).__name__, str(n.noise.scale), n.shift) for n in priced.noised]
    selection = None if priced.selection is None else (str(priced.selection.noise.scale), priced.threshold)
    keys = [None if k.values is None else [write_value(v) for v in k.values] for k in priced.bounded.keys]
    parts: list[object] = [dataset, version, sql, noise, selection, keys]
    if priced.chosen:
        parts.append([_choice(priced, chosen) for chosen in priced.chosen])
    if priced.trees:
        parts.append(["trees", *(_tree(priced, number) for number in range(len(priced.trees)))])
    text = json.dumps(parts, ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()


def _choice(priced: Priced, chosen: Chosen) -> list[object]:
    """What makes two choices the same: the kind, the law, and the grid."""
    choice = chosen.choice
    return [choice.histogram, choice.kind, str(choice.at), str(chosen.law.scale), *_grid(priced, choice.histogram)]


def _tree(priced: Priced, number: int) -> list[object]:
    """The same for a tree: its noise and its grid. Which quantiles are read from it is post-processing."""
    tree, noised = priced.bounded.trees[number], priced.trees[number]
    law = [type(noised.noise).__name__, str(noised.noise.scale), noised.shift]
    return [tree.histogram, tree.height, *law, *_grid(priced, tree.histogram)]


def _grid(priced: Priced, histogram: int) -> list[object]:
    grid = priced.bounded.histograms[histogram].grid
    values = None if grid.values is None else [write_value(v) for v in grid.values]
    return [grid.lower, grid.upper, grid.width, values]


def pack(released: Released) -> bytes:
    """Keys, noisy integers and chosen cells as JSON; public keys are not stored, the policy has them."""
    keys = None if released.priced.bounded.public else [[write_value(v) for v in key] for key in released.keys]
    stored = {"keys": keys, "noisy": [values.tolist() for values in released.noisy]}
    if released.chosen:
        stored["chosen"] = [cells.tolist() for cells in released.chosen]
    if released.trees:
        stored["trees"] = [nodes.tolist() for nodes in released.trees]
    return json.dumps(stored).encode()


def unpack(payload: bytes, priced: Priced) -> Released:
    """The released table that was stored."""
    stored = json.loads(payload)
    if stored["keys"] is None:
        keys = tuple(product(*(key.values or () for key in priced.bounded.keys)))
    else:
        keys = tuple(tuple(read_value(v) for v in key) for key in stored["keys"])
    noisy, chosen = (tuple(np.array(v, dtype=np.int64) for v in stored.get(n, ())) for n in ("noisy", "chosen"))
    sizes = [tree.nodes for tree in priced.bounded.trees]
    trees = tuple(
        np.array(v, dtype=np.int64).reshape(-1, size) for v, size in zip(stored.get("trees", ()), sizes, strict=True)
    )
    return Released(priced, keys, noisy, chosen=chosen, trees=trees)
