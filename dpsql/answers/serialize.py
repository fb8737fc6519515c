"""A released table as bytes in the ledger, so that the same release is answered again, exactly and free."""

from __future__ import annotations

import json
from itertools import product

import numpy as np

from dpsql.answers.noise_stage import RELEASE, Released
from dpsql.budget.pricing import Priced
from dpsql.errors import InternalError
from dpsql.expressions.expression import read_value, write_value

_RELEASE = RELEASE.take()


def serialize(released: Released) -> bytes:
    """Keys, noisy integers and chosen cells as JSON; where all public keys are shown, they are not stored."""
    if not isinstance(released, Released):
        raise InternalError("only released tables are stored")
    listed = released.priced.bounded.public and released.priced.selection is None
    keys = None if listed else [[write_value(v) for v in key] for key in released.keys]
    stored = {"keys": keys, "noisy": [values.tolist() for values in released.noisy]}
    if released.chosen:
        stored["chosen"] = [cells.tolist() for cells in released.chosen]
    if released.trees:
        stored["trees"] = [nodes.tolist() for nodes in released.trees]
    if released.totals:
        stored["ends"] = [cells.tolist() for cells in released.ends]
        stored["totals"] = [weights.tolist() for weights in released.totals]
    return json.dumps(stored).encode()


def deserialize(payload: bytes, priced: Priced) -> Released:
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
    totals = tuple(np.array(v, dtype=np.int64) for v in stored.get("totals", ()))
    ends = tuple(np.array(v, dtype=np.int64).reshape(len(keys), -1) for v in stored.get("ends", ()))
    return Released(priced, keys, noisy, chosen=chosen, trees=trees, ends=ends, totals=totals, by=_RELEASE)
