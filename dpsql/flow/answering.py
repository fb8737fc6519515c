"""From a priced query to its answer: released, finished in the sealed database, and remembered for a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dpsql.answers.cache import AnswerCache, CachedAnswer
from dpsql.answers.clipped import clipped_shares
from dpsql.answers.consistent_totals import fit_tables
from dpsql.answers.error_bars import bar_columns
from dpsql.answers.estimation import tabulate
from dpsql.answers.execute import Made
from dpsql.answers.noise_stage import Released
from dpsql.answers.notes import inner_notes, notes_of, top_notes
from dpsql.answers.result import Result
from dpsql.budget import FREE
from dpsql.budget.status import BudgetStatus
from dpsql.flow.accounts import Accounts
from dpsql.flow.dataset import Dataset
from dpsql.flow.draft import Prepared
from dpsql.flow.releasing import Releaser
from dpsql.plan.plan import Plan

NOBODY = "no group had enough units to be shown: ask for fewer groups, or for a larger epsilon"
FITTED = "totals and their parts were fitted to each other (they agree up to rounding), which makes both more exact"


@dataclass(frozen=True, slots=True)
class Answerer:
    """What makes releases, what finishes them, and the answers that were given last; `budget` is told with each."""

    dataset: Dataset
    accounts: Accounts
    releaser: Releaser
    budget: Callable[[], BudgetStatus]
    recent: AnswerCache = field(default_factory=AnswerCache)

    def again(self, asked: str) -> Result | None:
        """The answer to what this session asked before, while the ledger has its releases."""
        policy, ledger = self.accounts.policy, self.accounts.ledger
        kept = self.kept(asked) if policy.replay else None
        if kept is None:
            return None
        found = [(ledger.find(mark, policy.keep), entry) for mark, entry in kept.origins.items()]
        stored = [each for each, entry in found if each is not None and each.entry == entry]
        if len(stored) < len(kept.origins):
            return None
        notes = [note for each in stored for note in self.accounts.counted(each)]
        return replace(kept.result, cost=FREE, replayed=True, notes=(*kept.result.notes, *notes))

    def kept(self, asked: str) -> CachedAnswer | None:
        """The answer that is remembered for this version of the data."""
        kept = self.recent.get(asked)
        if kept is None or kept.version != self.dataset.version():
            return None
        return kept

    def answer(self, prepared: Prepared, nonnegative: bool, asked: str | None = None) -> Result:
        """Release and finish; an answer to what was `asked` is remembered, unless others may write to the data."""
        made = self.releaser.release(prepared)
        result = self.finished(prepared, made, nonnegative)
        if asked is not None and made.origins and not self.dataset.engine.live:
            self.recent.offer(asked, CachedAnswer(result, made.version, made.origins), prepared.plan)
        return replace(result, notes=(*result.notes, *made.counted))

    def finished(self, prepared: Prepared, made: Made, nonnegative: bool) -> Result:
        """The analyst's own outer SQL over what was released."""
        finisher = self.dataset.finisher
        released = {release.name: made.tables[release.name] for release in prepared.plan.releases}
        shares = clipped_shares(prepared.checks, made.tables)
        fitted = fit_tables(prepared.plan, released)
        bars = bar_columns(finisher, prepared.plan, fitted)
        columns = {name: tabulate(table, bars[name], nonnegative=nonnegative) for name, table in fitted.items()}
        table = finisher.run(prepared.plan, columns)
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
                *self.dataset.engine.notes(prepared.bill.releases),
                *([NOBODY] if _hidden(released) else []),
                *([FITTED] if _agree(prepared.plan, fitted) else []),
            ),
            shares,
            table,
            prepared.plan,
            released,
            bars,
            finisher,
            self.budget,
        )


def _agree(plan: Plan, fitted: Mapping[str, Released]) -> bool:
    """Was every statistic of totals and parts fitted? An earlier release may have other ones."""
    families = ({member.release for member in family.members} for family in plan.families)
    names = {name for releases in families if len(releases) > 1 for name in releases}
    return bool(names) and all(fitted[name].spread and max(fitted[name].spread) < 1 for name in names)


def _hidden(released: Mapping[str, Released]) -> bool:
    """Whether private keys were asked for and none was shown: a function of what was released."""
    return any(table.priced.threshold is not None and not table.keys for table in released.values())
