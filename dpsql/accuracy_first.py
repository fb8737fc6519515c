"""Answers as exact as asked, at the least price: from an earlier release, at once, or after pilots that show it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Protocol

from dpsql.accounts import REPLAYED, Accounts
from dpsql.answers.accuracy import Goal, foreseeable
from dpsql.answers.execute import Executed
from dpsql.answers.noise_stage import public_table
from dpsql.answers.pilot_pricing import shortfall, sufficient_price
from dpsql.answers.result import Result
from dpsql.budget import FREE
from dpsql.dataset import Dataset
from dpsql.errors import BudgetExceeded
from dpsql.query_draft import Draft, PreparedQuery

PILOT = "{} charged first ({}): what that showed decides what was released afterwards, and at what price"
EARLIER = "an earlier release was used: what it showed decides what was released afterwards, and at what price"
ENOUGH = "answered from an earlier release, which is as exact as asked"


class QueryConductor(Protocol):
    """What leads a prepared query through its stages (`dpsql.session`)."""

    @property
    def dataset(self) -> Dataset:
        """The data that is read."""

    def is_kept(self, prepared: PreparedQuery) -> bool:
        """Whether the ledger has all of it."""

    def answer(self, prepared: PreparedQuery, nonnegative: bool) -> Result:
        """Release and finish."""

    def finish(self, prepared: PreparedQuery, released: Executed, nonnegative: bool) -> Result:
        """Finish what was released."""


@dataclass(frozen=True, slots=True)
class AccuracyFirst:
    """Answers to a required accuracy: finds the lowest price that reaches it, with pilots where needed."""

    conductor: QueryConductor
    accounts: Accounts

    def answer(self, draft: Draft, goals: Sequence[Goal], nonnegative: bool) -> Result:
        """From an earlier release that is exact enough; else at the least price, inside what is left."""
        earlier = self._earlier(draft, nonnegative)
        if earlier is not None and len(earlier) and not shortfall(earlier, goals):
            return replace(earlier, notes=(*earlier.notes, ENOUGH))
        if foreseeable(draft.plan, goals):
            return self._foreseen(self._least(draft, goals), goals, nonnegative)
        try:
            kept = self.conductor.is_kept(draft.at(draft.stages.pilots[0]))
            within = draft if kept else self.accounts.fitted(draft)
            return self._answer_in_stages(within, goals, nonnegative, earlier)
        except BudgetExceeded as refusal:
            if earlier is None:
                raise
            return replace(earlier, notes=(*earlier.notes, *shortfall(earlier, goals), f"no more: {refusal.message}"))

    def _foreseen(self, prepared: PreparedQuery, goals: Sequence[Goal], nonnegative: bool) -> Result:
        """The answer at a price that was foreseen. What a clip cuts off was foreseen as the same in all groups: a large
        one may have lost more, so that its bar is wider than asked.
        """
        result = self.conductor.answer(prepared, nonnegative)
        clips = (each.clip for priced in prepared.bill.releases for each in priced.bounded.clipped)
        chosen = any(clip is not None and clip.choice is not None for clip in clips)
        return replace(result, notes=(*result.notes, *shortfall(result, goals))) if chosen else result

    def _least(self, draft: Draft, goals: Sequence[Goal]) -> PreparedQuery:
        """The query at the least price, which has to fit into what is left unless it was released at that price."""
        with suppress(BudgetExceeded):
            prepared = draft.priced(goals)
            if self.conductor.is_kept(prepared):
                return prepared
        return self.accounts.fitted(draft).priced(goals)

    def _answer_in_stages(
        self, draft: Draft, goals: Sequence[Goal], nonnegative: bool, earlier: Result | None
    ) -> Result:
        """Pilots or earlier releases, until they show the price well enough; then the answer at that price."""
        stages, shown = draft.stages, list[Result]()
        had = Fraction(0) if earlier is None else stages.worth(earlier.released.values())
        try:
            for price, ahead in zip(stages.rungs, (*stages.rungs[1:], None), strict=True):
                pilot = draft.at(stages.at(price))
                reused = earlier if price <= had and not self.conductor.is_kept(pilot) else None
                shown.append(reused or self.conductor.answer(pilot, nonnegative))
                verdict = sufficient_price(shown[-1], goals, stages)
                if ahead is None or not verdict.leaves(ahead):
                    break
            firsts, notes = tuple(shown), verdict.notes
            if verdict.price is not None and verdict.price > had:
                shown.append(self.conductor.answer(draft.at(stages.at(verdict.price)), nonnegative))
            elif earlier is not None:
                shown.append(earlier)
            notes = notes or shortfall(shown[-1], goals)
        except BudgetExceeded as refusal:
            if all(each.cost == FREE for each in shown):
                raise
            firsts, notes = tuple(shown), (f"this is the pilot only: {refusal.message}",)
        return _together(draft, firsts, shown, notes)

    def _earlier(self, draft: Draft, nonnegative: bool) -> Result | None:
        """The query from the most exact releases that the analyst already has, if there are any for all of it."""
        prepared = draft.at(draft.stages.pilots[0])
        archive = self.accounts.archive(self.conductor.dataset)
        asked = [priced for priced in prepared.bill.releases if self.accounts.policy.replay and not priced.free]
        found = {p.bounded.release.name: each for p in asked if (each := archive.best(p)) is not None}
        if not asked or len(found) < len(asked):
            return None
        tables = {p.bounded.release.name: public_table(p) for p in prepared.bill.releases if p.free}
        tables |= {name: each.released for name, each in found.items()}
        notes = tuple(dict.fromkeys(note for each in found.values() for note in each.notes))
        origins = {each.mark: each.stored.entry for each in found.values()}
        made = Executed(tables, FREE, True, notes, (), origins, archive.version)
        return self.conductor.finish(prepared, made, nonnegative)


def _together(draft: Draft, firsts: Sequence[Result], shown: Sequence[Result], notes: tuple[str, ...]) -> Result:
    """The last of several releases, with the cost of all of them and a note about the first."""
    paid = reduce(draft.funds.plus, (each.cost for each in shown), FREE)
    pilots = [each.cost for each in firsts if each.cost != FREE]
    many = "a pilot was" if len(pilots) == 1 else f"{len(pilots)} pilots were"
    told = PILOT.format(many, reduce(draft.funds.plus, pilots, FREE)) if pilots else EARLIER
    counted = [note for each in firsts for note in each.notes if note.startswith(REPLAYED)]
    said = dict.fromkeys((*counted, told, *shown[-1].notes, *notes))
    return replace(shown[-1], cost=paid, replayed=paid == FREE, notes=tuple(said))
