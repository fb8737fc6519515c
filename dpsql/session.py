"""The conductor: the one place where the stages meet, in the order of the design."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dpsql.budget import FREE, Caps, Charge, Cost, Ledger, Request, Spent, Standing, Stored, open_ledger, spent_as
from dpsql.budget.allocate import Bill, Funds, Priced, allocate, charge_of, choose_mechanism, cost_of, fund
from dpsql.budget.status import Account, BudgetStatus, budget_status
from dpsql.engines.base import Engine, PublicRows, Resources
from dpsql.engines.duckdb.lake import is_lake, is_path, tables_in
from dpsql.engines.isolated.engine import IsolatedEngine
from dpsql.engines.open import Source, open_engine
from dpsql.errors import BudgetExceeded, Error, InterfaceError, InternalError, ParseError, Pep249Errors, PolicyError
from dpsql.parse import Asked, Parameters, known_dialect, limit_text, meaning, parse_query, read_hints, read_setting
from dpsql.plan.build import build
from dpsql.plan.catalog import Catalog, Copies, PublicTable, make_catalog
from dpsql.plan.copies import copies_of
from dpsql.plan.plan import Plan
from dpsql.plan.views import put_views, with_visible_views
from dpsql.policy import Policy, fold, ledger_place, load_policy, to_decimal
from dpsql.policy.auto import Found, Subject
from dpsql.progress import patiently
from dpsql.release.bars import bar_columns
from dpsql.release.clipped import clipped_shares
from dpsql.release.enough import Stages, enough, shortfall
from dpsql.release.explain import Explanation, first_error, inner_notes, notes_of, release_plan, staged
from dpsql.release.finish import Finisher, finishing_sql
from dpsql.release.fit import fit_tables
from dpsql.release.least import cheapest, foreseeable
from dpsql.release.make import Made, Maker
from dpsql.release.noise import Released, public_table
from dpsql.release.recent import Few, Kept, Recent, reads_the_clock
from dpsql.release.replay import Archive
from dpsql.release.result import Result
from dpsql.release.tabulate import tabulate
from dpsql.release.target import Accuracy, Goal, reachable, read_goals
from dpsql.release.top import top_notes
from dpsql.search import Searches, before
from dpsql.sensitivity import bound
from dpsql.sensitivity.bound import Bounded
from dpsql.sensitivity.clipped import Check, checks_of
from dpsql.steward_log import failed
from dpsql.turns import at_a_multiple, in_turn

if TYPE_CHECKING:
    from dpsql.interfaces.dbapi import Cursor


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query up to the budget stage: planned, bounded, priced; nothing was touched or spent."""

    sql: str
    plan: Plan
    bill: Bill
    types: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    total: Cost | None = None

    @property
    def cost(self) -> Cost:
        """What it costs, with searches that come first."""
        return self.bill.cost if self.total is None else self.total


@dataclass(frozen=True)
class Draft:
    """A query before it has a price: planned and bounded, with the most that it may cost (`left`, if less)."""

    sql: str
    plan: Plan
    bounded: tuple[Bounded, ...]
    epsilon: Fraction
    delta: Fraction
    mechanism: str
    types: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    left: Fraction | None = None
    missing: tuple[Subject, ...] = ()
    notes: tuple[str, ...] = ()

    def at(self, bill: Bill) -> Prepared:
        """The query at a price."""
        return Prepared(self.sql, self.plan, bill, self.types, self.checks)

    def within(self, epsilon: Fraction) -> Prepared:
        """The query at a price that is split equally."""
        releases = [*self.bounded, *(check.bounded for check in self.checks)]
        return self.at(allocate(releases, epsilon, self.delta, self.mechanism))

    @cached_property
    def split(self) -> Prepared:
        """The query at the most that it may cost."""
        return self.within(self.most)

    @property
    def funds(self) -> Funds:
        """What it may cost, in the currency of its noise."""
        return fund(self.bounded, self.most, self.delta, self.mechanism)

    @property
    def most(self) -> Fraction:
        """The ε that it may cost."""
        return self.epsilon if self.left is None else min(self.left, self.epsilon)

    @property
    def stages(self) -> Stages:
        """The same for pilots and a main release together."""
        limit = fund(self.bounded, self.epsilon, self.delta, self.mechanism).price
        return Stages.out_of(self.bounded, self.funds, limit)


UNEXPECTED = "dpsql failed on this query, and stopped it: a fault of dpsql"
REPLAYED = "released before, but not for you (or this purpose): free for the dataset, counted once against your own cap"

