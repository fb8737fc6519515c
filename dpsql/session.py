"""A connection, and the conductor behind it: the one place where the stages of a query meet.

    parse → plan → bound → price → charge → run → noise → finish

`Conductor` has them in this order: `draft` parses, plans and bounds; `Draft.priced` prices; `release` charges and only
then runs, and what the engine gives gets its noise before it goes anywhere; `answer` finishes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from dpsql.accounts import Accounts, known_mechanism, price_of
from dpsql.accuracy_first import AccuracyFirst
from dpsql.answers.accuracy import Goal, foreseeable, reachable, read_goals
from dpsql.answers.cache import AnswerCache, BoundedCache, CachedAnswer
from dpsql.answers.execute import Executed, Execution
from dpsql.answers.explain import Explanation, explained
from dpsql.answers.nested_results import NestedResults
from dpsql.answers.result import Result, finished
from dpsql.budget import FREE, Cost, Ledger, StoredRelease
from dpsql.budget.ledger.reservation import PERMIT, TracePermit
from dpsql.budget.pricing import choose_mechanism, fund
from dpsql.budget.status import BudgetStatus
from dpsql.connection_decorators import padded_reply, serialized
from dpsql.dataset import Dataset, ledger_at, name_in, open_data
from dpsql.engines.base import Engine
from dpsql.engines.open_engine import Source
from dpsql.errors import BudgetExceeded, Error, InterfaceError, Pep249Errors, PolicyError
from dpsql.mechanisms.exact_numbers import UNIT, float_up
from dpsql.mechanisms.zcdp_conversion import pure_rho
from dpsql.options import QueryKeywords, QueryOptions
from dpsql.plan.clock import MOMENT_NOTE, bind_clock, now, reads_the_clock, reads_the_moment
from dpsql.plan.constant_expressions import compute_constants
from dpsql.plan.constant_tables import write_out_tables
from dpsql.plan.view_expansion import put_views
from dpsql.policy import Policy, load_policy
from dpsql.policy.searched_subjects import FoundBounds, Subject
from dpsql.progress import with_spinner
from dpsql.query_draft import Draft, ParsedQuery, PreparedQuery, Question
from dpsql.search.open_bounds import BoundSearches, before
from dpsql.search.searcher import Searcher, naming_searches
from dpsql.sensitivity.clip_checks import checks_of
from dpsql.sql import Parameters, known_dialect, limit_text, parse_query, read_hints, read_setting
from dpsql.steward_log import error_boundary

if TYPE_CHECKING:
    from dpsql.interfaces.dbapi import Cursor

_PERMIT = PERMIT.take()


@dataclass(frozen=True, slots=True)
class Conductor:
    """Leads queries over one dataset, for one set of accounts, through all stages; it caches drafts and answers."""

    dataset: Dataset
    accounts: Accounts
    drafts: BoundedCache[Draft] = field(default_factory=BoundedCache)
    answers: AnswerCache = field(default_factory=AnswerCache)

    @property
    def searcher(self) -> Searcher:
        """The private searches that may come before a query."""
        return Searcher(self.dataset, self.accounts)

    def query(self, question: Question) -> Result:
        """The answer to a question. Searches that it needs are made first; each is charged like any release."""
        options = question.options
        if options.accuracy is None and (cached := self.cached_answer(question.key)) is not None:
            return cached
        draft, goals = self.draft(question)
        paid, counted = self.search_first(draft)
        with naming_searches(draft):
            if draft.missing:
                draft, goals = self.draft(question)
                more, others = self.search_first(draft)
                paid, counted = draft.funds.plus(paid, more), (*counted, *others)
            if draft.unsearched:
                draft, goals = self.draft(question)
            if goals:
                result = AccuracyFirst(self, self.accounts).answer(draft, goals, options.nonnegative)
            else:
                key = None if draft.notes or draft.timed else question.key
                result = self.answer(draft.priced(), options.nonnegative, key)
        cost = draft.funds.plus(result.cost, paid)
        notes = dict.fromkeys((*result.notes, *draft.notes, *counted))
        return replace(result, cost=cost, replayed=result.replayed and paid == FREE, notes=tuple(notes))

    # parse, plan, bound ---------------------------------------------------------------------------------------------

    def draft(self, question: Question, parsed: ParsedQuery | None = None) -> tuple[Draft, tuple[Goal, ...]]:
        """The planned and bounded query, and the accuracy that it needs. Reads no private data and charges nothing.

        A draft that was made before is used again while it is valid. `parsed` is the query as another mechanism
        has it.
        """
        key = question.plan_key(self.dataset.look_again(), self.accounts.own_caps)
        accuracy, clipped = question.options.accuracy, question.options.clipped
        if accuracy is None and (kept := self.drafts.get(key)) is not None:
            return kept, ()
        if clipped and accuracy is not None:
            raise InterfaceError("clipped= and accuracy= cannot be combined", hint="ask with one, then with the other")
        with error_boundary(question.sql):
            parsed = self._parse(question) if parsed is None else parsed
            draft, lasting = self._bound(question, parsed)
            if lasting:
                self.drafts.keep(key, draft)
            return draft, () if accuracy is None else read_goals(accuracy, reachable(draft.plan))

    def _parse(self, question: Question) -> ParsedQuery:
        """The syntax tree. An option overrides a hint in the SQL, and a hint overrides a setting."""
        limit_text(question.sql)
        options = read_hints(question.sql).over(question.settings)
        dialect = question.options.over(options).dialect or question.dialect
        tree = parse_query(question.sql, question.parameters, known_dialect(dialect))
        text = tree.sql("duckdb") if question.parameters else question.sql
        catalog, finisher = self.dataset.catalog, self.dataset.finisher
        tree = put_views(tree, catalog)
        timed = reads_the_clock(tree)
        notes = (MOMENT_NOTE,) if timed and reads_the_moment(tree) else ()
        tree = bind_clock(tree, question.moment) if timed else tree
        tree = write_out_tables(tree, finisher.constants)
        tree = compute_constants(tree, finisher.constants)
        return ParsedQuery(text, tree, options, catalog, finisher, timed, notes)

    def _bound(self, question: Question, parsed: ParsedQuery) -> tuple[Draft, bool]:
        """The draft, and whether it stays the same for this question and this version of the data."""
        options = question.options.over(parsed.options)
        asked = price_of(options, self.accounts, accurate=options.accuracy is not None)
        named = known_mechanism(options.mechanism or self.accounts.policy.defaults.mechanism)
        mechanism, searcher = choose_mechanism(named, asked.delta), self.searcher
        price = fund((), asked, mechanism).price
        needs = searcher.bounds.needs(parsed, mechanism)
        known = searcher.bounds.knowledge(needs, parsed.catalog, mechanism, price)
        plan = parsed.planned(known.key, known.catalog)
        bounded = parsed.bounded(known.key, known.catalog, mechanism)
        checks = checks_of(bounded, mechanism) if options.clipped else ()
        types = parsed.types(known.key, known.catalog)
        draft = Draft(parsed.text, plan, bounded, asked, mechanism, types, checks, parsed=parsed)
        if plan.releases:
            part = 1 - known.apart / draft.funds.price
            draft = replace(draft, missing=known.missing, notes=(*known.notes, *parsed.notes), part=part)
            draft = searcher.with_norms(draft, known.catalog, accurate=options.accuracy is not None)
        changing = known.found or known.missing or draft.unsearched or parsed.timed
        return draft, not (self.dataset.engine.live or changing)

    # charge, run, noise ---------------------------------------------------------------------------------------------

    def release(self, prepared: PreparedQuery) -> Executed:
        """The released tables of a prepared query: what was released before is replayed, the rest is charged and run.

        A search for norms is known for as long as its version of the data is, so it is replayed whatever the policy
        says of answers: a second one would be paid for and never be read.

        **Theorem.** Before the engine reads a row for a query, the charge of everything that the query will release is
        durable.
        **Proof.** The charge and the run are two consecutive lines. The charge is of all that is `missing` after the
        look-up, which is all that the run makes (`dpsql.answers.execute`), and it returns after the ledger has stored
        it. The engine is asked by the run only, and refuses what the reservation does not cover.
        **Requires** a durable reservation (`dpsql.budget.ledger.reservation`) and engines that run what it covers only
        (`dpsql.engines.base`).
        **Checked by** `tests/unit/session/test_session.py`, and the planted bugs "the charge comes after the run" and
        "a charge is refunded when the engine fails".
        """
        execution = self._execution(prepared)
        execution.look_up()
        reservation, counted = self.accounts.charge(prepared, execution)
        execution.run(reservation)
        return execution.executed(counted)

    def _execution(self, prepared: PreparedQuery) -> Execution:
        policy, archive = self.accounts.policy, self.accounts.archive(self.dataset)
        searches = [priced.bounded for priced in prepared.bill.releases if priced.bounded.searched is not None]
        alone = [*(check.bounded for check in prepared.checks), *searches]
        return Execution(
            self.dataset.engine,
            replace(archive, keep=None) if searches else archive,
            NestedResults(self.dataset.finisher, prepared.plan.nested),
            self.accounts.ledger.salt(),
            bool(policy.replay or searches),
            prepared.bill,
            frozenset(each.release.name for each in alone),
            policy.limits.seconds,
        )

    def is_kept(self, prepared: PreparedQuery) -> bool:
        """Whether the ledger has all of it, as releases that the analyst paid for or was shown."""
        ledger, policy = self.accounts.ledger, self.accounts.policy
        archive = self.accounts.archive(self.dataset)
        paid = [priced for priced in prepared.bill.releases if not priced.free]
        found = [ledger.find(archive.mark(p), policy.keep) for p in paid] if policy.replay else [None]
        return all(each is not None and not self.accounts.owes(each) for each in found)

    # finish ---------------------------------------------------------------------------------------------------------

    def answer(self, prepared: PreparedQuery, nonnegative: bool, key: str | None = None) -> Result:
        """Release and finish. The answer is cached under its `key`, unless others may write to the data."""
        released = self.release(prepared)
        result = self.finish(prepared, released, nonnegative)
        if key is not None and released.origins and not self.dataset.engine.live:
            self.answers.offer(key, CachedAnswer(result, released.version, released.origins))
        return replace(result, notes=(*result.notes, *released.counted))

    def finish(self, prepared: PreparedQuery, released: Executed, nonnegative: bool) -> Result:
        """The analyst's own outer SQL over what was released."""
        notes = self.dataset.engine.notes(prepared.bill.releases)
        return finished(self.dataset.finisher, prepared, released, notes, nonnegative=nonnegative)

    def cached_answer(self, key: str) -> Result | None:
        """The answer that this session gave before, while the ledger has its releases."""
        policy, ledger = self.accounts.policy, self.accounts.ledger
        cached = self.cached(key) if policy.replay else None
        if cached is None:
            return None
        found = [(ledger.find(mark, policy.keep), entry) for mark, entry in cached.origins.items()]
        stored = [each for each, entry in found if each is not None and each.entry == entry]
        if len(stored) < len(cached.origins):
            return None
        notes = [note for each in stored for note in self.accounts.count(each)]
        return replace(cached.result, cost=FREE, replayed=True, notes=(*cached.result.notes, *notes))

    def cached(self, key: str) -> CachedAnswer | None:
        """The answer that is cached for this version of the data."""
        cached = self.answers.get(key)
        if cached is None or cached.version != self.dataset.version():
            return None
        return cached

    # searches that come first ---------------------------------------------------------------------------------------

    def search_first(self, draft: Draft) -> tuple[Cost, Sequence[str]]:
        """Make the searches that a query needs; refused as a whole if the query could not follow or be computed.

        Bounds come first: the norms are those of rows within them.
        """
        if not (draft.missing or draft.unsearched):
            return FREE, ()
        new = self.searcher.require_room(draft)
        if not draft.missing:
            released = self.release(self.searcher.norms_query(draft))
            return released.cost, released.counted
        found = [each for subject in draft.missing if (each := self.search(subject)) is not None]
        counted = [note for _, stored in found for each in stored for note in self.accounts.count(each)]
        return self.searcher.cost(draft, new), counted

    def search(self, subject: Subject) -> tuple[FoundBounds | None, tuple[StoredRelease, ...]] | None:
        """Search for the bounds of one subject, unless somebody did before."""
        if self.searcher.bounds.read(subject) is None:
            self.release(self.searcher.bounds_query(subject))
        return self.searcher.bounds.read(subject)

    # explain --------------------------------------------------------------------------------------------------------

    def explain(self, question: Question) -> Explanation:
        """What a query would do and cost, at most, with the other mechanism beside it. It is planned once for both."""
        draft, goals = self.draft(question)
        prepared, remark = self.foresee(draft, goals)
        other = "laplace" if prepared.bill.mechanism == "gaussian" else "gaussian"
        try:
            foreseen = self.foresee(*self.draft(question.by(other), draft.parsed))
            others = {other: self._explanation(*foreseen, {})}
        except Error:
            others = {}
        return self._explanation(prepared, remark, others)

    def foresee(self, draft: Draft, goals: Sequence[Goal]) -> tuple[PreparedQuery, str | None]:
        """The query as it would run; where its price depends on answers, at the most that it may cost."""
        if goals:
            with suppress(BudgetExceeded):
                draft = self.accounts.fitted(draft)
        if draft.missing or draft.unsearched:
            prepared, searcher = draft.priced(), self.searcher
            search = draft.funds.plus(searcher.cost(draft, draft.missing), searcher.norms_cost(draft))
            parts = [part for priced in prepared.bill.releases for part in priced.portion.parts]
            total = draft.funds.plus(_most(draft, parts), search)
            return replace(prepared, total=total), before(draft.missing, search, norms=bool(draft.unsearched))
        named = ", ".join(map(str, goals))
        if foreseeable(draft.plan, goals):
            return draft.priced(goals), f"the lowest price that gives {named}" if goals else None
        pilot = draft.stages.pilots[0].cost
        remark = f"at most: a pilot ({pilot}, or more) or an earlier release will show what {named} costs"
        return replace(draft.priced(), total=_most(draft, [draft.funds.price])), remark

    def _explanation(
        self, prepared: PreparedQuery, remark: str | None, alternatives: Mapping[str, Explanation]
    ) -> Explanation:
        """What was foreseen, with the SQL of each release as the analyst may see it."""
        engine, veiled = self.dataset.engine, self.dataset.catalog.veiled
        texts = ["" if p.free else veiled(engine.shown(p)) for p in prepared.bill.releases]
        notes = engine.notes(prepared.bill.releases)
        return explained(prepared, texts, notes, remark, alternatives)


