"""Second locks: exact values that nobody else can open, and no run without a reservation. Each test is a mistake that
somebody could make in dpsql's own code, and is stopped at run time.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, asdict, astuple, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from unlocked import DATASET, integers, paid, reserved, run, sealed, unsealed

import dpsql
import dpsql.answers.noise_stage as noise_stage
from dpsql.answers.execute import Execution
from dpsql.answers.nested_results import NestedResults
from dpsql.answers.noise_stage import RELEASE, NoisyTable, Released, add_noise, public_table
from dpsql.answers.serialize import serialize
from dpsql.audit import traces
from dpsql.budget import Caps, Cost, Ledger, Request, Reservation, Spent, open_ledger, pure_charge
from dpsql.budget.fingerprint import fingerprint
from dpsql.budget.ledger.reservation import PERMIT, RESERVE, TracePermit
from dpsql.budget.pricing import Priced
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.sealed import OPEN, Exact, Integers
from dpsql.errors import InternalError, PolicyError
from dpsql.rights import Right, Token
from dpsql.session import Connection

ROOT = Path(dpsql.__file__).parent
SALT = b"salt"
RIGHTS = {OPEN: "dpsql.engines.sealed", RESERVE: "dpsql.budget.ledger.reservation", PERMIT: "dpsql.budget.ledger.reservation",
          RELEASE: "dpsql.answers.noise_stage"}  # fmt: skip
COUNT, SUM = "SELECT k, count(*) FROM t GROUP BY k", "SELECT sum(x) FROM t"
NESTED = "SELECT count(*) FROM t WHERE x > (SELECT avg(x) FROM t)"
POLICY = {
    "dataset": DATASET,
    "budget": {"epsilon": 100, "delta": 1e-6},
    "replay": False,
    "tables": {"t": {"unit": "u", "max_rows_per_unit": 2, "columns": {"x": {"min": 0, "max": 9}, "k": {"values": ["a", "b"]}}}},
}  # fmt: skip


def connect(**options: Any) -> dpsql.Connection:
    frame = pd.DataFrame({"u": [1, 1, 2, 3], "x": [1.0, 2.0, 3.0, 9.0], "k": ["a", "b", "a", "b"]})
    return dpsql.connect({"t": frame}, policy=POLICY, ledger=":memory:", **options)


@pytest.fixture
def db() -> Iterator[dpsql.Connection]:
    with connect(analyst="ana") as opened:
        yield opened


@pytest.fixture
def steward() -> Iterator[dpsql.Connection]:
    with connect(steward=True) as opened:
        yield opened


def priced(db: dpsql.Connection, sql: str = COUNT, epsilon: float = 1.0) -> Priced:
    [found] = db.prepare(sql, epsilon=epsilon, mechanism="laplace").bill.releases
    return found


# rights -----------------------------------------------------------------------------------------------------------------


def test_who_has_which_right() -> None:
    """One module both opens exact values and makes released tables: the noise stage."""
    assert OPEN.holders == {"dpsql.answers.noise_stage", "dpsql.audit.traces", "dpsql.engines.isolated.worker"}
    assert OPEN.holders & RELEASE.holders == {"dpsql.answers.noise_stage"}
    assert {name.rsplit(".", 1)[0] for name in RELEASE.holders} == {"dpsql.answers"}
    assert RESERVE.holders == {"dpsql.budget.ledger.chained_ledger", "dpsql.engines.isolated.worker"}
    assert PERMIT.holders == {"dpsql.session", "dpsql.engines.isolated.worker"}


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: right.what)
def test_nobody_else_takes_a_token(right: Right) -> None:
    with pytest.raises(InternalError, match=f"may not {right.what}"):
        right.take()
    holder = min(right.holders)
    false = ModuleType(holder)
    false.__spec__ = importlib.import_module(holder).__spec__
    with pytest.raises(InternalError, match="may not"):
        exec("token = right.take()", vars(false) | {"right": right})
    taken = importlib.import_module(holder).__dict__
    assert isinstance(eval("right.take()", taken, {"right": right}), Token)


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: right.what)
def test_a_token_is_worth_something_for_its_own_right_only(right: Right) -> None:
    [mine, *_] = right._given.values()
    right.check(mine)
    others = [token for other in RIGHTS if other is not right for token in other._given.values()]
    for false in (None, True, right.what, Token(mine.what, mine.holder), *others):
        with pytest.raises(InternalError, match=f"no right to {right.what}"):
            right.check(false)


def test_no_module_reads_the_token_of_another() -> None:
    """A token is bound to a private name at the top of its file, which no file imports or says after a dot."""
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}
    holders, read = set[str](), list[str]()
    for name, tree in trees.items():
        calls = [ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)]
        taken = [call for call in calls if call in {"OPEN.take", "RELEASE.take", "RESERVE.take", "PERMIT.take"}]
        top = [n for n in tree.body if isinstance(n, ast.Assign) and ".take()" in ast.unparse(n.value)]
        assert len(taken) == sum(ast.unparse(n.value).count(".take()") for n in top), name
        if top:
            holders.add("dpsql." + name.removesuffix(".py").replace("/", "."))
        bound = {ast.unparse(t) for n in top for target in n.targets for t in getattr(target, "elts", [target])}
        assert bound <= {"_OPEN", "_RELEASE", "_RESERVE", "_PERMIT"}, name
        words = [a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names]
        words += [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
        read += [f"{name}: {word}" for word in words if word in {"_OPEN", "_RELEASE", "_RESERVE", "_PERMIT", "_given"}]
    assert holders == frozenset().union(*(right.holders for right in RIGHTS))
    assert set(read) == {"rights.py: _given"}


# exact values -----------------------------------------------------------------------------------------------------------


def secret(value: int = 4711) -> Exact:
    return sealed(((value,),), (np.array([value]),), None)


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r}".format, lambda exact: f"{[exact]}"])
def test_exact_values_have_no_text(show: Callable[[object], str]) -> None:
    assert show(secret()).strip("[]") == "Exact(sealed)"


@pytest.mark.parametrize(
    "read",
    [
        iter, len, list, tuple, dict, bytes, int, float, sum, vars, asdict, astuple, json.dumps, pickle.dumps, copy.copy,
        copy.deepcopy, lambda exact: exact.values, lambda exact: exact.keys, lambda exact: exact[0], lambda exact: exact + 1,
        lambda exact: exact < secret(), lambda exact: exact.open(), lambda exact: exact.open(None), lambda exact: 4711 in exact,
        lambda exact: setattr(exact, "_opened", None), replace, lambda exact: exact.__getstate__()["_opened"],
    ],
)  # fmt: skip
def test_exact_values_cannot_be_read(read: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, AttributeError, InternalError, ValueError)) as caught:
        read(secret())
    assert "4711" not in str(caught.value)


def test_nothing_about_exact_values_tells_two_of_them_apart() -> None:
    one, two, same = secret(1), secret(2), secret(1)
    assert one != two and one != same and one == one
    own = {"_opened", "open"}
    for name in set(dir(one)) - own:
        first, second = (getattr(each, name) for each in (one, two))
        assert callable(first) or first == second, name
    assert np.array(one).dtype == object and "4711" not in repr(np.array(secret()))


@pytest.mark.parametrize("right", [right for right in RIGHTS if right is not OPEN], ids=lambda right: right.what)
def test_exact_values_open_with_the_right_token_only(right: Right) -> None:
    for token in right._given.values():
        with pytest.raises(InternalError, match="no right to open exact values"):
            secret().open(token)
    assert unsealed(secret()).keys == ((4711,),)


def test_a_reader_that_is_not_the_noise_stage_is_stopped(db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the conductor looked at what the engine gave, to log it or to leave out small groups."""
    look: list[object] = []
    original = DuckDBEngine.run

    def watched(self: DuckDBEngine, *args: Any) -> Exact:
        made = original(self, *args)
        look.append(str(made))
        assert made.keys
        return made

    monkeypatch.setattr(DuckDBEngine, "run", watched)
    with pytest.raises(InternalError):
        db.query(COUNT)
    assert look == ["Exact(sealed)"]


