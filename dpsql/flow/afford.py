"""How much of what a query may cost is left on the accounts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add

from dpsql.budget.pricing import charge_of
from dpsql.errors import BudgetExceeded
from dpsql.flow.accounts import Accounts
from dpsql.flow.draft import Draft


def fitted(draft: Draft, accounts: Accounts) -> Draft:
    """The query with no more than is left: refused before a pilot only if that is next to nothing."""
    stages = draft.stages
    charges = [charge_of(bill.releases) for bill in (*stages.pilots, stages.at(stages.most))]
    whole = reduce(add, (charge for charge in charges if charge is not None))
    try:
        accounts.ledger.afford(accounts.request(draft.sql, whole, draft.split.bill.cost))
    except BudgetExceeded as refusal:
        if refusal.fits is None:
            raise
        return replace(draft, left=Fraction(str(refusal.fits)))
    return draft
