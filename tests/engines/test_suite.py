"""Every query of the suite on every engine: equal integers before noise, equal plans, equal refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from stores import STORES, DuckDBStore, Store, opened
from suite import QUERIES, REFUSED, Asked

import dpsql
from dpsql.audit.traces import ReleaseTrace, traced
from dpsql.errors import Error, UnsupportedQuery
from dpsql.query_draft import PreparedQuery

SALT = b"a fixed salt"
OTHERS = sorted(set(STORES) - {"duckdb"})


@dataclass(frozen=True, slots=True)
class Pair:
    """One engine, and DuckDB over the same rows."""

    store: Store
    here: dpsql.Connection
    reference: dpsql.Connection


@pytest.fixture(scope="module", params=OTHERS)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    store = STORES[request.param]()
    if (reason := store.absent()) is not None:
        pytest.skip(reason)
    reference = DuckDBStore()
    reference.constraints = store.constraints
    try:
        with opened(store) as here, opened(reference) as there:
            yield Pair(store, here, there)
    finally:
        store.close()


def planned(db: dpsql.Connection, asked: Asked) -> PreparedQuery:
    return db.prepare(asked.sql, mechanism=asked.mechanism)


def integers(db: dpsql.Connection, prepared: PreparedQuery) -> list[ReleaseTrace]:
    return traced(db, prepared, salt=SALT)[0]


@pytest.mark.parametrize("asked", QUERIES, ids=lambda asked: asked.name)
def test_equal_plans_and_integers(pair: Pair, asked: Asked) -> None:
    """An engine computes DuckDB's own integers; where its own hash chooses, they are the same twice.

    NaN is a key like any other, and equal to itself only in its text.
    """
    if (reason := pair.store.left_out(asked)) is not None:
        pytest.skip(reason)
    if not pair.store.constraints and _needs_keys(pair, asked):
        return
    plan = planned(pair.reference, asked)
    assert planned(pair.here, asked) == plan
    if asked.name in pair.store.missing:
        _refused_by_name(pair, asked)
        return
    made, wanted = integers(pair.here, plan), integers(pair.reference, plan)
    if asked.chosen:
        assert repr(made) == repr(integers(pair.here, plan))
        assert [(r.rule, r.joint) for r in made] == [(r.rule, r.joint) for r in wanted]
    else:
        assert repr(made) == repr(wanted)


def _needs_keys(pair: Pair, asked: Asked) -> bool:
    """Is it refused without keys that the database guarantees? Then in the same words."""
    try:
        planned(pair.reference, asked)
    except Error as wanted:
        with pytest.raises(type(wanted)) as refusal:
            planned(pair.here, asked)
        assert str(refusal.value) == str(wanted)
        return True
    return False


def _refused_by_name(pair: Pair, asked: Asked) -> None:
    """What an engine does not compute is refused, saying which operation, before anything is charged."""
    before = pair.here.budget()
    with pytest.raises(UnsupportedQuery) as refusal:
        pair.here.query(asked.sql, mechanism=asked.mechanism)
    assert refusal.value.message == f"{pair.store.missing[asked.name]} is not computed by this database"
    with pytest.raises(UnsupportedQuery, match="is not computed by this database"):
        pair.here.explain(asked.sql, mechanism=asked.mechanism)
    assert pair.here.budget() == before


@pytest.mark.parametrize("asked", REFUSED, ids=lambda asked: asked.name)
def test_equal_refusals(pair: Pair, asked: Asked) -> None:
    """What is refused is refused in the same words, and nothing is charged for it."""
    said = []
    for db in (pair.here, pair.reference):
        before = db.budget()
        with pytest.raises(Error) as refusal:
            db.query(asked.sql)
        said.append((type(refusal.value).__name__, str(refusal.value)))
        assert db.budget() == before
    assert said[0] == said[1]


def test_the_suite_asks_for_enough() -> None:
    assert len(QUERIES) >= 170
    assert len({asked.name for asked in (*QUERIES, *REFUSED)}) == len(QUERIES) + len(REFUSED)
