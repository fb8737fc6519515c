"""The statements: those of `forbidden.sql`, a line each under the title of its kind, and some too large to list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

MANY = 10_000
HUGE = 10_000_000
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|n|\\)")


@dataclass(frozen=True, slots=True)
class Statement:
    """What is sent, and what kind of trick it is."""

    kind: str
    sql: str

    @property
    def brief(self) -> str:
        """For a report."""
        return ascii(self.sql if len(self.sql) <= 200 else f"{self.sql[:150]} … ({len(self.sql):,} characters)")


def statements(every: int = 1) -> list[Statement]:
    """All that are listed, and every so-manieth of the large ones."""
    return [*listed(), *generated()[::every]]


def listed() -> list[Statement]:
    """Those of the file, in which a backslash begins an escape: a code in hexadecimal, a new line, or itself."""
    text = resources.files("attack.doors").joinpath("forbidden.sql").read_text(encoding="utf-8")
    found, kind = list[Statement](), ""
    for line in text.splitlines():
        if line.startswith("# "):
            kind = line[2:]
        elif line:
            found.append(Statement(kind, _ESCAPE.sub(_escaped, line)))
    return found


def _escaped(match: re.Match[str]) -> str:
    code = match[1]
    return {"n": "\n", "\\": "\\"}.get(code) or chr(int(code[1:], 16))


def generated() -> list[Statement]:
    """Deep, long, wide and multiplying ones."""
    return [
        *(Statement("10,000 deep", sql) for sql in _deep()),
        *(Statement("multiplying", sql) for sql in _multiplying()),
        *(Statement("10 MB", sql) for sql in _long()),
        *(Statement("wide", sql) for sql in _wide()),
    ]


def _nested(before: str, inside: str, after: str, many: int = MANY) -> str:
    return before * many + inside + after * many


def _deep() -> list[str]:
    return [
        f"SELECT {_nested('(', '1', ')')} FROM people",
        f"SELECT count({_nested('CASE WHEN age > 1 THEN ', '1', ' END')}) FROM people",
        f"SELECT count(*) FROM people WHERE {'NOT ' * MANY} true",
        f"SELECT count(*) FROM people WHERE {'NOT(' * MANY} true",
        f"SELECT count(*) FROM people WHERE age > {'- ' * MANY} 1",
        f"SELECT count(*) FROM {_nested('(SELECT * FROM ', 'people', ') AS x')}",
        f"SELECT count(*) FROM {_nested('(SELECT * FROM ', 'people', ') AS x', 2_000)}",
        " UNION ALL ".join(["SELECT note FROM people"] * MANY),
        f"SELECT sum({_nested('abs(', 'age', ')')}) FROM people",
        f"WITH {', '.join(f'c{i} AS (SELECT * FROM c{i - 1})' for i in range(1, MANY))} SELECT * FROM c1",
        f"SELECT {_nested('[', '1', ']')} FROM people",
        f"SELECT {_nested(chr(123) + chr(39) + 'a' + chr(39) + ': ', '1', chr(125))} FROM people",
        f"SELECT count(*) FROM people WHERE {_nested('EXISTS (SELECT 1 FROM orders WHERE ', 'true', ')')}",
        f"SELECT {_nested('(SELECT ', '1', ')')}, note FROM people",
        f"SELECT sum(age{'::INT' * MANY}) FROM people",
        f"SELECT count({'.'.join(['a'] * MANY)}) FROM people",
        f"SELECT count(age{'[1]' * MANY}) FROM people",
        f"SELECT count(*) FROM people WHERE true{' IS TRUE' * MANY}",
        f"SELECT sum({'+'.join(['age'] * MANY)}) FROM people",
        f"SELECT count(*) FROM people WHERE {' OR '.join(['age > 1'] * MANY)}",
        f"SELECT count(*) FROM people WHERE {' AND '.join(['age > 1'] * MANY)}",
        f"SELECT count(*) FROM people WHERE {'||'.join(['note'] * MANY)} = 'x'",
        f"SELECT note FROM people {'INTERSECT SELECT note FROM people ' * MANY}",
        f"SELECT list_transform([1], x -> {_nested('list_transform([1], x -> ', '1', ')')}) FROM people",
        "/*" * MANY + " SELECT * FROM people " + "*/" * MANY,
        f"SELECT note FROM people WHERE {_nested('CASE ', '1', ' END')}",
    ]


def _multiplying() -> list[str]:
    """Each CTE uses the one before it twice: forty lines, a trillion rows, or relations, or letters."""

    def chain(first: str, step: str, last: str, many: int = 40) -> str:
        steps = [f"c{i} AS ({step.format(f'c{i - 1}')})" for i in range(1, many)]
        return f"WITH c0 AS ({first}), {', '.join(steps)} SELECT {last} FROM c{many - 1}"

    return [
        chain("SELECT * FROM people", "SELECT * FROM {0} UNION ALL SELECT * FROM {0}", "count(*)"),
        chain("SELECT id FROM people", "SELECT x.id FROM {0} x JOIN {0} y ON x.id = y.id", "count(*)"),
        chain("SELECT id FROM people", "SELECT id FROM {0} x WHERE EXISTS (SELECT 1 FROM {0} y WHERE y.id = x.id)",
        "count(*)"),
        chain("SELECT id, note FROM people", "SELECT id, note || note AS note FROM {0}", "max(note)"),
        chain("SELECT id, age AS a FROM people", "SELECT id, a * a AS a FROM {0}", "sum(a)"),
        f"SELECT age + age AS a0, {', '.join(f'a{i - 1} + a{i - 1} AS a{i}' for i in range(1, 60))}, note FROM people",
        f"SELECT count(*) FROM people GROUP BY CUBE ({', '.join(['region', 'vip', 'age', 'note'] * 8)})",
        f"SELECT count(*) FROM people {' '.join(f'JOIN stores s{i} ON true' for i in range(400))}",
        f"SELECT count(*) FROM people {', stores' * 400}",
    ]  # fmt: skip


def _long() -> list[str]:
    return [
        "SELECT note FROM people -- " + "x" * HUGE,
        f"SELECT note FROM people WHERE note = '{'x' * HUGE}'",
        ";" * HUGE,
        " " * HUGE,
        "/*" * (HUGE // 2),
        "/*+ " + "epsilon(0.1) " * (HUGE // 13) + "*/ SELECT count(*) FROM people",
        "SET dpsql.epsilon = " + "9" * HUGE,
        "SET " + " " * HUGE + "dpsql.epsilon",
        "(" * HUGE,
        "SET a = x" + " " * 95_000 + "y; SELECT note FROM people",
        "SELECT note FROM people " + "a," * 49_000,
        "'" * (HUGE + 1),
        '"' * (HUGE + 1),
        "$$" + "x" * HUGE,
        ("-- " + "x" * 996 + "\n") * (HUGE // 1_000),
        "\u0000" * HUGE,
        "SELECT " + "\u00e9" * HUGE,
        "EXPLAIN " * (HUGE // 8),
    ]


def _wide() -> list[str]:
    return [
        f"SELECT note FROM people WHERE age IN ({', '.join(['1'] * 1_000_000)})",
        f"SELECT note FROM people WHERE age IN ({','.join(['1'] * 49_900)})",
        f"SELECT {','.join(['count(*)'] * 9_900)}, note FROM people",
        f"SELECT note FROM people GROUP BY {','.join(['note'] * MANY)}",
        f"SELECT note FROM people ORDER BY {','.join(['note'] * MANY)}",
        f"SELECT note FROM (VALUES {','.join(['(1)'] * 24_000)}) AS v(x), people",
        f"SELECT count(*) FROM people WHERE note LIKE '{'%a' * 50_000}' AND secret = 1",
        f"SELECT count(*) FROM people WHERE age > {'9' * 100_000}",
        f"SELECT count(*) FROM people WHERE age > 0.{'9' * 100_000}",
        f"SELECT count(*) FROM people WHERE age > 1e{'9' * 1_000}",
        f"SELECT sum(age * {'9' * 1_000}) FROM people",
        f"SELECT count(*) AS {'x' * 95_000}, note FROM people",
    ]
