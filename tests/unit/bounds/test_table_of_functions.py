"""Functions whose line in the table says all, and texts: what DuckDB gives lies in the bounds, which reach no further."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any

import pytest
from small_worlds import Axis, World, has_nan, inside

from dpsql.bounds import infer
from dpsql.bounds.domain import Domain, RowDomains, finite, interval
from dpsql.bounds.function_bounds import RULES as TEXT_RULES
from dpsql.bounds.function_bounds import lenient, rule_of, widened
from dpsql.bounds.infer import _places
from dpsql.expressions.expression import Call, Column, Literal
from dpsql.expressions.functions.function import Anything, Image, Monotone
from dpsql.expressions.functions.table import FUNCTIONS
from dpsql.expressions.types import BIGINT, BOOLEAN, DATE, DOUBLE, NULL, TEXT, Kind

ENDS = [-1.5, -1.0, 0.0, 0.5, 1.0, 2.0]
PAIRS: list[tuple[float | None, float | None]] = [
    *combinations_with_replacement(ENDS, 2),
    (None, None),
    (None, 0.5),
    (0.5, None),
]
REAL = Axis(
    "DOUBLE", (-math.inf, *ENDS, math.inf, math.nan),
    (*(interval(low, high, nullable=False) for low, high in PAIRS), interval(0.5, 1.0, nullable=True, nan=True)),
)  # fmt: skip
WORDS = ("", "a", "Ab", "é")
WORD = Axis(
    "VARCHAR", (*WORDS, None),
    (finite(WORDS, TEXT, nullable=True), finite(("a", "Ab"), TEXT, nullable=False), Domain(nullable=False), Domain(), Domain(values=())),
)  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(
        x=REAL, s=WORD, t=WORD, n=Axis("BIGINT", (-2, 0, 5, 7), (interval(-2, 7, nullable=False), interval(0, 5)))
    )
    yield made
    made.database.close()


RISING = [name for name, f in FUNCTIONS.items() if isinstance(f.bounds, Monotone)]


@pytest.mark.parametrize("name", RISING)
def test_a_monotone_function_ends_where_its_values_do(world: World, name: str) -> None:
    """Within its domain of definition, and NaN outside; the last digits are the library's own."""
    shape = FUNCTIONS[name].bounds
    assert isinstance(shape, Monotone)
    for known, made, values in world.answers(f"{name}(x)"):
        assert all(inside(v, made) for v in values), known
        assert made.nan == has_nan(values), known
        assert made.nullable == (known.columns["x"].nullable or FUNCTIONS[name].null), known
        numbers = [v for v in values if v is not None and not math.isnan(v)]
        if numbers:
            low, high = min(numbers), max(numbers)
            assert made.lower == (None if math.isinf(low) else pytest.approx(low, rel=3e-12, abs=0)), known
            assert made.upper == (None if math.isinf(high) else pytest.approx(high, rel=3e-12, abs=0)), known


@pytest.mark.parametrize(
    "name", [name for name, f in FUNCTIONS.items() if isinstance(f.bounds, Image) and len(f.takes) == 1]
)
def test_a_function_never_leaves_its_image(world: World, name: str) -> None:
    function = FUNCTIONS[name]
    assert isinstance(function.bounds, Image)
    column = "s" if function.takes[0].kinds == (Kind.TEXT,) else "x"
    for known, made, values in world.answers(f"{name}({column})"):
        assert all(inside(v, made) for v in values), known
        if made.values is None:
            low, high = function.bounds.low, function.bounds.high
            assert made.lower == (None if math.isinf(low) else low) and made.upper == (
                None if math.isinf(high) else high
            )
            assert made.nan == (function.nan or known.columns[column].nan)
            assert made.nullable == (function.null or known.columns[column].nullable)


def test_what_the_table_says_nothing_of_knows_only_its_type(world: World) -> None:
    for known, made, values in world.answers("gcd(n, 6)"):
        assert all(inside(v, made) for v in values), known
        assert made.nullable == (known.columns["n"].nullable or FUNCTIONS["gcd"].null) and made.nan is False
    days = infer(world.expression("dayname(DATE '2024-01-01')"), RowDomains({}))
    assert days.values is not None and "Monday" in days.values
    week = infer(
        Call(TEXT, op="dayname", args=(Column(DATE, name="d"),)), RowDomains({"d": interval(0, 5, nullable=False)})
    )
    assert week.values is not None and len(week.values) == 7 and week.nullable


def test_only_what_the_table_settles_has_a_rule_from_it() -> None:
    assert rule_of("sqrt") is not None and rule_of("gcd") is not None and rule_of("sin") is not None
    assert rule_of("dayname") is not None
    assert rule_of("even") is None and rule_of("last_day") is None and rule_of("nothing of that name") is None
    assert lenient("concat_ws") and not lenient("sqrt") and not lenient("add")