PILOT = "{} charged first ({}): what was released, and at what price, follows from what that showed"
EARLIER = "an earlier release was used: what was released, and at what price, follows from what it showed"
ENOUGH = "answered from an earlier release, which is as exact as asked"
NOBODY = "no group had enough units to be shown: ask for fewer groups, or for a larger epsilon"

FITTED = "totals and their parts were fitted to each other (they agree up to rounding), which makes both more exact"


def _hidden(released: Mapping[str, Released]) -> bool:
    """Whether private keys were asked for and none was shown: a function of what was released."""
    return any(table.priced.threshold is not None and not table.keys for table in released.values())


class Connection(Pep249Errors):
    """A door for one analyst (or the steward) to one dataset: PEP 249, plus `query`, `explain` and `budget`."""

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        ledger: Ledger,
        analyst: str | None,
        *,
        steward: bool,
        purpose: str | None = None,
        dialect: str = "duckdb",
    ) -> None:
        self.policy, self.analyst, self.purpose, self.steward = policy, analyst, purpose, steward
        self._engine, self._ledger, self.dialect = engine, ledger, known_dialect(dialect)
        self.asked = Asked()
        self._recent, self._drafts = Recent(), Few[Draft]()
        self._turn = threading.RLock()
        self._closed = False
        self._seen: str | None = None

    # the flow -----------------------------------------------------------------------------------------------------

    @in_turn
    @patiently("asking the database")
    @at_a_multiple
    def query(
        self,
        sql: str,
        parameters: Parameters | None = None,
        *,
        epsilon: float | Decimal | None = None,
        delta: float | Decimal | None = None,
        mechanism: str | None = None,
        dialect: str | None = None,
        accuracy: Accuracy | None = None,
        nonnegative: bool = False,
        clipped: bool = False,
    ) -> Result:
        """Answer a query privately. `epsilon` and `delta` are the price of the whole query.

        `parameters` are the values of its placeholders: a sequence for `?`, `%s` or `$1`, a mapping for `:name`.

        With `accuracy` (`Within(100)`, "2%", or one of these for each column by name) the price is the least that
        gives it; the most that it may cost is `epsilon`, else the policy's limit for one query, or what is left.
        `clipped` spends a part of the price on how much the bounds cut off: `result.clipped`, and in `result.notes`.
        """
        with _about(sql):
            keywords = Asked(epsilon, delta, mechanism, dialect)
            asked = repr((sql, meaning(parameters), keywords, self.asked, self.dialect, nonnegative, clipped))
            if accuracy is None and (again := self._again(asked)) is not None:
                return again
            draft, goals = self._draft(sql, keywords, accuracy, parameters, clipped=clipped)
            paid, counted = self._search(draft)
            if draft.missing:
                draft, goals = self._draft(sql, keywords, accuracy, parameters, clipped=clipped)
            if goals:
                result = self._answer_as_exactly(draft, goals, nonnegative)
            else:
                result = self._answer(self._priced(draft, ()), nonnegative, None if draft.notes else asked)
            cost = draft.funds.plus(result.cost, paid)
            notes = dict.fromkeys((*result.notes, *draft.notes, *counted))
            return replace(result, cost=cost, replayed=result.replayed and paid == FREE, notes=tuple(notes))

    @in_turn
    def explain(
        self,
        sql: str,
        parameters: Parameters | None = None,
        *,
        epsilon: float | Decimal | None = None,
        delta: float | Decimal | None = None,
        mechanism: str | None = None,
        dialect: str | None = None,
        accuracy: Accuracy | None = None,
        clipped: bool = False,
    ) -> Explanation:
        """What the query would do and cost, at most. Touches no private data and spends nothing."""
        with _about(sql):
            chosen, remark = self._foresee(
                sql, Asked(epsilon, delta, mechanism, dialect), accuracy, parameters, clipped=clipped
            )
            other = "laplace" if chosen.bill.mechanism == "gaussian" else "gaussian"
            try:
                foreseen = self._foresee(
                    sql, Asked(epsilon, delta, other, dialect), accuracy, parameters, clipped=clipped
                )
                others = {other: self._explanation(*foreseen, {})}
            except Error:
                others = {}
            return self._explanation(chosen, remark, others)

    @in_turn
    def describe(self, sql: str, parameters: Parameters | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names and types of the answer's columns. Touches no private data and spends nothing."""
        with _about(sql):
            asked = repr((sql, meaning(parameters), Asked(), self.asked, self.dialect, False, False))
            kept = self._recent.get(asked)
            if kept is not None and kept.version == self.data_version():
                return kept.result.columns, kept.result.types
            draft, _ = self._draft(sql, Asked(), None, parameters=parameters)
            return tuple(output.name for output in draft.plan.outputs), draft.types

    def prepare(
        self,
        sql: str,
        epsilon: float | Decimal | None = None,
        delta: float | Decimal | None = None,
        mechanism: str | None = None,
        *,
        parameters: Parameters | None = None,
        clipped: bool = False,
    ) -> Prepared:
        """Parse, plan, bound and price: all that can refuse does so here, before anything is charged."""
        with _about(sql):
            draft, _ = self._draft(sql, Asked(epsilon, delta, mechanism), None, parameters, clipped=clipped)
            if draft.missing:
                raise InterfaceError(
                    f"not searched for yet: {', '.join(map(str, draft.missing))}",
                    hint="ask the query once, or let the steward run `dpsql bounds --search`",
                )
            return self._priced(draft, ())

    def _draft(
        self,
        sql: str,
        keywords: Asked,
        accuracy: Accuracy | None,
        parameters: Parameters | None = None,
        *,
        clipped: bool = False,
    ) -> tuple[Draft, tuple[Goal, ...]]:
        """A keyword goes before a hint in the SQL, a hint before a setting, that before the policy's default."""
        self._open()
        version = self._look_again()
        key = repr((sql, meaning(parameters), keywords, self.asked, self.dialect, clipped, version))
        if accuracy is None and (kept := self._drafts.get(key)) is not None:
            return kept, ()
        if clipped and accuracy is not None:
            raise InterfaceError("clipped= and accuracy= are two questions", hint="ask with one, then with the other")
        with _about(sql):
            limit_text(sql)
            asked = keywords.over(read_hints(sql)).over(self.asked)
            tree = parse_query(sql, parameters, known_dialect(asked.dialect or self.dialect))
            said = tree.sql("duckdb") if parameters else sql
            tree = put_views(tree, self._catalog)
            epsilon, delta = self._price(asked, accurate=accuracy is not None)
            chosen = choose_mechanism(_mechanism(asked.mechanism or self.policy.defaults.mechanism), delta)
            known = self.searches.knowledge(tree, self._catalog, chosen)
            plan = build(tree, known.catalog, self._finisher.check)
            bounded = tuple(bound(release, chosen, self._catalog.max_public_keys) for release in plan.releases)
            checks = checks_of(bounded, chosen) if clipped else ()
            types = self._finisher.check(plan)
            draft = Draft(said, plan, bounded, epsilon, delta, chosen, types, checks)
            if plan.releases:
                draft = replace(draft, missing=known.missing, notes=known.notes)
            if not (self._engine.live or known.found or known.missing or reads_the_clock(tree)):
                self._drafts.keep(key, draft)
            return draft, () if accuracy is None else read_goals(accuracy, reachable(plan))

    def _priced(self, draft: Draft, goals: Sequence[Goal]) -> Prepared:
        """At the least price that meets the goals; without goals, at the asked price."""
        with _about(draft.sql):
            if not goals:
                return draft.split
            return draft.at(cheapest(draft.bounded, draft.plan, goals, draft.funds))

    def _foresee(
        self,
        sql: str,
        keywords: Asked,
        accuracy: Accuracy | None,
        parameters: Parameters | None = None,
        *,
        clipped: bool = False,
    ) -> tuple[Prepared, str | None]:
        """The query as it would run, or where its price depends on answers, at the most that it may cost."""
        draft, goals = self._draft(sql, keywords, accuracy, parameters, clipped=clipped)
        if goals:
            with suppress(BudgetExceeded):
                draft = self._fitted(draft)
        if draft.missing:
            prepared, search = self._priced(draft, ()), self._search_cost(draft, draft.missing)
            total = draft.funds.plus(prepared.bill.cost, search)
            return replace(prepared, total=total), before(draft.missing, search)
        said = ", ".join(map(str, goals))
        if foreseeable(draft.plan, goals):
            return self._priced(draft, goals), f"the least that gives {said}" if goals else None
        pilot = draft.stages.pilots[0].cost
        remark = f"at most: a pilot ({pilot}, or more), or an earlier release, shows what {said} takes"
        return self._priced(draft, ()), remark

    def _search(self, draft: Draft) -> tuple[Cost, Sequence[str]]:
        """Search for what the query needs; refused as a whole if the query cannot follow or cannot be computed.

        What somebody else searched for is shown, like any other release, only after it was counted.
        """
        new = [subject for subject in draft.missing if self.searches.read(subject) is None]
        if new:
            for priced in draft.split.bill.releases:
                self._engine.emit(priced, None)
            bills = [draft.split.bill, *(self.searches.search(subject)[1] for subject in new)]
            charges = [charge for bill in bills if (charge := charge_of(bill.releases)) is not None]
            self._ledger.afford(self._request(draft.sql, reduce(add, charges), self._search_cost(draft, new), ()))
        made = [made for subject in draft.missing if (made := self.search(subject)) is not None]
        counted = [note for _, stored in made for each in stored for note in self._counted(each)]
        return self._search_cost(draft, new), counted

    def search(self, subject: Subject) -> tuple[Found | None, tuple[Stored, ...]] | None:
        """Search for the bounds of one subject, unless somebody did: charged as any release is."""
        if self.searches.read(subject) is None:
            plan, bill = self.searches.search(subject)
            self._release(Prepared(f"a private search: {subject}", plan, bill, ()))
        return self.searches.read(subject)

    def _search_cost(self, draft: Draft, subjects: Sequence[Subject]) -> Cost:
        bills = [self.searches.search(subject)[1] for subject in subjects]
        return reduce(draft.funds.plus, (bill.cost for bill in bills), FREE)

    def _again(self, asked: str) -> Result | None:
        """The answer to what this session asked before, while the ledger has its releases."""
        self._open()
        kept = self._recent.get(asked) if self.policy.replay else None
        if kept is None or kept.version != self.data_version():
            return None
        found = [(self._ledger.find(mark, self.policy.keep), entry) for mark, entry in kept.origins.items()]
        stored = [each for each, entry in found if each is not None and each.entry == entry]
        if len(stored) < len(kept.origins):
            return None
        notes = [note for each in stored for note in self._counted(each)]
        return replace(kept.result, cost=FREE, replayed=True, notes=(*kept.result.notes, *notes))

    def _answer(self, prepared: Prepared, nonnegative: bool, asked: str | None = None) -> Result:
        made = self._release(prepared)
        result = self._finished(prepared, made, nonnegative)
        if asked is not None and made.origins and not self._engine.live:
            self._recent.offer(asked, Kept(result, made.version, made.origins), prepared.plan)
        return replace(result, notes=(*result.notes, *made.counted))

    def _finished(self, prepared: Prepared, made: Made, nonnegative: bool) -> Result:
        released = {release.name: made.tables[release.name] for release in prepared.plan.releases}
        shares = clipped_shares(prepared.checks, made.tables)
        fitted = fit_tables(prepared.plan, released)
        bars = bar_columns(self._finisher, prepared.plan, fitted)
        columns = {name: tabulate(table, bars[name], nonnegative=nonnegative) for name, table in fitted.items()}
        table = self._finisher.run(prepared.plan, columns)
        names = tuple(output.name for output in prepared.plan.outputs)
        return Result(
            names,
            prepared.types,
            made.cost,
            made.replayed,
            prepared.bill.mechanism,
            (
                *notes_of([each.priced for each in released.values()], prepared.checks),
                *map(str, shares),
                *made.notes,
                *top_notes(prepared.plan),
                *inner_notes(prepared.plan),
                *prepared.plan.notes,
                *([NOBODY] if _hidden(released) else []),
                *([FITTED] if any(each.spread for each in fitted.values()) else []),
            ),
            shares,
            table,
            prepared.plan,
            released,
            bars,
            self._finisher,
            self.budget,
        )

    def _answer_as_exactly(self, draft: Draft, goals: Sequence[Goal], nonnegative: bool) -> Result:
        """From an earlier release that is exact enough; else at the least price, inside what is left."""
        earlier = self._earlier(draft, nonnegative)
        if earlier is not None and len(earlier) and not shortfall(earlier, goals):
            return replace(earlier, notes=(*earlier.notes, ENOUGH))
        if foreseeable(draft.plan, goals):
            return self._answer(self._least(draft, goals), nonnegative)
        try:
            fitted = draft if self._kept(draft.at(draft.stages.pilots[0])) else self._fitted(draft)
            return self._answer_in_stages(fitted, goals, nonnegative, earlier)
        except BudgetExceeded as refusal:
            if earlier is None:
                raise
            return replace(earlier, notes=(*earlier.notes, *shortfall(earlier, goals), f"no more: {refusal.message}"))

    def _least(self, draft: Draft, goals: Sequence[Goal]) -> Prepared:
        """The query at the least price, which has to fit into what is left unless it was released at that price."""
        with suppress(BudgetExceeded):
            prepared = self._priced(draft, goals)
            if self._kept(prepared):
                return prepared
        return self._priced(self._fitted(draft), goals)

    def _answer_in_stages(
        self, draft: Draft, goals: Sequence[Goal], nonnegative: bool, earlier: Result | None
    ) -> Result:
        """First releases, made before or pilots, until they show the price well enough; then, at it, the answer."""
        stages, shown = draft.stages, list[Result]()
        had = Fraction(0) if earlier is None else stages.worth(earlier._released.values())
        try:
            for price, ahead in zip(stages.rungs, (*stages.rungs[1:], None), strict=True):
                pilot = draft.at(stages.at(price))
                reused = earlier if price <= had and not self._kept(pilot) else None
                shown.append(reused or self._answer(pilot, nonnegative))
                verdict = enough(shown[-1], goals, stages)
                if ahead is None or not verdict.leaves(ahead):
                    break
            firsts, notes = tuple(shown), verdict.notes
            if verdict.price is not None and verdict.price > had:
                shown.append(self._answer(draft.at(stages.at(verdict.price)), nonnegative))
            elif earlier is not None:
                shown.append(earlier)
            notes = notes or shortfall(shown[-1], goals)
        except BudgetExceeded as refusal:
            if all(each.cost == FREE for each in shown):
                raise
            firsts, notes = tuple(shown), (f"this is the pilot only: {refusal.message}",)
        return self._together(draft, firsts, shown, notes)

    def _together(
        self, draft: Draft, firsts: Sequence[Result], shown: Sequence[Result], notes: tuple[str, ...]
    ) -> Result:
        """The last of some releases, with what all of them cost and a sentence about the first."""
        paid = reduce(draft.funds.plus, (each.cost for each in shown), FREE)
        pilots = [each.cost for each in firsts if each.cost != FREE]
        many = "a pilot was" if len(pilots) == 1 else f"{len(pilots)} pilots were"
        told = PILOT.format(many, reduce(draft.funds.plus, pilots, FREE)) if pilots else EARLIER
        counted = [note for each in firsts for note in each.notes if note.startswith(REPLAYED)]
        said = dict.fromkeys((*counted, told, *shown[-1].notes, *notes))
        return replace(shown[-1], cost=paid, replayed=paid == FREE, notes=tuple(said))

    def _earlier(self, draft: Draft, nonnegative: bool) -> Result | None:
        """The query from the most exact releases that the analyst already has, if there are any for all of it."""
        prepared = draft.at(draft.stages.pilots[0])
        archive = self._archive(self._ledger.salt())
        asked = [priced for priced in prepared.bill.releases if self.policy.replay and not priced.free]
        found = {p.bounded.release.name: each for p in asked if (each := archive.best(p)) is not None}
        if not asked or len(found) < len(asked):
            return None
        tables = {p.bounded.release.name: public_table(p) for p in prepared.bill.releases if p.free}
        tables |= {name: each.released for name, each in found.items()}
        notes = tuple(dict.fromkeys(note for each in found.values() for note in each.notes))
        origins = {each.mark: each.stored.entry for each in found.values()}
        return self._finished(prepared, Made(tables, FREE, True, notes, (), origins, archive.version), nonnegative)

    def _kept(self, prepared: Prepared) -> bool:
        """Does the ledger have all of it?"""
        archive = self._archive(self._ledger.salt())
        paid = [priced for priced in prepared.bill.releases if not priced.free]
        return bool(self.policy.replay) and all(self._ledger.find(archive.mark(p), self.policy.keep) for p in paid)

    def _fitted(self, draft: Draft) -> Draft:
        """The query with no more than is left: refused before a pilot only if that is next to nothing."""
        stages = draft.stages
        charges = [charge_of(bill.releases) for bill in (*stages.pilots, stages.at(stages.most))]
        whole = reduce(add, (charge for charge in charges if charge is not None))
        try:
            self._ledger.afford(self._request(draft.sql, whole, draft.split.bill.cost, ()))
        except BudgetExceeded as refusal:
            if refusal.fits is None:
                raise
            return replace(draft, left=Fraction(str(refusal.fits)))
        return draft

    def _release(self, prepared: Prepared) -> Made:
        """Replay what was released before; charge for the rest, durably, and only then run it."""
        salt = self._ledger.salt()
        maker = Maker(
            self._engine,
            self._archive(salt),
            self._finisher,
            salt,
            bool(self.policy.replay),
            self._counted,
            lambda missing: self._reserve(prepared, missing),
            self.policy.limits.seconds,
        )
        alone = frozenset(check.bounded.release.name for check in prepared.checks)
        return maker.make(prepared.bill, prepared.plan.nested, alone)

    def _archive(self, salt: bytes) -> Archive:
        return Archive(
            self._ledger,
            lambda priced: self._engine.emit(priced, salt),
            self.policy.dataset,
            self.data_version(),
            self._catalog.max_public_keys,
            self.analyst,
            self.policy.keep,
            self.purpose,
        )

    def _counted(self, stored: Stored) -> tuple[str, ...]:
        """Count another analyst's release against this one's cap, once, and say so."""
        caps = self._caps(self.analyst)
        if not self._ledger.replayed(
            stored.entry, self.analyst, self._analyst_caps, stored.number, self.purpose, self._purpose_caps
        ):
            return ()
        return (f"{REPLAYED} ({spent_as(caps, Spent().after(stored.charge), self._conversion())})",)

    def _reserve(self, prepared: Prepared, missing: Mapping[bytes, Priced]) -> int | None:
        releases = list(missing.values())
        charge = charge_of(releases)
        if charge is None:
            return None
        request = self._request(prepared.sql, charge, cost_of(prepared.bill, releases), tuple(missing))
        return self._ledger.reserve(replace(request, error=first_error(releases, prepared.bill.mechanism)))

    def _request(self, sql: str, charge: Charge, cost: Cost, marks: tuple[bytes, ...]) -> Request:
        """A charge against every account that this session has."""
        everyone, own, purpose = self._caps(None), self._analyst_caps, self._purpose_caps
        return Request(self.analyst, charge, cost, everyone, own, sql, marks, self.purpose, purpose)

    # the price of the next queries ----------------------------------------------------------------------------------

    @in_turn
    def ask(self, asked: Asked) -> None:
        """What queries ask for from now on, unless they say it themselves; never above the policy's limits."""
        self._open()
        self._price(asked)
        _mechanism(asked.mechanism or "auto")
        self.asked = asked

    @in_turn
    def settle(self, sql: str) -> bool:
        """Take in `SET dpsql.epsilon = 0.2` (also delta, mechanism) or `RESET`; whether the text was one of them."""
        asked = read_setting(sql, self.asked)
        if asked is not None:
            self.ask(asked)
        return asked is not None

    # the account ----------------------------------------------------------------------------------------------------

    @in_turn
    def budget(self) -> BudgetStatus:
        """Caps, spent and remaining, for this analyst (and purpose) and for everyone, and what the rest would buy."""
        self._open()
        last = self._ledger.last(self.analyst, self.purpose)
        names, limit = (self.analyst, self.purpose), self.policy.limits.epsilon
        return budget_status(self._standings(), names, last, self._conversion(), limit)

    def _standings(self) -> list[Standing | None]:
        """Everyone's account, the analyst's and the purpose's; None where there is none."""
        own, purpose = self._analyst_caps, self._purpose_caps
        return [
            self._ledger.standing(None, self._caps(None)),
            None if own is None else self._ledger.standing(self.analyst, own),
            None if purpose is None else self._ledger.standing(self.analyst, purpose, self.purpose),
        ]

    def _conversion(self) -> Decimal:
        """The δ at which ε stands for ρ in a query that asks for nothing special; 0 where its noise is Laplace's."""
        delta = self._default_delta
        return Decimal(0) if self.policy.defaults.mechanism == "laplace" else delta

    def _caps(self, who: str | None, purpose: str | None = None) -> Caps:
        return Caps(*self.policy.caps(who, purpose))

    @property
    def _analyst_caps(self) -> Caps | None:
        return None if self.analyst is None else self._caps(self.analyst)

    @property
    def _purpose_caps(self) -> Caps | None:
        return None if self.purpose is None else self._caps(self.analyst, self.purpose)

    @property
    def _default_delta(self) -> Decimal:
        """The policy's default, but none where the analyst's own cap allows none."""
        return min(self.policy.defaults.delta, self.policy.caps(self.analyst, self.purpose).delta)

    def _price(self, keywords: Asked, *, accurate: bool = False) -> tuple[Fraction, Fraction]:
        """The asked price, inside what the policy allows for one query; with an accuracy, the most it may be."""
        limits, defaults, epsilon, delta = self.policy.limits, self.policy.defaults, keywords.epsilon, keywords.delta
        most = (
            min(limits.epsilon, self.policy.caps(self.analyst, self.purpose).epsilon) if accurate else defaults.epsilon
        )
        asked = Fraction(_number(epsilon, "epsilon")) if epsilon is not None else Fraction(most)
        slack = Fraction(_number(delta, "delta")) if delta is not None else Fraction(self._default_delta)
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
        return self._catalog_of(self.policy, self.analyst)

    @cached_property
    def _whole_catalog(self) -> Catalog:
        """The steward's."""
        return self._catalog_of(self.policy, None)

    def uncopied_catalog(self) -> Catalog:
        """The steward's, without prepared copies: what copies are made of."""
        return make_catalog(self.policy, self._engine.schema(), self._facts(), None, self._engine.public)

    def _facts(self) -> frozenset[tuple[str, str]]:
        """What may be relied on: by constraints, or verified for this version of the data."""
        facts = self._engine.constraints(self.policy)
        if self._engine.verifiable:
            facts |= {(fold(table), fact) for table, fact in self._ledger.facts(self.data_version())}
        return facts

    def _catalog_of(self, policy: Policy, analyst: str | None) -> Catalog:
        facts = self._facts()
        copies = self._copies(facts)
        catalog = make_catalog(policy, self._engine.schema(), facts, analyst, self._engine.public, copies)
        return with_visible_views(catalog, policy.view_queries)

    def _copies(self, facts: frozenset[tuple[str, str]]) -> Copies | None:
        """The tables that are bounded at rest, or why their copies are refused; None where no copies are read."""
        stamp = self._engine.copies
        return None if stamp is None else copies_of(self.policy, facts, stamp, self._engine.copies_content)

    @cached_property
    def searches(self) -> Searches:
        """The private searches for bounds that the policy leaves open."""
        return Searches(
            self.policy,
            self._ledger,
            Fraction(self._default_delta),
            lambda policy: self._catalog_of(policy, self.analyst),
            lambda: self._whole_catalog,
            lambda: self._archive(self._ledger.salt()),
            lambda stored: self._ledger.owed(stored, self.analyst, self.purpose),
            self._finisher.check,
        )

    @cached_property
    def _finisher(self) -> Finisher:
        return Finisher(self._read_public, self.policy.limits.memory, self.policy.limits.seconds)

    def _look_again(self) -> str:
        """Where others may write, what was known about tables and constraints is asked anew for each query.

        Facts and copies belong to a version of the data, which is returned: after a bump they are looked up again.
        """
        version = self.data_version()
        if self._engine.live:
            self._engine.look_again()
            self._finisher.forget()
        if self._engine.live or version != self._seen:
            self.__dict__.pop("_catalog", None)
            self.__dict__.pop("_whole_catalog", None)
            self._seen = version
        return version

    def _read_public(self, name: str) -> PublicRows:
        table = self._catalog.find(name)
        assert isinstance(table, PublicTable)
        return self._engine.read_public(table.name, table.columns)

    def _explanation(
        self, prepared: Prepared, remark: str | None, alternatives: Mapping[str, Explanation]
    ) -> Explanation:
        seen = self._catalog.veiled
        shown = [release_plan(p, "" if p.free else seen(self._engine.emit(p, None))) for p in prepared.bill.releases]
        releases, nested = staged(shown, prepared.plan)
        return Explanation(
            prepared.cost,
            prepared.bill.mechanism,
            releases,
            alternatives,
            finishing_sql(prepared.plan),
            tuple(o.name for o in prepared.plan.outputs),
            prepared.types,
            (
                *notes_of(prepared.bill.releases, prepared.checks),
                *inner_notes(prepared.plan),
                *top_notes(prepared.plan),
                *prepared.plan.notes,
            ),
            remark,
            prepared.plan,
            prepared.bill,
            nested,
        )

    # PEP 249 --------------------------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        """A PEP 249 cursor."""
        from dpsql.interfaces.dbapi import Cursor

        self._open()
        return Cursor(self)

    def commit(self) -> None:
        """Nothing to do: every charge is durable by itself."""
        self._open()

    def rollback(self) -> None:
        """Nothing can be undone: what was released was released."""
        self._open()

    @in_turn
    def close(self) -> None:
        """Let go of the database and the ledger."""
        if not self._closed:
            self.release()
            self._ledger.close()

    def release(self) -> None:
        """Let go of the database only: the ledger is another's too."""
        self._closed = True
        if "_finisher" in self.__dict__:
            self._finisher.close()
        self._engine.close()

    @property
    def pad(self) -> float | None:
        """Replies come at multiples of so many seconds, if the policy says so."""
        return self.policy.limits.pad

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
    purpose: str | None = None,
    steward: bool = False,
    dialect: str = "duckdb",
    isolate: bool = False,
) -> Connection:
    """Open a dataset: a DuckDB file or connection, a directory, names of frames and files, or a database server's.

    `purpose` is one of those that the policy lists for the analyst, if it lists any; `dialect` is the SQL that queries
    are written in, "duckdb" or "postgres". With `isolate` the database is opened by a process of its own, which hands
    out exact integers, and never by this one.

    The ledger stands beside the policy file unless it or the policy is told otherwise; with a policy that is not a
    file it must be named: a file, "postgresql://…" for one that servers share, or ":memory:" for a throw-away one,
    whose promise ends with the process.
    """
    if steward and analyst is not None:
        raise InterfaceError(
            "a connection is either an analyst's or the steward's", hint="give analyst= or steward=True"
        )
    known_dialect(dialect)
    loaded = load_policy(policy if not isinstance(policy, os.PathLike) else Path(policy))
    if analyst is None and not steward and loaded.budget.analysts and "analyst" not in tuple(loaded.budget.analysts):
        raise PolicyError(
            f"the policy of {loaded.dataset} lists who may ask, and no name was given",
            hint="give a name listed in budget.analysts: analyst=… in Python, --analyst on the command line",
        )
    name = None if steward else analyst or "analyst"
    loaded.check_purpose(name, purpose)
    limits = Resources(loaded.limits.memory, loaded.limits.spill)
    place = _ledger_at(policy, loaded, ledger)
    source = tables_in(Path(source), loaded.tables) if is_lake(source) else source
    copies = copies_path(loaded, place, source)
    engine = IsolatedEngine(source, limits, loaded, copies) if isolate else open_engine(source, limits, loaded, copies)
    try:
        opened = open_ledger(place, loaded.dataset)
    except BaseException:
        engine.close()
        raise
    return Connection(engine, loaded, opened, name, steward=steward, purpose=purpose, dialect=dialect)


