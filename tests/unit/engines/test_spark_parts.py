"""What Spark is asked where no session is needed to see it: limits of patterns, letters, bits, and files that changed."""

from __future__ import annotations

import logging
import re
import threading
from types import SimpleNamespace

import pytest

from dpsql.engines.open_engine import is_spark
from dpsql.engines.spark import open as opening
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.spark.engine import SparkEngine
from dpsql.engines.spark.number_rules import fits
from dpsql.engines.spark.open import _read_as
from dpsql.engines.spark.session_settings import quietly
from dpsql.engines.spark.table_files import FilesChanged, relation_of, unchanged
from dpsql.errors import InterfaceError, UnsupportedQuery
from dpsql.expressions.expression import Call, Column, Literal
from dpsql.expressions.types import BOOLEAN, TEXT, Type, integer

WORD = Column(TEXT, name="word")


def like(pattern: str) -> str:
    return SPARK.sql(Call(BOOLEAN, op="like", args=(WORD, Literal(TEXT, value=pattern))), SPARK.quote)


@pytest.mark.parametrize(
    ("pattern", "most"), [("a%", None), ("%a", None), ("%a%", None), ("%a%b", 4096), ("%a%b%c", 256)]
)
def test_a_text_is_the_shorter_the_more_often_a_pattern_may_start_again(pattern: str, most: int | None) -> None:
    made = like(pattern)
    assert re.findall(r"octet_length\(.*?\) <= (\d+) THEN", made) == ([] if most is None else [str(most)])


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("VARCHAR", "try_validate_utf8(collate(x, 'UTF8_BINARY'))"),
        ("TIMESTAMP WITH TIME ZONE", "CAST(x AS TIMESTAMP_NTZ)"),
        ("DOUBLE", "x"),
        ("FLOAT", "CAST(x AS DOUBLE)"),
    ],
)
def test_a_stored_column_is_read_in_the_type_that_is_computed_with(stored: str, read: str) -> None:
    assert SPARK.read("x", stored) == read


def test_a_pattern_that_may_start_again_too_often_is_refused() -> None:
    with pytest.raises(UnsupportedQuery):
        like("%a%b%c%d")


