"""A budget as small bars, for notebooks."""

from __future__ import annotations

from dpsql.budget.status import Account, BudgetStatus
from dpsql.html import bar, element, listed, page, text
from dpsql.mechanisms.exact import digits_down, digits_up


def budget_html(status: BudgetStatus) -> str:
    """A bar for each account, and how to read it."""
    rows = "".join(
        element(
            "tr", element("td", text(name)) + element("td", account_bar(each)) + element("td", _caps(each), "dim w")
        )
        for name, each in status.accounts()
    )
    *how, buys = status.notes()
    more = element("details", element("summary", "how to read this") + listed([text(note) for note in how]))
    return page(element("table", element("tbody", rows)) + element("p", text(buys)) + (more if how else ""))


def account_bar(account: Account) -> str:
    """Spent of the whole, as a bar with its numbers."""
    whole, spent = digits_down(account.whole.epsilon), digits_up(account.spent.epsilon)
    used = 1 - account.remaining.rho / account.whole.rho if account.caps.delta else spent / whole if whole else 1.0
    said = f"spent ε = {spent:.4g} of {whole:.4g}"
    return bar(used, said) + text(f"{said}, left for one query: ε = {digits_down(account.remaining.epsilon):.4g}")


def _caps(account: Account) -> str:
    return text(f"cap {account.cap}" + ("" if account.renews is None else f", refreshes on {account.renews}"))
