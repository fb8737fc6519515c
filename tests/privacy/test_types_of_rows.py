"""Types never come from rows: one person's value must not change what others see of a table, or whether they see it."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpsql.pandas
from dpsql.audit.traces import trace
from dpsql.engines.duckdb.object_columns import written
from dpsql.errors import InterfaceError, PolicyError
from dpsql.expressions.types import TEXT, from_engine
from dpsql.policy import load_policy

ODD = ("x", Decimal("3.123"), 2.5, None, True, b"x", date(2024, 1, 2), [1], {"a": 1}, object(), 10**5000, "\ud800",
       np.int8(4), pd.NaT, pd.Timestamp("2024-01-01"), 1 + 2j, float("nan"), np.datetime64("2024-01-01"),
       np.array([1, 2]), np.datetime64("2024-01-01", "ns"), np.timedelta64(99, "ns"))  # fmt: skip
"""What one person's row may hold."""


def policy(column: dict[str, Any], unit: str = "id") -> dict[str, Any]:
    table = {"unit": unit, "max_rows_per_unit": 1, "columns": {"x": column}}
    return {"dataset": "d", "search": False, "budget": {"epsilon": 100}, "tables": {"t": table}}


def frame(dtype: str, *last: Any) -> pd.DataFrame:
    values = [*range(20), *last]
    made = pd.Series(values, dtype=object)
    return pd.DataFrame({"id": range(len(values)), "x": made.astype(dtype) if dtype != "object" else made})


def seen(source: Any, said: dict[str, Any], sql: str) -> tuple[str, list[tuple[str, int, int | None]]]:
    """What an analyst sees before anything is released; and the exact integers with their claimed bounds."""
    with dpsql.connect({"t": source}, policy=said, ledger=":memory:", steward=True) as db:
        [release] = trace(db, sql, salt=b"s")
        return str(db.explain(sql)), [(s.name, sum(s.values), s.linf) for s in release.statistics]


def require_neighbours(one: Any, two: Any) -> None:
    """The same explanation, and integers that differ by no more than is claimed of one unit."""
    assert one[0] == two[0]
    for (name, before, claimed), (same, after, again) in zip(one[1], two[1], strict=True):
        assert (name, claimed) == (same, again) and claimed is not None
        assert abs(before - after) <= claimed


WEIGHT = 2**30
"""The weight of a row of a unit that has no more rows than it may."""
SUM = "SELECT count(*), count(x), sum(x) FROM t"