def test_the_parts_of_a_longer_text_share_its_bytes() -> None:
    joined = Call(TEXT, op="join", args=(WORD, WORD))
    assert re.findall(r"octet_length\(.*?\) <= (\d+) THEN", SPARK.sql(joined, SPARK.quote)) == [str(2**18 // 2)] * 2


def letter(number: int) -> str:
    return SPARK.sql(Call(TEXT, op="chr", args=(Literal(integer(number, number), value=number),)), SPARK.quote)


@pytest.mark.parametrize("number", [1, 0xD7FF, 0xE000, 0x10FFFF])
def test_a_constant_number_that_is_a_letter_is_written_as_that_letter(number: int) -> None:
    assert f"{number:x}" in letter(number)


@pytest.mark.parametrize("number", [-1, 0xD800, 0xDFFF, 0x110000])
def test_half_a_letter_and_a_number_beyond_all_letters_are_refused(number: int) -> None:
    with pytest.raises(UnsupportedQuery):
        letter(number)


def bits(type_: Type) -> str:
    return SPARK.sql(Call(integer(0, 64), op="bit_count", args=(Column(type_, name="x"),)), SPARK.quote)


def test_bits_are_counted_of_numbers_that_are_never_negative() -> None:
    assert "bit_count(" in bits(integer(0, 9))
    with pytest.raises(UnsupportedQuery):
        bits(integer(-1, 9))


class Files:
    """Files that changed before they were looked at for the n-th time."""

    def __init__(self, changed_at: int) -> None:
        self.left = changed_at

    def require_same(self) -> None:
        self.left -= 1
        if not self.left:
            raise FilesChanged


def test_files_that_changed_are_not_read_and_those_that_change_meanwhile_were_read_in_vain() -> None:
    seen = []
    for changed_at in (1, 2, 3):
        try:
            with unchanged([Files(9), Files(changed_at)]):  # type: ignore[list-item]
                seen.append(f"read {changed_at}")
        except FilesChanged:
            seen.append(f"refused {changed_at}")
    assert seen == ["refused 1", "read 2", "refused 2", "read 3"]


class Frame:
    """A value of a class of PySpark's."""


Frame.__module__ = "pyspark.sql.dataframe"


@pytest.mark.parametrize(
    ("source", "spark"),
    [
        (Frame(), True),
        ({"t": Frame()}, True),
        ({"a": "a.parquet", "t": Frame()}, True),
        ({"t": "t.parquet"}, False),
        ({}, False),
        ("local[2]", True),
        ("spark://host:7077", True),
        ("shop.duckdb", False),
        ((Frame(), {"t": "t.parquet"}), True),
        (("shop.duckdb", {}), False),
        ((Frame(),), False),
    ],
)
def test_a_source_means_spark_if_it_or_one_of_its_tables_is_of_pyspark(source: object, spark: bool) -> None:
    assert is_spark(source) == spark


class Catalogue:
    """An opened catalogue with one table, without a session."""

    def __init__(self, *_: object) -> None:
        self.session = self.tables = None

    def schema(self) -> dict[str, dict[str, str]]:
        return {"t": {"id": "BIGINT"}}


def test_rows_that_somebody_may_write_to_make_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """However unique they look: the rows are not even asked."""
    monkeypatch.setattr("dpsql.engines.spark.engine.Opened", Catalogue)
    monkeypatch.setattr(SparkEngine, "_asked", lambda *_: [])
    engine = SparkEngine("local[1]")
    assert not engine.public.unique("t", frozenset({"id"}))
    assert engine.live and not engine.verifiable and engine.constraints(None) == frozenset()


LOGGERS = ("SQLQueryContextLogger", "py4j.clientserver", "py4j.java_gateway")


@pytest.mark.parametrize("name", LOGGERS)
def test_what_pyspark_logs_of_dpsqls_own_queries_goes_nowhere_and_other_threads_log_as_before(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger(name)
    with quietly():
        logger.error("a value")
        other = threading.Thread(target=logger.error, args=("another thread",))
        other.start()
        other.join()
    logger.error("afterwards")
    assert caplog.messages == ["another thread", "afterwards"]


def test_pyspark_logs_again_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError), quietly():
        raise RuntimeError
    logging.getLogger(LOGGERS[0]).error("afterwards")
    assert caplog.messages == ["afterwards"]


@pytest.mark.parametrize(
    ("stored", "wanted", "read"),
    [
        ("VARCHAR", "VARCHAR", "`c`"),
        ("DOUBLE", "DOUBLE", "`c`"),
        ("FLOAT", "DOUBLE", "`c`"),
        ("DATE", "DATE", "`c`"),
        ("BIGINT", "BIGINT", "CAST(`c` AS STRING)"),
        ("INTEGER", "VARCHAR", "CAST(`c` AS STRING)"),
        ("BIGINT", "DOUBLE", "CAST(`c` AS STRING)"),
    ],
)
def test_a_column_of_rows_is_read_in_the_type_of_the_policy_whatever_type_its_rows_gave_it(
    stored: str, wanted: str, read: str
) -> None:
    """Through its text, except where Spark chooses the type only if it changes no value."""
    made = _read_as("t", "c", stored, wanted, "UTC")
    assert made == read if read == "`c`" else (read in made and made.endswith("AS `c`"))


@pytest.mark.parametrize(
    ("stored", "wanted"), [("DOUBLE", "VARCHAR"), ("MAP", "VARCHAR"), ("BIGINT", None), ("BIGINT", "MAP")]
)
def test_a_column_of_rows_whose_type_is_not_stated_or_cannot_be_had_is_refused(stored: str, wanted: str | None) -> None:
    with pytest.raises(InterfaceError):
        _read_as("t", "c", stored, wanted, "UTC")


class Listed:
    """A session whose catalogue lists these tables; a table is its own name, and so is the relation that it reads."""

    def __init__(self, *tables: tuple[str, str, bool]) -> None:
        listed = [SimpleNamespace(name=name, tableType=type_, isTemporary=passing) for name, type_, passing in tables]
        self.catalog = SimpleNamespace(listTables=lambda: listed)

    def table(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name.strip("`"), schema=SimpleNamespace(simpleString=lambda: "struct<x:int>"))


def test_tables_of_the_catalogue_are_those_that_list_their_files_and_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A view may mix the rows of different units, and what has no files may differ from scan to scan."""
    read: list[str] = []

    def reads(table: SimpleNamespace) -> bool:
        read.append(table.name)
        return bool(table.name != "broken")

    monkeypatch.setattr(opening, "relation_of", lambda table: None if table.name == "remote" else table.name)
    monkeypatch.setattr(opening, "roots_of", lambda name: [] if name == "partitioned" else [f"/data/{name}"])
    monkeypatch.setattr(opening, "_reads", reads)
    monkeypatch.setattr(opening, "_columns", lambda _session, name: {"x": f"of {name}"})
    opened = object.__new__(opening.Opened)
    opened.tables, opened._readable = None, {}
    opened.session = Listed(
        ("Own", "MANAGED", False), ("beside", "EXTERNAL", False), ("view", "VIEW", False), ("passing", "MANAGED", True),
        ("remote", "EXTERNAL", False), ("partitioned", "MANAGED", False), ("broken", "MANAGED", False),
    )  # type: ignore[assignment]  # fmt: skip
    for _ in range(2):
        assert opened.schema() == {"own": {"x": "of Own"}, "beside": {"x": "of beside"}}
    assert read == ["Own", "beside", "broken"]


def test_a_session_that_was_stopped_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "own_session", lambda session: session)
    for stopped in (True, False):
        context = SimpleNamespace(sc=lambda stopped=stopped: SimpleNamespace(isStopped=lambda: stopped))
        session = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=context))
        if stopped:
            with pytest.raises(InterfaceError, match="was stopped"):
                opening.Opened(session)
        else:
            assert opening.Opened(session).session is session


def test_a_frame_that_reads_no_files_has_no_list_of_them() -> None:
    pytest.importorskip("py4j")
    node = SimpleNamespace(
        children=lambda: SimpleNamespace(size=lambda: 0),
        getClass=lambda: SimpleNamespace(getSimpleName=lambda: "LocalRelation"),
    )
    frame = SimpleNamespace(
        _jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: node)),
        sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None)),
    )
    assert relation_of(frame) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [10**38 - 1, 10**38])
def test_whole_numbers_of_up_to_38_digits_fit(most: int) -> None:
    assert fits(integer(0, most)) == fits(integer(-most, 0)) == (most < 10**38)
    assert fits(TEXT)
