"""A world and queries that show whether an engine prunes by statistics: whether it reads a row by the values of others.

The units of a crowd hold NaN and a few values in a narrow range, and one outsider holds values beyond all of them. So
the statistics of a file, a row group or a join differ between neighbours, and with them what an engine would skip.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from attack.worlds import BUDGET
from dpsql.audit.grammar.query_writer import Query, Writer
from dpsql.audit.world import Cell, Row, StoredTable, World

CROWD = 7
NAN, LEAST, MOST = "nan", -(2**63), 2**63 - 1

Palette = tuple[Sequence[Cell], Sequence[Cell], Sequence[Cell]]
"""Common values of the crowd, rare ones, and those of the outsider."""
PALETTES: dict[str, tuple[str, Palette, dict[str, Any]]] = {
    "x": ("DOUBLE", ((0, 1, 4.5, 9), ("inf", "-inf", "-0.0", 10), (11, 50, 99.5, -7, 1e300, "inf", "-inf", 5e-324)),
          {"min": 0, "max": 100}),
    "temp": ("FLOAT", ((0, 1, 4.5, 9), ("inf", "-inf", "-0.0", 10), (11, 39, -19, 3e38, -3e38, "inf", "-inf")),
             {"min": -20, "max": 40}),
    "n": ("INTEGER", ((0, 1, 5, 9), (10, -1), (11, 12, 20, -5, 2**31 - 1, -(2**31))), {"min": 0, "max": 20}),
    "big": ("BIGINT", ((0, 1, 5, 9), (10, -1), (11, 2**62, LEAST, MOST)), {"min": -(2**61), "max": 2**61}),
    "day": ("DATE", (("2024-02-01", "2024-02-03"), ("2024-02-02",), ("2024-03-05", "2023-12-31", "9999-12-31")),
            {"min": "2024-01-01", "max": "2024-12-31"}),
    "kind": ("VARCHAR", (("a", "b"), ("", "c"), ("c", "zz", "A")), {"values": ["a", "b", "c"]}),
    "note": ("VARCHAR", (("m", "n1", "n2"), ("", "é"), ("~", "zz", "a", "n" * 60)), {}),
}  # fmt: skip
NUMBERS, FLOATS = ("x", "x", "temp", "temp", "n", "big"), ("x", "temp")
ODD, NULLS = 0.06, 0.06


def readings(rng: random.Random) -> World:
    """`readings` of a crowd and an outsider, `persons` of one row each, and public `marks`."""
    share = rng.choice((0.0, 0.5, 0.5, 0.8))
    units = range(1, CROWD + 2)
    rows = [(u, *_row(rng, share, far=u > CROWD)) for u in units for _ in range(rng.choice((1, 2, 4)))]
    persons = [(u, *_row(rng, share, far=u > CROWD)) for u in units]
    marks = [_row(rng, share, far=rng.random() < 0.3)[:4] for _ in range(5)]
    types = {name: type_ for name, (type_, _, _) in PALETTES.items()}
    tables = {
        "persons": StoredTable({"id": "INTEGER", **types}, tuple(persons), ("PRIMARY KEY (id)",)),
        "readings": StoredTable({"id": "INTEGER", **types}, tuple(rows)),
        "marks": StoredTable({f"m_{name}": types[name] for name in ("x", "temp", "n", "big")}, tuple(marks)),
    }
    return World.made("readings", _policy(rng.choice((1, 1, 2))), tables)


def _policy(rows: int) -> dict[str, Any]:
    columns = {name: dict(spec) for name, (_, _, spec) in PALETTES.items()}
    return {
        "dataset": "readings",
        "search": False,
        "budget": BUDGET,
        "tables": {
            "persons": {"unit": "id", "unique": True, "columns": columns},
            "readings": {"unit": "id", "max_rows_per_unit": rows, "max_groups_per_unit": rows, "columns": columns},
            "marks": {"public": True},
        },
    }


def _row(rng: random.Random, nans: float, *, far: bool) -> Row:
    return tuple(_cell(rng, type_, values, nans, far=far) for type_, values, _ in PALETTES.values())


def _cell(rng: random.Random, type_: str, values: Palette, nans: float, *, far: bool) -> Cell:
    crowd, odd, beyond = values
    chance = rng.random()
    if far:
        return rng.choice(beyond) if chance < 0.85 else rng.choice(crowd)
    if chance < NULLS:
        return None
    if chance < NULLS + ODD:
        return rng.choice(odd)
    return NAN if type_ in ("DOUBLE", "FLOAT") and rng.random() < nans else rng.choice(crowd)


# queries --------------------------------------------------------------------------------------------------------------

CONDITIONS = (
    "{c} {o} {v}", "{c} {o} {v}", "{c} {o} {v}", "{c} {o} {v}", "{c} BETWEEN {v} AND {w}",
    "{c} NOT BETWEEN {v} AND {w}", "{c} IN ({v}, {w})", "{c} NOT IN ({v}, {w})", "isnan({f})", "NOT isnan({f})",
    "isfinite({f})", "isinf({f})", "{c} IS NOT NULL", "{c} IS DISTINCT FROM {v}", "{f} = {g}", "{f} <> {g}",
    "NOT ({c} {o} {v})", "{c} + 1 {o} {v}", "coalesce({c}, 0) {o} {v}", "({c} {o} {v} OR {d} {o} {w})",
    "({c} {o} {v} AND {d} > {w})", "abs({f}) {o} {v}", "r.day {o} DATE '2024-02-02'", "r.day > DATE '2024-03-01'",
    "r.note {o} 'n1'", "r.note > 'o'", "r.kind = 'c'", "r.kind IN ('c', 'b')", "r.note IN ('zz', 'é')",
    "CASE WHEN {c} {o} {v} THEN {d} > {w} ELSE false END",
)  # fmt: skip
COUNTED = (
    "WHERE {p}", "WHERE {p}", "WHERE {p}", "WHERE {p} AND {q}",
    "{j} persons AS s ON r.id = s.id WHERE {p}", "{j} persons AS s ON r.id = s.id AND {c} = s.{h}",
    "JOIN persons AS s ON r.id = s.id AND s.{h} {o} {v} WHERE {p}", "{k} persons AS s ON r.id = s.id AND s.{h} {o} {v}",
    "JOIN readings AS s ON r.id = s.id AND {c} = s.{h} WHERE {p}",
    "WHERE EXISTS (SELECT 1 FROM persons AS s WHERE s.id = r.id AND s.{h} {o} {v})",
    "WHERE r.id {i} (SELECT s.id FROM persons AS s WHERE s.{h} {o} {v})",
    "{j} marks AS m ON r.{h} = m.m_{h}", "{j} marks AS m ON r.{h} = m.m_{h} WHERE {p}",
    "JOIN marks AS m ON r.{h} {o} m.m_{h}", "{k} marks AS m ON r.{h} = m.m_{h}",
    "WHERE r.{h} {i} (SELECT m_{h} FROM marks)", "WHERE {c} {o} (SELECT max(m_{h}) FROM marks)",
)  # fmt: skip
READ = (
    "SELECT count({c}) AS a0 FROM readings AS r",
    "SELECT count({c}) AS a0, count(*) AS a1 FROM readings AS r WHERE {p}",
    "SELECT count(*) FILTER (WHERE {p}) AS a0, count(*) AS a1 FROM readings AS r",
    "SELECT count({c}) FILTER (WHERE {p}) AS a0 FROM readings AS r WHERE {q}",
    "SELECT sum({c}) AS a0, avg({d}) AS a1 FROM readings AS r WHERE {p}",
    "SELECT count(DISTINCT {c}) AS a0 FROM readings AS r",
    "SELECT count(DISTINCT {c}) AS a0 FROM readings AS r WHERE {p}",
    "SELECT count(DISTINCT r.id) AS a0 FROM readings AS r WHERE {p}",
    "SELECT median({f}) AS a0 FROM readings AS r WHERE {p}",
    "SELECT r.kind, count(*) AS a0 FROM readings AS r WHERE {p} GROUP BY r.kind",
    "SELECT r.note, count(*) AS a0 FROM readings AS r WHERE {p} GROUP BY r.note",
    "SELECT {p} AS k, count(*) AS a0 FROM readings AS r GROUP BY 1",
    "SELECT count(*) AS a0 FROM persons AS r WHERE {p}", "SELECT sum({c}) AS a0 FROM persons AS r WHERE {p}",
)  # fmt: skip
PER_UNIT = (
    "SELECT count(*) AS a0 FROM (SELECT r.id, {e}({c}) AS t FROM readings AS r GROUP BY r.id) AS u WHERE t {o} {v}",
    "SELECT count(t) AS a0 FROM (SELECT r.id, {e}({c}) AS t FROM readings AS r WHERE {p} GROUP BY r.id) AS u",
    "SELECT sum(t) AS a0 FROM (SELECT r.id, count(*) AS t FROM readings AS r WHERE {p} GROUP BY r.id) AS u",
)
SHAPES = (*(f"SELECT count(*) AS a0 FROM readings AS r {tail}" for tail in COUNTED), *READ, *PER_UNIT)
KEYED = ("SELECT r.", "SELECT {p}")
"""How the queries begin whose first column is a key."""
VALUES = ("0", "5", "9", "10", "10", "10.5", "20", "50", "(-1)", "100")


class PruningQueries:
    """Draws queries from these shapes; one in four is drawn from the whole grammar instead."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.rng, self.writer = rng, Writer.over(world, rng)

    def any(self) -> Query:
        """The next one."""
        if self.rng.random() < 0.25:
            return self.writer.any()
        shape = self.rng.choice(SHAPES)
        return self.writer.priced(self._filled(shape), int(shape.startswith(KEYED)))

    def _filled(self, template: str) -> str:
        rng = self.rng
        draws: dict[str, Callable[[], str]] = {
            "c": lambda: f"r.{rng.choice(NUMBERS)}", "f": lambda: f"r.{rng.choice(FLOATS)}",
            "h": lambda: rng.choice(NUMBERS), "v": lambda: rng.choice(VALUES),
            "o": lambda: rng.choice(("=", "<>", "<", "<=", ">", ">", ">=")),
            "e": lambda: rng.choice(("max", "max", "min")), "j": lambda: rng.choice(("JOIN", "JOIN", "LEFT JOIN")),
            "k": lambda: rng.choice(("SEMI JOIN", "ANTI JOIN")), "i": lambda: rng.choice(("IN", "IN", "NOT IN")),
            "p": lambda: self._filled(rng.choice(CONDITIONS)),
        }  # fmt: skip
        draws |= {"d": draws["c"], "g": draws["f"], "w": draws["v"], "q": draws["p"]}
        return template.format(**{name: draw() for name, draw in draws.items() if f"{{{name}}}" in template})
