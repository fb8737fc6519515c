"""EXISTS as a filter, and as a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpsql.bounds.domain import RowDomains, finite
from dpsql.expressions.expression import Expression, columns_of
from dpsql.expressions.types import BOOLEAN
from dpsql.plan.nodes.joins import distinct_names, narrowed_fields, share_owner
from dpsql.plan.nodes.relation import Field, JoinSide, Relation, UniqueKeys, require, side_of
from dpsql.policy.identifiers import fold


@dataclass(frozen=True, slots=True)
class Exists(Relation):
    """The rows of `source` for which `inner` has a row (or, `negated`, none) on which the condition is true.

    **Theorem.** The result is unit-local. **Proof.** It is a filter of `source` whose condition reads the row, public
    rows, and private rows that have the same owner by `same_owner`, and no others: a row of another owner makes the
    condition false or NULL, so it neither finds nor hides anything.
    **Requires** the label equality as a top-level conjunct if `inner` is private.
    **Checked by** the neighbour test of joins, and the planted bug "NOT IN over other people's NULLs".
    """

    source: Relation | None = None
    inner: JoinSide | None = None
    condition: Expression | None = None
    negated: bool = False

    def __post_init__(self) -> None:
        source, inner, condition = self.source, self.inner, self.condition
        require(source is not None and inner is not None and condition is not None, "EXISTS")
        assert source is not None and inner is not None and condition is not None
        names = [*(f.name for f in source.fields), *inner.names]
        require(distinct_names(names) and columns_of(condition) <= set(names), "EXISTS reads what is not there")
        if inner.private:
            require(share_owner(side_of(source), inner, [condition]), "EXISTS across owners")

    @property
    def public(self) -> bool:
        return self.source is not None and self.source.public

    def row_domains(self) -> RowDomains:
        assert self.source is not None
        return RowDomains({f.name: f.domain for f in self.fields}, self.source.row_domains().refinements)

    def unique_keys(self) -> UniqueKeys:
        assert self.source is not None
        return self.source.unique_keys()

    def stored_columns(self) -> tuple[str, Mapping[str, str]] | None:
        assert self.source is not None
        return self.source.stored_columns()

    def row_numbers(self) -> frozenset[str]:
        assert self.source is not None
        return self.source.row_numbers()


@dataclass(frozen=True, slots=True)
class ExistsColumn(Relation):
    """The rows of `source`, each with TRUE if `inner` has a row on which the condition is true, else FALSE.

    **Theorem.** The result is unit-local, with the rows of `source`. It is an attribute of the unit if the condition
    reads attributes of `source` only. **Proof.** Each row stays one row; its mark reads the row, public rows, and
    private rows that have the same owner by `same_owner`: a row of another owner makes the condition false or NULL, so
    it marks nothing. Where the row's part of the condition is the same for all rows of an owner, so is the mark.
    **Requires** the label equality as a top-level conjunct if `inner` is private.
    **Checked by** the neighbour test of marks, and the planted bug "a mark that other people's rows set".
    """

    source: Relation | None = None
    inner: JoinSide | None = None
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
            require(share_owner(side_of(source), inner, [condition]), "mark across owners")

    @property
    def public(self) -> bool:
        return self.source is not None and self.source.public

    def row_domains(self) -> RowDomains:
        assert self.source is not None
        return RowDomains({f.name: f.domain for f in self.fields}, self.source.row_domains().refinements)

    def unique_keys(self) -> UniqueKeys:
        assert self.source is not None
        return self.source.unique_keys()

    def row_numbers(self) -> frozenset[str]:
        assert self.source is not None
        return self.source.row_numbers()


# Construction from the sides -----------------------------------------------------------------------------------------


def exists_filter(source: Relation, inner: JoinSide, condition: Expression, *, negated: bool) -> Exists:
    """EXISTS as a filter; its condition narrows the rows that are kept."""
    before = source.row_domains()
    fields = tuple(replace(f, domain=before.columns.get(f.name, f.domain)) for f in source.fields)
    if not negated:
        fields = narrowed_fields([*fields, *inner.fields], condition)[: len(fields)]
    return Exists(fields, source.by_row, source.rows_per_unit, source.single, source, inner, condition, negated)


def exists_column(source: Relation, inner: JoinSide, condition: Expression, name: str) -> ExistsColumn:
    """The rows with their mark."""
    known = source.row_domains()
    fields = [replace(f, domain=known.columns.get(f.name, f.domain)) for f in source.fields]
    read = columns_of(condition) - set(inner.names)
    alike = source.single or source.by_row or all(source.field(column).attribute for column in read)
    mark = Field(name, BOOLEAN, finite((False, True), BOOLEAN, nullable=False), alike)
    return ExistsColumn(
        (*fields, mark), source.by_row, source.rows_per_unit, source.single, source, inner, condition, name
    )
