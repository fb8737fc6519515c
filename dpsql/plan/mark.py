"""Whether another relation has a fitting row, as a column of each row."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.expressions.expression import Expression, columns_of
from dpsql.plan.join import Part, share_owner, whole
from dpsql.plan.relation import Relation, require
from dpsql.policy.identifiers import fold


@dataclass(frozen=True, slots=True)
class Marked(Relation):
    """The rows of `source`, each with TRUE if `inner` has a row on which the condition is true, else FALSE.

    **Theorem.** The result is unit-local, with the rows of `source`. It is an attribute of the unit if the condition
    reads attributes of `source` only. **Proof.** Each row stays one row; its mark reads the row, public rows, and
    private rows that have the same owner by `same_owner`: a row of another owner makes the condition false or NULL, so
    it marks nothing. Where the row's part of the condition is the same for all rows of an owner, so is the mark.
    **Requires** the label equality as a top-level conjunct if `inner` is private.
    **Checked by** the neighbour test of marks, and the planted bug "a mark that other people's rows set".
    """

    source: Relation | None = None
    inner: Part | None = None
    condition: Expression | None = None
    mark: str = ""

    def __post_init__(self) -> None:
        source, inner, condition = self.source, self.inner, self.condition
        require(source is not None and inner is not None and condition is not None, "mark")
        assert source is not None and inner is not None and condition is not None
        names = [*(f.name for f in self.fields), *inner.names]
        require(len(set(map(fold, names))) == len(names), "each field beside a mark once")
        require(columns_of(condition) <= {f.name for f in source.fields} | set(inner.names), "mark reads too much")
        require(self.fields[-1].name == self.mark and len(self.fields) == len(source.fields) + 1, "one mark")
        if inner.private:
            require(share_owner(whole(source), inner, [condition]), "mark across owners")

    @property
    def public(self) -> bool:
        return self.source is not None and self.source.public