@pytest.mark.parametrize(
    "warrant", [None, 3, True, object(), Token("make a reservation", "dpsql.budget.ledger.chained_ledger")]
)
def test_there_are_no_exact_values_without_a_warrant(warrant: Any) -> None:
    with pytest.raises(InternalError, match="without a reservation"):
        Exact(Integers((), (), None), warrant)


# released tables --------------------------------------------------------------------------------------------------------


def test_a_released_table_is_not_made_of_exact_values(steward: dpsql.Connection) -> None:
    asked = priced(steward)
    exact = integers(steward.engine, asked, SALT)
    with pytest.raises(TypeError, match="by"):
        Released(asked, exact.keys, exact.values)  # type: ignore[call-arg]
    for token in (None, traces._OPEN, noise_stage._OPEN):
        with pytest.raises(InternalError, match="no right to make a released table"):
            Released(asked, exact.keys, exact.values, by=token)  # type: ignore[arg-type]


def test_exact_values_are_not_put_into_a_released_table(db: dpsql.Connection) -> None:
    asked = priced(db)
    ran = run(db.engine, asked, SALT)
    released, exact = add_noise(asked, ran), unsealed(ran)
    with pytest.raises(ValueError, match="by"):
        replace(released, noisy=exact.values)
    with pytest.raises(InternalError, match="no right"):
        replace(public_table(asked), keys=exact.keys, by=traces._OPEN)
    with pytest.raises(InternalError, match="no right"):
        released.fitted(exact.values, (1.0,), traces._OPEN)
    with pytest.raises(FrozenInstanceError):
        released.noisy = exact.values  # type: ignore[misc]


