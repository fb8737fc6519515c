"""The statements of a release, and their results as exact integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np

from dpsql.budget.ledger.reservation import Warrant
from dpsql.budget.pricing import Priced
from dpsql.engines.sealed import Exact, Integers, Weights
from dpsql.engines.sql.dialect import Site
from dpsql.engines.sql.emit import emit
from dpsql.engines.sql.histogram import emit_histogram
from dpsql.errors import UnsupportedQuery
from dpsql.sensitivity.bound import Bounded


class Fetched(Protocol):
    """The result of a statement, as an engine has it."""

    def fetchnumpy(self) -> Mapping[str, Any]:
        """All rows: an array for each column, by its name."""

    def fetchall(self) -> list[Any]:
        """All rows."""


Run = Callable[[str], Fetched]
WORTH_A_NOTE = 2**20
"""A share below which the user is told."""
LEAST = 2**12
"""The least share of a text in a row that is worth reading."""


def statements(release: Priced, site: Site, salt: bytes | None) -> list[str]:
    """The query of the statistics and of the selection, if there are any, and one for each histogram.

    Without salt, a placeholder stands in its place, for people to read.
    """
    return [text for text, _ in _shared(release, site, "<secret salt>" if salt is None else salt.hex())]


def text_notes(releases: Sequence[Priced], site: Site) -> tuple[str, ...]:
    """Which texts are too long to be read, where that may be more than an oddity."""
    shares = [share for r in releases if not r.free for _, share in _shared(r, site, "") if share is not None]
    least = min(shares, default=WORTH_A_NOTE)
    if least >= WORTH_A_NOTE:
        return ()
    return (f"this query reads so many texts in each row that it takes those of more than {least:,} bytes as NULL",)


def _shared(release: Priced, site: Site, salt: str) -> Iterator[tuple[str, int | None]]:
    """Each statement; if its rows carry many texts, written once more with the share of each, which is told."""
    asked = [partial(emit, release, salt=salt)] if release.noised or release.selection is not None else []
    asked += [partial(emit_histogram, release.bounded, h) for h in release.bounded.histograms]
    for write in asked:
        dialect, share = site.dialect.counting(), None
        made = write(site=replace(site, dialect=dialect))
        if dialect.carried is not None and dialect.texts * dialect.longest > dialect.carried:
            share = dialect.carried // dialect.texts
            if share < LEAST:
                raise UnsupportedQuery(
                    "this query reads or computes too many texts", hint="split it into several queries"
                )
            made = write(site=replace(site, dialect=dialect.counting(share)))
        yield made, share


def exact(release: Priced, run: Run, written: Sequence[str], warrant: Warrant) -> Exact:
    """The results of these statements as integers, sealed."""
    bounded = release.bounded
    split = len(written) - len(bounded.histograms)
    totals = run(written[0]) if split else None
    if bounded.public:
        made = _public(bounded, totals)
    else:
        assert totals is not None
        made = _private(release, totals)
    places = {_identity(key): i for i, key in enumerate(made.keys)} if bounded.histograms else {}
    histograms = [_weights(bounded, run(text), places) for text in written[split:]]
    return Exact(replace(made, histograms=tuple(histograms)), warrant)


def _public(bounded: Bounded, fetched: Fetched | None) -> Integers:
    """Every public key is there, with zero where the engine had no row."""
    keys = tuple(product(*(key.values or () for key in bounded.keys)))
    if fetched is None:
        return Integers(keys, (), None)
    size = len(keys)
    columns = fetched.fetchnumpy()
    codes = np.asarray(columns["g"], dtype=np.int64) if bounded.keys else np.zeros(1, dtype=np.int64)
    values = []
    for number in range(len(bounded.statistics)):
        total = np.zeros(size, dtype=np.int64)
        total[codes] = np.asarray(columns[f"z{number}"], dtype=np.int64)
        values.append(total)
    return Integers(keys, tuple(values), None)


def _weights(bounded: Bounded, fetched: Fetched, places: Mapping[tuple[str, ...], int]) -> Weights:
    """A histogram, sorted by group and cell; private keys that are no candidates are left out."""
    if bounded.public:
        columns = fetched.fetchnumpy()
        cells, weights = (np.asarray(columns[name], dtype=np.int64) for name in ("cell", "h"))
        groups = np.asarray(columns["g"], dtype=np.int64) if bounded.keys else np.zeros(len(cells), dtype=np.int64)
    else:
        rows = [(places.get(_identity(row[:-2])), *row[-2:]) for row in fetched.fetchall()]
        found = np.array([row for row in rows if row[0] is not None], dtype=np.int64).reshape(-1, 3)
        groups, cells, weights = found[:, 0], found[:, 1], found[:, 2]
    order = np.lexsort((cells, groups))
    return Weights(groups[order], cells[order], weights[order])


def _identity(key: Sequence[Any]) -> tuple[str, ...]:
    """A key by which it is found again: NaN is equal to itself here."""
    return tuple(f"{type(value).__name__} {value!r}" for value in key)


def _private(release: Priced, fetched: Fetched) -> Integers:
    width = len(release.bounded.keys)
    rows = fetched.fetchall()
    rows.sort(key=lambda row: tuple((v is None, v != v, 0 if v != v else v) for v in row[:width]))
    keys = tuple(row[:width] for row in rows)
    statistics = len(release.bounded.statistics)
    numbers = np.array([row[width:] for row in rows], dtype=np.int64).reshape(len(rows), 1 + statistics)
    values = tuple(numbers[:, 1 + i] for i in range(statistics))
    return Integers(keys, values, numbers[:, 0])