def _most(draft: Draft, parts: Sequence[Fraction]) -> Cost:
    """What may be charged for these parts of the price, whatever bounds or stages they will have.

    Each part's noise is rounded by its own bounds, so one bill may cost a little less than another at its price.
    """
    price = pure_rho if draft.funds.mechanism == "laplace" else Fraction
    cost, most = draft.split.bill.cost, sum((price(part) for part in parts), Fraction(0))
    share, whole = cost.share, draft.funds.whole
    if share is not None and whole is not None:
        asked = most / (whole.rho * UNIT) if whole.rho is not None else sum(parts) / (whole.epsilon * UNIT)
        share = max(share, float(asked))
    return replace(cost, rho=max(cost.rho, float_up(most)), share=share)


class Connection(Pep249Errors):
    """A connection of one analyst (or the steward) to one dataset: PEP 249, plus `query`, `explain` and `budget`.

    Its parts are for dpsql's own interfaces: `dataset`, `accounts`, `engine`, `ledger`, the `conductor` and
    the `clock` that `now()` means.
    """

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
        self.engine, self.ledger, self.dialect = engine, ledger, known_dialect(dialect)
        self.asked, self.lock, self._closed = QueryOptions(), threading.RLock(), False
        self._committed = self.asked
        self.dataset = Dataset(engine, policy, ledger, analyst)
        self.accounts = Accounts(policy, ledger, analyst, purpose)
        self.conductor = Conductor(self.dataset, self.accounts)
        self.clock: Callable[[], datetime] = now

    # queries --------------------------------------------------------------------------------------------------------

    @serialized
    @with_spinner("asking the database")
    @padded_reply
    def query(self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]) -> Result:
        """Answer a query privately. `price` is what the whole query may cost, as a share of your budget: "2%".

        Experts may name `epsilon` and `delta` in its place.

        `parameters` are the values of its placeholders: a sequence for `?`, `%s` or `$1`, a mapping for `:name`.

        With `accuracy` (`Within(100)`, "2%", or a mapping from columns to these) the query costs the least that gives
        it. The most that it may cost is the price, else the policy's limit for one query, or what is left.
        `clipped` spends part of the price on measuring how much the bounds cut off: see `result.clipped` and
        `result.notes`. `dpsql.options.QueryOptions` lists all options.
        """
        question = self._question(sql, parameters, QueryOptions(**options))
        with error_boundary(sql):
            self.require_open()
            return replace(self.conductor.query(question), account=self.budget)

    @serialized
    def explain(self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]) -> Explanation:
        """What the query would do and cost, at most. Reads no private data and spends nothing."""
        question = self._question(sql, parameters, QueryOptions(**options))
        with error_boundary(sql):
            self.require_open()
            return self.conductor.explain(question)

    @serialized
    def describe(self, sql: str, parameters: Parameters | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names and types of the answer's columns. Reads no private data and spends nothing."""
        question = self._question(sql, parameters, QueryOptions())
        with error_boundary(sql):
            self.require_open()
            cached = self.conductor.cached(question.key)
            if cached is not None:
                return cached.result.columns, cached.result.types
            draft, _ = self.conductor.draft(question)
            return tuple(output.name for output in draft.plan.outputs), draft.types

    @serialized
    def prepare(
        self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]
    ) -> PreparedQuery:
        """Parse, plan, bound and price: whatever can refuse a query refuses it here, before anything is charged."""
        question = self._question(sql, parameters, QueryOptions(**options))
        with error_boundary(sql):
            self.require_open()
            draft, goals = self.conductor.draft(question)
            unknown = [subject for subject in draft.missing if self.searches.bounds_needed(subject)]
            if unknown:
                raise InterfaceError(
                    f"not searched for yet: {', '.join(map(str, unknown))}",
                    hint="ask the query once, or let the steward run `dpsql bounds --search`",
                )
            return draft.priced(goals)

    def _question(self, sql: str, parameters: Parameters | None, options: QueryOptions) -> Question:
        return Question(sql, parameters, options, self.asked, self.dialect, self.clock())

    # settings -------------------------------------------------------------------------------------------------------

    @serialized
    def ask(self, asked: QueryOptions) -> None:
        """Set the price, mechanism and dialect of the queries that follow; never above the policy's limits."""
        self._check(asked)
        self.asked = self._committed = asked

    @serialized
    def settle(self, sql: str) -> bool:
        """Execute `SET dpsql.price = '2%'` (or epsilon, delta, mechanism, dialect) or `RESET`; whether it was one.

        As in PostgreSQL, a `rollback` undoes it, unless a `commit` came first.
        """
        asked = read_setting(sql, self.asked)
        if asked is not None:
            self._check(asked)
            self.asked = asked
        return asked is not None

    def _check(self, asked: QueryOptions) -> None:
        self.require_open()
        price_of(asked, self.accounts)
        known_mechanism(asked.mechanism or "auto")

    # the account, the data ------------------------------------------------------------------------------------------

    @serialized
    def budget(self) -> BudgetStatus:
        """Caps, spent and remaining, for this analyst (and purpose) and for everyone, and what the rest would buy."""
        self.require_open()
        return self.accounts.budget()

    def data_version(self) -> str:
        """The public label of the data: the engine's, and the steward's own where `dpsql data bump` gave one."""
        return self.dataset.version()

    @property
    def searches(self) -> BoundSearches:
        """The private searches for bounds that the policy leaves open."""
        return self.conductor.searcher.bounds

    @serialized
    def search(self, subject: Subject) -> tuple[FoundBounds | None, tuple[StoredRelease, ...]] | None:
        """Search for the bounds of one subject, unless somebody did before: charged like any release."""
        return self.conductor.search(subject)

    def permit_trace(self) -> TracePermit:
        """The permit to read exact values without a charge (`dpsql.audit.trace`), for the steward only."""
        self.require_open()
        if not self.steward or self.analyst is not None:
            raise PolicyError(
                "a trace shows exact values: it is for the steward only", hint="open the connection with steward=True"
            )
        return TracePermit(by=_PERMIT)

    # PEP 249 --------------------------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        """A PEP 249 cursor."""
        from dpsql.interfaces.dbapi import Cursor

        self.require_open()
        return Cursor(self)

    def commit(self) -> None:
        """Keep what was `SET`. Every charge is durable by itself."""
        self.require_open()
        self._committed = self.asked

    def rollback(self) -> None:
        """Undo what was `SET` since the last commit. Nothing else can be undone: what was released stays released."""
        self.require_open()
        self.asked = self._committed

    @serialized
    def close(self) -> None:
        """Close the database and the ledger."""
        if not self.closed:
            self.release()
            self.ledger.close()

    def release(self) -> None:
        """Close the database only: the ledger is used by others too."""
        self._closed = True
        self.dataset.close()

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        return self._closed

    @property
    def pad(self) -> float | None:
        """Replies come at multiples of this many seconds, if the policy says so."""
        return self.policy.limits.pad

    def require_open(self) -> None:
        """Refuse to work on a closed connection."""
        if self.closed:
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
    """Open a dataset: a DuckDB file or connection, a directory, a mapping of names to frames and files, or a server.

    `purpose` is one of those that the policy lists for the analyst, if it lists any; `dialect` is the SQL that queries
    are written in, "duckdb" or "postgres". With `isolate` the database is opened by a process of its own, which hands
    out exact integers, and never by this one.

    The ledger is kept beside the policy file unless `ledger` or the policy says otherwise. With a policy that is not a
    file it must be named: a file, "postgresql://…" for one that servers share, or ":memory:" for a throw-away one,
    whose promise ends with the process.
    """
    if steward and analyst is not None:
        raise InterfaceError(
            "a connection is either an analyst's or the steward's", hint="give analyst= or steward=True"
        )
    known_dialect(dialect)
    loaded = load_policy(policy if not isinstance(policy, os.PathLike) else Path(policy))
    name = name_in(loaded, analyst, purpose, steward=steward)
    engine, opened = open_data(source, loaded, ledger_at(policy, loaded, ledger), isolate=isolate)
    return Connection(engine, loaded, opened, name, steward=steward, purpose=purpose, dialect=dialect)


__all__ = ["Conductor", "Connection", "PreparedQuery", "connect"]