def test_a_trace_is_not_released(steward: dpsql.Connection) -> None:
    asked = priced(steward)
    exact = steward.engine.run(asked, SALT, steward.permit_trace())
    assert exact.traced and not run(steward.engine, asked, SALT).traced
    with pytest.raises(InternalError, match="never released"):
        add_noise(asked, exact)


def test_the_tables_of_a_trace_have_a_type_of_their_own_which_is_not_stored(steward: dpsql.Connection) -> None:
    _, _, tables = traces._traced(steward, steward.prepare(COUNT), SALT, None)
    assert tables and all(isinstance(each, traces.TracedTable) for each in tables.values())
    assert not issubclass(traces.TracedTable, Released) and issubclass(Released, NoisyTable)
    for each in tables.values():
        with pytest.raises(InternalError, match="only released tables"):
            serialize(each)  # type: ignore[arg-type]


# reservations -----------------------------------------------------------------------------------------------------------


def forged(mark: bytes, version: str) -> Reservation:
    """What a copy or a careful forger could make: all fields are right."""
    made = object.__new__(Reservation)
    for name, value in (("entry", 3), ("dataset", DATASET), ("version", version), ("marks", frozenset([mark]))):
        object.__setattr__(made, name, value)
    return made


class Extended(Reservation):
    """One whose marks are whatever is asked."""

    def __post_init__(self, by: Token) -> None:
        pass


def test_only_the_ledger_makes_a_reservation() -> None:
    fields: tuple[Any, ...] = (3, DATASET, "v", frozenset([b"mark"]))
    with pytest.raises(TypeError, match="by"):
        Reservation(*fields)
    for token in (None, noise_stage._OPEN, traces._OPEN):
        with pytest.raises(InternalError, match="no right to make a reservation"):
            Reservation(*fields, by=token)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="by"):
        replace(reserved(b"mark"), marks=frozenset([b"another"]))
    with pytest.raises(FrozenInstanceError):
        reserved().entry = 4  # type: ignore[misc]
    with pytest.raises(InternalError, match="no right to permit a trace"):
        TracePermit(by=noise_stage._OPEN)


