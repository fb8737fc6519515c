"""The conductor: the one place where the stages meet, in the order of the design."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dpsql.budget import Caps, Cost, Ledger, Request, open_ledger, remaining, spent_as
from dpsql.budget.allocate import Bill, Priced, allocate, charge_of, choose_mechanism, cost_of
from dpsql.engines.base import Engine
from dpsql.engines.duckdb.engine import DuckDBEngine, Source
from dpsql.errors import Error, InterfaceError, ParseError, PolicyError
from dpsql.parse import parse_query
from dpsql.plan.build import build
from dpsql.plan.catalog import Catalog, PublicTable, make_catalog
from dpsql.plan.plan import Plan
from dpsql.policy import Policy, load_policy, to_decimal
from dpsql.release.explain import Explanation, notes_of, release_plan
from dpsql.release.finish import Finisher, finishing_sql
from dpsql.release.noise import Released, add_noise, public_table
from dpsql.release.result import Result
from dpsql.release.stored import fingerprint, pack, unpack
from dpsql.release.tabulate import tabulate
from dpsql.sensitivity import bound

if TYPE_CHECKING:
    import pandas as pd

    from dpsql.interfaces.dbapi import Cursor


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query up to the budget stage: planned, bounded, priced; nothing was touched or spent."""

    sql: str
    plan: Plan
    bill: Bill
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """What one account may spend, has spent, and has left."""

    caps: Cost
    spent: Cost
    remaining: Cost


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """This analyst's account inside the dataset's; only the dataset's promise survives analysts who pool answers."""

    dataset: Account
    analyst: Account | None
    name: str | None

    def __str__(self) -> str:
        rows = [("dataset", self.dataset), *([(self.name or "", self.analyst)] if self.analyst is not None else [])]
        return "\n".join(f"{n}: spent {a.spent} of {a.caps}; left for one query: {a.remaining}" for n, a in rows)


REPLAYED = "another analyst asked this before: free for the dataset, and counted once against your own cap"

NOBODY = "no group had enough units to be shown: ask for fewer groups, or for a larger epsilon"


def _hidden(released: Mapping[str, Released]) -> bool:
    """Whether private keys were asked for and none was shown: a function of what was released."""
    return any(table.priced.threshold is not None and not table.keys for table in released.values())


