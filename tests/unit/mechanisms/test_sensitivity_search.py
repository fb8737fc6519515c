"""The search for a sensitivity tries every database and every neighbour there is, and measures them exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from dpsql.errors import ProgrammingError
from dpsql.mechanisms import global_sensitivity, local_sensitivity

Rows = tuple[Any, ...]


class Tried(Exception):
    """Raised by a function that is asked at all."""


def stop(_: Rows) -> int:
    raise Tried


def asked(search: Any, *arguments: Any, **options: Any) -> list[Rows]:
    """The databases at which a search asks its function."""
    seen: list[Rows] = []
    search(lambda rows: (seen.append(rows), 0)[1], *arguments, **options)
    return seen


@pytest.mark.parametrize("rows", [(), ("a",), ("a", "b"), ("c", "c", "a")])
def test_neighbours_replace_one_row_by_any_other_of_the_universe(rows: Rows) -> None:
    first, *others = asked(local_sensitivity, rows, "abc")
    assert first == rows
    expected = [there for there in product("abc", repeat=len(rows)) if sum(map(str.__ne__, rows, there)) == 1]
    assert sorted(others) == sorted(expected)


@pytest.mark.parametrize("rows", [(), ("a",), ("a", "b"), ("c", "b", "a")])
def test_neighbours_have_one_row_less_or_any_one_more(rows: Rows) -> None:
    first, *others = asked(local_sensitivity, rows, "abc", "add-remove")
    less = [tuple(r for r in rows if r != gone) for gone in rows]
    assert first == rows
    assert sorted(others) == sorted([*less, *((*rows, new) for new in "abc")])


def test_every_database_of_the_size_is_tried_and_every_smaller_one_where_rows_come_and_go() -> None:
    assert set(asked(global_sensitivity, "ab", 3)) == set(product("ab", repeat=3))
    tried = set(asked(global_sensitivity, "ab", 2, "add-remove"))
    assert tried == {rows for n in range(4) for rows in product("ab", repeat=n)}


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_function_that_never_changes_has_no_sensitivity_and_no_pair(neighbours: Any) -> None:
    found = global_sensitivity(lambda _: 7, "ab", 2, neighbours)
    assert (found.value, found.pair) == (0, None)
    here = local_sensitivity(lambda _: 7, "ab", "ab", neighbours)
    assert (here.value, here.pair) == (0, None)


def test_the_largest_change_is_found_wherever_it_happens_with_its_pair() -> None:
    """Among databases of every size, and with the first pair of equal ones."""
    for least in range(3):
        found = global_sensitivity(lambda rows, least=least: len(rows) > least, "a", 2, "add-remove")  # type: ignore[misc]
        assert found.value == 1
        assert found.pair == (("a",) * least, ("a",) * (least + 1))
    found = global_sensitivity(lambda rows: {0: 0, 1: 5, 2: 7}[rows[0]], range(3), 1)
    assert (found.value, found.pair) == (7, ((0,), (2,)))


def test_distances_are_exact_in_l1_and_of_one_number_also_in_l2() -> None:
    cells: dict[Rows, list[Any]] = {("a",): [Fraction(1, 3), 0.25, 4], ("b",): [0, 0, 0]}
    assert local_sensitivity(cells.__getitem__, "a", "ab").value == Fraction(1, 3) + Fraction(1, 4) + 4
    euclidean = local_sensitivity(cells.__getitem__, "a", "ab", norm=2).value
    assert euclidean == pytest.approx(math.hypot(1 / 3, 0.25, 4), rel=1e-15)
    assert euclidean == local_sensitivity(cells.__getitem__, "b", "ab", norm=2).value
    third: dict[Rows, Any] = {("a",): Fraction(1, 3), ("b",): Fraction(3)}
    for value in (third, {rows: [x] for rows, x in third.items()}):
        for norm in (1, 2):
            for rows in "ab":
                assert local_sensitivity(value.__getitem__, rows, "ab", norm=norm).value == Fraction(8, 3)


def test_l1_is_meant_where_no_norm_is_named() -> None:
    histogram = lambda rows: [rows.count(cell) for cell in "ab"]  # noqa: E731
    assert local_sensitivity(histogram, "a", "ab").value == 2 == global_sensitivity(histogram, "ab", 1).value
    assert local_sensitivity(histogram, "a", "ab", norm=2).value == math.sqrt(2)


@pytest.mark.parametrize("norm", [0, 3, -1])
def test_no_other_distance_is_taken(norm: int) -> None:
    with pytest.raises(ProgrammingError, match="L1 or L2"):
        local_sensitivity(lambda rows: [len(rows), 0], "a", "ab", norm=norm)


@pytest.mark.parametrize("norm", [1, 2])
def test_vectors_of_different_lengths_have_no_distance(norm: int) -> None:
    with pytest.raises(ProgrammingError, match="one length"):
        local_sensitivity(lambda rows: [0] * (1 + (rows == ("b",))), "a", "ab", norm=norm)


def test_other_neighbours_are_refused() -> None:
    with pytest.raises(ProgrammingError, match="replace or add-remove, not 'swap'"):
        local_sensitivity(len, "a", "ab", "swap")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "universe", "neighbours"),
    [(0, 1_999_999, "replace"), (1, 999, "add-remove"), (2, 86, "add-remove"), (2, 87, "replace")],
)
def test_two_million_databases_may_be_tried_and_no_more(size: int, universe: int, neighbours: Any) -> None:
    """Databases, times rows and one, times the values of a row and one: exactly two million in the first two cases."""
    with pytest.raises(Tried):
        global_sensitivity(stop, range(universe), size, neighbours)
    with pytest.raises(ProgrammingError, match="too many databases"):
        global_sensitivity(stop, range(universe + 1), size, neighbours)