@pytest.mark.parametrize("odd", ODD, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("dtype", ["object", "category"])
def test_one_odd_value_changes_no_type_and_no_other_row(dtype: str, odd: Any) -> None:
    if dtype == "category" and isinstance(odd, list | dict | np.ndarray):
        pytest.skip("cannot be a category")
    said = policy({"min": 0, "max": 100})
    one, two = seen(frame(dtype), said, SUM), seen(frame(dtype, odd), said, SUM)
    require_neighbours(one, two)
    assert [total for name, total, _ in one[1] if "count" in name.lower()] in ([20 * WEIGHT], [20 * WEIGHT] * 2)


@pytest.mark.parametrize("last", [(), *((odd,) for odd in ODD)], ids=lambda each: str(len(each)))
@pytest.mark.parametrize("dtype", ["object", "category"])
def test_a_column_of_objects_without_a_type_is_refused_in_the_same_words(last: tuple[Any, ...], dtype: str) -> None:
    if dtype == "category" and last and isinstance(last[0], list | dict | np.ndarray):
        pytest.skip("cannot be a category")
    with pytest.raises(InterfaceError) as refusal:
        dpsql.connect({"t": frame(dtype, *last)}, policy=policy({}), ledger=":memory:")
    assert str(refusal.value).startswith(
        f"the column x of the frame t has dtype {dtype}, which does not determine its SQL type"
    )
    assert "write `x: {type: text}` in the policy" in str(refusal.value)
    assert 'df.astype({"x": "string"})' in str(refusal.value)


STATED = {
    "text": ["a", "5", "2.5", "true", "2024-01-02", "2024-01-02 03:04:05", "1.50", None, None, "é"],
    "integer": [None, 5, 3, None, None, None, 2, None, None, None],
    "double": [None, 5.0, 2.5, None, None, None, 1.5, None, None, None],
    "decimal(9, 1)": [None, Decimal("5.0"), Decimal("2.5"), None, None, None, Decimal("1.5"), None, None, None],
    "boolean": [None, None, None, True, None, None, None, None, None, None],
    "date": [None, None, None, None, date(2024, 1, 2), date(2024, 1, 2), None, None, None, None],
    "timestamp": [None, None, None, None, datetime(2024, 1, 2), datetime(2024, 1, 2, 3, 4, 5), None, None, None, None],
}


@pytest.mark.parametrize("stated", STATED)
def test_the_policy_says_the_type_and_what_does_not_fit_is_null(stated: str) -> None:
    values = ["a", 5, 2.5, True, date(2024, 1, 2), datetime(2024, 1, 2, 3, 4, 5), Decimal("1.50"), None, [1], "é"]
    source = pd.DataFrame({"id": range(10), "x": pd.Series(values, dtype=object)})
    with dpsql.connect({"t": source}, policy=policy({"type": stated}), ledger=":memory:", steward=True) as db:
        assert [row[0] for row in db.engine._connection.execute("SELECT x FROM t ORDER BY id").fetchall()] == STATED[
            stated
        ]


def test_texts_in_a_column_of_objects_are_public_keys_where_their_values_are_listed() -> None:
    source = pd.DataFrame({"id": range(40), "x": pd.Series(["a", "b"] * 20, dtype=object)})
    for said in ({"values": ["a", "b"]}, {"values": ["a", "b"], "type": "text"}):
        with dpsql.connect({"t": source}, policy=policy(said), ledger=":memory:", steward=True) as db:
            [release] = trace(db, "SELECT x, count(*) FROM t GROUP BY x", salt=b"s")
            assert dict(zip(release.keys, release.statistics[0].values, strict=True)) == {
                ("a",): 20 * WEIGHT,
                ("b",): 20 * WEIGHT,
                (None,): 0,
            }


def test_units_in_a_column_of_objects_are_texts() -> None:
    source = pd.DataFrame({"id": pd.Series(["p", 7, None, "7", "p"], dtype=object), "x": 1.0})
    with dpsql.connect({"t": source}, policy=policy({"min": 0, "max": 1}), ledger=":memory:", steward=True) as db:
        rows = db.engine._connection.execute("SELECT id FROM t").fetchall()
        assert rows == [("p",), ("7",), (None,), ("7",), ("p",)]


def test_a_column_of_objects_that_the_policy_does_not_name_is_left_out() -> None:
    source = pd.DataFrame({"id": range(3), "x": [1.0, 2.0, 3.0], "secret": pd.Series([1, "x", [2]], dtype=object)})
    with dpsql.connect({"t": source}, policy=policy({"min": 0, "max": 1}), ledger=":memory:", steward=True) as db:
        assert list(db.engine.schema()["t"]) == ["id", "x"]


def test_public_frames_have_the_types_of_their_rows() -> None:
    said = policy({"min": 0, "max": 1})
    said["tables"]["p"] = {"public": True}
    tables = {"t": frame("object"), "p": pd.DataFrame({"y": pd.Series([1, 2], dtype=object)})}
    with dpsql.connect(tables, policy=said, ledger=":memory:", steward=True) as db:
        assert db.engine.schema()["p"] == {"y": "BIGINT"} or "INT" in db.engine.schema()["p"]["y"]


TYPED = {
    "str": pd.Series(["a"], dtype="str"), "string": pd.Series(["a"], dtype="string"),
    "Int64": pd.Series([1], dtype="Int64"), "arrow": pd.Series([1], dtype="int64[pyarrow]"),
    "coded": pd.Series(["a"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
    "boolean": pd.Series([True], dtype="boolean"), "moment": pd.Series([pd.Timestamp("2024-01-01")]),
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPED)
def test_a_column_whose_dtype_says_a_type_needs_no_other_and_keeps_it_without_rows(kind: str) -> None:
    source = pd.DataFrame({"id": [1], "x": TYPED[kind]})
    types = []
    for part in (source, source.iloc[:0], pd.DataFrame({"id": [1], "x": TYPED[kind].where([False])})):
        with dpsql.connect({"t": part}, policy=policy({}), ledger=":memory:", steward=True) as db:
            types.append(db.engine.schema()["t"]["x"])
    assert len(set(types)) == 1 and from_engine(types[0]) is not None


@pytest.mark.parametrize("categories", [["a"], ["a", "b"]])
def test_categories_of_polars_and_arrow_are_texts(categories: list[str]) -> None:
    coded = pa.table({"id": [1], "x": pa.array(["a"]).dictionary_encode()})
    for source in (
        pl.DataFrame({"id": [1], "x": pl.Series(["a"], dtype=pl.Categorical)}),
        pl.DataFrame({"id": [1], "x": pl.Series(["a"], dtype=pl.Enum(categories))}),
        coded,
    ):
        with dpsql.connect({"t": source}, policy=policy({}), ledger=":memory:", steward=True) as db:
            assert from_engine(db.engine.schema()["t"]["x"]) == TEXT


@pytest.mark.parametrize("values", [[1, 2], [1, "x"]])
def test_arrays_without_a_frame_are_refused_for_private_tables(values: list[Any]) -> None:
    source = {"id": np.array([1, 2]), "x": np.array(values, dtype=object)}
    with pytest.raises(InterfaceError, match="have no types of their own"):
        dpsql.connect({"t": source}, policy=policy({}), ledger=":memory:")


def test_a_stated_type_is_not_for_columns_that_have_another() -> None:
    source = pd.DataFrame({"id": [1], "x": [1.0]})
    with dpsql.connect({"t": source}, policy=policy({"type": "double"}), ledger=":memory:") as db:
        assert db.explain("SELECT count(x) FROM t")
    said = policy({"type": "text"})
    with pytest.raises(PolicyError, match="says `type: text`, but the type of the column is double"):
        dpsql.connect({"t": source}, policy=said, ledger=":memory:").explain("SELECT count(x) FROM t")


@pytest.mark.parametrize(
    ("said", "hint"), [("txt", "did you mean text"), ("decimal(19,2)", "decimal(18, 2)"), (5, "text")]
)
def test_an_unknown_type_is_named(said: Any, hint: str) -> None:
    with pytest.raises(PolicyError) as problem:
        load_policy(policy({"type": said}))
    assert "is not a type" in str(problem.value) and hint in str(problem.value)


def test_lists_of_categories_are_not_texts() -> None:
    assert from_engine("ENUM('a', 'b')") == TEXT == from_engine("ENUM('x[]')")
    assert from_engine("ENUM('a', 'b')[]") is None and from_engine("ENUM('a')[3]") is None
    with duckdb.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER, x ENUM('a', 'b')[])")
        with pytest.raises(PolicyError), dpsql.connect(db, policy=policy({}), ledger=":memory:") as asked:
            asked.explain("SELECT count(x) FROM t")


# the accessor ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ODD, ids=lambda each: type(each).__name__)
def test_protected_frames_have_the_types_that_were_declared(odd: Any) -> None:
    def fields(*last: Any) -> Any:
        made = dpsql.protect(frame("object", *last), unit="id", epsilon=1, bounds={"x": (0, 10)})
        return made._view.protection.fields("df")

    assert fields() == fields(odd)


def test_texts_of_a_protected_frame_need_no_declaration() -> None:
    made = pd.DataFrame({"id": range(40), "city": pd.Series(["a", "b"] * 20, dtype=object), "x": 1.0})
    private = made.dp.protect(unit="id", epsilon=10, values={"city": ["a", "b"]}, bounds={"x": (0, 1)})
    assert set(private.groupby("city").size().df()["city"].dropna()) >= {"a", "b"}
    undeclared = made.dp.protect(unit="id", epsilon=10, bounds={"x": (0, 1)})
    assert undeclared[undeclared.city == "a"].count() is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (True, "true"), (np.float64(2.5), "2.5"), (np.bool_(False), "false"), (10**39, "1" + "0" * 39), (10**40, None),
     (float("nan"), None), (float("inf"), "inf"), (Decimal("NaN"), None), (Decimal("1e999999"), None), (pd.NA, None),
     (b"a", None), ("\ud800", None), (np.str_("x"), "x"),
     (np.array([1, 2]), None), (np.array(["a"]), None), (np.datetime64("2024-01-02T03:04:05.123456789"), "2024-01-02 03:04:05.123456"),
     (np.datetime64("NaT"), None), (np.datetime64(10**9, "Y"), None), (np.timedelta64(5, "ns"), None)],
)  # fmt: skip
def test_an_object_is_written_by_itself(value: Any, text: str | None) -> None:
    assert written(value) == text
