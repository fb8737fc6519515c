"""The layout of emitted SQL: the same tokens, on lines that a person can read."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import dpsql
from dpsql.engines.sql.layout import lay_out
from dpsql.plan.nodes.released_scan import released_in

sys.path.insert(0, str(Path(__file__).parents[2] / "golden"))
from golden import CASES, connect, queries

QUOTED = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)""")


def tokens(sql: str) -> list[str]:
    """Constants and quoted names whole; of all else each character that is no space, and each word."""
    parts = QUOTED.split(sql)
    return [t for i, p in enumerate(parts) for t in ([p] if i % 2 else re.findall(r"\w+|[^\w\s]", p))]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT '" + "x, (y) FROM '' " * 10 + "' AS a FROM t", "SELECT\n  '" + "x, (y) FROM '' " * 10 + "' AS a\nFROM t"),
        (
            "SELECT a FROM t WHERE " + " AND ".join(f"column_{i} BETWEEN {i} AND {i + 1}" for i in range(4)),
            "SELECT a\nFROM t\nWHERE\n  column_0 BETWEEN 0 AND 1\n  AND column_1 BETWEEN 1 AND 2\n"
            "  AND column_2 BETWEEN 2 AND 3\n  AND column_3 BETWEEN 3 AND 4",
        ),
        (
            "SELECT k FROM (VALUES " + ", ".join(f"('{i}', {i})" for i in range(20)) + ") AS l(v, i)",
            "SELECT k\nFROM (\n  VALUES ('0', 0), ('1', 1), ('2', 2),",
        ),
        (
            "SELECT CASE WHEN aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa > 1 AND bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb > 2 THEN "
            "cccccccccccccccccccccccccccccc ELSE 0 END AS v, count(*) OVER () AS n FROM t",
            "SELECT\n  CASE\n    WHEN aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa > 1\n      AND bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb > 2\n"
            "      THEN cccccccccccccccccccccccccccccc\n    ELSE 0\n  END AS v,\n  count(*) OVER () AS n\nFROM t",
        ),
    ],
)  # fmt: skip
def test_a_layout(sql: str, expected: str) -> None:
    assert lay_out(sql).startswith(expected)
    assert tokens(lay_out(sql)) == tokens(sql)


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.sql") if "refus" not in path.stem))
def test_the_layout_of_each_golden_query_has_its_tokens_and_runs(name: str) -> None:
    """`explain` shows what runs: the layout is run here, on the empty tables of the golden cases."""
    with connect() as db:
        engine = db.engine
        for sql in queries(name):
            try:
                releases = db.prepare(sql, mechanism="laplace" if sql.startswith("-- laplace") else None).bill.releases
            except dpsql.Error:
                continue
            for priced in releases:
                for statement in engine.statements(priced, b"salt"):
                    shown = lay_out(statement)
                    assert tokens(shown) == tokens(statement)
                    assert max(map(len, shown.split("\n"))) < 160, shown
                    if any(released_in(priced.bounded.release.source)):
                        continue
                    cursor = engine.connection.cursor()
                    assert cursor.execute(shown).fetchall() == cursor.execute(statement).fetchall()


def test_expressions_of_any_depth_are_laid_out() -> None:
    sql = "SELECT " + "f(" * 3000 + "x, y" + ")" * 3000 + " FROM t"
    assert tokens(lay_out(sql)) == tokens(sql)
