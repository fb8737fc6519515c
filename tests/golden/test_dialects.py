"""What PostgreSQL and Spark are asked, as text: a slip in a form or in a release is seen here at once, without a server.

That the texts mean the right thing is checked on the engines themselves (`tests/engines`). A form is written out for
the first type that it takes, if it is short, and known by a digest for the others.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from sqlglot import exp

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))
import edge_values
from attack.totality.forms import _parsed, letters, written
from golden import CASES, connect, queries

import dpsql
from dpsql.budget.pricing import Portion, price_release
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.postgres import server_session as total_functions
from dpsql.engines.postgres.dialect import UNLIMITED, Postgres
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.sql.dialect import Dialect, Site
from dpsql.engines.sql.layout import lay_out
from dpsql.engines.sql.release_statements import statements
from dpsql.engines.sql.vector_clip import bucket
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.from_syntax import convert
from dpsql.expressions.types import Kind, from_engine
from dpsql.sensitivity.bound import norm_search

SHORT = 400
DIALECTS = {"postgres": Postgres(), "spark": SPARK}
TYPES = (
    "INTEGER", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN", "SMALLINT", "BIGINT", "DECIMAL(9,2)", "DECIMAL(18,3)",
    "DECIMAL(38,10)", "FLOAT", "TIMESTAMP WITH TIME ZONE", "UUID", UNLIMITED,
)  # fmt: skip
PAIRS = [
    *((t, t) for t in TYPES), ("SMALLINT", "BIGINT"), ("BIGINT", "DOUBLE"), ("DOUBLE", "DECIMAL(9,2)"), ("DECIMAL(9,2)", "BIGINT"),
    ("DECIMAL(9,2)", "DECIMAL(18,3)"), ("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE"), ("DATE", "INTEGER"), ("DATE", "BIGINT"),
    ("BOOLEAN", "DOUBLE"), ("VARCHAR", "INTEGER"), ("INTEGER", "DECIMAL(18,3)"),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A resolver for the columns of one row."""

    types: dict[str, str]

    def column(self, node: exp.Column) -> Expression:
        type_ = from_engine(self.types[node.name])
        assert type_ is not None
        return Column(type_, name=node.name)


def form_lines(dialect: Dialect, form: str) -> Iterator[str]:
    """What the engine is asked for a form, over each type that the form takes, or that it is refused."""
    names, first = letters(form), True
    choices = PAIRS if len(names) == 2 else [(t,) * len(names) for t in TYPES]
    for types in choices if names else [()]:
        stored = dict(zip(names, types, strict=True))
        try:
            expression = convert(_parsed(form), Row(stored))  # type: ignore[arg-type]
            if expression.type.kind is Kind.INTERVAL:
                continue
        except dpsql.Error:
            continue
        over = ", ".join(dict.fromkeys(types))
        try:
            text = dialect.sql(expression, lambda name: dialect.read(dialect.quote(name), stored[name]))  # noqa: B023
        except dpsql.Error as refusal:
            yield f"  {over}: {str(refusal).splitlines()[0]}"
            continue
        shown = first and len(text) <= SHORT
        yield f"  {over}: {text if shown else hashlib.sha256(text.encode()).hexdigest()[:16]}"
        first = False


def release_lines(db: dpsql.Connection, sql: str) -> Iterator[str]:
    """What each engine is asked for the releases of a query; nothing for one that is refused."""
    mechanism = "laplace" if sql.startswith("-- laplace") else None
    try:
        releases = db.prepare(sql, mechanism=mechanism).bill.releases
    except dpsql.Error:
        return
    for name, dialect in DIALECTS.items():
        site = Site(db.engine.schema(), dialect)
        try:
            for priced in releases:
                for text in statements(priced, site, None):
                    yield from laid_out(name, text)
        except dpsql.Error as refusal:
            yield f"  {name}: {str(refusal).splitlines()[0]}"


def laid_out(what: str, text: str) -> Iterator[str]:
    """A statement as `explain` lays it out."""
    yield f"  {what}:"
    yield from (f"    {line}" for line in lay_out(text).splitlines())


def compare(name: str, said: str, request: pytest.FixtureRequest) -> None:
    expected = Path(__file__).parent / "dialects" / f"{name}.out"
    if request.config.getoption("--golden-update"):
        assert not os.environ.get("CI"), "golden files are not rewritten in CI"
        expected.write_text(said)
    assert said.splitlines() == expected.read_text().splitlines()


CLIPPED = (
    "SELECT status, count(*), sum(amount) FROM orders GROUP BY status",
    "-- laplace\nSELECT status, avg(amount), count(DISTINCT customer_id) FROM orders GROUP BY status",
    "SELECT note, sum(price), count(DISTINCT qty) FROM orders GROUP BY note",
    "SELECT status, count(DISTINCT note) FROM orders GROUP BY status",
    "-- laplace\nSELECT count(DISTINCT note) FROM orders",
    "SELECT avg(amount) FROM orders",
    "SELECT page, sum(duration) FROM visits GROUP BY page",
)


def clip_lines(db: dpsql.Connection, sql: str) -> Iterator[str]:
    """What each engine is asked for the clipped totals of a query, and for the search for its norms."""
    mechanism = "laplace" if sql.startswith("-- laplace") else "gaussian"
    [main] = db.prepare(sql, mechanism=mechanism).bill.releases
    price = Portion(mechanism, Fraction(1, 100), (Fraction(1, 100),))
    searches = [price_release(norm_search(main.bounded, each.vector), price) for each in main.bounded.clipped]
    assert searches
    for name, dialect in {"duckdb": DUCKDB, **DIALECTS}.items():
        site = Site(db.engine.schema(), dialect)
        for what, priced in (("totals", main), *(("norms", search) for search in searches)):
            for text in statements(priced, site, None):
                for norm in ("l1", "l2"):
                    text = text.replace(bucket(dialect, norm), f"<bucket by {norm}>")  # noqa: PLW2901
                yield from laid_out(f"{name} {what}", text)


def test_the_clip_and_its_search_are_written_as_they_were(request: pytest.FixtureRequest) -> None:
    with connect(search=True) as db:
        said = "".join("\n".join([sql, *clip_lines(db, sql), "", ""]) for sql in CLIPPED)
    compare("rule_vector", said, request)


@pytest.mark.parametrize("name", DIALECTS)
def test_each_form_is_written_as_it_was(name: str, request: pytest.FixtureRequest) -> None:
    forms = dict.fromkeys((*written(), *edge_values.FORMS))
    said = "".join("\n".join([form, *form_lines(DIALECTS[name], form), ""]) for form in forms)
    compare(f"{name}_forms", said, request)


def test_each_function_of_postgres_is_defined_as_it_was(request: pytest.FixtureRequest) -> None:
    """The definitions with which a session begins; what they compute is checked in `test_postgres_total.py`."""
    compare("postgres_functions", "".join(f"{statement}\n\n" for statement in total_functions.statements()), request)


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.sql") if "refus" not in path.stem))
def test_each_release_is_written_as_it_was(name: str, request: pytest.FixtureRequest) -> None:
    with connect() as db:
        said = "".join("\n".join([sql, *release_lines(db, sql), "", ""]) for sql in queries(name))
    compare(name, said, request)
