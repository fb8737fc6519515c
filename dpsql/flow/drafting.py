"""From a question to a draft: parse, plan, bound. All that can refuse a query does so here or in its price."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dpsql.answers.accuracy import Goal, reachable, read_goals
from dpsql.answers.cache import BoundedCache, reads_the_clock
from dpsql.budget.pricing import choose_mechanism, fund
from dpsql.errors import InterfaceError
from dpsql.flow.about import about
from dpsql.flow.accounts import Accounts
from dpsql.flow.dataset import Dataset
from dpsql.flow.draft import Draft
from dpsql.flow.price import known_mechanism, price_of
from dpsql.flow.question import Question
from dpsql.flow.searching import Searcher
from dpsql.options import QueryOptions
from dpsql.plan.builder.query import build
from dpsql.plan.view_expansion import put_views
from dpsql.sensitivity import bound
from dpsql.sensitivity.clipped import checks_of
from dpsql.sql import known_dialect, limit_text, parse_query, read_hints


@dataclass(frozen=True, slots=True)
class Drafter:
    """The tables that queries are planned over, what they may cost, and the drafts that were made last."""

    dataset: Dataset
    accounts: Accounts
    searcher: Searcher
    kept: BoundedCache[Draft] = field(default_factory=BoundedCache)

    def draft(self, question: Question) -> tuple[Draft, tuple[Goal, ...]]:
        """The question's draft, as it was made before where that is the same one, and the accuracy that it names."""
        key = question.plan_key(self.dataset.look_again())
        if question.options.accuracy is None and (kept := self.kept.get(key)) is not None:
            return kept, ()
        if question.options.clipped and question.options.accuracy is not None:
            raise InterfaceError("clipped= and accuracy= are two questions", hint="ask with one, then with the other")
        with about(question.sql):
            draft, lasting = self._drafted(question)
            if lasting:
                self.kept.keep(key, draft)
            return draft, () if question.options.accuracy is None else read_goals(
                question.options.accuracy, reachable(draft.plan)
            )

    def _drafted(self, question: Question) -> tuple[Draft, bool]:
        """A draft, and whether the same question has the same one for as long as the data has this version.

        A keyword goes before a hint in the SQL, a hint before a setting, that before the policy's default.
        """
        limit_text(question.sql)
        asked = question.options.over(read_hints(question.sql)).over(question.settings)
        tree = parse_query(question.sql, question.parameters, known_dialect(asked.dialect or question.dialect))
        said = tree.sql("duckdb") if question.parameters else question.sql
        tree = put_views(tree, self.dataset.catalog)
        epsilon, delta = price_of(asked, self.accounts, accurate=question.options.accuracy is not None)
        chosen = choose_mechanism(self._mechanism(asked), delta)
        known = self.searcher.searches.knowledge(
            tree, self.dataset.catalog, chosen, fund((), epsilon, delta, chosen).price
        )
        plan = build(tree, known.catalog, self.dataset.finisher.check)
        bounded = tuple(bound(release, chosen, known.catalog) for release in plan.releases)
        checks = checks_of(bounded, chosen) if question.options.clipped else ()
        types = self.dataset.finisher.check(plan)
        draft = Draft(said, plan, bounded, epsilon, delta, chosen, types, checks)
        if plan.releases:
            part = 1 - known.apart / draft.funds.price
            draft = self.searcher.with_norms(replace(draft, missing=known.missing, notes=known.notes, part=part))
        changing = known.found or known.missing or draft.unsearched or reads_the_clock(tree)
        return draft, not (self.dataset.engine.live or changing)

    def _mechanism(self, asked: QueryOptions) -> str:
        return known_mechanism(asked.mechanism or self.accounts.policy.defaults.mechanism)
