"""A table that holds the edge values of every type, each beside each, in three columns of each type."""

from __future__ import annotations

from dpsql.audit.world import Cell, Row, StoredTable, World

EDGES: dict[str, tuple[Cell, ...]] = {
    "TINYINT": (-128, -1, 0, 3, 127),
    "INTEGER": (-(2**31), -7, -1, 0, 1, 2, 12, 29, 97, 55296, 1114112, 2**31 - 1),
    "BIGINT": (-(2**63), -62135596800, -1, 0, 5, 33, 34, 100, 2**63 - 1),
    "UTINYINT": (0, 1, 200, 255),
    "UBIGINT": (0, 1, 2**63, 2**64 - 1),
    "HUGEINT": (-(2**127), -1, 0, 6, 2**127 - 1),
    "DECIMAL(9,2)": ("-9999999.99", "-2.50", "0", "0.01", "2.50", "3.55", "9999999.99"),
    "DECIMAL(18,3)": ("-999999999999999.999", "0.005", "0.5", "1", "999999999999999.999"),
    "DECIMAL(38,10)": ("-" + "9" * 28 + "." + "9" * 10, "0", "0.0000000001", "1", "9" * 28 + "." + "9" * 10),
    "FLOAT": ("nan", "inf", "-inf", "3.4028235e38", "1e-45", "-0.0", "0", "1.5"),
    "DOUBLE": ("nan", "inf", "-inf", "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "-0.0", "0", "-1",
               "1", "0.5",
               "2.5", "-2.5", "3.7", "40", "171", "9223372036854775808", "-1e19", "1700000000.25"),
    "VARCHAR": ("", " ", "abc", "ABCabc", "a-b-c", "abab", "-9223372036854775809", "1e400", "nan", "2024-02-30",
                "2024-02-29",
                "99999-01-01",
                "é%_\\", "🤦🏼‍♂️b", "İßΑΣ", "e\u0301" * 40, "ab" * 300, "\0x", "true", "a\nb", "%41%zz%ff",
                "/x/y.tar", "17",
                "\u202e\u200b\ufeff", "\U0010ffff\ue000", "a" * 5000, "(" * 400, "\\" * 300, "P1Y2M", "{\"a\": [1]}"),
    "BOOLEAN": (True, False),
    "DATE": ("infinity", "-infinity", "5877642-06-25 (BC)", "5881580-07-10", "0001-01-01", "0001-01-02",
             "0001-01-01 (BC)",
             "9999-12-30", "9999-12-31", "10000-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "2020-12-31"),
    "TIMESTAMP": ("infinity", "-infinity", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806",
                  "0001-01-01 00:00:00",
                  "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "2024-02-29 12:34:56.789",
                  "1677-01-01 00:00:00"),
    "TIMESTAMP WITH TIME ZONE": ("infinity", "-infinity", "294247-01-10 04:00:54.775806+00", "1970-01-01 00:00:00+00"),
    "TIMESTAMP_NS": ("1677-09-22 00:00:00", "2262-04-11 23:47:16.854775806", "1970-01-01 00:00:00.000000001"),
    "TIMESTAMP_S": ("-infinity", "infinity", "1970-01-01 00:00:01"),
    "UUID": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "ENUM('', 'é', 'nan')": ("", "é", "nan"),
}  # fmt: skip
"""Bytes that are no UTF-8, and half surrogates, cannot be stored: DuckDB refuses them in a VARCHAR."""
HUGE_TEXTS: tuple[Cell, ...] = ("x" * 2**20, "é" * 2**19, "a1-" * 2**18)
"""Beside values of every other type once each, not in pairs."""
LETTERS = "abc"
TABLE = "edges"


def column(letter: str, type_: str) -> str:
    """The column in which a letter of a form stands for a type."""
    return f"{letter}{list(EDGES).index(type_)}"


def world() -> World:
    """Each row is a unit; nothing is declared of any column."""
    types = {column(letter, type_): type_ for letter in LETTERS for type_ in EDGES}
    policy = {
        "dataset": "edges",
        "search": False,
        "budget": {"epsilon": 10**6, "delta": "1e-3"},
        "tables": {TABLE: {"unit": "row", "columns": {name: {} for name in types}}},
    }
    return World.made("edges", policy, {TABLE: StoredTable(types, tuple(_rows()))})


def _rows() -> list[Row]:
    """All pairs of two values of the longest list come together, so those of shorter ones do; NULL is one of them."""
    lists = [(None, *values) for values in EDGES.values()]
    many = max(map(len, lists))
    rows: list[Row] = [
        tuple(each[place % len(each)] for place in (i, j, i + j) for each in lists)
        for i in range(many)
        for j in range(many)
    ]
    texts = list(EDGES).index("VARCHAR")
    for number, text in enumerate(HUGE_TEXTS):
        cells = [list(row) for row in rows[number :: many + 1][:2]]
        for place, row in enumerate(cells):
            row[texts] = text
            row[len(lists) + texts] = text if place else "a"
            rows.append(tuple(row))
    return rows
