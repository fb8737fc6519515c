"""Which prepared copies may be read: those of this version of the data, made by these bounds, and not touched since.

**Theorem.** A copy that is read is the one that `dpsql prepare` wrote from this version of the data by what the policy
says now. **Proof.** The ledger's facts are looked up by the version's label; one of them must have the digest of what
the policy says (`recipe`) and the stamp of the file that is open, or the digest of its content. Whatever else is there
is refused, and the table with it.
**Requires** facts that only the steward's command writes (`dpsql.budget.ledger`), and a label that changes when the
data do: a bump, or the stamp of the file (`dpsql.dataset`).
**Checked by** `tests/unit/session/test_prepare.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from dpsql.plan.catalog import Copies, Refused
from dpsql.plan.nodes.relation import Copy
from dpsql.policy import Policy, fold
from dpsql.policy.prepared_copies import made_of, recipe


def copies_of(policy: Policy, facts: Collection[tuple[str, str]], stamp: str, content: Callable[[], str]) -> Copies:
    """For each table that is to be prepared its copy, or why it is refused.

    `facts` are those of the version of the data that is open; `stamp` tells which file with copies is open, and is
    empty where there is none. Its `content` is read only where the stamp is another than was noted.
    """
    digests: list[str] = []

    def same(content_then: str) -> bool:
        digests[:] = digests or [content()]
        return digests[0] == content_then

    def judged(table: str) -> Copy | Refused:
        made = made_of(facts, table)
        fitting = [each for each in made if each.recipe == recipe(policy, table)]
        if not stamp:
            return Refused("there is none yet")
        if not made:
            return Refused("it was made from another version of the data")
        if not fitting:
            return Refused("it was made by other bounds, units or columns than the policy has now")
        if not any(each.stamp == stamp for each in fitting) and not any(same(each.content) for each in fitting):
            return Refused("the file is not the one that was prepared")
        return Copy(policy.rows_per_unit(table), policy.tables[table].prepare == "weigh")

    return {fold(table): judged(table) for table in policy.prepared}
