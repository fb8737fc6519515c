"""The steward's commands: draft a policy, and verify what a policy declares. They read private data exactly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsql.errors import Error, InterfaceError
from dpsql.policy import check_facts, draft_policy, write_draft

if TYPE_CHECKING:
    from dpsql.engines.duckdb.prepare import Order, Told, Written
    from dpsql.policy import PolicyFinding
    from dpsql.policy.searched_subjects import Subject
    from dpsql.session import Connection


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found, and how many facts the ledger now holds for this version of the data."""

    findings: tuple[PolicyFinding, ...]
    recorded: int
    ledger: str

    @property
    def ok(self) -> bool:
        """Nothing has to be mended."""
        return all(finding.ok for finding in self.findings)


def check(db: Connection) -> Checked:
    """Verify the declared facts and record those that hold, each for the version of the file that was opened.

    A fact that does not hold is not recorded, so rules that need it are not used; the others stay true beside it. The
    version is the label before the data are read, as in `prepare`: a bump meanwhile names data that nobody looked at.
    """
    version = db.data_version()
    findings = [*check_facts(db.engine.reader(), db.policy), *_views(db)]
    facts = [each for each in findings if each.kind == "verified" and _is_fact(each.fact)]
    for each in facts:
        db.ledger.record_fact(each.table, each.fact, version)
    return Checked(tuple(findings), len(facts), db.ledger.place)


def prepare(db: Connection, told: Told) -> tuple[Written, ...]:
    """Write the copies that the policy asks for, and note in the ledger of what they are copies.

    The version is the label before the data are read: should somebody change them meanwhile, the copy is of a version
    that is no more, and refused.
    """
    from dpsql.engines.duckdb.engine import DuckDBEngine
    from dpsql.plan.at_rest import PreparedCopy, recipe

    engine, version = db.engine, db.data_version()
    if not db.policy.prepared:
        raise InterfaceError(
            "the policy prepares no table", hint="add `prepare: weigh` to a private table with max_rows_per_unit"
        )
    if not isinstance(engine, DuckDBEngine) or engine.copies is None or not engine.verifiable:
        raise InterfaceError(
            "only files of DuckDB can be prepared, with a ledger that is a file",
            hint="give a database file, or delete `prepare` from the policy",
        )
    made = engine.prepare(orders_of(db), db.ledger.salt(), told)
    for each in made.tables:
        fact = PreparedCopy(recipe(db.policy, each.table), made.content, made.stamp).fact
        db.ledger.record_fact(each.table, fact, version)
    return made.tables


def orders_of(db: Connection) -> list[Order]:
    """The tables to be prepared, as the steward's planner reads them without copies."""
    from dpsql.engines.duckdb.prepare import Order
    from dpsql.plan.catalog import PrivateTable, UnavailableTable
    from dpsql.plan.nodes.relation import Copy

    orders = []
    for name in db.policy.prepared:
        table = db.dataset.uncopied_catalog().find(name)
        if isinstance(table, UnavailableTable):
            raise InterfaceError(f"{name} cannot be prepared: {table.reason}", hint=table.hint)
        assert isinstance(table, PrivateTable)
        copy = Copy(db.policy.rows_per_unit(name), db.policy.tables[name].prepare == "weigh")
        orders.append(Order(table.scan, copy))
    return orders


def _views(db: Connection) -> Iterator[PolicyFinding]:
    """Whether each view can be planned: one that cannot does not exist for analysts."""
    from dpsql.plan.view_expansion import planned, view_columns
    from dpsql.policy import PolicyFinding

    catalog = db.dataset.whole_catalog
    for name, sql in db.policy.view_queries.items():
        made = planned(sql, catalog)
        if isinstance(made, Error):
            yield PolicyFinding(name, "view", False, "error", f"the view cannot be planned: {made.message}")
        else:
            columns = ", ".join(column for column, _ in view_columns(made, catalog))
            yield PolicyFinding(name, "view", True, "verified", f"a view with the columns {columns}")


def _is_fact(name: str) -> bool:
    return name.startswith(("unique:", "key:", "foreign_key:"))


def found(db: Connection, *, search: bool) -> Iterator[str]:
    """What private searches found in this version of the data: a line for each bound, and one for each clip.

    `search` makes those that the policy asks for by `auto`; others are made by the first query that needs them.
    """
    asked = db.policy.searched()
    lines = [_bound_line(db, subject, search=search) for subject in asked]
    lines += [
        _bound_line(db, subject, search=False)
        for subject in db.searches.numbers()
        if subject not in asked and db.searches.read(subject) is not None
    ]
    lines += _clip_lines(db)
    if lines:
        yield from lines
    elif db.policy.searches:
        yield "# nothing has been searched for yet: the first query that needs a bound or a clip runs the search"
    else:
        yield "# the policy leaves nothing to a search: write `bounds: auto` for a column, or"
        yield "# `max_rows_per_unit: auto` for a table, to have one; `search: true` to have all that helps"


def _bound_line(db: Connection, subject: Subject, *, search: bool) -> str:
    made = db.search(subject) if search else db.searches.read(subject)
    where = f"tables.{subject.table}" + (f".columns.{subject.column}" if subject.column else "")
    if made is None:
        return f"# {where}: not searched for yet (`dpsql bounds --search` does, or the first query that needs it)"
    if made[0] is None:
        return f"# {where}: too few units to find bounds"
    if subject.column is None:
        return f"{where}.max_rows_per_unit: {made[0].upper}"
    if not db.searches.bounds_needed(subject):
        return f"# {where}: most values lie in {made[0]} (the declared bounds stay as they are)"
    return f"{where}: {{min: {made[0].lower}, max: {made[0].upper}}}"


def _clip_lines(db: Connection) -> Iterator[str]:
    """The searches for a clip, each with the query that it was made for and what it tells about it today."""
    from dpsql.answers.render import clip_text
    from dpsql.search.searcher import BEST_CLIP

    made = [entry.text.removeprefix(BEST_CLIP) for entry in db.ledger.log() if entry.text.startswith(BEST_CLIP)]
    for sql in dict.fromkeys(made):
        yield "# a search for the best clip of: " + " ".join(sql.split())
        with suppress(Error):
            clips = [clip for release in db.explain(sql).releases for clip in release.clips]
            yield from (f"#   {clip_text(clip)}" for clip in clips)


def draft(database: str | Path, policy: Path, dataset: str) -> tuple[Path, Path]:
    """Write a first policy for a database, and beside it what was observed, readable by the steward only."""
    from dpsql.engines.base import Resources
    from dpsql.engines.duckdb.table_files import is_lake, tables_found
    from dpsql.engines.open_engine import open_engine

    source: Any = tables_found(Path(database)) if is_lake(database) else database
    engine = open_engine(source, Resources())
    try:
        return write_draft(draft_policy(engine.reader(), dataset), policy)
    finally:
        engine.close()