def test_a_reservation_names_the_entry_and_what_it_paid_for(tmp_path: Path) -> None:
    request = Request("ana", pure_charge(0.5), Cost(0.5, 0.0, 0.0), Caps(1), None, "q", (b"one", b"two"), version="v")
    with open_ledger(tmp_path / "d.ledger", "d") as ledger:
        made = ledger.reserve(request)
        with open_ledger(tmp_path / "d.ledger", "d", create=False) as other:
            assert [line.number for line in other.log() if line.kind == "charge"] == [made.entry]
            assert other.spent(None) == Spent().after(request.whole[0])
            assert other._book.details(made.entry)["fingerprints"] == [b"one".hex(), b"two".hex()]
        assert (made.dataset, made.version, made.marks) == ("d", "v", {b"one", b"two"})
        with pytest.raises(dpsql.BudgetExceeded):
            ledger.reserve(replace(request, charge=pure_charge(0.75), cost=Cost(0.75, 0.0, 0.0)))


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is read, whatever is asked."""
    monkeypatch.setattr(DuckDBEngine, "_compute", lambda *_: pytest.fail("the data was read"))


@pytest.mark.usefixtures("unread")
def test_nothing_is_run_without_a_reservation(db: dpsql.Connection) -> None:
    asked, engine = priced(db), db.engine
    version = engine.version()
    mark = fingerprint(asked, engine.emit(asked, SALT), version, DATASET)
    real = paid(engine, asked, SALT)
    false: list[Any] = [None, 3, real.entry, (3, {mark}), forged(mark, version), object.__new__(TracePermit)]
    false += [copy.copy(real), copy.deepcopy(real), Extended(3, DATASET, version, frozenset([mark]), by=None)]  # type: ignore[arg-type]
    for warrant in false:
        with pytest.raises(InternalError, match="without a reservation"):
            engine.run(asked, SALT, warrant)
    with pytest.raises(TypeError, match="warrant"):
        engine.run(asked, SALT)  # type: ignore[call-arg]


@pytest.mark.usefixtures("unread")
def test_a_reservation_covers_its_own_releases_only(db: dpsql.Connection) -> None:
    """Another query, a dearer one, another salt, dataset or version: none of them was paid for."""
    asked, engine = priced(db), db.engine
    mark, version = fingerprint(asked, engine.emit(asked, SALT), engine.version(), DATASET), engine.version()
    others = [priced(db, SUM), priced(db, epsilon=2.0), priced(db, "SELECT k, count(*) FROM t WHERE x > 1 GROUP BY k")]
    for other in others:
        with pytest.raises(InternalError, match="does not cover"):
            engine.run(other, SALT, paid(engine, asked, SALT))
    salted = priced(db, "SELECT count(DISTINCT x) FROM t")
    with pytest.raises(InternalError, match="does not cover"):
        engine.run(salted, b"another salt", paid(engine, salted, SALT))
    with pytest.raises(InternalError, match="does not cover"):
        engine.run(asked, SALT, reserved(version=version))
    with pytest.raises(InternalError, match="does not cover"):
        engine.run(asked, SALT, reserved(mark, version=f"{version} bumped"))
    for elsewhere in ("", "another", f"{version}0"):
        found = fingerprint(asked, engine.emit(asked, SALT), elsewhere, DATASET)
        with pytest.raises(InternalError, match="another version"):
            engine.run(asked, SALT, reserved(found, version=elsewhere))


def test_a_reservation_is_used_once_for_each_release(db: dpsql.Connection) -> None:
    engine, both = db.engine, [priced(db), priced(db, SUM)]
    version = f"{engine.version()} bumped"
    marks = [fingerprint(each, engine.emit(each, SALT), version, DATASET) for each in both]
    made = reserved(*marks, version=version)
    for each in both:
        engine.run(each, SALT, made)
    for each in both:
        with pytest.raises(InternalError, match="used for it before"):
            engine.run(each, SALT, made)


def test_a_release_that_reads_another_is_run_over_what_was_released(db: dpsql.Connection) -> None:
    """It was paid for before the inner result was there; without one it is not run, and with one it is that release."""
    assert len(db.query(NESTED, epsilon=1.0)) == 1
    outer = db.prepare(NESTED, epsilon=1.0, mechanism="laplace").bill.releases[-1]
    with pytest.raises(InternalError, match="before what it reads"):
        run(db.engine, outer, SALT)


def test_each_engine_runs_through_the_one_check() -> None:
    """No engine has a `run` of its own, and what computes is called by the base and by the black-box audit only."""
    for path in (ROOT / "engines").rglob("engine.py"):
        classes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ClassDef)]
        engines = [c for c in classes if "Engine" in map(ast.unparse, c.bases)]
        methods = {n.name for c in engines for n in c.body if isinstance(n, ast.FunctionDef)}
        assert engines and "_compute" in methods and "run" not in methods, path
    named = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if any(isinstance(n, ast.Attribute) and n.attr == "_compute" for n in ast.walk(ast.parse(path.read_text())))
    }
    assert named == {"engines/base.py", "audit/blackbox/observations.py"}


def test_an_execution_without_a_reservation_reads_nothing(
    db: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if somebody forgot the charge: the engine stops it, and not only the order of two lines."""
    monkeypatch.setattr(DuckDBEngine, "_compute", lambda *_: pytest.fail("the data was read"))
    prepared = db.prepare(COUNT, epsilon=1.0)
    archive = db.accounts.archive(db.dataset)
    for given in (None, 3, reserved(), reserved(b"mark", version=db.data_version())):
        contents = NestedResults(db.dataset.finisher, prepared.plan.nested)
        execution = Execution(db.engine, archive, contents, SALT, False, prepared.bill)
        execution.look_up()
        with pytest.raises(InternalError):
            execution.run(given)  # type: ignore[arg-type]


# the steward's permit ---------------------------------------------------------------------------------------------------


def test_an_analyst_has_no_permit_to_trace(db: dpsql.Connection, steward: dpsql.Connection) -> None:
    assert isinstance(steward.permit_trace(), TracePermit)
    with connect() as nameless:
        for each in (db, nameless):
            with pytest.raises(PolicyError, match="for the steward only"):
                each.permit_trace()
            with pytest.raises(PolicyError, match="for the steward only"):
                dpsql.audit.trace(each, COUNT, salt=SALT)
    both = Connection(steward.engine, steward.policy, steward.ledger, "ana", steward=True)
    with pytest.raises(PolicyError, match="for the steward only"):
        both.permit_trace()


def test_a_trace_charges_nothing_and_needs_no_reservation(steward: dpsql.Connection) -> None:
    ledger: Ledger = steward.ledger
    before = list(ledger.log())
    [traced] = dpsql.audit.trace(steward, COUNT, salt=SALT)
    assert sum(traced.statistics[0].values) > 0 and list(ledger.log()) == before
