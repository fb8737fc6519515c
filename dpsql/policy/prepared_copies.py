"""Identifies prepared copies: each is valid for one version of the data, one set of bounds and one content."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b

from dpsql.policy.identifiers import fold
from dpsql.policy.model import DeclaredColumn, Policy

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


def made_of(facts: Collection[tuple[str, str]], table: str) -> list[PreparedCopy]:
    """The prepared copies of a table that these facts record."""
    texts = [fact.removeprefix(PREFIX) for name, fact in facts if fold(name) == fold(table) and fact.startswith(PREFIX)]
    return [PreparedCopy(*text.split(":", 2)) for text in sorted(texts)]


def _written(column: DeclaredColumn) -> str:
    """The digests in existing ledgers were taken of this text, so neither it nor the order of its keys may change."""
    return "Column" + repr(column).removeprefix(type(column).__name__)
