"""From aggregates to the fewest statistics: which are shared, in which form each answer stands, and what a row adds."""

from __future__ import annotations

from fractions import Fraction

import pytest

import dpsql
from dpsql.bounds.domain import Domain, finite, interval
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import BIGINT, BOOLEAN, DOUBLE, TEXT
from dpsql.expressions.typing import call, literal
from dpsql.plan.nodes.relation import Aggregate, Scan
from dpsql.plan.plan import Release
from dpsql.sensitivity.choice_layout import histogram, lay_out_choices
from dpsql.sensitivity.grid import make_grid
from dpsql.sensitivity.statistics import Layout, Part, Source, _around, lay_out
from dpsql.sensitivity.unit_weight import Term

X, Y, C = Column(BIGINT, name="x"), Column(BIGINT, name="y"), Column(BOOLEAN, name="c")
SURE, MAYBE, NAN = interval(-3, 7, nullable=False), interval(-3, 7), interval(-3, 7, nullable=False, nan=True)


def laid(*asked: tuple[str, Expression | None, Domain | None], mechanism: str = "laplace") -> Layout:
    return lay_out([Aggregate(f, e) for f, e, _ in asked], [d for _, _, d in asked], mechanism, ())


def forms(layout: Layout) -> list[tuple[str, int]]:
    return [(source.form, source.first) for source in layout.sources]


COUNT = ("count", None, None)


@pytest.mark.parametrize(
    ("asked", "laplace", "gaussian"),
    [
        ((COUNT,), [("count", 0)], None),
        ((COUNT, COUNT), [("count", 0)] * 2, None),
        ((("sum", X, MAYBE), ("sum", X, MAYBE)), [("sum", 0)] * 2, None),
        ((COUNT, ("sum", X, MAYBE)), [("count", 0), ("sum", 1)], None),
        ((COUNT, ("sum", X, NAN)), [("count", 0), ("sum", 1)], None),
        ((COUNT, ("sum", X, SURE)), [("pair", 0)] * 2, [("centred", 0)] * 2),
        ((COUNT, ("avg", X, SURE)), [("pair", 0)] * 2, [("centred", 0)] * 2),
        ((COUNT, ("avg", X, MAYBE)), [("count", 0), ("pair", 1)], [("count", 0), ("centred", 1)]),
        ((("count", X, MAYBE), ("sum", X, MAYBE)), [("pair", 0)] * 2, [("centred", 0)] * 2),
        ((("count", X, SURE), ("sum", X, SURE)), [("pair", 0)] * 2, [("centred", 0)] * 2),
        ((("avg", X, MAYBE), ("sum", X, MAYBE)), [("pair", 0)] * 2, [("centred", 0)] * 2),
        ((("sum", X, MAYBE), ("sum", Y, MAYBE)), [("sum", 0), ("sum", 1)], None),
        ((("avg", X, MAYBE), ("sum", Y, MAYBE)), [("pair", 0), ("sum", 2)], [("centred", 0), ("sum", 2)]),
        ((COUNT, ("sum", Y, MAYBE), ("sum", X, SURE)), [("pair", 0), ("sum", 2), ("pair", 0)], [("centred", 0), ("sum", 2), ("centred", 0)]),
    ],
)  # fmt: skip
def test_each_argument_has_the_one_form_that_answers_all_that_is_asked_of_it(
    asked: tuple, laplace: list, gaussian: list | None
) -> None:
    assert forms(laid(*asked)) == laplace
    assert forms(laid(*asked, mechanism="gaussian")) == (laplace if gaussian is None else gaussian)


@pytest.mark.parametrize(
    ("asked", "mechanism", "parts", "shares"),
    [
        (COUNT, "laplace", [Part("count0", 0, 0, 1, 1)], [(0,)]),
        (("sum", X, MAYBE), "laplace", [Part("sum0", 0, 1, 0, 7)], [(0,)]),
        (("avg", X, MAYBE), "laplace", [Part("above0", 0, 1, 3, 10), Part("below0", 0, -1, 7, 10)], [(0, 1)]),
        (("avg", X, MAYBE), "gaussian", [Part("count0", 0, 0, 1, 1), Part("centred0", 0, 2, -4, 10)], [(0,), (1,)]),
    ],
)
def test_the_parts_of_a_form(asked: tuple, mechanism: str, parts: list[Part], shares: list[tuple[int, ...]]) -> None:
    made = laid(asked, mechanism=mechanism)
    assert (list(made.parts), list(made.shares)) == (parts, shares)
    assert not any(part.units or part.distinct for part in made.parts) and all(part.weighed for part in made.parts)


