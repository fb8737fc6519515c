"""Filters, projections, groupings, windows and unions, made by hand: domains, attributes and rows per unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlglot import exp, parse_one

import dpsql
from dpsql.bounds.domain import Domain, finite, interval
from dpsql.errors import InternalError
from dpsql.expressions.expression import Column, Expression
from dpsql.expressions.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT128,
    TEXT,
    Kind,
    Type,
    decimal,
    from_engine,
    integer,
)
from dpsql.expressions.typing import call, literal
from dpsql.plan.builder.clauses import conjuncts_of
from dpsql.plan.builder.exists import in_conditions, membership, split_where
from dpsql.plan.builder.set_operations import owns, set_operation, without_people
from dpsql.plan.nodes.relation import (
    UNIT,
    Aggregate,
    Field,
    Item,
    JoinSide,
    PublicScan,
    Relation,
    Scan,
    aggregate_type,
    scans_in,
)
from dpsql.plan.nodes.semi_joins import Exists
from dpsql.plan.nodes.unary import Project, UnitGroup, filtered, projected, unit_grouped
from dpsql.plan.nodes.union import UnionAll, one_id_space, owner_types, shared_rows, union_all
from dpsql.plan.nodes.windows import WHOLE, Frame, Ordering, WindowCall, Windowed, windowed

CENTS = from_engine("DECIMAL(9,2)")
HUGE = from_engine("HUGEINT")
assert CENTS is not None and HUGE is not None

FIELDS = (
    Field("id", BIGINT, Domain(nullable=False), attribute=True, owner=UNIT),
    Field("n", BIGINT, interval(0, 4)),
    Field("sure", BIGINT, interval(-2, 7, nullable=False)),
    Field("own", TEXT, finite(("a", "b"), TEXT, nullable=False), attribute=True),
    Field("key", BIGINT, Domain(), owner="orders.key"),
    Field("pad", BIGINT, Domain(), owner=UNIT, padded=True),
)
ROWS = 9
ORDERS = Scan(FIELDS, False, ROWS, False, table="orders", unit="id", unit_type=BIGINT)
SINGLE = replace(ORDERS, single=True, rows_per_unit=1, table="people")
BY_ROW = Scan((Field("n", BIGINT, interval(0, 2)),), True, 1, False, table="visits")
PUBLIC = PublicScan(FIELDS[1:2], False, 1, False, "areas")


def col(name: str, source: Relation = ORDERS) -> Column:
    return Column(source.field(name).type, name=name)


def compare(op: str, name: str, value: int) -> Expression:
    return call(op, BOOLEAN, col(name), literal(value))


def ends(field: Field) -> tuple[object, object, bool]:
    return field.domain.lower, field.domain.upper, field.domain.nullable


# filters and projections ------------------------------------------------------------------------------------------------


def test_a_filter_narrows_domains_and_says_nothing_of_rows() -> None:
    made = filtered(ORDERS, compare("ge", "n", 2))
    assert ends(made.field("n")) == (2, 4, False)
    assert (made.rows_per_unit, made.single, made.by_row) == (ROWS, False, False)
    assert filtered(SINGLE, compare("ge", "n", 2)).single
    assert filtered(BY_ROW, call("ge", BOOLEAN, Column(BIGINT, name="n"), literal(1))).by_row


@pytest.mark.parametrize(
    ("op", "value", "rows", "single"),
    [("eq", 3, 1, True), ("le", 3, 3, False), ("lt", 3, 2, False), ("le", 1, 1, True), ("lt", 2, 1, True),
     ("le", ROWS, ROWS, False), ("le", ROWS + 1, ROWS, False), ("gt", 3, ROWS, False)],
)  # fmt: skip
def test_a_condition_on_a_row_number_leaves_so_many_rows(op: str, value: int, rows: int, single: bool) -> None:
    numbered = windowed(ORDERS, [("r", WindowCall("row_number", partition=(col("id"),)))])
    made = filtered(numbered, call(op, BOOLEAN, Column(numbered.field("r").type, name="r"), literal(value)))
    assert (made.rows_per_unit, made.single) == (rows, single)


def test_a_projection_keeps_of_a_column_what_it_tells_of_the_owner_and_of_nothing_else() -> None:
    moved = call("add", BIGINT, col("id"), literal(1))
    items = [Item("a", col("id")), Item("b", moved), Item("c", col("pad")), Item("d", col("key")), Item("e", col("n"))]
    made = projected(ORDERS, items)
    told = [(f.name, f.owner, f.padded, f.attribute) for f in made.fields]
    assert told == [
        ("a", UNIT, False, True), ("b", None, False, True), ("c", UNIT, True, False), ("d", "orders.key", False, False),
        ("e", None, False, False),
    ]  # fmt: skip
    assert ends(made.field("e")) == (0, 4, True)
    assert (made.rows_per_unit, made.single, made.by_row) == (ROWS, False, False)
    assert all(f.attribute for f in projected(SINGLE, items).fields)


def test_what_is_known_of_a_filter_is_known_of_what_stands_on_it() -> None:
    said = call("add", BIGINT, col("n"), col("sure"))
    source = filtered(ORDERS, call("le", BOOLEAN, said, literal(3)))
    assert source.row_domains().refinements
    assert projected(source, [Item("n", col("n"))]).row_domains().refinements == {}
    people = Exists(source.fields, False, ROWS, False, source, JoinSide(PUBLIC, ("area",)), literal(True))
    assert people.row_domains().refinements == source.row_domains().refinements


# groups of one unit -----------------------------------------------------------------------------------------------------


def grouped(source: Relation, keys: str, *aggregates: Aggregate) -> UnitGroup:
    items = [Item(name, col(name)) for name in keys.split()]
    made = unit_grouped(source, items, [(f"a{i}", a) for i, a in enumerate(aggregates)])
    assert isinstance(made, UnitGroup)
    return made


@pytest.mark.parametrize(
    ("source", "keys", "rows", "single"),
    [(ORDERS, "", 1, True), (ORDERS, "id", 1, True), (ORDERS, "id own", 1, True), (ORDERS, "n", ROWS, False),
     (ORDERS, "id n", ROWS, False), (ORDERS, "pad", ROWS, False), (SINGLE, "n", 1, True)],
)  # fmt: skip
def test_a_grouping_leaves_one_row_per_unit_if_the_owner_decides_all_keys(
    source: Relation, keys: str, rows: int, single: bool
) -> None:
    made = grouped(source, keys, Aggregate("count", None))
    assert (made.rows_per_unit, made.single, made.by_row) == (rows, single, False)
    assert made.field("a0").attribute == single


def test_rows_without_owner_are_not_grouped_by_it() -> None:
    for source in (BY_ROW, PUBLIC):
        with pytest.raises(InternalError):
            unit_grouped(source, [], [("a", Aggregate("count", None))])


@pytest.mark.parametrize(
    ("function", "name", "expected"),
    [("count", None, (1, 9, False)), ("count", "n", (0, 9, False)), ("count", "sure", (1, 9, False)),
     ("sum", "n", (0, 36, True)), ("sum", "sure", (-18, 63, False)), ("avg", "sure", (-2, 7, False)),
     ("min", "n", (0, 4, True)), ("max", "sure", (-2, 7, False))],
)  # fmt: skip
def test_an_aggregate_of_one_unit_is_bounded_by_its_rows(
    function: str, name: str | None, expected: tuple[int, int, bool]
) -> None:
    made = grouped(ORDERS, "id", Aggregate(function, None if name is None else col(name)))
    assert ends(made.field("a0")) == expected
    over = WindowCall(function, Aggregate(function, None if name is None else col(name)), partition=(col("id"),))
    assert ends(windowed(ORDERS, [("w", over)]).field("w")) == expected


MOST = 2**50


@pytest.mark.parametrize(
    ("function", "type_", "domain", "expected"),
    [
        ("count", BIGINT, Domain(), integer(0, 2**62)),
        ("avg", BIGINT, interval(0, 9), DOUBLE),
        ("avg", BIGINT, Domain(), DOUBLE),
        ("avg", DOUBLE, interval(0, 9), DOUBLE),
        ("min", BIGINT, Domain(), BIGINT),
        ("max", DATE, Domain(), DATE),
        ("max", DOUBLE, Domain(), DOUBLE),
        ("sum", DOUBLE, interval(0, 9), DOUBLE),
        ("sum", BIGINT, interval(-5, 9), decimal(-5, 9, 0)),
        ("sum", BIGINT, Domain(), integer(*INT128)),
        ("sum", BIGINT, interval(0, None), integer(*INT128)),
        ("sum", BIGINT, interval(None, 0), integer(*INT128)),
        ("sum", CENTS, interval(-1, 2), decimal(-100, 200, 2)),
        ("sum", CENTS, Domain(), DOUBLE),
        ("sum", CENTS, interval(0, None), DOUBLE),
        ("sum", HUGE, interval(0, MOST - 1), decimal(0, MOST - 1, 0)),
        ("sum", HUGE, interval(0, MOST), DOUBLE),
        ("sum", HUGE, interval(1 - MOST, 3), decimal(1 - MOST, 3, 0)),
        ("sum", HUGE, interval(-MOST, 3), DOUBLE),
        ("sum", BIGINT, interval(-MOST, 3 * MOST), decimal(-MOST, 3 * MOST, 0)),
    ],
)
def test_the_type_of_an_aggregate_of_one_unit(function: str, type_: Type, domain: Domain, expected: Type) -> None:
    assert aggregate_type(Aggregate(function, Column(type_, name="x")), domain) == expected


@pytest.mark.parametrize("function", ["sum", "avg"])
@pytest.mark.parametrize("type_", [DOUBLE, HUGE, integer(-(2**63) - 1, 0), integer(0, 2**63)])
def test_what_is_no_exact_sum_needs_bounds(function: str, type_: Type) -> None:
    aggregate = Aggregate(function, Column(type_, name="x"))
    for domain in (Domain(), interval(0, None), interval(None, 0), interval(0.0, 2.0**901)):
        with pytest.raises(dpsql.UnboundedColumn, match="needs bounds"):
            aggregate_type(aggregate, domain)
    assert aggregate_type(aggregate, interval(0, 1)).kind in (Kind.DOUBLE, Kind.INTEGER, Kind.DECIMAL)
    assert aggregate_type(replace(aggregate, function="max"), Domain()) == type_


# windows ----------------------------------------------------------------------------------------------------------------

BY_ID = (col("id"),)
NEXT, UP_TO = Frame("ROWS", 1, 2), Frame("ROWS", None, 0)


def over(function: str, **more: Any) -> WindowCall:
    return WindowCall(function, partition=more.pop("partition", BY_ID), **more)


def computed(made: WindowCall, source: Relation = ORDERS) -> Field:
    return windowed(source, [("w", made)]).field("w")


COUNT = Aggregate("count", None)


@pytest.mark.parametrize(
    ("made", "attribute"),
    [
        (over("count", aggregate=COUNT), True),
        (over("count", aggregate=COUNT, frame=UP_TO), False),
        (over("count", aggregate=COUNT, partition=(*BY_ID, col("own"))), True),
        (over("count", aggregate=COUNT, partition=(*BY_ID, col("n"))), False),
        (over("first_value", args=(col("n"),)), True),
        (over("last_value", args=(col("n"),)), True),
        (over("nth_value", args=(col("n"),), number=2), True),
        (over("first_value", args=(col("n"),), frame=UP_TO), False),
        (over("lag", args=(col("n"),)), False),
        (over("row_number"), False),
        (over("rank"), False),
        (over("ntile", number=4), False),
        (over("cume_dist"), False),
    ],
)
def test_a_window_of_a_whole_unit_has_one_value_for_all_of_its_rows(made: WindowCall, attribute: bool) -> None:
    assert computed(made).attribute == attribute
    assert computed(made, SINGLE).attribute
    result = windowed(ORDERS, [("w", made)])
    assert (result.rows_per_unit, result.single, result.by_row) == (ROWS, False, False)
    assert windowed(SINGLE, [("w", made)]).single


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (over("row_number"), (1, ROWS, False)),
        (over("rank"), (1, ROWS, False)),
        (over("dense_rank"), (1, ROWS, False)),
        (over("percent_rank"), (0, 1, False)),
        (over("cume_dist"), (0, 1, False)),
        (over("ntile", number=4), (1, 4, False)),
        (over("lag", args=(col("sure"),)), (-2, 7, True)),
        (over("lag", args=(col("sure"), literal(9))), (-2, 9, False)),
        (over("lead", args=(col("n"), literal(9))), (0, 9, True)),
        (over("first_value", args=(col("sure"),)), (-2, 7, False)),
        (over("last_value", args=(col("sure"),), frame=UP_TO), (-2, 7, False)),
        (over("first_value", args=(col("sure"),), frame=NEXT), (-2, 7, True)),
        (over("first_value", args=(col("n"),)), (0, 4, True)),
        (over("nth_value", args=(col("sure"),), number=2), (-2, 7, True)),
        (over("count", aggregate=COUNT), (1, ROWS, False)),
        (over("count", aggregate=COUNT, frame=UP_TO), (1, ROWS, False)),
        (over("count", aggregate=COUNT, frame=Frame("ROWS", -2, 0)), (1, 3, False)),
        (over("count", aggregate=COUNT, frame=Frame("ROWS", -20, 0)), (1, ROWS, False)),
        (over("count", aggregate=COUNT, frame=NEXT), (0, 2, False)),
        (over("count", aggregate=COUNT, frame=Frame("ROWS", 2, 1)), (0, 1, False)),
        (over("sum", aggregate=Aggregate("sum", col("sure"))), (-18, 63, False)),
        (over("sum", aggregate=Aggregate("sum", col("sure")), frame=NEXT), (-4, 14, True)),
        (over("sum", aggregate=Aggregate("sum", col("sure")), frame=Frame("ROWS", -1, 0)), (-4, 14, False)),
        (over("sum", aggregate=Aggregate("sum", col("sure")), frame=Frame("RANGE", None, 0)), (-18, 63, False)),
        (over("max", aggregate=Aggregate("max", col("sure")), frame=Frame("ROWS", -3, -1)), (-2, 7, True)),
    ],
)
def test_the_domain_of_a_window(made: WindowCall, expected: tuple[int, int, bool]) -> None:
    assert ends(computed(made)) == expected


def test_the_types_of_windows() -> None:
    assert computed(over("ntile", number=4)).type == integer(1, 4)
    assert computed(over("row_number")).type == computed(over("rank")).type == integer(1, 2**62)
    assert computed(over("percent_rank")).type == DOUBLE
    assert computed(over("lag", args=(col("sure"), literal(None)))).type == BIGINT
    assert computed(over("row_number")).domain.origin == (f"at most {ROWS} rows per unit",)
    assert computed(over("count", aggregate=COUNT, frame=NEXT)).domain.origin == ("at most 2 rows per unit",)


def test_a_window_keeps_what_a_filter_says_of_its_rows() -> None:
    made = windowed(filtered(ORDERS, compare("ge", "n", 2)), [("w", over("rank"))])
    assert ends(made.field("n")) == (2, 4, False)


@pytest.mark.parametrize(
    ("source", "call_", "says"),
    [
        (ORDERS, over("rank"), None),
        (ORDERS, over("rank", partition=(col("key"),)), None),
        (ORDERS, over("rank", partition=(col("n"), col("id"))), None),
        (ORDERS, over("rank", partition=()), "a global window"),
        (ORDERS, over("rank", partition=(col("n"),)), "a global window"),
        (ORDERS, over("rank", partition=(col("pad"),)), "a global window"),
        (ORDERS, over("lag", args=(Column(BIGINT, name="nowhere"),)), "reads what is not there"),
        (ORDERS, over("rank", order=(Ordering(Column(BIGINT, name="nowhere")),)), "reads what is not there"),
        (ORDERS, over("sum", aggregate=Aggregate("sum", Column(BIGINT, name="nowhere"))), "reads what is not there"),
        (BY_ROW, over("rank", partition=(Column(BIGINT, name="n"),)), "rows without owner"),
        (PUBLIC, over("rank", partition=(Column(BIGINT, name="n"),)), "rows without owner"),
        (None, over("rank"), "rows without owner"),
    ],
)
def test_a_window_reads_rows_of_one_owner(source: Relation | None, call_: WindowCall, says: str | None) -> None:
    fields = (*(FIELDS if source is None else source.fields), Field("w", BIGINT, Domain()))
    if says is None:
        assert Windowed(fields, False, ROWS, False, source, (("w", call_),)).calls
    else:
        with pytest.raises(InternalError, match=says):
            Windowed(fields, False, ROWS, False, source, (("w", call_),))


def test_each_field_of_a_window_stands_there_once() -> None:
    added = Field("w", BIGINT, Domain())
    for fields in ((*FIELDS, replace(added, name="ID")), FIELDS, (*FIELDS, added, replace(added, name="v"))):
        with pytest.raises(InternalError, match="each field of a window once"):
            Windowed(fields, False, ROWS, False, ORDERS, (("w", over("rank")),))
    two = windowed(ORDERS, [("a", over("rank")), ("b", over("count", aggregate=Aggregate("sum", col("n"))))])
    with pytest.raises(InternalError, match="a global window"):
        replace(two, calls=(two.calls[0], ("b", over("rank", partition=()))))


def test_rows_of_one_owner_differ_by_what_the_owner_does_not_decide() -> None:
    assert [c.name for c in windowed(ORDERS, [("w", over("rank"))]).ties] == ["n", "sure", "key", "pad"]
    assert windowed(SINGLE, [("w", over("rank"))]).ties == ()


def test_a_window_reads_its_operands_and_ties_where_they_are_needed() -> None:
    calls = [
        ("a", over("rank", order=(Ordering(col("n")),))),
        ("b", over("sum", aggregate=Aggregate("sum", col("sure")))),
        ("c", over("row_number", partition=(col("id"), col("own")))),
    ]
    made = windowed(ORDERS, calls)
    assert made.used(frozenset({"own"})) == {"own"}
    assert made.used(frozenset({"a"})) == {"id", "n"}
    assert made.used(frozenset({"a", "b", "key"})) == {"id", "n", "sure", "key"}
    assert made.used(frozenset({"c"})) == {"id", "own", "n", "sure", "key", "pad"}


@pytest.mark.parametrize(
    ("kind", "start", "end", "made"),
    [("ROWS", -1, 1, True), ("RANGE", None, 0, True), ("RANGE", 0, 0, True), ("RANGE", None, None, True),
     ("RANGE", 0, None, True), ("RANGE", -1, None, False), ("RANGE", None, 1, False), ("RANGE", 1, 0, False)],
)  # fmt: skip
def test_a_frame_counts_rows_and_never_values(kind: Any, start: int | None, end: int | None, made: bool) -> None:
    if made:
        assert (Frame(kind, start, end).rows is None) == (kind == "RANGE" or None in (start, end))
    else:
        with pytest.raises(InternalError, match="a frame by values"):
            Frame(kind, start, end)
    assert Frame("ROWS", None, None) == WHOLE


def test_an_order_goes_up_and_ends_with_null_unless_it_is_said_otherwise() -> None:
    assert Ordering(col("n")) == Ordering(col("n"), descending=False, nulls_first=False)
    assert Ordering(col("n")) != Ordering(col("n"), descending=True)


# unions -----------------------------------------------------------------------------------------------------------------

OTHER = replace(ORDERS, table="other", rows_per_unit=4)
CLICKS = replace(BY_ROW, table="clicks")


def test_a_union_has_the_rows_of_its_parts_together() -> None:
    made = union_all([ORDERS, OTHER])
    assert (made.rows_per_unit, made.single, made.by_row, made.parts) == (ROWS + 4, False, False, (ORDERS, OTHER))
    assert [(f.attribute, f.owner, f.padded) for f in made.fields] == [
        (True, UNIT, False), (False, None, False), (False, None, False), (False, None, False),
        (False, "orders.key", False), (False, UNIT, True),
    ]  # fmt: skip
    rows = union_all([BY_ROW, CLICKS])
    assert (rows.rows_per_unit, rows.single, rows.by_row) == (1, True, True)
    assert [f.attribute for f in rows.fields] == [True]


def test_a_column_of_a_union_has_the_values_of_both_and_the_owner_only_if_both_tell_it() -> None:
    wider = (replace(FIELDS[0], owner=None), replace(FIELDS[1], domain=interval(3, 90, nullable=False)), *FIELDS[2:])
    for parts in ((ORDERS, replace(OTHER, fields=wider)), (replace(OTHER, fields=wider), ORDERS)):
        made = union_all(parts)
        assert ends(made.field("n")) == (0, 90, True)
        assert (made.field("id").owner, made.field("id").attribute) == (None, False)
    padded = (replace(FIELDS[0], padded=True), *FIELDS[1:])
    for parts in ((ORDERS, replace(OTHER, fields=padded)), (replace(OTHER, fields=padded), ORDERS)):
        assert (union_all(parts).field("id").padded, union_all(parts).field("id").attribute) == (True, False)


def test_a_union_has_the_names_of_its_first_part() -> None:
    other = replace(OTHER, fields=tuple(replace(f, name=f"other {f.name}") for f in FIELDS))
    assert [f.name for f in union_all([ORDERS, other]).fields] == [f.name for f in FIELDS]
    assert [f.name for f in union_all([other, ORDERS]).fields] == [f"other {f.name}" for f in FIELDS]


def test_unions_of_one_type_are_read_part_by_part() -> None:
    third = replace(ORDERS, table="third")
    inner = union_all([ORDERS, OTHER])
    assert union_all([inner, third]).parts == (ORDERS, OTHER, third)
    assert union_all([third, inner]).parts == (third, ORDERS, OTHER)
    other = (*FIELDS[:1], replace(FIELDS[1], type=DOUBLE), *FIELDS[2:])
    double = replace(third, fields=other)
    assert union_all([inner, double]).parts == (inner, double)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, None),
        ({"parts": (ORDERS,)}, "unequal parts"),
        ({"parts": ()}, "unequal parts"),
        ({"parts": (ORDERS, replace(OTHER, fields=FIELDS[1:]))}, "unequal parts"),
        ({"fields": FIELDS[:1]}, "unequal parts"),
        ({"parts": (ORDERS, PublicScan(FIELDS, False, 1, False, "p"))}, "rows without owner"),
        ({"by_row": True}, "units with others"),
        ({"parts": (ORDERS, replace(OTHER, by_row=True))}, "units with others"),
        ({"parts": (ORDERS, replace(OTHER, unit_type=TEXT))}, "across owners"),
        ({"single": True}, "one row per unit"),
        ({"fields": (*FIELDS[:1], replace(FIELDS[1], attribute=True), *union_all([ORDERS, OTHER]).fields[2:])}, "attribute"),
    ],
)  # fmt: skip
def test_a_union_is_made_of_parts_whose_owners_are_compared(changes: dict[str, Any], says: str | None) -> None:
    made = union_all([ORDERS, OTHER])
    if says is None:
        assert replace(made, **changes) == made
    else:
        with pytest.raises(InternalError, match=says):
            replace(made, **changes)


def test_a_row_that_is_a_unit_is_read_once() -> None:
    for parts in ((BY_ROW, BY_ROW), (BY_ROW, replace(BY_ROW, table="VISITS"))):
        assert shared_rows(parts)
        with pytest.raises(InternalError, match="across owners"):
            union_all(parts)
    assert not shared_rows((BY_ROW, CLICKS)) and not shared_rows((ORDERS, ORDERS))
    assert shared_rows((union_all([BY_ROW, CLICKS]), CLICKS)) and not shared_rows((union_all([BY_ROW, CLICKS]), ORDERS))


def test_owners_are_compared_in_one_type_or_as_whole_numbers() -> None:
    small = from_engine("INTEGER")
    texts, smalls = replace(OTHER, unit_type=TEXT), replace(OTHER, unit_type=small)
    assert one_id_space((ORDERS, OTHER)) and one_id_space((ORDERS, smalls)) and one_id_space((texts, texts))
    assert not one_id_space((ORDERS, texts)) and not one_id_space((texts, replace(OTHER, unit_type=DATE)))
    assert owner_types(ORDERS, texts, BY_ROW) == {BIGINT, TEXT}
    nested = projected(filtered(ORDERS, compare("ge", "n", 2)), [Item("id", col("id"))])
    assert list(scans_in(nested)) == [ORDERS]
    assert [s.table for s in scans_in(union_all([ORDERS, OTHER]))] == ["orders", "other"]


# set operations ---------------------------------------------------------------------------------------------------------

ID_N = Scan(FIELDS[:2], False, ROWS, False, table="orders", unit="id", unit_type=BIGINT)
AS_X = replace(
    ID_N, table="other", fields=(FIELDS[0], replace(FIELDS[1], type=DOUBLE, domain=interval(0.0, 9.5))), rows_per_unit=4
)


def combined(operation: str, left: Relation = ID_N, right: Relation = AS_X) -> Relation:
    node = parse_one(f"SELECT 1 {operation} SELECT 2", dialect="duckdb")
    assert isinstance(node, exp.SetOperation)
    return set_operation(node, left, right)


@pytest.mark.parametrize(
    ("operation", "kind", "rows"),
    [("UNION ALL", UnionAll, 13), ("UNION", UnitGroup, 13), ("INTERSECT", UnitGroup, ROWS), ("EXCEPT", UnitGroup, ROWS),
     ("INTERSECT ALL", Project, ROWS), ("EXCEPT ALL", Project, ROWS)],
)  # fmt: skip
def test_what_a_set_operation_is_made_of(operation: str, kind: type, rows: int) -> None:
    made = combined(operation)
    assert isinstance(made, kind) and made.rows_per_unit == rows
    assert [(f.name, f.type.kind.value) for f in made.fields] == [("id", "integer"), ("n", "double")]
    assert made.field("id").unit
    below: Any = made
    while not isinstance(below, Exists | UnionAll):
        below = below.source
    if isinstance(below, Exists):
        assert below.negated == operation.startswith("EXCEPT")
        assert isinstance(below.source, Windowed) == operation.endswith("ALL")
        assert below.inner is not None and isinstance(below.inner.relation, Windowed) == operation.endswith("ALL")
        asked = str(below.condition)
        assert asked.count(" = ") == 1 and asked.count("NOT DISTINCT") == (2 if operation.endswith("ALL") else 1)


def test_columns_of_one_type_are_left_as_they_are_and_others_are_read_in_the_common_one() -> None:
    below: Any = combined("EXCEPT ALL", ID_N, replace(ID_N, table="other"))
    assert [i.expression for i in below.items] == [Column(BIGINT, name="id"), Column(BIGINT, name="n")]
    below = combined("EXCEPT ALL")
    assert [i.expression for i in below.items] == [
        Column(BIGINT, name="id"), call("coalesce", DOUBLE, Column(BIGINT, name="n")),
    ]  # fmt: skip


def test_sides_by_name_have_the_columns_of_either() -> None:
    left = Scan((FIELDS[0], FIELDS[1]), False, ROWS, False, table="orders", unit="id", unit_type=BIGINT)
    right = replace(left, table="other", fields=(replace(FIELDS[2], name="SURE"), replace(FIELDS[0], name="ID")))
    made = combined("UNION ALL BY NAME", left, right)
    assert [f.name for f in made.fields] == ["id", "n", "SURE"]
    assert made.field("id").unit
    assert ends(made.field("n")) == (0, 4, True) and ends(made.field("SURE")) == (-2, 7, True)


@pytest.mark.parametrize(
    ("operation", "left", "right", "kind", "says"),
    [
        ("UNION ALL", ID_N, replace(ID_N, fields=FIELDS[:1]), dpsql.ParseError, "columns"),
        ("EXCEPT", ID_N, replace(ID_N, fields=(FIELDS[0], replace(FIELDS[1], type=DATE))), dpsql.ParseError, "EXCEPT"),
        ("UNION ALL", ID_N, replace(ID_N, by_row=True), dpsql.UnsupportedQuery, "units of their own"),
        ("UNION ALL", BY_ROW, BY_ROW, dpsql.UnsupportedQuery, "same rows twice"),
        ("UNION ALL", replace(ID_N, fields=FIELDS[1:2]), replace(ID_N, fields=FIELDS[1:2], unit_type=TEXT), dpsql.UnsupportedQuery, "different types"),
        ("UNION", replace(ID_N, fields=FIELDS[1:3]), replace(ID_N, fields=FIELDS[1:3]), dpsql.UnsupportedQuery, "^UNION of private rows needs the unit"),
        ("EXCEPT ALL", replace(ID_N, fields=FIELDS[1:3]), ID_N, dpsql.UnsupportedQuery, "^EXCEPT ALL of private rows needs the unit"),
        ("INTERSECT", ID_N, replace(ID_N, fields=(FIELDS[5], FIELDS[1])), dpsql.UnsupportedQuery, "needs the unit"),
    ],
)  # fmt: skip
def test_sides_that_do_not_fit_are_refused(
    operation: str, left: Relation, right: Relation, kind: type[dpsql.Error], says: str
) -> None:
    with pytest.raises(kind, match=says):
        combined(operation, left, right)


@pytest.mark.parametrize(
    ("sql", "part", "says"),
    [
        ("SELECT 1 UNION ALL SELECT 2 LIMIT 3", None, "LIMIT on private rows"),
        ("SELECT 1 UNION ALL SELECT 2 OFFSET 3", None, "OFFSET on private rows"),
        ("SELECT 1 UNION ALL SELECT 2", "kind", "KIND with UNION ALL is not supported"),
        ("SELECT 1 EXCEPT SELECT 2", "side", "SIDE with EXCEPT is not supported"),
        ("SELECT 1 UNION ALL SELECT 2 ORDER BY 1", None, None),
        ("WITH c AS (SELECT 1) SELECT 1 UNION ALL SELECT 2", None, None),
    ],
)
def test_a_clause_that_would_choose_rows_or_is_not_known_is_refused(
    sql: str, part: str | None, says: str | None
) -> None:
    node = parse_one(sql, dialect="duckdb")
    assert isinstance(node, exp.SetOperation)
    if part is not None:
        node.set(part, "x")
    if says is None:
        assert isinstance(set_operation(node, ID_N, AS_X), UnionAll)
    else:
        with pytest.raises(dpsql.UnsupportedQuery, match=says):
            set_operation(node, ID_N, AS_X)


def test_a_side_without_people_is_told_from_one_with_noise() -> None:
    node = parse_one("SELECT 1 UNION ALL SELECT 2", dialect="duckdb")
    assert isinstance(node, exp.SetOperation)
    assert "UNION ALL of private rows with public ones" in str(without_people(node, node, public=True))
    assert "UNION ALL of a result with noise" in str(without_people(node, node, public=False))


def test_a_union_of_all_rows_needs_no_unit_among_its_columns() -> None:
    plain = replace(ID_N, fields=FIELDS[1:3])
    assert isinstance(combined("UNION ALL", plain, replace(plain, table="other")), UnionAll)


@pytest.mark.parametrize(
    ("one", "two", "owned"),
    [(FIELDS[0], FIELDS[0], True), (FIELDS[0], FIELDS[5], False), (FIELDS[5], FIELDS[0], False),
     (FIELDS[5], FIELDS[5], False), (FIELDS[4], FIELDS[4], True), (FIELDS[0], FIELDS[4], False),
     (FIELDS[1], FIELDS[1], False)],
)  # fmt: skip
def test_equal_values_tell_of_one_owner_where_neither_was_padded(one: Field, two: Field, owned: bool) -> None:
    assert owns(one, two) == owned


# membership -------------------------------------------------------------------------------------------------------------


def where(condition: str) -> exp.Expr:
    found = parse_one(f"SELECT 1 FROM t WHERE {condition}", dialect="duckdb").args["where"]
    return found.this


@pytest.mark.parametrize(
    ("condition", "negated", "operand"),
    [
        ("EXISTS (SELECT 1 FROM u)", False, None),
        ("NOT EXISTS (SELECT 1 FROM u)", True, None),
        ("NOT (NOT EXISTS (SELECT 1 FROM u))", False, None),
        ("(EXISTS (SELECT 1 FROM u))", False, None),
        ("x IN (SELECT y FROM u)", False, "x"),
        ("x NOT IN (SELECT y FROM u)", True, "x"),
        ("NOT (x NOT IN (SELECT y FROM u))", False, "x"),
        ("x = ANY (SELECT y FROM u)", False, "x"),
    ],
)
def test_a_condition_that_asks_for_rows_of_a_subquery(condition: str, negated: bool, operand: str | None) -> None:
    node = where(condition)
    found = membership(node)
    assert found is not None and found.node is node and isinstance(found.query, exp.Query)
    assert found.negated == negated
    assert (None if found.operand is None else found.operand.sql()) == operand


@pytest.mark.parametrize(
    "condition",
    ["x = 1", "x IN (1, 2)", "NOT (x = ANY (SELECT y FROM u))", "x = ANY ([1, 2])", "x > ANY (SELECT y FROM u)", "NOT x",
     "EXISTS (SELECT 1 FROM u) OR x = 1", "x = (SELECT y FROM u)", "(SELECT b FROM u)", "NOT (SELECT b FROM u)"],
)  # fmt: skip
def test_any_other_condition_is_none(condition: str) -> None:
    assert membership(where(condition)) is None


@pytest.mark.parametrize(
    ("condition", "parts"),
    [("a", ["a"]), ("a AND b AND c", ["a", "b", "c"]), ("a AND (b AND c)", ["a", "b", "c"]), ("((a AND b))", ["a", "b"]),
     ("(a)", ["(a)"]), ("((a))", ["(a)"]), ("(a OR b) AND c", ["(a OR b)", "c"]), ("a OR b", ["a OR b"])],
)  # fmt: skip
def test_the_conjuncts_of_a_condition(condition: str, parts: list[str]) -> None:
    assert [part.sql() for part in conjuncts_of(where(condition))] == parts


def test_only_a_condition_with_a_subquery_is_taken_apart() -> None:
    node = where("a AND (b AND c)")
    assert split_where(node) == ([node], [])
    plain, members = split_where(where("a AND (b AND EXISTS (SELECT 1 FROM u)) AND x IN (SELECT y FROM u)"))
    assert [part.sql() for part in plain] == ["a", "b"]
    assert [member.operand is None for member in members] == [True, False]


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize(
    ("name", "loose"), [("n", True), ("sure", False), ("id", False), ("key", False), ("pad", True), (None, True)]
)
def test_a_null_speaks_against_not_in_where_there_may_be_one(name: str | None, loose: bool, negated: bool) -> None:
    fields = {f.name: f for f in FIELDS}
    sure = Column(BIGINT, name="sure")
    side: Expression = call("add", BIGINT, sure, literal(1)) if name is None else col(name)
    nulls = [call("is_null", BOOLEAN, side)] if loose and negated else []
    assert in_conditions(side, sure, fields, negated=negated) == [call("eq", BOOLEAN, side, sure), *nulls]
    assert in_conditions(sure, side, fields, negated=negated) == [call("eq", BOOLEAN, sure, side), *nulls]
