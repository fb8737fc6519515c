"""Drafts a policy from a database for `dpsql init`: what exists, and who probably owns it.

The draft holds nothing that was learnt from rows, so that it may be shared. Bounds are left to the steward as
comments; a table whose owner is in doubt is commented out, so that it does not exist until somebody decides.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from dpsql.errors import PolicyError
from dpsql.policy.database_catalog import CatalogRelation, DatabaseReader, family, quote, reader_of
from dpsql.policy.identifiers import Names
from dpsql.policy.unit_detection import Guess, Owner, guess_owners

if TYPE_CHECKING:
    import duckdb

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_BOUNDED = frozenset({"integer", "decimal", "float", "date", "timestamp", "timestamptz"})
_LISTED = frozenset({"text", "enum"})
_POLICY_HEADER = """\
# A draft by `dpsql init`: nothing in it is confirmed. Read every line, then run `dpsql check`.
# It was made from names, types and constraints only. What it does not name does not exist for analysts.
# Bounds (min and max) may stay open for numbers: a private search finds them, at a small price. If you declare them,
# take them from what is known about the subject, not from the data: somebody's true value as a bound gives it away.
# A column of a CSV file is text unless it has a `type`, `values`, or `min` and `max`; its type below is a guess.
"""


@dataclass(frozen=True, slots=True)
class PolicyDraft:
    """The policy as YAML text, and what was seen in the data, for the steward only."""

    dataset: str
    policy: str
    observed: str


def draft_policy(source: DatabaseReader | duckdb.DuckDBPyConnection, dataset: str) -> PolicyDraft:
    """Draft a policy for the tables of a database."""
    reader = reader_of(source)
    catalog = reader.catalog()
    guesses = guess_owners(catalog)
    lines = [
        f"dataset: {_scalar(dataset)}",
        "budget: {epsilon: 3, delta: 1.0e-6}   # the most that may ever be learnt; delta far below 1 / units",
        "# `analysts: {ana: {epsilon: 1}}` in it gives ana a cap inside it. With `every: month` that cap starts afresh",
        "# each month, a weaker promise: what ana learns over many months adds up; only the budget itself bounds it.",
        "limits: {epsilon: 1}                  # the most that one query may ask for",
        "search: true                          # what one unit may add, and open bounds, are found by private searches",
        "tables:",
    ]
    for name, relation in catalog.items():
        lines += ["", *_table(relation, guesses[name])]
    return PolicyDraft(dataset, _POLICY_HEADER + "\n".join(lines) + "\n", observe(reader, catalog))


def write_draft(draft: PolicyDraft, path: str | Path) -> tuple[Path, Path]:
    """Write the policy and, beside it, the steward's file; neither replaces an existing file.

    The steward's file gets its mode 0600 in the system call that creates it, so that nobody else can open it
    even for a moment, and it is created through no symbolic link.
    """
    policy = Path(path)
    observed = policy.with_suffix(".observed.yaml")
    for each in (policy, observed):
        if os.path.lexists(each):
            raise _exists(each)
    _create(observed, draft.observed, 0o600)
    try:
        _create(policy, draft.policy, 0o644)
    except BaseException:
        observed.unlink()
        raise
    return policy, observed


def _create(path: Path, text: str, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags, mode)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise PolicyError(f"{path} cannot be written: {error.strerror}", hint="name a writable path") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _exists(path: Path) -> PolicyError:
    return PolicyError(
        f"{path} exists already, and a draft never replaces a file", hint="move it away, or name another path"
    )


def _table(relation: CatalogRelation, guess: Guess) -> Iterator[str]:
    """The lines of one table; all of them comments if the steward has to decide."""
    if not relation.name.isprintable():
        yield "  # a table is left out: its name has characters that cannot be printed"
        return
    if not isinstance(guess, Owner):
        yield f"  # {_scalar(relation.name)}:   # LEFT OUT: {_comment(guess.why)}"
        if relation.view:
            return
        yield "  #   unit: ?   # the column of the person behind each row, or `row`; or write `public: true`"
        yield "  #   columns:"
        yield from (f"  # {line[2:]}" for line in _columns(relation))
        return
    yield f"  {_scalar(relation.name)}:"
    yield from _unit(guess)
    if not guess.unique:
        yield from _keys(relation)
    yield "    columns:"
    yield from _columns(relation, guess.column)


def _unit(guess: Owner) -> Iterator[str]:
    column = _scalar(guess.column)
    target = f"{{{column}: {_scalar(guess.references)}}}" if guess.references else column
    yield f"    unit: {target}   # likely: {_comment(guess.why)}"
    if guess.likely_key:
        path = f"{{{column}: {_scalar(guess.likely_key)}}}"
        yield f"    # unit: {_comment(path)}   # instead, if it is a foreign key; `dpsql check` verifies it"
    if guess.unique:
        yield "    unique: true   # by a constraint of the database"
    else:
        yield "    # unique: true   # if each unit has one row; `dpsql check` verifies it"
        yield "    # max_rows_per_unit: 50   # an outer limit, if you know one: a unit with more counts as so many"


def _keys(relation: CatalogRelation) -> Iterator[str]:
    """What constraints make unique besides the unit: it bounds joins."""
    shown = [key for key in relation.keys if all(_usable(relation, column) for column in key)]
    if shown:
        listed = ", ".join(f"[{', '.join(map(_scalar, key))}]" for key in shown)
        yield f"    unique: [{listed}]   # keys, by constraints of the database"


def _usable(relation: CatalogRelation, column: str) -> bool:
    return column.isprintable() and family(relation.columns[column]) is not None


def _columns(relation: CatalogRelation, unit: str | None = None) -> Iterator[str]:
    for column, data_type in relation.columns.items():
        kind = family(data_type)
        if kind is None or not column.isprintable():
            yield f"      # {_comment(ascii(column))}: left out, {_type(data_type)} is not supported"
            continue
        name = _scalar(column)
        declared = "{min: ?, max: ?}" if kind in _BOUNDED else "{values: [?]}" if kind in _LISTED else ""
        note = f": or {declared}, from what you know, not from the data" if declared and column != unit else ""
        yield f"      {name}: {{}}   # {_type(data_type)}{note}"


def _type(data_type: str) -> str:
    """The type without its details: those of an ENUM are values of the data."""
    return data_type if data_type.startswith("DECIMAL(") else data_type.partition("(")[0]


def _scalar(name: str) -> str:
    """A name as YAML, in quotes where YAML might read something else."""
    simple = all(_PLAIN.fullmatch(part) for part in name.split(".")) and name.lower() not in _WORDS
    return name if simple else json.dumps(name, ensure_ascii=False)


def _comment(text: str) -> str:
    """Text that stays inside its line."""
    return "".join(each if each.isprintable() else "?" for each in text)


# the steward's file of observed values

FEW = 20
_ORDERED = frozenset({"integer", "decimal", "float", "date", "timestamp", "timestamptz"})
_OBSERVED_HEADER = """\
# FOR THE STEWARD ONLY: these are true values of private data, not protected by anything.
# Do not share this file, do not commit it, and delete it once the policy is written.
# Bounds that are copied from here tell analysts about single people (the largest income is somebody's):
# take them from what is known about the subject, and use this file only to see whether they are sensible.
"""


def observe(reader: DatabaseReader, catalog: Names[CatalogRelation]) -> str:
    """Row counts, extremes, and the values of columns that have few, as YAML for the steward's eyes."""
    seen = {name: _observe_table(reader, each) for name, each in catalog.items() if not each.view}
    return _OBSERVED_HEADER + yaml.safe_dump({"observed": seen}, sort_keys=False, allow_unicode=True)