def test_the_parts_of_an_average_are_zero_at_its_ends_and_its_middle() -> None:
    """Each is α·Σ + β·n: for one row with the value x that is α·x + β."""
    above, below = laid(("avg", X, MAYBE)).parts
    count, centred = laid(("avg", X, MAYBE), mechanism="gaussian").parts
    for x in range(-3, 8):
        assert (above.alpha * x + above.beta, below.alpha * x + below.beta) == (x + 3, 7 - x)
        assert (count.alpha * x + count.beta, centred.alpha * x + centred.beta) == (1, 2 * x - 4)


def test_units_and_different_values_are_counted_once_for_all_who_ask() -> None:
    asked = [
        Aggregate("count", X, True),
        Aggregate("count", Y, True),
        Aggregate("count", X, True),
        Aggregate("count", None),
    ]
    made = lay_out(asked, [MAYBE, MAYBE, MAYBE, None], "laplace", [None, 4, None])
    assert forms(made) == [("units", 0), ("distinct", 1), ("units", 0), ("count", 2)]
    units, different, count = made.parts
    assert (units, units.weighed) == (Part("units", 0, 0, 1, 1, units=True), False)
    assert (different, different.weighed) == (Part("distinct1", 1, 0, 1, 4, distinct=True), False)
    assert count.weighed and made.shares == ((0,), (1,), (2,))
    assert [a.expression for a in made.arguments] == [None, Y, None]


def test_a_count_of_different_values_is_none_of_rows() -> None:
    """COUNT(DISTINCT x) tells nothing of COUNT(x), even where x is never NULL."""
    asked = [Aggregate("count", X, True), Aggregate("count", X), Aggregate("sum", X)]
    made = lay_out(asked, [SURE, SURE, SURE], "laplace", [9])
    assert forms(made) == [("distinct", 0), ("pair", 1), ("pair", 1)]
    made = lay_out([Aggregate("count", X, True), Aggregate("sum", X)], [MAYBE, MAYBE], "laplace", [9])
    assert forms(made) == [("distinct", 0), ("sum", 1)]
    made = lay_out([Aggregate("count", PART, True), Aggregate("count", X)], [MAYBE, MAYBE], "laplace", [9])
    assert forms(made) == [("distinct", 0), ("count", 1)]


def test_an_argument_that_is_counted_keeps_its_domain() -> None:
    assert [a.domain for a in laid(("count", X, MAYBE), COUNT).arguments] == [MAYBE, Domain()]


@pytest.mark.parametrize(("width", "form"), [(0, "centred"), (1, "pair"), (2, "pair")])
def test_an_average_of_one_value_has_no_two_sides(width: int, form: str) -> None:
    assert forms(laid(("avg", X, interval(3, 3 + width)))) == [(form, 0)]


PART, REST = call("case", BIGINT, C, X, literal(None)), call("case", BIGINT, C, literal(None), X)
ONES = call("case", literal(1).type, C, literal(1), literal(None))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((("sum", PART, MAYBE), ("sum", X, MAYBE)), [("sum", 0), ("nested", 0)]),
        ((("sum", X, MAYBE), ("sum", PART, MAYBE)), [("nested", 0), ("sum", 0)]),
        ((("sum", Y, MAYBE), ("sum", X, MAYBE), ("sum", PART, MAYBE)), [("sum", 2), ("nested", 0), ("sum", 0)]),
        ((("count", ONES, MAYBE), COUNT), [("count", 0), ("nested", 0)]),
        ((("count", PART, MAYBE), ("count", X, MAYBE)), [("count", 0), ("nested", 0)]),
        ((("sum", PART, MAYBE), ("avg", X, MAYBE)), [("sum", 0), ("pair", 1)]),
        ((("sum", PART, MAYBE), ("sum", X, MAYBE), ("avg", X, MAYBE)), [("sum", 0), ("pair", 1), ("pair", 1)]),
        ((("sum", PART, MAYBE), ("sum", X, MAYBE), ("count", X, MAYBE)), [("sum", 0), ("pair", 1), ("pair", 1)]),
        ((("sum", PART, MAYBE), ("sum", X, MAYBE), ("count", PART, MAYBE)), [("pair", 0), ("sum", 2), ("pair", 0)]),
        ((("sum", PART, MAYBE), ("sum", X, MAYBE), COUNT), [("sum", 0), ("nested", 0), ("count", 2)]),
        ((("sum", PART, MAYBE), ("sum", X, MAYBE), ("avg", Y, MAYBE)), [("sum", 0), ("nested", 0), ("pair", 2)]),
    ],
)  # fmt: skip
def test_a_part_stands_beside_its_whole_where_nothing_else_is_asked_of_either(asked: tuple, expected: list) -> None:
    assert forms(laid(*asked)) == expected