@pytest.mark.parametrize("end", [-1000.0, 1000.0])
def test_where_python_has_no_value_there_is_an_infinity_on_that_side(end: float) -> None:
    assert widened(math.sinh, end, 1e-12) == math.copysign(math.inf, end)
    assert widened(math.acos, math.copysign(2, end), 1e-12) == math.copysign(math.inf, end)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("slack", [-1e-12, 1e-12, 0.0])
def test_a_value_is_moved_outwards_unless_it_is_exact(sign: int, slack: float) -> None:
    for exact in (0.0, 1.0, 2.0**53 - 1):
        assert widened(lambda x: x, sign * exact, slack) == sign * exact
    for rough in (0.5, 2.0**53, 1e300):
        assert widened(lambda x: x, sign * rough, slack) == sign * rough + rough * slack
    assert widened(lambda x: x, sign * math.inf, slack) == sign * math.inf


TEXTS = ["length(s)", "strpos(s, 'a')", "strpos(s, t)", "lower(s)", "upper(t)", "trim(s)", "left(s, 1)", "s LIKE 'a%'", "contains(s, t)",
         "starts_with(s, 'A')", "s || t", "replace(s, 'a', t)", "concat(s, t)", "concat(s, '-', t)", "concat_ws('-', s, t)", "reverse(s)"]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_texts_give_what_is_listed_or_anything_of_their_type(world: World, text: str) -> None:
    """A text that grew too long is NULL, which concat is not, for it passes over NULL."""
    for known, made, values in world.answers(text):
        assert all(inside(v, made) for v in values), known
        domains = list(known.columns.values())
        if text.startswith("concat("):
            assert not made.nullable
            assert (made.values is not None) == all(d.values is not None for d in domains), known
        elif any(d.empty for d in domains) and not text.startswith("concat_ws"):
            assert made.values == () and made.nullable, known
        elif made.values is None and not text.startswith("concat_ws"):
            assert made.nullable == (any(d.nullable for d in domains) or "||" in text or "replace" in text), known
        if made.values is not None and made.values != (False, True):
            assert set(made.values) == {v for v in values if v is not None}, known
        if text.startswith(("length", "strpos")) and made.values is None:
            assert (made.lower, made.upper) == (0, None)
        assert made.nan is False


@pytest.mark.parametrize(("many", "listed"), [(1_000, True), (1_001, False)])
@pytest.mark.parametrize("nullable", [False, True])
def test_so_many_texts_are_put_together(world: World, many: int, listed: bool, nullable: bool) -> None:
    words = finite([f"{i:04}" for i in range(many - nullable)], TEXT, nullable=nullable, origin=("policy",))
    made = infer(world.expression("concat(s, '!')"), RowDomains({"s": words}))
    assert (made.values is not None and len(made.values) == many) == listed
    assert made.nullable is False and made.origin == (("policy",) if listed else ())


@pytest.mark.parametrize(
    ("value", "type_", "wanted"),
    [
        (None, NULL, Domain(values=())),
        (5, BIGINT, Domain(5, 5, (5,), False)),
        ("a", TEXT, Domain(None, None, ("a",), False)),
        (10**400, DOUBLE, Domain(nullable=False)),
        (2, DOUBLE, Domain(2.0, 2.0, (2.0,), False)),
    ],
)
def test_a_constant_is_its_only_value(value: object, type_: object, wanted: Domain) -> None:
    assert infer(Literal(type_, value=value), RowDomains({})) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [n for n, f in FUNCTIONS.items() if isinstance(f.bounds, Anything) and f.gives is DOUBLE and len(f.takes) == 1],
)
def test_a_float_of_which_nothing_is_known_may_be_nan(world: World, name: str) -> None:
    for known, made, values in world.answers(f"{name}(x)"):
        assert all(inside(v, made) for v in values), known
        assert made.nan and made.lower is made.upper is made.values is None
        assert made.nullable == (known.columns["x"].nullable or FUNCTIONS[name].null)


@pytest.mark.parametrize("op", ["lower", "left", "like", "contains"])
@pytest.mark.parametrize("nullable", [False, True])
def test_a_text_function_is_null_where_its_text_is_and_never_nan(op: str, nullable: bool) -> None:
    type_ = BOOLEAN if op in ("like", "contains") else TEXT
    made = TEXT_RULES[op](Call(type_, op=op, args=(Column(TEXT, name="s"),)), (Domain(nullable=nullable),))
    assert (made.values, made.nullable, made.nan) == ((False, True) if type_ is BOOLEAN else None, nullable, False)


@pytest.mark.parametrize(
    ("low", "high", "places"),
    [
        (1, 3, range(1, 4)),
        (0.5, 2.5, range(1, 3)),
        (-2.5, -0.5, range(-2, 0)),
        (2, 2, range(2, 3)),
        (None, 3, None),
        (1, None, None),
        (1, 10_000, range(1, 10_001)),
        (0.5, 10_000.5, range(1, 10_001)),
        (1, 10_001, None),
    ],
)
def test_the_whole_numbers_in_bounds_are_listed_if_they_are_few(low: Any, high: Any, places: range | None) -> None:
    assert _places(interval(low, high)) == places
