"""The statements of a release, and their results as exact integers.

A release is *named* by one statement for its totals and one for each histogram (`statements`): its mark is made of
these. It is *run* by fewer where several histograms can be read in one scan (`shared_statements`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.ledger.reservation import Warrant
from dpsql.budget.pricing import Priced
from dpsql.engines.sealed import Exact, Integers, Weights
from dpsql.engines.sql.dialect import Dialect, Site
from dpsql.engines.sql.emit import emit
from dpsql.engines.sql.histogram import branches, emit_histogram, emit_histograms
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
"""Below this share, a note says so."""
LEAST = 2**12
"""The least share of a text in a row that is worth reading."""


def statements(release: Priced, site: Site, salt: bytes | None) -> list[str]:
    """The query of the statistics and of the selection, if there are any, and one for each histogram.

    Without salt, a placeholder stands in its place, for people to read.
    """
    return [text for text, _ in _shared(release, site, "<secret salt>" if salt is None else salt.hex())]


def shared_statements(release: Priced, site: Site, salt: bytes | None, *, keep: bool) -> list[str]:
    """The statements that are run: as `statements`, but all histograms in one, if there are several.

    With `keep` the engine keeps the rows of that one, with their cells, until all histograms are made. Where the texts
    of a row need a share (`dpsql.engines.sql.dialect`), there would be more of them in one row, hence other shares:
    such histograms stay apart.

    **Theorem.** The exact integers are those of `statements`.
    **Proof.** By the theorem of `emit_histograms` each histogram has the same rows, unless texts are cut to another
    length: they are cut in neither.
    **Requires** the conditions of `emit_histograms`.
    **Checked by** `tests/unit/engines/test_shared_scans.py`.
    """
    bounded, placeholder = release.bounded, "<secret salt>" if salt is None else salt.hex()
    apart = list(_shared(release, site, placeholder))
    dialect = site.dialect.counting()
    if len(bounded.histograms) > 1 and all(share is None for _, share in apart):
        together = emit_histograms(bounded, replace(site, dialect=dialect), keep=keep)
        if not _crowded(dialect):
            return [*(text for text, _ in apart[: -len(bounded.histograms)]), together]
    return [text for text, _ in apart]


def _crowded(dialect: Dialect) -> bool:
    """Do the rows of the statement that was written carry more texts than they may, at full length?"""
    return dialect.carried is not None and dialect.texts * dialect.longest > dialect.carried


def text_notes(releases: Sequence[Priced], site: Site) -> tuple[str, ...]:
    """A note on texts that are too long to be read, if the limit is low enough to matter."""
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
        if dialect.carried is not None and _crowded(dialect):
            share = dialect.carried // dialect.texts
            if share < LEAST:
                raise UnsupportedQuery(
                    "this query reads or computes too many texts", hint="split it into several queries"
                )
            made = write(site=replace(site, dialect=dialect.counting(share)))
        yield made, share


def exact(release: Priced, run: Run, written: Sequence[str], warrant: Warrant) -> Exact:
    """The results of these statements as integers, sealed. Equal statements are run once."""
    bounded, [totals, *histograms] = release.bounded, [None, *written]
    if release.noised or release.selection is not None:
        totals, *histograms = written
    fetched = None if totals is None else run(totals)
    if bounded.public:
        made = _public(bounded, fetched)
    else:
        assert fetched is not None
        made = _private(release, fetched)
    places = {_identity(key): i for i, key in enumerate(made.keys)} if bounded.histograms else {}
    if len(histograms) < len(bounded.histograms):
        found = _together(bounded, run(histograms[0]), places)
    else:
        ran = {text: _weights(bounded, run(text), places) for text in dict.fromkeys(histograms)}
        found = tuple(ran[text] for text in histograms)
    return Exact(replace(made, histograms=found), warrant)


def _public(bounded: Bounded, fetched: Fetched | None) -> Integers:
    """Every public key is there, with zero where the engine had no row."""
    keys = tuple(product(*(key.values or () for key in bounded.keys)))
    if fetched is None:
        return Integers(keys, (), None)
    size = len(keys)
    columns = fetched.fetchnumpy()
    codes = np.asarray(columns["g"], dtype=np.int64) if bounded.keys else np.zeros(1, dtype=np.int64)
    values, selection = [], None
    if bounded.selection is not None:
        selection = np.zeros(size, dtype=np.int64)
        selection[codes] = np.asarray(columns["selected"], dtype=np.int64)
    for number in range(len(bounded.statistics)):
        total = np.zeros(size, dtype=np.int64)
        total[codes] = np.asarray(columns[f"z{number}"], dtype=np.int64)
        values.append(total)
    return Integers(keys, tuple(values), selection)


def _weights(bounded: Bounded, fetched: Fetched, places: Mapping[tuple[str, ...], int]) -> Weights:
    """The result of the statement of one histogram."""
    return _sorted(_cells(bounded, fetched, places, ()))


def _together(bounded: Bounded, fetched: Fetched, places: Mapping[tuple[str, ...], int]) -> tuple[Weights, ...]:
    """The result of the statement of all histograms, taken apart again."""
    cells, parts = _cells(bounded, fetched, places, ("i",)), branches(bounded)
    made = [_sorted(cells[cells[:, 0] == number, 1:]) for number in range(max(parts) + 1)]
    return tuple(made[part] for part in parts)


def _cells(
    bounded: Bounded, fetched: Fetched, places: Mapping[tuple[str, ...], int], first: tuple[str, ...]
) -> NDArray[np.int64]:
    """Rows of the first columns, the number of the group, the cell and its weight.

    Private keys that are no candidates are left out.
    """
    width = len(first)
    if bounded.public:
        columns = fetched.fetchnumpy()
        names = [*first, *(["g"] if bounded.keys else []), "cell", "h"]
        found = np.stack([np.asarray(columns[name], dtype=np.int64) for name in names], axis=1)
        return found if bounded.keys else np.insert(found, width, 0, axis=1)
    rows = [(*row[:width], places.get(_identity(row[width:-2])), *row[-2:]) for row in fetched.fetchall()]
    return np.array([row for row in rows if row[width] is not None], dtype=np.int64).reshape(-1, width + 3)


def _sorted(cells: NDArray[np.int64]) -> Weights:
    """A histogram by group and cell."""
    groups, numbers, weights = cells.T
    order = np.lexsort((numbers, groups))
    return Weights(groups[order], numbers[order], weights[order])


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
