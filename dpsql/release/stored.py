"""A released table as bytes in the ledger, so that the same release is answered again, exactly and free."""

from __future__ import annotations

import hashlib
import json
from itertools import product

import numpy as np

from dpsql.budget.allocate import Priced
from dpsql.expressions.write import read_value, write_value
from dpsql.release.noise import Released


def fingerprint(priced: Priced, sql: str, version: str, dataset: str) -> bytes:
    """What makes two releases the same: the emitted query, every noise parameter, and the version of the data."""
    noise = [(type(n.noise).__name__, str(n.noise.scale), n.shift) for n in priced.noised]
    selection = None if priced.selection is None else (str(priced.selection.noise.scale), priced.threshold)
    keys = [None if k.values is None else [write_value(v) for v in k.values] for k in priced.bounded.keys]
    text = json.dumps([dataset, version, sql, noise, selection, keys], ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()


def pack(released: Released) -> bytes:
    """Keys and noisy integers as JSON; public keys are not stored, the policy has them."""
    keys = None if released.priced.bounded.public else [[write_value(v) for v in key] for key in released.keys]
    return json.dumps({"keys": keys, "noisy": [values.tolist() for values in released.noisy]}).encode()


def unpack(payload: bytes, priced: Priced) -> Released:
    """The released table that was stored."""
    stored = json.loads(payload)
    if stored["keys"] is None:
        keys = tuple(product(*(key.values or () for key in priced.bounded.keys)))
    else:
        keys = tuple(tuple(read_value(v) for v in key) for key in stored["keys"])
    return Released(priced, keys, tuple(np.array(values, dtype=np.int64) for values in stored["noisy"]))
