"""Window functions as SQL: their frames, operands and orders, and what an engine without the words for it refuses."""

from __future__ import annotations

import pytest

from dpsql.bounds.domain import interval
from dpsql.engines.duckdb.dialect import DUCKDB, DuckDB
from dpsql.engines.sql.from_item import From
from dpsql.engines.sql.unit_windows import window_sql
from dpsql.errors import UnsupportedQuery
from dpsql.expressions.expression import Column, Literal
from dpsql.expressions.types import DOUBLE, integer
from dpsql.expressions.typing import call
from dpsql.plan.nodes.relation import UNIT, Aggregate, Field, Scan
from dpsql.plan.nodes.windows import Frame, Ordering, WindowCall, Windowed

NARROW, WIDE = integer(0, 9), integer(0, 2**40)
U, X, Y = (Column(NARROW, name=name) for name in "uxy")
FIELDS = (
    Field("u", NARROW, interval(0, 9), True, UNIT),
    Field("x", NARROW, interval(0, 9)),
    Field("y", NARROW, interval(0, 9)),
)
ROWS = Scan(FIELDS, False, 5, False, "t", "u")


def written(over: WindowCall, dialect: DuckDB = DUCKDB, type_: object = NARROW) -> str:
    field = Field("w", NARROW, interval(0, 9))
    relation = Windowed((*FIELDS, field), False, 5, False, ROWS, (("w", over),))
    below = From("t", (), {"u": "u", "x": "x", "y": "y"}, "owner", dialect)
    return window_sql(over, type_, relation, below)  # type: ignore[arg-type]


ENDS = {
    None: ("UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING"), -3: ("3 PRECEDING",) * 2, -1: ("1 PRECEDING",) * 2,
    0: ("CURRENT ROW",) * 2, 1: ("1 FOLLOWING",) * 2, 2: ("2 FOLLOWING",) * 2,
}  # fmt: skip


@pytest.mark.parametrize("start", ENDS)
@pytest.mark.parametrize("end", ENDS)
def test_a_frame_is_written_as_so_many_rows_before_or_behind(start: int | None, end: int | None) -> None:
    over = WindowCall("last_value", args=(X,), partition=(U,), order=(Ordering(Y),), frame=Frame("ROWS", start, end))
    wanted = f" ROWS BETWEEN {ENDS[start][0]} AND {ENDS[end][1]})"
    assert written(over).endswith(wanted)
    counted = WindowCall("count", Aggregate("count", None), partition=(U,), frame=Frame("ROWS", start, end))
    assert written(counted).endswith(wanted)


def test_only_functions_that_read_a_frame_have_one() -> None:
    for function in ("row_number", "rank", "lag"):
        args = (X,) if function == "lag" else ()
        assert "BETWEEN" not in written(WindowCall(function, args=args, partition=(U,), order=(Ordering(Y),)))


def test_the_number_stands_behind_the_first_operand_and_the_others_behind_it() -> None:
    nine = Literal(NARROW, value=9)
    read, order = "CAST(x AS INTEGER)", "CAST(y AS INTEGER) ASC NULLS LAST, CAST(x AS INTEGER) ASC NULLS LAST"
    window = f" OVER (PARTITION BY owner ORDER BY {order})"
    over = WindowCall("lag", args=(X, nine), number=2, partition=(U,), order=(Ordering(Y),))
    assert written(over) == f"lag({read}, 2, 9){window}"
    assert written(WindowCall("lead", args=(X,), partition=(U,), order=(Ordering(Y),))) == f"lead({read}){window}"
    assert written(WindowCall("ntile", number=4, partition=(U,), order=(Ordering(Y),))) == f"ntile(4){window}"
    chosen = written(WindowCall("lag", args=(X, nine), number=1, partition=(U,), order=(Ordering(Y),)), type_=WIDE)
    assert "AS BIGINT" in chosen.partition(" OVER ")[0]


@pytest.mark.parametrize(("descending", "first", "way"), [(False, False, "ASC NULLS LAST"), (True, False, "DESC NULLS LAST"),
                                                          (False, True, "ASC NULLS FIRST"), (True, True, "DESC NULLS FIRST")])  # fmt: skip
def test_the_order_is_the_written_one_and_ties_are_settled_where_rows_are_told_apart(
    descending: bool, first: bool, way: str
) -> None:
    order = (Ordering(Y, descending, first),)
    peers = f"PARTITION BY owner ORDER BY CAST(y AS INTEGER) {way})"
    assert written(WindowCall("rank", partition=(U,), order=order)) == f"rank() OVER ({peers}"
    told = written(WindowCall("row_number", partition=(U,), order=order))
    assert f"ORDER BY CAST(y AS INTEGER) {way}, CAST(x AS INTEGER) ASC NULLS LAST" in told
    keyed = written(WindowCall("rank", partition=(X, U), order=order))
    assert "PARTITION BY owner, CAST(x AS INTEGER) ORDER" in keyed


def test_a_computed_key_and_order_has_one_spelling_of_zero_and_of_nan() -> None:
    """An expression may give zeros and NaNs of several spellings, of which an engine could make several peers."""
    half = call("mul", DOUBLE, X, Literal(DOUBLE, value=-0.5))
    settled = DUCKDB.settled(DUCKDB.sql(half, lambda name: name), DOUBLE)
    assert "NaN" in settled or "nan" in settled
    window = written(WindowCall("rank", partition=(U, half), order=(Ordering(half),)))
    assert window == f"rank() OVER (PARTITION BY owner, {settled} ORDER BY {settled} ASC NULLS LAST)"


class Behind(DuckDB):
    ignores_nulls_behind = True


def test_the_words_that_pass_over_null_stand_inside_or_behind_the_brackets() -> None:
    over = WindowCall("last_value", args=(X,), ignore_nulls=True, partition=(U,), order=(Ordering(Y),))
    plain = WindowCall("last_value", args=(X,), partition=(U,), order=(Ordering(Y),))
    assert written(over).startswith("last_value(CAST(x AS INTEGER) IGNORE NULLS) OVER (")
    assert written(over, Behind()).startswith("last_value(CAST(x AS INTEGER)) IGNORE NULLS OVER (")
    assert "IGNORE" not in written(plain) + written(plain, Behind())


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("different", [False, True])
def test_what_an_engine_has_no_words_for_is_refused_and_nothing_else(passes: bool, different: bool) -> None:
    class Dialect(DuckDB):
        ignores_nulls = passes
        windows_of_different = different

    skipping = WindowCall("last_value", args=(X,), ignore_nulls=True, partition=(U,), order=(Ordering(Y),))
    counting = WindowCall("count", Aggregate("count", X, distinct=True), partition=(U,))
    ordinary = [
        WindowCall("count", Aggregate("count", X), partition=(U,)),
        WindowCall("last_value", args=(X,), partition=(U,)),
    ]
    for over, known, words in ((skipping, passes, "IGNORE NULLS"), (counting, different, "DISTINCT")):
        if known:
            assert words in written(over, Dialect())
        else:
            with pytest.raises(UnsupportedQuery, match=f"{words} in a window"):
                written(over, Dialect())
    assert all(" OVER " in written(over, Dialect()) for over in ordinary)
