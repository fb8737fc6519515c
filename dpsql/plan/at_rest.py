"""Tables that are bounded at rest: where a copy that `dpsql prepare` wrote may be read in place of the table.

**The copy.** Let T_u be the rows of unit u in a table (rows without owner are left out), each column as the planner
reads it, with one zero and one NaN. A copy for m rows has in its part `within` the rows f(T_u) of each unit:

· f(T_u) = T_u where |T_u| ≤ m;
· `prepare: weigh`: nothing where |T_u| > m, and the part `over` has T_u instead;
· `prepare: keep`: the first m rows of T_u in the order of (a salted hash of the row, the row).

**Theorem (neighbours stay neighbours).** Copies of two databases that differ in one unit differ in that unit's rows
only, and in `within` in at most m of them.
**Proof.** f is a function of T_u, m and the salt: a tie in the order is one between equal rows, so the order in which
rows are stored does not matter. The copy is ⊎_u f(T_u), and no T_u of another unit changes.
**Theorem (at rest).** Let a relation give at most one row for each row of one scan (`bounded_at_rest`), and nothing
else. Read from `within` it has at most m rows of each unit.
**Proof.** By induction: a filter, EXISTS or a projection gives at most one row for each; an inner join does whose other
parts are all looked up by unique keys from it, and so does an outer join with at most one match
(`dpsql.plan.nodes.joins`); what else they read is public or the same unit's.
**Theorem (apart).** With `over`, the rows of such a relation from `within` and those from `over`, together, are its
rows from the table, and a unit has rows in one of the two only.
**Proof.** The parts are a partition of the table by unit; each row of the relation comes from one row of the scan.
**Requires** a copy made of this version of the data by these bounds (`copies_of`); verified uniqueness behind each
lookup.
**Checked by** `tests/properties/test_at_rest.py`: neighbours are prepared and compared, with the planted bugs "chosen
by place", "one row too many" and "a unit in both parts".

Which prepared copies may be read: those of this version of the data, made by these bounds, and not touched since.

**Theorem.** A copy that is read is the one that `dpsql prepare` wrote from this version of the data by what the policy
says now.
**Proof.** The ledger's facts are looked up by the version's label; one of them must have the digest of what
the policy says (`recipe`) and the stamp of the file that is open, or the digest of its content. Whatever else is there
is refused, and the table with it.
**Requires** facts that only the steward's command writes (`dpsql.budget.ledger`), and a label that changes when the
data do: a bump, or the stamp of the file (`dpsql.dataset`).
**Checked by** `tests/unit/session/test_prepare.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

from dpsql.plan.catalog import Copies, Refused
from dpsql.plan.nodes.joins import Inner, Outer
from dpsql.plan.nodes.relation import Copy, JoinSide, Relation, Scan
from dpsql.plan.nodes.semi_joins import Exists
from dpsql.plan.nodes.unary import Filter, Project
from dpsql.policy.identifiers import fold
from dpsql.policy.model import DeclaredColumn, Policy


def bounded_at_rest(relation: Relation) -> Copy | None:
    """The copy from which the relation can be read with at most one row for each row of it; None if there is none."""
    match relation:
        case Scan(copy=copy, part=None):
            return copy
        case Filter(source=Relation() as source) | Project(source=Relation() as source):
            return bounded_at_rest(source)
        case Exists(source=Relation() as source):
            return bounded_at_rest(source)
        case Outer(left=JoinSide() as left, right=JoinSide() as right, full=False, once=True) if not right.private:
            return bounded_at_rest(left.relation)
        case Inner(parts=parts, lookups=lookups):
            roots = [part for number, part in enumerate(parts) if number not in lookups]
            private = [part for part in parts if part.private]
            return bounded_at_rest(roots[0].relation) if len(roots) == 1 and private == roots else None
    return None


def reading(relation: Relation, part: Literal["within", "over"]) -> Relation:
    """The same relation over one part of the copy; the relation is one that `bounded_at_rest` finds a copy for."""
    match relation:
        case Scan():
            return replace(relation, part=part)
        case Filter(source=Relation() as source):
            return replace(relation, source=reading(source, part))
        case Project(source=Relation() as source):
            return replace(relation, source=reading(source, part))
        case Exists(source=Relation() as source):
            return replace(relation, source=reading(source, part))
        case Outer(left=JoinSide() as left):
            return replace(relation, left=replace(left, relation=reading(left.relation, part)))
        case Inner(parts=parts):
            read = [replace(p, relation=reading(p.relation, part)) if p.private else p for p in parts]
            return replace(relation, parts=tuple(read))
    return relation


# which copies may be read ---------------------------------------------------------------------------------------------


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
        made = prepared_copies(facts, table)
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


# identifying copies ---------------------------------------------------------------------------------------------------
# Identifies prepared copies: each is valid for one version of the data, one set of bounds and one content.


PREFIX = "prepared:"


@dataclass(frozen=True, slots=True)
class PreparedCopy:
    """What the ledger knows of the copy of a table, beside the version of the data: its recipe and its content.

    `stamp` is what the file system says of the file that holds it: while that is the same, nobody wrote to the file.
    """

    recipe: str
    content: str
    stamp: str

    @property
    def fact(self) -> str:
        """As it is named in the ledger."""
        return f"{PREFIX}{self.recipe}:{self.content}:{self.stamp}"


def recipe(policy: Policy, table: str) -> str:
    """A digest of all that the policy says of how the copy of a table is made: of its columns whatever it says."""
    declared = policy.tables[table]
    columns = sorted((fold(name), _written(spec)) for name, spec in (declared.columns or {}).items())
    said = [fold(table), policy.owner_path(table), declared.max_rows_per_unit, declared.prepare, columns]
    return blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()


def prepared_copies(facts: Collection[tuple[str, str]], table: str) -> list[PreparedCopy]:
    """The prepared copies of a table that these facts record."""
    texts = [fact.removeprefix(PREFIX) for name, fact in facts if fold(name) == fold(table) and fact.startswith(PREFIX)]
    return [PreparedCopy(*text.split(":", 2)) for text in sorted(texts)]


_FIRST_KEYS = ("min", "max", "values", "values_from", "bounds", "nulls", "type", "minmax", "randomized", "usual")
"""The keys that a column had when the first copies were prepared, in their order."""


def _written(column: DeclaredColumn) -> str:
    """A column as the text of which ledgers hold digests: it must not change for a column that is declared as before.

    A later key is therefore written only where it is declared.
    """
    later = [key for key in type(column).model_fields if key not in _FIRST_KEYS and key in column.model_fields_set]
    return f"Column({', '.join(f'{key}={getattr(column, key)!r}' for key in (*_FIRST_KEYS, *later))})"
