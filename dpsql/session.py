"""The conductor: the one place where the stages meet, in the order of the design."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from dpsql.answers.accuracy import Goal
from dpsql.answers.explain import Explanation
from dpsql.answers.result import Result
from dpsql.budget import FREE, Ledger, StoredRelease
from dpsql.budget.ledger.reservation import PERMIT, TracePermit
from dpsql.budget.status import BudgetStatus
from dpsql.engines.base import Engine
from dpsql.engines.open_engine import Source
from dpsql.errors import Error, InterfaceError, Pep249Errors, PolicyError
from dpsql.flow.about import about
from dpsql.flow.accounts import Accounts
from dpsql.flow.accuracy_first import AccuracyFirst
from dpsql.flow.answering import Answerer
from dpsql.flow.dataset import Dataset
from dpsql.flow.draft import Draft, Prepared
from dpsql.flow.drafting import Drafter
from dpsql.flow.explaining import Explainer
from dpsql.flow.opening import ledger_at, name_in, open_data
from dpsql.flow.price import known_mechanism, price_of
from dpsql.flow.question import Question
from dpsql.flow.releasing import Releaser
from dpsql.flow.searching import Searcher, search_told
from dpsql.options import QueryKeywords, QueryOptions
from dpsql.policy import Policy, load_policy
from dpsql.policy.searched_subjects import FoundBounds, Subject
from dpsql.progress import with_spinner
from dpsql.search import Searches
from dpsql.sql import Parameters, known_dialect, read_setting
from dpsql.turns import at_a_multiple, in_turn

if TYPE_CHECKING:
    from dpsql.interfaces.dbapi import Cursor

_PERMIT = PERMIT.take()


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
        self.asked, self._turn, self._closed = QueryOptions(), threading.RLock(), False
        self._committed = self.asked
        self._dataset = Dataset(engine, policy, ledger, analyst)
        self._accounts = Accounts(policy, ledger, analyst, purpose)
        self._releaser = Releaser(self._dataset, self._accounts)
        self._searcher = Searcher(self._dataset, self._accounts, self._releaser)
        self._drafter = Drafter(self._dataset, self._accounts, self._searcher)
        self._explainer = Explainer(self._dataset, self._accounts, self._searcher)

    @cached_property
    def _answerer(self) -> Answerer:
        """Made with the first answer: it holds on to the connection, which until then goes with its last user."""
        return Answerer(self._dataset, self._accounts, self._releaser, self.budget)

    # the flow -----------------------------------------------------------------------------------------------------

    @in_turn
    @with_spinner("asking the database")
    @at_a_multiple
    def query(self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]) -> Result:
        """Answer a query privately. `epsilon` and `delta` are the price of the whole query.

        `parameters` are the values of its placeholders: a sequence for `?`, `%s` or `$1`, a mapping for `:name`.

        With `accuracy` (`Within(100)`, "2%", or one of these for each column by name) the price is the least that
        gives it; the most that it may cost is `epsilon`, else the policy's limit for one query, or what is left.
        `clipped` spends a part of the price on how much the bounds cut off: `result.clipped`, and in `result.notes`.
        """
        question = self._question(sql, parameters, QueryOptions(**options))
        with about(sql):
            asked, nonnegative = question.key, question.options.nonnegative
            self._open()
            if question.options.accuracy is None and (again := self._answerer.again(asked)) is not None:
                return again
            draft, goals = self._draft(question)
            paid, counted = self._searcher.search_first(draft)
            with search_told(draft):
                if draft.missing:
                    draft, goals = self._draft(question)
                    more, others = self._searcher.search_first(draft)
                    paid, counted = draft.funds.plus(paid, more), (*counted, *others)
                if draft.unsearched:
                    draft, goals = self._draft(question)
                if goals:
                    result = AccuracyFirst(self._answerer).answer(draft, goals, nonnegative)
                else:
                    result = self._answerer.answer(draft.priced(), nonnegative, None if draft.notes else asked)
            cost = draft.funds.plus(result.cost, paid)
            notes = dict.fromkeys((*result.notes, *draft.notes, *counted))
            return replace(result, cost=cost, replayed=result.replayed and paid == FREE, notes=tuple(notes))

    @in_turn
    def explain(self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]) -> Explanation:
        """What the query would do and cost, at most. Touches no private data and spends nothing."""
        question = self._question(sql, parameters, QueryOptions(**options))
        with about(sql):
            chosen, remark = self._explainer.foresee(*self._draft(question))
            other = "laplace" if chosen.bill.mechanism == "gaussian" else "gaussian"
            try:
                foreseen = self._explainer.foresee(*self._draft(question.by(other)))
                others = {other: self._explainer.explanation(*foreseen, {})}
            except Error:
                others = {}
            return self._explainer.explanation(chosen, remark, others)

    @in_turn
    def describe(self, sql: str, parameters: Parameters | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names and types of the answer's columns. Touches no private data and spends nothing."""
        with about(sql):
            self._open()
            question = self._question(sql, parameters, QueryOptions())
            kept = self._answerer.kept(question.key)
            if kept is not None:
                return kept.result.columns, kept.result.types
            draft, _ = self._draft(question)
            return tuple(output.name for output in draft.plan.outputs), draft.types

    @in_turn
    def prepare(self, sql: str, parameters: Parameters | None = None, **options: Unpack[QueryKeywords]) -> Prepared:
        """Parse, plan, bound and price: all that can refuse does so here, before anything is charged."""
        question = self._question(sql, parameters, QueryOptions(**options))
        with about(sql):
            draft, goals = self._draft(question)
            unknown = [subject for subject in draft.missing if self.searches.bounds_needed(subject)]
            if unknown:
                raise InterfaceError(
                    f"not searched for yet: {', '.join(map(str, unknown))}",
                    hint="ask the query once, or let the steward run `dpsql bounds --search`",
                )
            return draft.priced(goals)

    def _question(self, sql: str, parameters: Parameters | None, options: QueryOptions) -> Question:
        return Question(sql, parameters, options, self.asked, self.dialect)

    def _draft(self, question: Question) -> tuple[Draft, tuple[Goal, ...]]:
        self._open()
        return self._drafter.draft(question)

    # the price of the next queries ----------------------------------------------------------------------------------

    @in_turn
    def ask(self, asked: QueryOptions) -> None:
        """What queries ask for from now on, unless they say it themselves; never above the policy's limits."""
        self._check(asked)
        self.asked = self._committed = asked

    @in_turn
    def settle(self, sql: str) -> bool:
        """Take in `SET dpsql.epsilon = 0.2` (also delta, mechanism) or `RESET`; whether the text was one of them.

        As in PostgreSQL, a `rollback` undoes it, unless a `commit` came first.
        """
        asked = read_setting(sql, self.asked)
        if asked is not None:
            self._check(asked)
            self.asked = asked
        return asked is not None

    def _check(self, asked: QueryOptions) -> None:
        self._open()
        price_of(asked, self._accounts)
        known_mechanism(asked.mechanism or "auto")

    # the account, the data -----------------------------------------------------------------------------------------

    @in_turn
    def budget(self) -> BudgetStatus:
        """Caps, spent and remaining, for this analyst (and purpose) and for everyone, and what the rest would buy."""
        self._open()
        return self._accounts.budget()

    def data_version(self) -> str:
        """The public label of the data: the engine's, and the steward's own where `dpsql data bump` gave one."""
        return self._dataset.version()

    @property
    def searches(self) -> Searches:
        """The private searches for bounds that the policy leaves open."""
        return self._searcher.searches

    @in_turn
    def search(self, subject: Subject) -> tuple[FoundBounds | None, tuple[StoredRelease, ...]] | None:
        """Search for the bounds of one subject, unless somebody did: charged as any release is."""
        return self._searcher.search(subject)

    def permit_trace(self) -> TracePermit:
        """Leave to read exact values without a charge (`dpsql.audit.trace`): the steward's alone."""
        self._open()
        if not self.steward or self.analyst is not None:
            raise PolicyError(
                "a trace shows exact values: it is for the steward only", hint="open the connection with steward=True"
            )
        return TracePermit(by=_PERMIT)

    # PEP 249 --------------------------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        """A PEP 249 cursor."""
        from dpsql.interfaces.dbapi import Cursor

        self._open()
        return Cursor(self)

    def commit(self) -> None:
        """Keep what was `SET`. Every charge is durable by itself."""
        self._open()
        self._committed = self.asked

    def rollback(self) -> None:
        """Undo what was `SET` since the last commit. Nothing else can be: what was released was released."""
        self._open()
        self.asked = self._committed

    @in_turn
    def close(self) -> None:
        """Let go of the database and the ledger."""
        if not self._closed:
            self.release()
            self._ledger.close()

    def release(self) -> None:
        """Let go of the database only: the ledger is another's too."""
        self._closed = True
        self._dataset.close()

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        return self._closed

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
    name = name_in(loaded, analyst, purpose, steward=steward)
    engine, opened = open_data(source, loaded, ledger_at(policy, loaded, ledger), isolate=isolate)
    return Connection(engine, loaded, opened, name, steward=steward, purpose=purpose, dialect=dialect)


__all__ = ["Connection", "Prepared", "connect"]