class Connection:
    """A door for one analyst (or the steward) to one dataset: PEP 249, plus `query`, `explain` and `budget`."""

    def __init__(self, engine: Engine, policy: Policy, ledger: Ledger, analyst: str | None, *, steward: bool) -> None:
        self.policy, self.analyst, self.steward = policy, analyst, steward
        self._engine, self._ledger = engine, ledger
        self._closed = False

    # the flow -----------------------------------------------------------------------------------------------------

    def query(
        self,
        sql: str,
        *,
        epsilon: float | Decimal | None = None,
        delta: float | Decimal | None = None,
        mechanism: str | None = None,
        nonnegative: bool = False,
    ) -> Result:
        """Answer a query privately. `epsilon` and `delta` are the price of the whole query."""
        prepared = self.prepare(sql, epsilon, delta, mechanism)
        released, cost, replayed, notes = self._release(prepared)
        columns = {name: tabulate(table, nonnegative=nonnegative) for name, table in released.items()}
        table = self._finisher.run(prepared.plan, columns)
        names = tuple(output.name for output in prepared.plan.outputs)
        return Result(
            names,
            prepared.types,
            cost,
            replayed,
            prepared.bill.mechanism,
            (*notes_of(prepared.bill), *notes, *([NOBODY] if _hidden(released) else [])),
            table,
            prepared.plan,
            released,
            self._finisher,
        )

    def explain(
        self,
        sql: str,
        *,
        epsilon: float | Decimal | None = None,
        delta: float | Decimal | None = None,
        mechanism: str | None = None,
    ) -> Explanation:
        """What the query would do and cost. Touches no private data and spends nothing."""
        chosen = self.prepare(sql, epsilon, delta, mechanism)
        other = "laplace" if chosen.bill.mechanism == "gaussian" else "gaussian"
        try:
            others = {other: self._explanation(self.prepare(sql, epsilon, delta, other), {})}
        except Error:
            others = {}
        return self._explanation(chosen, others)

    def prepare(
        self, sql: str, epsilon: float | Decimal | None, delta: float | Decimal | None, mechanism: str | None
    ) -> Prepared:
        """Parse, plan, bound and price: all that can refuse does so here, before anything is charged."""
        self._open()
        asked = self._price(epsilon, delta)
        try:
            plan = build(parse_query(sql), self._catalog)
            chosen = choose_mechanism(_mechanism(mechanism or self.policy.defaults.mechanism), asked[1])
            bounded = [bound(release, chosen, self._catalog.max_public_keys) for release in plan.releases]
            bill = allocate(bounded, *asked, chosen)
            return Prepared(sql, plan, bill, self._finisher.check(plan))
        except Error as error:
            error.sql = sql
            raise
        except RecursionError:
            raise ParseError("the query is nested too deeply", hint="split it into CTEs") from None

    def _release(self, prepared: Prepared) -> tuple[dict[str, Released], Cost, bool, tuple[str, ...]]:
        """Replay what was released before; charge for the rest, durably, and only then run it."""
        salt = self._ledger.salt()
        done: dict[str, Released] = {}
        counted = False
        missing: list[tuple[Priced, bytes]] = []
        for priced in prepared.bill.releases:
            name = priced.bounded.release.name
            if priced.free:
                done[name] = public_table(priced)
                continue
            mark = fingerprint(priced, self._engine.emit(priced, salt), self.data_version(), self.policy.dataset)
            found = self._ledger.find(mark) if self.policy.replay else None
            if found is None:
                missing.append((priced, mark))
            else:
                caps = self._caps(self.analyst) if self.analyst else None
                counted |= self._ledger.replayed(found.entry, self.analyst, caps)
                done[name] = unpack(found.payload, priced)
        entry = self._reserve(prepared, missing)
        for priced, mark in missing:
            released = add_noise(priced, self._engine.run(priced, salt))
            done[priced.bounded.release.name] = released
            if entry is not None:
                self._ledger.store(entry, mark, pack(released))
        cost = cost_of(prepared.bill, [priced for priced, _ in missing])
        replayed = entry is None and not all(p.free for p in prepared.bill.releases)
        return done, cost, replayed, (REPLAYED,) if counted else ()

    def _reserve(self, prepared: Prepared, missing: Sequence[tuple[Priced, bytes]]) -> int | None:
        charge = charge_of([priced for priced, _ in missing])
        if charge is None:
            return None
        cost = cost_of(prepared.bill, [priced for priced, _ in missing])
        analyst_caps = self._caps(self.analyst) if self.analyst is not None else None
        return self._ledger.reserve(
            Request(
                self.analyst, charge, cost, self._caps(None), analyst_caps, prepared.sql, tuple(m for _, m in missing)
            )
        )

    # the account ----------------------------------------------------------------------------------------------------

    def budget(self) -> BudgetStatus:
        """Caps, spent and remaining, for this analyst and for the dataset."""
        self._open()
        analyst = None if self.analyst is None else self._account(self.analyst)
        return BudgetStatus(self._account(None), analyst, self.analyst)

    def _account(self, who: str | None) -> Account:
        caps, spent = self._ledger.in_force(who, self._caps(who)), self._ledger.spent(who)
        return Account(Cost(float(caps.epsilon), float(caps.delta), 0.0), spent_as(caps, spent), remaining(caps, spent))

    def _caps(self, who: str | None) -> Caps:
        return Caps(*self.policy.caps(who))

    def _price(self, epsilon: float | Decimal | None, delta: float | Decimal | None) -> tuple[Fraction, Fraction]:
        """The asked price, inside what the policy allows for one query."""
        limits, defaults = self.policy.limits, self.policy.defaults
        asked = Fraction(_number(epsilon, "epsilon")) if epsilon is not None else Fraction(defaults.epsilon)
        slack = Fraction(_number(delta, "delta")) if delta is not None else Fraction(defaults.delta)
        if asked <= 0 or not 0 <= slack < 1:
            raise PolicyError(
                f"epsilon = {epsilon} and delta = {delta} are not a price",
                hint="epsilon is above 0, delta at least 0 and below 1",
            )
        for name, value, limit in (("epsilon", asked, limits.epsilon), ("delta", slack, limits.delta)):
            if value > Fraction(limit):
                raise PolicyError(
                    f"one query may ask for {name} up to {limit}, not {float(value):g}",
                    hint=f"ask for {name}={limit} or less",
                )
        return asked, slack

    # parts ----------------------------------------------------------------------------------------------------------

    def data_version(self) -> str:
        """The public label of the data: the engine's, and the steward's own where `dpsql data bump` gave one."""
        return " ".join(part for part in (self._engine.version(), self._ledger.label()) if part)

    @cached_property
    def _catalog(self) -> Catalog:
        facts = self._engine.constraints(self.policy)
        if self._engine.verifiable:
            facts |= {(table.lower(), fact) for table, fact in self._ledger.facts(self.data_version())}
        return make_catalog(self.policy, self._engine.schema(), facts, self.analyst, self._engine.public)

    @cached_property
    def _finisher(self) -> Finisher:
        return Finisher(self._read_public)

    def _read_public(self, name: str) -> pd.DataFrame:
        table = self._catalog.find(name)
        assert isinstance(table, PublicTable)
        return self._engine.read_public(table.name, table.columns)

    def _explanation(self, prepared: Prepared, alternatives: Mapping[str, Explanation]) -> Explanation:
        releases = tuple(release_plan(p, "" if p.free else self._engine.emit(p, None)) for p in prepared.bill.releases)
        return Explanation(
            prepared.bill.cost,
            prepared.bill.mechanism,
            releases,
            alternatives,
            finishing_sql(prepared.plan),
            tuple(o.name for o in prepared.plan.outputs),
            prepared.types,
            notes_of(prepared.bill),
        )

    # PEP 249 --------------------------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        """A PEP 249 cursor."""
        from dpsql.interfaces.dbapi import Cursor

        self._open()
        return Cursor(self)

    def commit(self) -> None:
        """Nothing to do: every charge is durable by itself."""

    def rollback(self) -> None:
        """Nothing can be undone: what was released was released."""

    def close(self) -> None:
        """Let go of the database and the ledger."""
        if not self._closed:
            self._closed = True
            if "_finisher" in self.__dict__:
                self._finisher.close()
            self._engine.close()
            self._ledger.close()

    def _open(self) -> None:
        if self._closed:
            raise InterfaceError("this connection is closed", hint="open one with dpsql.connect(…)")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    source: Source,
    *,
    policy: str | os.PathLike[str] | Mapping[str, Any] | Policy,
    ledger: str | os.PathLike[str] | None = None,
    analyst: str | None = None,
    steward: bool = False,
) -> Connection:
    """Open a dataset: a DuckDB file, a DuckDB connection, or a mapping of names to frames and files.

    The ledger stands beside the policy file unless named; with a policy that is not a file it must be named
    (":memory:" for a throw-away one, whose promise ends with the process).
    """
    if steward and analyst is not None:
        raise InterfaceError(
            "a connection is either an analyst's or the steward's", hint="give analyst= or steward=True"
        )
    loaded = load_policy(policy if not isinstance(policy, os.PathLike) else Path(policy))
    name = None if steward else analyst or "analyst"
    loaded.caps(name)
    engine = DuckDBEngine(source)
    try:
        opened = open_ledger(_ledger_path(policy, loaded, ledger), loaded.dataset)
    except BaseException:
        engine.close()
        raise
    return Connection(engine, loaded, opened, name, steward=steward)


def _ledger_path(policy: object, loaded: Policy, ledger: str | os.PathLike[str] | None) -> str | Path:
    if ledger is not None:
        return ":memory:" if str(ledger) == ":memory:" else Path(ledger)
    if isinstance(policy, str | os.PathLike):
        return Path(policy).parent / f"{loaded.dataset}.ledger"
    raise InterfaceError(
        "where should the ledger be?", hint='name a file, ledger="shop.ledger", or ledger=":memory:" for a throw-away'
    )


def _number(value: float | Decimal, name: str) -> Decimal:
    try:
        return to_decimal(value)
    except Exception as problem:
        raise PolicyError(f"{name} = {value!r} is not a number", hint=f"write {name}=0.5, for example") from problem


def _mechanism(name: str) -> str:
    if name not in ("auto", "laplace", "gaussian"):
        raise InterfaceError(f"there is no mechanism {name!r}", hint="use laplace, gaussian or auto")
    return name


__all__ = ["Account", "BudgetStatus", "Connection", "Prepared", "connect"]