@pytest.mark.parametrize(
    ("function", "part", "whole", "alpha", "row", "ends"),
    [("sum", PART, X, 1, 7, (-3, 7)), ("count", PART, X, 0, 1, (1, 1)), ("count", ONES, None, 0, 1, (1, 1))],
)
def test_the_halves_have_one_grid_one_share_and_name_each_other(
    function: str, part: Expression, whole: Expression | None, alpha: int, row: int, ends: tuple[int, int]
) -> None:
    made = laid(("sum", Y, interval(0, 1)), (function, part, MAYBE), (function, whole, MAYBE if whole else None))
    assert list(made.parts[:2]) == [
        Part("part0", 0, alpha, 1 - alpha, row),
        Part("rest1", 1, alpha, 1 - alpha, row),
    ]
    assert made.shares == ((0, 1), (2,))
    assert [(a.lower, a.upper) for a in made.arguments[:2]] == [ends] * 2
    assert made.arguments[0].expression == part
    assert made.arguments[1].expression == (
        REST if whole else call("case", literal(1).type, C, literal(None), literal(1))
    )


@pytest.mark.parametrize(
    ("bounds", "usual"),
    [
        ((-3, 7), (0, 5)),
        ((1, 9), (1, 4)),
        ((-9, -1), (-1, 4)),
        ((1, 3), (1, 1)),
        ((20, 30), (25, 5)),
        ((-30, -20), (-25, 5)),
    ],
)
def test_where_only_bounds_are_known_values_lie_around_zero_unless_all_are_far_from_it(
    bounds: tuple[int, int], usual: tuple[int, int]
) -> None:
    """Far is where the middle is farther from zero than the width; the argument of a vector is centred there."""
    domain = interval(*bounds)
    assert _around(domain) == usual
    made = lay_out([Aggregate("avg", X)], [domain], "gaussian", (), usual=[None])
    assert made.arguments[0].twice_centre == 2 * usual[0] or 2 * usual[1] >= bounds[1] - bounds[0]


FLAGS = interval(0, 1)


@pytest.mark.parametrize(
    ("asked", "typical", "rare"),
    [
        ([COUNT], [1], [False]),
        ([("sum", X, MAYBE)], [7], [False]),
        ([("sum", X, FLAGS)], [1], [True]),
        ([("avg", X, MAYBE)], [1, 10], [False, False]),
        ([("avg", X, FLAGS)], [1, 2], [False, True]),
        ([("sum", PART, MAYBE), ("sum", X, MAYBE)], [7, 7], [False, False]),
        ([("count", PART, MAYBE), ("count", X, MAYBE)], [1, 1], [True, False]),
    ],
)
def test_sums_of_flags_and_counts_of_a_part_may_be_rare(asked: list, typical: list[int], rare: list[bool]) -> None:
    made = laid(*asked, mechanism="gaussian")
    assert [part.typical for part in made.parts] == typical
    assert [part.rare for part in made.parts] == rare


@pytest.mark.parametrize("form", ["count", "sum", "pair", "centred", "units", "distinct", "nested", "choice", "tree"])
def test_the_statistics_of_a_source(form: str) -> None:
    source = Source(form, 3)  # type: ignore[arg-type]
    assert source.statistics == (range(3, 5) if form in ("pair", "centred", "nested") else range(3, 4))
    assert source.chosen == (form in ("choice", "tree"))


# choices ----------------------------------------------------------------------------------------------------------------

RELEASE = Release("r", "t", Scan((), False, 5, False, "t", "u"), (), (), 3)
K = Column(TEXT, name="k")
LISTED = finite(("a", "b"), TEXT, nullable=False)


