"""A catalogue for relations that a test makes by hand: each table is what its scan says of it."""

from __future__ import annotations

from dpsql.plan.catalog import Catalog, NoPublicData, PrivateTable
from dpsql.plan.nodes.relation import Relation, scans_in
from dpsql.policy.identifiers import fold


def catalog_of(relation: Relation, max_public_keys: int = 100) -> Catalog:
    """The catalogue in which the relation's tables are just so."""
    tables = {fold(scan.table): PrivateTable(scan.table, scan, 3) for scan in scans_in(relation)}
    return Catalog(tables, max_public_keys, NoPublicData())
