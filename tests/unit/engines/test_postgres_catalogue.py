"""What the catalogue of a PostgreSQL says of its tables: columns, keys, and what tells whether one was changed."""

from __future__ import annotations

from typing import Any

import pytest

from dpsql.engines.postgres.system_catalogue import DescribedTable, describe

ENUM = ["1 7 low", "2 7 high"]


class Cursor:
    """Answers the question about columns, and then the one about constraints."""

    def __init__(self, columns: list[tuple[Any, ...]], constraints: list[tuple[Any, ...]]) -> None:
        self._answers = [columns, constraints]

    def execute(self, _text: str, _values: object) -> Cursor:
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._answers.pop(0)


def column(name: str, type_: str, labels: list[str] | None = None, **more: Any) -> tuple[Any, ...]:
    told = {"schema": "public", "table": "people", "version": "9", "unique": [4], "partitions": None} | more
    return (
        told["schema"], told["table"], name, type_, labels is not None, -1, True,
        31, told["version"], True, told["partitions"], told["unique"], labels,
    )  # fmt: skip


def described(*columns: tuple[Any, ...], constraints: list[tuple[Any, ...]] | None = None) -> dict[str, DescribedTable]:
    return describe(Cursor(list(columns), constraints or []), ["public", "other"])


def test_a_table_has_its_columns_keys_and_links() -> None:
    [(name, table)] = described(
        column("id", "int8"),
        column("mood", "mood", ENUM),
        column("town", "int4"),
        constraints=[
            ("public", "people", "p", ["id"], None, None, []),
            ("public", "people", "u", ["town", "id"], None, None, []),
            ("public", "people", "f", ["town"], "public", "towns", ["id"]),
            ("public", "people", "f", ["town"], "other", "towns", ["id"]),
        ],
    ).items()
    assert (name, list(table.columns), table.primary, table.oid) == ("people", ["id", "mood", "town"], "id", 31)
    assert table.keys == {frozenset({"id"}), frozenset({"town", "id"})}
    assert table.links == {("town", "towns", "id")}


def test_a_table_is_another_once_its_labels_its_schema_its_parts_or_its_indexes_change() -> None:
    [plain] = described(column("id", "int8"), column("mood", "mood", ENUM)).values()
    [same] = described(column("id", "int8"), column("mood", "mood", list(ENUM))).values()
    assert plain == same
    for other in (
        [column("id", "int8"), column("mood", "mood", [*ENUM, "3 7 none"])],
        [column("id", "int8", version="10"), column("mood", "mood", ENUM)],
        [column("id", "int8", unique=[4, 5]), column("mood", "mood", ENUM)],
        [column("id", "int8", partitions=["5 5"]), column("mood", "mood", ENUM)],
    ):
        assert described(*other)["people"] != plain


@pytest.mark.parametrize(
    ("tables", "seen"), [(("People", "people"), set()), (("people", "towns"), {"people", "towns"})]
)
def test_of_two_tables_whose_names_differ_in_case_only_there_is_neither(
    tables: tuple[str, str], seen: set[str]
) -> None:
    assert set(described(*(column("id", "int8", table=table) for table in tables))) == seen


def test_a_name_means_the_table_of_the_first_schema() -> None:
    found = described(column("id", "int8"), column("x", "text", schema="other"))
    assert list(found["people"].columns) == ["id"]
