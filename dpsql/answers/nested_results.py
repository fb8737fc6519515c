"""The contents of nested queries, as far as their releases are made: computed in the sealed database, named by digest.

**Theorem.** The mark of a release says what it reads: with equal marks two releases read equal rows. **Proof.** The
emitted SQL names each nested table by the SHA-256 of its rows, and the mark is a digest of that SQL. **Requires** rows
that are sorted texts, of which alone the outer query is made (`dpsql.plan.nodes.released_scan.content_of`), and a mark
that also names the version of the data (`dpsql.answers.reuse`). **Checked by** the planted bug "the mark of the outer
release without the inner content".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpsql.answers.consistent_totals import fit_tables
from dpsql.answers.error_bars import bar_columns
from dpsql.answers.estimation import tabulate
from dpsql.answers.finish import Finisher, finishing_sql
from dpsql.answers.missing_groups import only_present
from dpsql.answers.noise_stage import NoisyTable
from dpsql.budget.pricing import Priced
from dpsql.errors import InternalError
from dpsql.plan.nodes.released_scan import Content, content_of, released_in, with_digests
from dpsql.plan.plan import NestedQuery

_RELEASE = re.compile(r"\b_r\d+\b")


@dataclass(slots=True)
class NestedResults:
    """What each nested query gave, by its name; `pending` names those that are still to be released."""

    finisher: Finisher
    nested: Sequence[NestedQuery]
    made: dict[str, Content] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)

    def complete(self, tables: Mapping[str, NoisyTable], marks: Mapping[str, bytes] | None = None) -> None:
        """Take in all nested queries whose releases are there; the others are named after what they will be made of."""
        for nested in self.nested:
            if nested.name in self.made:
                continue
            if all(release.name in tables for release in nested.plan.releases):
                self.made[nested.name] = _content(self.finisher, nested, tables)
            elif marks is not None:
                named = _RELEASE.sub(lambda m: marks.get(m[0], b"").hex() or m[0], finishing_sql(nested.plan))
                self.pending[nested.name] = f"pending_{hashlib.sha256(named.encode()).hexdigest()}"

    def filled(self, priced: Priced) -> Priced:
        """The release over the contents that it reads, or over their placeholders."""
        source = priced.bounded.release.source
        if not any(released_in(source)):
            return priced
        digests = self.pending | {name: content.digest for name, content in self.made.items()}
        release = replace(priced.bounded.release, source=with_digests(source, digests))
        return replace(priced, bounded=replace(priced.bounded, release=release))

    def knows(self, priced: Priced) -> bool:
        """Is everything there that the release reads?"""
        return all(scan.table in self.made for scan in released_in(priced.bounded.release.source))


def _content(finisher: Finisher, nested: NestedQuery, tables: Mapping[str, NoisyTable]) -> Content:
    """The answer of a nested query, as text: as it is, since what an analyst is shown may be cut at zero."""
    made = {release.name: tables[release.name] for release in nested.plan.releases}
    released = fit_tables(nested.plan, made)
    bars = bar_columns(finisher, nested.plan, released)
    columns = {name: only_present(made[name], tabulate(table, bars[name])) for name, table in released.items()}
    names = [f"c{i}" for i in range(len(nested.plan.outputs))]
    inner = exp.Subquery(
        this=nested.plan.finishing.copy(),
        alias=exp.TableAlias(this=exp.to_identifier("n"), columns=[exp.to_identifier(name) for name in names]),
    )
    listed = [exp.cast(exp.column(name), "VARCHAR") for name in names]
    rows = finisher.run(nested.plan, columns, exp.Select(expressions=listed, from_=exp.From(this=inner))).rows
    _check_key(nested, rows)
    return content_of(rows)


def _check_key(nested: NestedQuery, rows: Iterable[Sequence[str | None]]) -> None:
    """Check that the key is unique, since a rule relies on it; keys of a release are unique by construction."""
    if nested.key is not None:
        keys = [tuple(row[i] for i in nested.key) for row in rows]
        if len(set(keys)) < len(keys):
            raise InternalError(f"the rows of {nested.name} are not unique by their key")