def _observe_table(reader: DatabaseReader, table: CatalogRelation) -> dict[str, Any]:
    columns = {name: _observe_column(reader, table.name, name, kind) for name, kind in table.columns.items()}
    [(rows,)] = reader.rows(f"SELECT count(*) FROM {reader.table(table.name)}")
    return {"rows": rows, "columns": {name: seen for name, seen in columns.items() if seen}}


def _observe_column(reader: DatabaseReader, table: str, column: str, data_type: str) -> dict[str, Any]:
    kind = family(data_type)
    if kind is None:
        return {}
    name, source = quote(column), reader.table(table)
    [(nulls,)] = reader.rows(f"SELECT count(*) - count({name}) FROM {source}")
    seen: dict[str, Any] = {"nulls": nulls}
    if kind in _ORDERED:
        [ends] = reader.rows(f"SELECT min({name})::VARCHAR, max({name})::VARCHAR FROM {source}")
        seen |= zip(("min", "max"), ends, strict=True)
    return seen | _few_values(reader, source, name)


def _few_values(reader: DatabaseReader, table: str, column: str) -> dict[str, Any]:
    found = reader.rows(f"SELECT DISTINCT {column}::VARCHAR FROM {table} WHERE {column} IS NOT NULL LIMIT {FEW + 1}")
    return {"values": sorted(value for (value,) in found)} if 0 < len(found) <= FEW else {}