@contextmanager
def _about(sql: str) -> Iterator[None]:
    """Refusals carry the text that they point into; nothing but dpsql's own errors comes out."""
    try:
        yield
    except Error as error:
        if error.sql is None:
            error.sql = sql
        raise
    except RecursionError:
        raise ParseError("the query is nested too deeply", hint="split it into CTEs") from None
    except Exception as problem:
        failed("a query failed unexpectedly", problem)
        raise InternalError(UNEXPECTED, hint="the steward's log has the kind of failure; please report it") from None


def _ledger_at(policy: object, loaded: Policy, ledger: str | os.PathLike[str] | None) -> str | Path:
    place = ledger_place(loaded, policy if isinstance(policy, str | os.PathLike) else None, ledger)
    if place is None:
        raise InterfaceError(
            "where should the ledger be?",
            hint='name a file, ledger="shop.ledger", or ledger=":memory:" for a throw-away',
        )
    return place


def copies_path(policy: Policy, ledger: str | Path, source: object) -> Path | None:
    """The file of the prepared copies of a policy: beside the ledger that knows them. Only files are copied."""
    files = all(map(is_path, source.values())) if isinstance(source, Mapping) else is_path(source)
    stored = str(ledger) != ":memory:" and "://" not in f"{ledger} {source}"
    return Path(ledger).with_name(f"{policy.dataset}.prepared") if policy.prepared and files and stored else None


def _number(value: float | Decimal, name: str) -> Decimal:
    try:
        return to_decimal(value)
    except ValueError as problem:
        raise PolicyError(f"{name} = {value!r} is no price: {problem}", hint=f"write {name}=0.5, for example") from None


def _mechanism(name: str) -> str:
    if name not in ("auto", "laplace", "gaussian"):
        raise InterfaceError(f"there is no mechanism {name!r}", hint="use laplace, gaussian or auto")
    return name


__all__ = ["Account", "BudgetStatus", "Connection", "Prepared", "connect"]
