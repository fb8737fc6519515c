"""Results with noise, read as rows below another aggregate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from dpsql.plan.nodes.relation import JoinSide, Relation, UniqueKeys, require


@dataclass(frozen=True, slots=True)
class ReleasedScan(Relation):
    """The rows that the nested query `table` will have released. `digest` names its content once there is one.

    `key` are columns that name at most one row (none of them: there is one row); None if nothing is known.

    **Theorem.** For each content of the nested tables, the relation above this node is unit-local, and its bounds hold.
    The whole query is as private as its releases together, whatever was released first. **Proof.** Rows of a fixed
    table belong to nobody and may be joined with anybody's, as those of a public table. The content is a function of
    releases, so the later release is one that an analyst could have asked for after seeing them, with the table written
    out: adaptive composition, which the ledger's filters allow. Every domain here is that of the type, so bounds, keys,
    noise and price are the same for every content, and are fixed before any is known. **Requires** `of_type` domains
    (`dpsql.plan.builder.nested_queries`), and the content's digest in the mark of whatever reads it. **Checked by** the
    neighbour test of nested queries, which gives both databases one content, and the planted bugs "a released value
    narrows a bound", "the mark of the outer release without the inner content" and "the inner release is not charged".
    """

    table: str = ""
    key: frozenset[str] | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        require(not self.by_row, "released rows are no units")
        require(all(f.owner is None and not f.attribute for f in self.fields), "released rows belong to nobody")

    @property
    def public(self) -> bool:
        return True

    def unique_keys(self) -> UniqueKeys:
        return frozenset() if self.key is None else frozenset({self.key})


@dataclass(frozen=True, slots=True)
class Content:
    """What a nested query gave: its rows as text (None is NULL), in an order of their own."""

    rows: tuple[tuple[str | None, ...], ...]

    @property
    def digest(self) -> str:
        """A digest of the content: two contents have the same digest only if they are equal."""
        return hashlib.sha256(json.dumps(self.rows).encode()).hexdigest()


def content_of(rows: Iterable[Sequence[str | None]]) -> Content:
    """The content of these rows, independent of their order."""
    return Content(tuple(sorted((tuple(row) for row in rows), key=lambda row: [(v is None, v or "") for v in row])))


Node = TypeVar("Node")


def released_in(node: object) -> Iterator[ReleasedScan]:
    """The released tables that a relation reads, at any depth."""
    if isinstance(node, ReleasedScan):
        yield node
    elif isinstance(node, Relation | JoinSide):
        for each in fields(node):
            yield from released_in(getattr(node, each.name))
    elif isinstance(node, tuple):
        for item in node:
            yield from released_in(item)


def with_digests(node: Node, digests: Mapping[str, str]) -> Node:
    """The relation over these contents."""
    return _mapped(node, lambda scan: replace(scan, digest=digests[scan.table]))


def _mapped(node: Node, change: Callable[[ReleasedScan], ReleasedScan]) -> Node:
    if isinstance(node, ReleasedScan):
        return change(node)  # type: ignore[return-value]
    if isinstance(node, tuple):
        items = tuple(_mapped(item, change) for item in node)
        same = all(one is two for one, two in zip(items, node, strict=True))
        return node if same else items  # type: ignore[return-value]
    if not isinstance(node, Relation | JoinSide):
        return node
    found = {each.name: getattr(node, each.name) for each in fields(node)}
    changed = {name: made for name, it in found.items() if (made := _mapped(it, change)) is not it}
    return replace(node, **changed) if changed else node
