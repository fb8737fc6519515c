"""Bugs that would break the promise of nested queries are planted, and the checks must report them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from property_joins import join_database, join_policy, join_world, without
from property_nested import inner, moved_too_far, seen
from property_world import Database

from dpsql import accounts
from dpsql.answers import reuse
from dpsql.bounds.domain import interval
from dpsql.budget.pricing import charge_of
from dpsql.engines import base
from dpsql.errors import InternalError
from dpsql.plan.builder import nested_queries
from dpsql.plan.nodes import joins as lookups
from dpsql.plan.nodes.released_scan import content_of, released_in, with_digests

Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Database, Database]]:
    rng = random.Random(11)
    tables = join_world(rng, tame=True)
    visit = next(i for i, row in enumerate(tables["visits"]) if row["kind"] is not None)
    with (
        join_database(tables, join_policy()) as whole,
        join_database(without(tables, 2, visit, rng), join_policy()) as other,
    ):
        yield whole, other


# a released value narrows a bound -----------------------------------------------------------------------------------------

CLAMPED = "SELECT sum(x) FROM orders WHERE x < (SELECT avg(x) FROM people)"


def _visible(pair: tuple[Database, Database], patch: Patch, *, planted: bool) -> list[object]:
    found = []
    for database in pair:
        if planted:
            [(mean,)] = database.raw.execute("SELECT avg(x) FROM people").fetchall()
            patch.setattr(nested_queries, "of_type", lambda type_, mean=mean: interval(0, abs(mean)))
        found.append(seen(database, CLAMPED, "laplace"))
    return found


def test_a_released_value_narrows_a_bound(pair: tuple[Database, Database], monkeypatch: Patch) -> None:
    one, two = _visible(pair, monkeypatch, planted=False)
    assert one == two
    one, two = _visible(pair, monkeypatch, planted=True)
    assert one != two


# the mark of the outer release without the inner content -----------------------------------------------------------------

LOWER = "SELECT count(*) FROM orders WHERE n > (SELECT avg(n) - 1 FROM people)"
UPPER = "SELECT count(*) FROM orders WHERE n > (SELECT avg(n) + 1 FROM people)"


def _replayed_after_another() -> bool:
    with join_database(join_world(random.Random(3), tame=True), join_policy()) as database:
        assert not database.db.query(LOWER, epsilon=1.0).replayed
        return database.db.query(UPPER, epsilon=1.0).replayed


def test_the_mark_of_the_outer_release_without_the_inner_content(monkeypatch: Patch) -> None:
    assert not _replayed_after_another(), "the inner release is replayed, what is read of it is another value"
    real = reuse.fingerprint

    def forgetful(priced: Any, sql: str, version: str, dataset: str) -> bytes:
        for scan in released_in(priced.bounded.release.source):
            sql = sql.replace(scan.digest or "", "")
        return real(priced, sql, version, dataset)

    monkeypatch.setattr(reuse, "fingerprint", forgetful)
    with pytest.raises(InternalError, match="does not cover"):
        _replayed_after_another()
    monkeypatch.setattr(base, "fingerprint", forgetful)
    assert _replayed_after_another(), "planted on both sides of the engine's own check"


# the inner release is not charged ----------------------------------------------------------------------------------------


def _spent_and_cost() -> tuple[float, float]:
    with join_database(join_world(random.Random(3), tame=True), join_policy()) as database:
        asked = database.db.prepare(LOWER, epsilon=1.0, delta=1e-6, mechanism="gaussian")
        database.db.query(LOWER, epsilon=1.0, delta=1e-6, mechanism="gaussian")
        charged = database.db.ledger.spent(None)
        due = charge_of(asked.bill.releases)
        assert due is not None
        return charged.rho, due.rho


def test_the_inner_release_is_not_charged(monkeypatch: Patch) -> None:
    spent, due = _spent_and_cost()
    assert spent >= due
    monkeypatch.setattr(accounts, "charge_of", lambda releases: charge_of(list(releases)[1:]))
    spent, due = _spent_and_cost()
    assert spent < due


# a released table is taken for unique --------------------------------------------------------------------------------------

MANY = "SELECT count(*) FROM visits v JOIN (SELECT kind, avg(n) AS m FROM visits GROUP BY kind) a ON a.kind = v.kind"


def test_a_released_table_is_taken_for_unique(pair: tuple[Database, Database], monkeypatch: Patch) -> None:
    """Rows that are units must not multiply: of a table with several rows for one key that is not known."""
    whole, other = pair
    assert moved_too_far(MANY, whole, [other], "laplace", inner(whole, MANY, "laplace")) == []
    monkeypatch.setattr(lookups, "is_key", lambda *_: True)
    several = content_of([(kind, str(i)) for kind in "abcdef" for i in range(5)])
    joined = MANY.replace("ON a.kind = v.kind", "ON a.m > 0 AND a.kind = v.kind")
    assert moved_too_far(joined, whole, [other], "laplace", {"_n0": several}) != []


def test_digests_are_put_in_everywhere(pair: tuple[Database, Database]) -> None:
    prepared = pair[0].db.prepare(LOWER, epsilon=1.0, delta=1e-6, mechanism="laplace")
    source = prepared.plan.releases[-1].source
    [scan] = released_in(source)
    assert scan.digest is None
    assert [each.digest for each in released_in(with_digests(source, {scan.table: "d"}))] == ["d"]
    assert with_digests(replace(scan, digest="d"), {scan.table: "d"}) == replace(scan, digest="d")
