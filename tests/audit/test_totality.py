"""The totality sweep, and rules that are not total."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attack.totality.edges import EDGES, TABLE, world
from attack.totality.forms import Form, written
from attack.totality.sweep import Sweep, check, counted, grouped

from dpsql.audit.outcome import Settings
from dpsql.engines.duckdb import engine
from dpsql.expressions.types import BIGINT, TEXT


def test_the_whole_sweep_tells_no_neighbours_apart() -> None:
    outcome = check([], Settings(), lambda *_: None)
    assert [(each.what, each.again) for each in outcome.findings] == []
    assert dict(outcome.figures)["forms × types"] >= 4_000


def test_every_form_meets_every_edge() -> None:
    assert len(written()) > 700
    rows = world().tables[TABLE].rows
    for place, values in enumerate(EDGES.values()):
        pairs = {(row[place], row[len(EDGES) + place]) for row in rows}
        assert pairs >= {(one, two) for one in (None, *values) for two in (None, *values)}


@pytest.fixture
def sweep() -> Iterator[Sweep]:
    made = Sweep()
    yield made
    made.close()


def test_a_cast_that_may_fail_is_found(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    text = list(EDGES).index("VARCHAR")
    cast = Form(f"CAST(a{text} AS INTEGER)", BIGINT)
    assert list(sweep.run([cast], counted)) == [1] and sweep.findings == []
    monkeypatch.setattr(engine, "_ask", lambda cursor, text: cursor.execute(text.replace("TRY_CAST", "CAST")))
    list(sweep.run([cast], counted))
    assert "neighbours are told apart" in sweep.findings[0].what


def test_what_fails_among_many_is_found_by_halving(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.session import Connection

    real = Connection.query

    def query(self: Connection, sql: str) -> object:
        if "reverse(" in sql:
            raise ZeroDivisionError
        return real(self, sql)

    monkeypatch.setattr(Connection, "query", query)
    text = list(EDGES).index("VARCHAR")
    some = [Form(f"{name}(a{text})", TEXT) for name in ("upper", "lower", "reverse", "trim", "md5")]
    list(sweep.run(some, counted))
    [finding] = sweep.findings
    assert "ZeroDivisionError" in finding.what and "reverse(" in finding.again and "upper" not in finding.again
    list(sweep.run(some[:1], grouped))
