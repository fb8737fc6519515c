"""Faults of issue 7's own parts: an audit that passed without looking, and short texts that kept the planner busy."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from fractions import Fraction
from math import comb, exp
from pathlib import Path

import duckdb
import pytest
from attack.blackbox_cases import HEAVY, cases

import dpsql
from dpsql.audit import Settings, World, blackbox_check, neighbour_check
from dpsql.audit.blackbox.promise_test import BETA, Counts, Limit, interval, p_value
from dpsql.audit.blackbox.rounds import Audited
from dpsql.audit.comparison import compare, differences
from dpsql.audit.grammar.query_writer import Query
from dpsql.audit.neighbour_check import _fingerprint, check_neighbours
from dpsql.audit.neighbour_search import _taken
from dpsql.audit.outcome import Tally
from dpsql.audit.report import Report, merged
from dpsql.audit.traces import ReleaseTrace, StatisticTrace
from dpsql.audit.world import StoredTable
from dpsql.engines.isolated.codec import pack
from dpsql.engines.isolated.engine import RunningWorker
from dpsql.errors import EngineError, InterfaceError
from dpsql.session import Connection
from dpsql.sql import parse_query

POLICY = {
    "dataset": "d", "search": False, "budget": {"epsilon": 1000, "delta": "1e-6"},
    "tables": {"people": {"unit": "id", "columns": {"age": {"min": 0, "max": 100}, "note": {}}}, "shops": {"public": True}},
}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("found") / "d.duckdb"
    with duckdb.connect(str(path)) as raw:
        raw.execute("CREATE TABLE people AS SELECT i AS id, i AS age, 'n' || i AS note FROM range(30) r(i)")
        raw.execute("CREATE TABLE shops AS SELECT i AS shop, i * 1.0 AS size FROM range(3) r(i)")
    return path


@pytest.fixture(scope="module")
def db(file: Path) -> Iterator[Connection]:
    with dpsql.connect(file, policy=POLICY, ledger=":memory:") as opened:
        yield opened


# short texts that take for ever -----------------------------------------------------------------------------------------


def doubled(first: str, source: str, many: int = 40) -> str:
    names = ", ".join(f"a{i - 1} + a{i - 1} AS a{i}" for i in range(1, many))
    return f"SELECT {first} AS a0, {names} FROM {source}"


def nested(step: str, first: str, many: int = 40) -> str:
    return f"{'(' + step + ' FROM '}" * many + f"({first})" + ")" * many


@pytest.mark.parametrize(
    "sql",
    [
        doubled("count(*)", "people"),
        doubled("size", "shops"),
        doubled("n", "(SELECT count(*) AS n FROM people)"),
        f"SELECT count(*) FROM {nested('SELECT id, a || a AS a', 'SELECT id, note AS a FROM people')} WHERE a = 'x'",
        f"SELECT count(DISTINCT a) FROM {nested('SELECT id, a || a AS a', 'SELECT id, note AS a FROM people')}",
        f"SELECT sum(least(a, 9)) FROM {nested('SELECT id, least(a, 5) + least(a, 7) AS a', 'SELECT id, age AS a FROM people')}",
    ],
)  # fmt: skip
def test_names_that_multiply_are_refused_before_anything_is_written_out(db: Connection, sql: str) -> None:
    with pytest.raises(dpsql.Error, match="too large once"):
        db.explain(sql)
    with pytest.raises(dpsql.Error, match="too large once"):
        db.query(sql)
    assert db.budget().dataset.spent.rho == 0


def test_a_few_names_of_names_are_answered(db: Connection) -> None:
    assert len(db.explain(doubled("count(*)", "people", 6)).columns) == 6
    assert len(db.query(doubled("size", "shops", 6))) == 3


def test_aggregates_are_counted_when_a_query_is_read() -> None:
    def filters(many: int) -> str:
        return ", ".join(f"count(*) FILTER (WHERE age > {i})" for i in range(many))

    parse_query(f"SELECT {filters(200)} FROM people")
    parse_query(f"SELECT {', '.join(['count(*)'] * 300)} FROM people")
    with pytest.raises(dpsql.UnsupportedQuery, match="200 different aggregates"):
        parse_query(f"SELECT {filters(201)} FROM people")
    with pytest.raises(dpsql.UnsupportedQuery, match="200 different aggregates"):
        parse_query(f"SELECT * FROM (SELECT {filters(201)} FROM people)")


def test_a_long_concatenation_is_written_in_halves(db: Connection) -> None:
    sql = str(db.explain(f"SELECT count(DISTINCT {' || '.join(['note'] * 64)}) FROM people").sql)
    assert sql.count(" || ") == 63
    assert ") || (" in sql


# the process of its own -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"nonsense", pack((1, 2)), pack(7), pack(([], "done", 1))])
def test_an_answer_that_is_none_fails_all_questions_and_leaves_none_waiting(said: bytes) -> None:
    life = RunningWorker.__new__(RunningWorker)
    ended = threading.Event()
    replies = iter([said])

    class Pipe:
        def recv_bytes(self) -> bytes:
            return next(replies)

    reply: Future[tuple[str, object]] = Future()
    life._pipe, life._turn, life._waiting = Pipe(), threading.Lock(), {1: reply}  # type: ignore[assignment]
    life.end = ended.set  # type: ignore[method-assign]
    life._listen()
    assert ended.is_set()
    with pytest.raises(EngineError):
        life._result(reply, 1)


def test_what_was_spilled_goes_with_a_process_that_nobody_listens_to(file: Path, tmp_path: Path) -> None:
    policy = {**POLICY, "limits": {"memory": "100MB", "spill": "100MB"}}
    code = (
        "import sys, time, json, dpsql\n"
        "db = dpsql.connect(sys.argv[1], policy=json.loads(sys.argv[2]), ledger=':memory:', isolate=True)\n"
        "print(db.engine.process.number, flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", code, str(file), json.dumps(policy)]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    [spill] = tmp_path.glob("dpsql-*/dpsql-spill-*")
    (spill / "left").write_text("rows")
    assert spill.stat().st_mode & 0o077 == 0
    parent.kill()
    parent.wait()
    end = time.monotonic() + 20
    while Path(f"/proc/{child}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not spill.exists()


def test_a_fault_of_dpsql_is_logged_without_the_value_that_it_names(
    db: Connection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> object:
        raise ValueError("zqx-secret")

    monkeypatch.setattr("dpsql.answers.execute.add_noise", broken)
    with caplog.at_level(logging.DEBUG, "dpsql.steward"), pytest.raises(dpsql.InternalError) as raised:
        db.query("SELECT count(*) FROM people WHERE age > 1")
    said = "".join(logging.Formatter().format(record) for record in caplog.records)
    assert "ValueError" in said
    assert "zqx-secret" not in said + str(raised.value)


# an audit that looked at nothing ----------------------------------------------------------------------------------------


def world(rows: int, unit: str = "id") -> World:
    people = StoredTable({"id": "INTEGER", "age": "INTEGER"}, tuple((i, i) for i in range(rows)))
    policy = {
        "dataset": "own",
        "search": False,
        "budget": {"epsilon": 1, "delta": "1e-6"},
        "tables": {"people": {"unit": unit, "columns": {"age": {"min": 0, "max": 9}}}},
    }
    return World.made("own", policy, {"people": people})


def quiet(done: int, total: int) -> None:
    """No bar."""


def test_a_search_without_units_ends_and_does_not_pass() -> None:
    found = neighbour_check.check_neighbours([world(0, "row")], Settings(pairs=1), quiet)
    assert dict(found.figures)["neighbouring pairs"] == 0
    assert not found.passed
    assert "0 of 1 pairs" in found.incomplete


def test_pairs_in_which_nothing_moved_show_nothing() -> None:
    assert not neighbour_check.outcome_of(Tally(Counter(all=5000))).passed
    assert neighbour_check.outcome_of(Tally(Counter(all=5000), Counter(all=1))).passed


def test_an_audit_of_no_question_or_of_refusals_only_does_not_pass() -> None:
    assert not blackbox_check.report_of([], 0.0).passed
    case = replace(cases(("count, Laplace",))[0], unit=HEAVY)
    assert blackbox_check.report_of([Audited(case, 4, (), 0.0, answered=4)], 0.0).passed
    refused = blackbox_check.report_of([Audited(case, 4, (), 0.0, answered=0)], 0.0)
    assert "runs were refused: count, Laplace (" in refused.incomplete


def test_a_report_without_checks_does_not_pass() -> None:
    assert not Report("a", "b", ()).passed


def test_a_planner_that_fails_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.query_draft.build", lambda *_: 1 / 0)
    tally = Tally()

    class One:
        def any(self) -> Query:
            return Query("SELECT count(*) FROM people", 0, "laplace", 1.0)

    class Where:
        whole = world(3).open(steward=True)

    assert _taken(One(), Where(), tally) is None  # type: ignore[arg-type]
    assert tally.counted["queries refused"] == 0
    assert "planning failed" in tally.findings[0].what


def test_two_sides_that_fail_alike_are_a_finding_and_two_refusals_are_not() -> None:
    assert differences(("EngineError", "x"), ("EngineError", "x"))
    assert not differences(("ParseError", "x"), ("ParseError", "x"))


def test_parts_are_merged_once_and_whole() -> None:
    done = neighbour_check.outcome_of(Tally(Counter(all=5), Counter(all=1)))
    one, two = (Report("a", "p", (done,), part, 2) for part in (1, 2))
    assert merged([one, two]).passed
    for wrong, said in (
        ([one, one], "twice"), ([one], "part 2 of 2 is missing"), ([one, replace(two, subject="b")], "audits of"),
        ([one, replace(two, parts=3)], "missing"),
    ):  # fmt: skip
        with pytest.raises(InterfaceError, match=said):
            merged(wrong)
    short = replace(done, incomplete="3 of 5 pairs were compared")
    assert not merged([one, replace(two, outcomes=(short,))]).passed


def test_a_search_of_another_policy_or_of_other_rows_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.audit.neighbour_check.run_block", lambda *_, **__: Tally(Counter(all=5), Counter(all=1)))
    settings = Settings(pairs=1, resume=tmp_path / "state")
    assert check_neighbours([world(4)], settings, quiet).passed
    with pytest.raises(InterfaceError, match="another audit"):
        check_neighbours([world(5)], settings, quiet)
    assert _fingerprint(world(4)) == _fingerprint(world(4)) != _fingerprint(world(4, "row"))


# the test of the black box ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "hits", "misses"), [(1.0, 70, 20), (1.0, 60, 30), (0.5, 40, 20), (2.0, 9, 0)])
def test_the_p_value_is_no_less_than_the_worst_case_by_brute_force(epsilon: float, hits: int, misses: int) -> None:
    n, limit, q0 = 80, Limit("epsilon", epsilon, 0.0), max(misses, 1) / 80
    near = [min(exp(epsilon) * (q0 + d), 1 - exp(-epsilon) * (1 - q0 - d)) for d in (-1e-4, 1e-4)]
    slope = (near[1] - near[0]) / 2e-4
    t = hits - slope * misses

    def law(p: float) -> list[float]:
        return [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]

    worst, (first, last) = 0.0, interval(misses, n, BETA)
    for q in (first + (last - first) * i / 400 for i in range(401)):
        p = min(exp(epsilon) * q, 1 - exp(-epsilon) * (1 - q))
        one, two = law(p), law(q)
        above = [*(sum(one[k:]) for k in range(n + 1)), 0.0]
        least = [next((k for k in range(n + 1) if k - slope * j >= t - 1e-9), n + 1) for j in range(n + 1)]
        worst = max(worst, sum(b * above[need] for b, need in zip(two, least, strict=True)))
    assert worst + BETA <= p_value(Counts(hits, n, misses, n), limit, q0) <= 1.1 * worst + 1.1 * BETA


LARGE = "1.7976931348623157e308"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t WHERE i BETWEEN -1e300 AND 1e300 AND i * (i + 1) > 3",
        f"SELECT count(*) FROM t WHERE i < {LARGE} AND -i < 3",
        f"SELECT count(*) FROM t WHERE length(x) < {LARGE} AND length(x) * length(x) > 2",
        f"SELECT sum(least(CAST(x AS INT) // i, 5)) FROM t WHERE i BETWEEN 1 AND {LARGE}",
        f"SELECT count(*) FROM t WHERE i BETWEEN -{LARGE} AND {LARGE} AND CAST(i AS TINYINT) > 1",
        f"SELECT median(f) FROM t WHERE f BETWEEN -{LARGE} AND {LARGE}",
        f"SELECT max(f) FROM t WHERE f BETWEEN -{LARGE} AND {LARGE}",
        "SELECT sum(far * (far + 1)) FROM t",
    ],
)
def test_bounds_beyond_the_floats_are_none(sql: str) -> None:
    """They overflowed in the planner, which is an internal error where a refusal or an answer is due."""
    columns = {"i": {}, "x": {}, "f": {}, "far": {"min": -(10**300), "max": 10**300}}
    made = {
        "dataset": "d",
        "search": False,
        "budget": {"epsilon": 9, "delta": 1e-6},
        "tables": {"t": {"unit": "u", "columns": columns}},
    }
    with duckdb.connect() as own:
        own.execute(
            "CREATE TABLE t AS SELECT range AS u, 3::INT AS i, 'ab' AS x, 1.5::DOUBLE AS f, 2::INT AS far FROM range(9)"
        )
        with dpsql.connect(own, policy=made, ledger=":memory:") as db:
            try:
                db.query(sql)
            except dpsql.Error as refusal:
                assert not isinstance(refusal, dpsql.InternalError)


def test_a_case_without_tests_flags_nothing() -> None:
    case = replace(cases(("count, Laplace",))[0], unit=HEAVY)
    assert Audited(case, 4, (), 0.0, answered=4).factor(0.01) == 0.0


def _traced(*values: int, claim: int = 4) -> ReleaseTrace:
    statistic = StatisticTrace("count", values, 2, claim, claim, claim, Fraction(1), "laplace", Fraction(9))
    return ReleaseTrace("rows", tuple((k,) for k in range(len(values))), (statistic,), ())


def test_the_part_of_a_claim_that_a_unit_used_is_told() -> None:
    found = compare([_traced(7, 5)], [_traced(6, 5)])
    assert found.violations == [] and found.touched == {"rows"}
    assert found.ratios == {("rows", "l0"): 0.5, ("rows", "linf"): 0.25, ("rows", "l1"): 0.25, ("rows", "l2"): 0.25}
    nothing = compare([_traced(7, claim=0)], [_traced(7, claim=0)])
    assert nothing.most == 0.0 and nothing.violations == []
    assert compare([_traced(7, claim=0)], [_traced(6, claim=0)]).most == 1.0


def test_a_claim_that_depends_on_the_data_is_a_finding_however_little_moved() -> None:
    [finding] = compare([_traced(7, claim=4)], [_traced(7, claim=5)]).violations
    assert "the claims depend on the data" in finding