def test_histograms_and_choices_are_made_once_for_all_who_ask() -> None:
    half, tenth = Fraction(1, 2), Fraction(1, 10)
    asked = [
        (Aggregate("quantile_cont", X, at=half), SURE), (Aggregate("max", X), SURE), (Aggregate("mode", K), LISTED),
        (Aggregate("quantile_disc", X, at=half), SURE), (Aggregate("quantile_disc", X, at=tenth), SURE),
        (Aggregate("min", X), SURE), (Aggregate("mode", X), SURE), (Aggregate("max", X), SURE), (Aggregate("max", Y), SURE),
    ]  # fmt: skip
    made = lay_out_choices(RELEASE, asked, "clip", 1, "laplace")
    assert [(h.grid.expression, h.kept) for h in made.histograms] == [
        (X, "rows"), (X, "greatest"), (K, "rows"), (X, "least"), (Y, "greatest"),
    ]  # fmt: skip
    assert [(c.histogram, c.kind, c.at) for c in made.choices] == [
        (0, "quantile", half), (1, "greatest", half), (2, "mode", half), (0, "quantile", tenth), (3, "least", half),
        (0, "mode", half), (4, "greatest", half),
    ]  # fmt: skip
    assert [(s.form, s.first) for s in made.sources] == [("choice", i) for i in (0, 1, 2, 0, 3, 4, 5, 1, 6)]
    assert made.trees == ()


def test_a_tree_takes_the_place_of_the_quantiles_of_its_argument_and_of_nothing_else() -> None:
    tenths = [Aggregate("quantile_disc", X, at=Fraction(i, 10)) for i in range(1, 10)]
    few = [Aggregate("quantile_disc", Y, at=Fraction(i, 4)) for i in range(1, 4)]
    asked = [*few[:1], *tenths, Aggregate("mode", X), Aggregate("max", X), *few[1:], tenths[0]]
    made = lay_out_choices(RELEASE, [(a, SURE) for a in asked], "clip", 2, "laplace")
    assert [(t.histogram, t.groups) for t in made.trees] == [(1, 2)]
    assert [(c.histogram, c.kind) for c in made.choices] == [
        (0, "quantile"), (1, "mode"), (2, "greatest"), (0, "quantile"), (0, "quantile"),
    ]  # fmt: skip
    forms = [("choice", 0), *[("tree", 0)] * 9, *[("choice", i) for i in (1, 2, 3, 4)], ("tree", 0)]
    assert [(s.form, s.first) for s in made.sources] == forms


def test_what_has_no_grid_is_not_chosen_and_a_double_has_no_most_frequent_value() -> None:
    x = Column(DOUBLE, name="x")
    for aggregate, domain in ((Aggregate("max", X), interval(0, None)), (Aggregate("mode", x), interval(0.0, 1.0))):
        with pytest.raises(dpsql.Error):
            lay_out_choices(RELEASE, [(aggregate, domain)], "clip", 1, "laplace")
    assert lay_out_choices(RELEASE, [(Aggregate("max", x), interval(0.0, 1.0))], "clip", 1, "laplace").choices


@pytest.mark.parametrize(
    ("rule", "kept", "term", "one", "most"),
    [
        *[(rule, kept, None, 1, 1) for rule in ("row", "single_row") for kept in ("rows", "least", "greatest")],
        ("one_group", "rows", Term("count", None, 5), 2**30, 5 * 2**30),
        ("one_group", "least", None, 1, 1),
        ("one_group", "greatest", None, 1, 1),
        ("clip", "rows", Term("count", None, 5), 2**30, 5 * 2**30),
        ("clip", "least", Term("groups", None, 3), 2**30, 3 * 2**30),
        ("clip", "greatest", Term("groups", None, 3), 2**30, 3 * 2**30),
        ("at_rest", "rows", None, 1, 5),
    ],
)
def test_what_a_unit_adds_to_all_cells_together(rule: str, kept: str, term: Term | None, one: int, most: int) -> None:
    grid = make_grid(X, SURE)
    assert grid is not None
    made = histogram(RELEASE, grid, kept, rule)  # type: ignore[arg-type]
    assert (made.grid, made.kept, made.term, made.one, made.most) == (grid, kept, term, one, most)
