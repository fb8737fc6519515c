"""What a query would do and cost: told without private data, and without spending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.answers.accuracy import Goal, foreseeable
from dpsql.answers.explain import Explanation, release_plan, staged
from dpsql.answers.finish import finishing_sql
from dpsql.answers.notes import inner_notes, notes_of, top_notes
from dpsql.budget import Cost
from dpsql.errors import BudgetExceeded
from dpsql.flow.accounts import Accounts
from dpsql.flow.afford import fitted
from dpsql.flow.dataset import Dataset
from dpsql.flow.draft import Draft, Prepared
from dpsql.flow.searching import Searcher
from dpsql.mechanisms.exact_numbers import float_up
from dpsql.mechanisms.rho_price import pure_rho
from dpsql.search import before


@dataclass(frozen=True, slots=True)
class Explainer:
    """The data's public side, the accounts that would pay, and the searches that would come first."""

    dataset: Dataset
    accounts: Accounts
    searcher: Searcher

    def foresee(self, draft: Draft, goals: Sequence[Goal]) -> tuple[Prepared, str | None]:
        """The query as it would run, or where its price depends on answers, at the most that it may cost."""
        if goals:
            with suppress(BudgetExceeded):
                draft = fitted(draft, self.accounts)
        if draft.missing or draft.unsearched:
            prepared = draft.priced()
            search = draft.funds.plus(self.searcher.cost(draft, draft.missing), self.searcher.norms_cost(draft))
            parts = [part for priced in prepared.bill.releases for part in priced.portion.parts]
            total = draft.funds.plus(self._most(draft, parts), search)
            return replace(prepared, total=total), before(draft.missing, search, norms=bool(draft.unsearched))
        said = ", ".join(map(str, goals))
        if foreseeable(draft.plan, goals):
            return draft.priced(goals), f"the least that gives {said}" if goals else None
        pilot = draft.stages.pilots[0].cost
        remark = f"at most: a pilot ({pilot}, or more), or an earlier release, shows what {said} takes"
        return replace(draft.priced(), total=self._most(draft, [draft.funds.price])), remark

    def _most(self, draft: Draft, parts: Sequence[Fraction]) -> Cost:
        """What may be charged for these parts of the price, whatever bounds or stages they will have.

        Each part's noise is rounded by its own bounds, so one bill may cost a little less than another at its price.
        """
        price = pure_rho if draft.funds.mechanism == "laplace" else Fraction
        cost, most = draft.split.bill.cost, sum((price(part) for part in parts), Fraction(0))
        return replace(cost, rho=max(cost.rho, float_up(most)))

    def explanation(
        self, prepared: Prepared, remark: str | None, alternatives: Mapping[str, Explanation]
    ) -> Explanation:
        """What was foreseen, with the SQL of each release as the analyst may see it."""
        seen, engine = self.dataset.catalog.veiled, self.dataset.engine
        shown = [release_plan(p, "" if p.free else seen(engine.shown(p))) for p in prepared.bill.releases]
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
                *self.dataset.engine.notes(prepared.bill.releases),
            ),
            remark,
            prepared.plan,
            prepared.bill,
            nested,
        )
