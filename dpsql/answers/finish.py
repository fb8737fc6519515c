"""The analyst's outer SQL, run over released and public tables in a sealed database that holds nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.cancellation import interruptible
from dpsql.engines.base import PublicRows
from dpsql.errors import InterfaceError, ParseError
from dpsql.expressions.types import sql_type
from dpsql.plan.builder.selection_aggregates import chooses, chosen_type
from dpsql.plan.nodes.relation import Aggregate
from dpsql.plan.plan import Bar, Plan, Release
from dpsql.policy.identifiers import fold

SEALED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "threads": "1",
    "temp_directory": "",
}
MEMORY, SECONDS, VALUES = 2 * 10**9, 60, 10**7
"""The most that finishing one query may take: bytes, seconds, values in the answer.

**Theorem.** Whether finishing meets a limit tells nothing about private data beyond what was released.
**Proof.** The sealed database holds released and public tables only, and the limits come from the policy, so what
happens here (time and memory too) is a function of those, of the query and of the machine: post-processing. It comes
after the charge, which is kept; the release is stored, and the next query over it is a replay.
**Checked by** `tests/privacy/test_sealed.py` and `tests/privacy/test_finishing_limits.py`.
"""

_NUMBERS = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "FLOAT", "DOUBLE", "DECIMAL",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """Rows with names and types: the shape of an answer."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Finisher:
    """One sealed database per session; each query has its own temporary tables."""

    def __init__(
        self, read_public: Callable[[str], PublicRows], memory: int | None = None, seconds: float | None = None
    ) -> None:
        self._read_public = read_public
        self._connection = duckdb.connect(":memory:", config=SEALED)
        for macro in MACROS:
            self._connection.execute(macro)
        limits = {
            "TimeZone": "UTC",
            "memory_limit": f"{min(memory or MEMORY, MEMORY)}B",
            "max_execution_time": round(min(seconds or SECONDS, SECONDS) * 1000),
            "lock_configuration": True,
        }
        for name, value in limits.items():
            self._connection.execute(f"SET GLOBAL {name} = '{value}'")
        self._loaded: set[str] = set()
        self._lock, self._closed = threading.RLock(), False

    def check(self, plan: Plan) -> tuple[str, ...]:
        """The column types of the answer. Whatever DuckDB would refuse is refused here, before anything is charged."""
        limit_aliases(plan.finishing)
        with self._tables(plan, {}) as cursor:
            described = cursor.execute(f"DESCRIBE {with_short_texts(plan.finishing)}").fetchall()
            for release in plan.releases:
                for bar in release.bars:
                    _check_bar(cursor, release, bar)
        for name, type_, *_ in described:
            if "WITH TIME ZONE" in type_:
                raise ParseError(
                    f"the column {name} has a time zone", hint=f'cast it: CAST({name} AS TIMESTAMP) AS "{name}"'
                )
        if len(described) != len(plan.outputs) + (plan.row is not None):
            raise ParseError("the columns of this SELECT are not known here", hint="list them by their names")
        return tuple(row[1] for row in described)[: len(plan.outputs)]

    def run(
        self, plan: Plan, columns: Mapping[str, Mapping[str, Sequence[Any]]], query: exp.Query | None = None
    ) -> AnswerTable:
        """The answer, or that of another query over the same tables."""
        with self._tables(plan, columns) as cursor, interruptible(cursor.interrupt):
            done = cursor.execute(with_short_texts(plan.finishing if query is None else query))
            names = tuple(d[0] for d in done.description or ())
            types = tuple(str(d[1]) for d in done.description or ())
            return AnswerTable(names, types, _rows(done, len(names)))

    def constants(self, expressions: Sequence[exp.Expr]) -> list[tuple[str, str] | None]:
        """The type and the text of each constant expression; None where it has no value.

        What fails takes the others with it, so then each is computed by itself.
        """
        texts = list(map(with_short_texts, expressions))
        with self._lock, self._still_open(), self._connection.cursor() as cursor:
            try:
                listed = ", ".join(f"typeof({text}), CAST({text} AS VARCHAR)" for text in texts)
                row = cursor.execute(f"SELECT {listed}").fetchone() or ()
                pairs = zip(row[::2], row[1::2], strict=True)
                return [None if text is None else (type_, text) for type_, text in pairs]
            except duckdb.Error:
                if len(expressions) == 1:
                    return [None]
        return [each for expression in expressions for each in self.constants([expression])]

    def numbers(
        self, plan: Plan, release: str, columns: Mapping[str, Sequence[Any]], expressions: Sequence[exp.Expr]
    ) -> list[NDArray[np.float64]]:
        """Expressions over each row of one released table, in its order; NaN for NULL and for what is no number."""
        with self._tables(plan, {release: columns}) as cursor:
            kinds = cursor.execute(f"DESCRIBE {_over_rows(release, expressions)}").fetchall()
            listed = [e if is_number(kind[1]) else exp.null() for e, kind in zip(expressions, kinds, strict=True)]
            done = cursor.execute(f"{_over_rows(release, listed, 'DOUBLE')} ORDER BY _row").fetchnumpy()
            return [np.asarray(np.ma.filled(done[f"_e{i}"], np.nan), np.float64) for i in range(len(listed))]

    def run_each(
        self,
        plan: Plan,
        columns: Mapping[str, Mapping[str, Sequence[Any]]],
        query: exp.Query,
        times: int,
        sizes: Mapping[str, int],
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of `query` over each of `times` draws of the tables, one after the other.

        The rows of each draw have `sizes[release]` numbers; some of them may be left out.
        """
        with self._tables(plan, columns) as cursor, interruptible(cursor.interrupt):
            text = with_short_texts(query)
            for release in plan.releases:
                size = sizes[release.name]
                cursor.execute(f"ALTER TABLE {release.name} RENAME TO {release.name}_all")
                cursor.execute(
                    f"CREATE TEMP VIEW {release.name} AS SELECT * REPLACE (_row % {max(1, size)} AS _row) FROM "
                    f"{release.name}_all WHERE _row // {max(1, size)} = getvariable('draw')"
                )
            try:
                for draw in range(times):
                    cursor.execute(f"SET VARIABLE draw = {draw}")
                    yield cursor.execute(text).fetchall()
            finally:
                for release in plan.releases:
                    cursor.execute(f"DROP VIEW IF EXISTS {release.name}")
                    cursor.execute(f"DROP TABLE IF EXISTS {release.name}_all")

    def forget(self) -> None:
        """Read public tables anew from now on: somebody may have written to them."""
        with self._lock:
            for table in self._loaded:
                self._connection.execute(f"DROP TABLE IF EXISTS {_quote(table)}")
            self._loaded.clear()

    @contextmanager
    def _tables(
        self, plan: Plan, columns: Mapping[str, Mapping[str, Sequence[Any]]]
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._lock, self._still_open(), _explained(), self._connection.cursor() as cursor:
            self._load(plan.public)
            try:
                for release in plan.releases:
                    _create(cursor, release, columns.get(release.name))
                yield cursor
            finally:
                for release in plan.releases:
                    cursor.execute(f"DROP TABLE IF EXISTS {release.name}")

    def _load(self, public: Sequence[str]) -> None:
        for table in public:
            if table not in self._loaded:
                rows = self._read_public(table)
                arrays = {f"v{i}": rows.values[c] for i, c in enumerate(rows.types)}
                arrays |= {f"n{i}": rows.nulls[c] for i, c in enumerate(rows.types)}
                listed = [
                    f"CASE WHEN n{i} THEN NULL ELSE {_as_stored(f'v{i}', type_)} END AS {_quote(column)}"
                    for i, (column, type_) in enumerate(rows.types.items())
                ]
                self._connection.register("_public", arrays)
                self._connection.execute(f"CREATE TABLE {_quote(table)} AS SELECT {', '.join(listed)} FROM _public")
                self._connection.unregister("_public")
                self._loaded.add(table)

    @contextmanager
    def _still_open(self) -> Iterator[None]:
        """An answer may outlive its connection, and its error bars be asked for after that."""
        if self._closed:
            raise InterfaceError("the connection of this answer is closed", hint="ask the query again: it is replayed")
        yield

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._connection.close()


def _as_stored(value: str, type_: str) -> str:
    """A value of an array in its stored type. DuckDB takes NaN in an array for NULL; where a value is, it was NaN."""
    cast = f"CAST({value} AS {type_})"
    return f"coalesce({cast}, 'nan'::{type_})" if type_ in ("FLOAT", "DOUBLE") else cast


def _quote(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql("duckdb")


def finishing_sql(plan: Plan) -> str:
    """The finishing query as text, generated afresh from the tree."""
    return plan.finishing.sql("duckdb")


def _check_bar(cursor: duckdb.DuckDBPyConnection, release: Release, bar: Bar) -> None:
    """Refuse an error bar of anything but a number."""
    [described] = cursor.execute(f"DESCRIBE {_over_rows(release.name, [bar.expression])}").fetchall()
    if not is_number(described[1]):
        raise ParseError(
            f"DP_{bar.end.upper()} takes a number, and this is {described[1]}",
            hint=f"apply it to a count, a sum or an average: DP_{bar.end.upper()}(count(*))",
        )


def is_number(type_: str) -> bool:
    """Is this one of DuckDB's numeric types?"""
    return type_.partition("(")[0] in _NUMBERS


def _over_rows(release: str, expressions: Sequence[exp.Expr], type_: str | None = None) -> str:
    texts = [with_short_texts(e) for e in expressions]
    listed = [f"{text if type_ is None else f'CAST({text} AS {type_})'} AS _e{i}" for i, text in enumerate(texts)]
    return f"SELECT {', '.join(listed)} FROM {release}"


@contextmanager
def _explained() -> Iterator[None]:
    """DuckDB's own words are safe here: the sealed database holds only released and public values."""
    try:
        yield
    except duckdb.Error as problem:
        text = str(problem).split("\n")[0]
        if isinstance(problem, duckdb.InterruptException | duckdb.OutOfMemoryException) or TOO_LONG in text:
            raise _too_much() from None
        raise ParseError(f"above the aggregate: {text}", hint=f"correct the expression; {KEPT}") from None
    except MemoryError:
        raise _too_much() from None


def _too_much() -> ParseError:
    return ParseError(
        "the part of the query above the aggregate needs more time or memory than it may have",
        hint=f"ask for fewer rows, joins or shorter texts; {KEPT}",
    )


KEPT = "what was released is kept and replayed"


def _rows(done: duckdb.DuckDBPyConnection, width: int) -> list[tuple[Any, ...]]:
    """All rows, unless they are too many to hold."""
    rows: list[tuple[Any, ...]] = []
    while part := done.fetchmany(10_000):
        rows += part
        if len(rows) * max(1, width) > VALUES:
            raise _too_much()
    return rows


def _create(cursor: duckdb.DuckDBPyConnection, release: Release, columns: Mapping[str, Sequence[Any]] | None) -> None:
    types = {"_row": "BIGINT"} | {k.name: sql_type(k.expression.type) for k in release.keys}
    types |= {f"_a{i}": aggregate_type(a) for i, a in enumerate(release.aggregates)}
    types |= {f"_b{i}": bar_type(release, bar) for i, bar in enumerate(release.bars)}
    if columns is None:
        cursor.execute(f"CREATE TEMP TABLE {release.name} ({', '.join(f'{n} {t}' for n, t in types.items())})")
        return
    arrays = {n: np.array(v, dtype=object if n.startswith("_k") else None) for n, v in columns.items()}
    listed = ", ".join(f"CAST({_settled(n, t)} AS {t}) AS {n}" for n, t in types.items() if n in columns)
    cursor.register("_incoming", arrays)
    cursor.execute(f"CREATE TEMP TABLE {release.name} AS SELECT {listed} FROM _incoming")
    cursor.unregister("_incoming")


def _settled(name: str, type_: str) -> str:
    """An average without a count to stand on is NULL."""
    noisy = name.startswith(("_a", "_b")) and type_ == "DOUBLE"
    return f"CASE WHEN NOT isnan({name}) THEN {name} END" if noisy else name


def bar_type(release: Release, bar: Bar) -> str:
    """The ends of a whole number are whole numbers."""
    index = direct_index(bar.expression)
    return "DOUBLE" if index is None else aggregate_type(release.aggregates[index])


def direct_index(expression: exp.Expr) -> int | None:
    """Which aggregate of its release an expression is; None if it is more than that."""
    plain = isinstance(expression, exp.Column) and expression.name.startswith("_a")
    return int(expression.name[2:]) if plain else None


def aggregate_type(aggregate: Aggregate) -> str:
    """The type of an aggregate in the answer."""
    if chooses(aggregate):
        return sql_type(chosen_type(aggregate))
    whole = aggregate.argument is not None and aggregate.argument.type.sums_whole
    return "BIGINT" if aggregate.function == "count" or (aggregate.function == "sum" and whole) else "DOUBLE"


# the size of the query with its aliases written out -------------------------------------------------------------------

# DuckDB writes aliases out while it binds. Forty aliases that each name the previous one twice would take a terabyte,
# and no limit on time or memory applies while DuckDB binds, so they are counted here first.


MOST_WRITTEN = 20_000


def limit_aliases(query: exp.Expr) -> None:
    """Refuse a SELECT whose aliases of aliases multiply."""
    for select in query.find_all(exp.Select):
        if _repeated(select) > MOST_WRITTEN:
            raise ParseError(
                "the query is too large once its aliases are written out",
                hint="compute repeated parts once, in a subquery",
            )


def _repeated(select: exp.Select) -> int:
    """What the names of the SELECT's own columns stand for, in all the places where they are used."""
    sizes: dict[str, int] = {}
    total = 0
    for item in select.expressions:
        more = _written(item, sizes)
        total += more
        if isinstance(item, exp.Alias):
            sizes[fold(item.alias)] = more + sum(1 for _ in item.walk())
    clauses = (each for name, each in select.args.items() if name not in ("expressions", "from_", "joins", "with_"))
    return total + sum(_written(each, sizes) for each in clauses if isinstance(each, exp.Expr))


def _written(node: exp.Expr, sizes: Mapping[str, int]) -> int:
    return sum(sizes.get(fold(column.name), 0) for column in node.find_all(exp.Column) if not column.table)


# the length of texts --------------------------------------------------------------------------------------------------

# DuckDB builds the texts of 2,048 rows at once, whatever its limits are. The operands of everything that can make a
# longer text (or list) out of others are limited, so that a short query cannot take gigabytes. A text that would be
# longer is an error, which depends on released and public values only.


LONGEST = 2**14
TOO_LONG = "a text is too long"

_ELSE = f"ELSE error('{TOO_LONG}') END)[1]"
MACROS = (
    "CREATE MACRO _short(a, most) AS list_transform([a], lambda r: CASE WHEN "
    f"coalesce(strlen(CAST(r AS VARCHAR)), 0) <= most THEN r {_ELSE}",
    "CREATE MACRO _replace(a, b, c) AS list_transform([{'a': a, 'b': b, 'c': c}], lambda r: CASE WHEN "
    f"coalesce(strlen(r.a) * greatest(strlen(r.c), 1), 0) <= {LONGEST} THEN replace(r.a, r.b, r.c) {_ELSE}",
    "CREATE MACRO _regexp_replace(a, b, c, o) AS list_transform([{'a': a, 'c': c}], lambda r: CASE WHEN coalesce("
    f"(2 * strlen(r.a) + 1) * greatest(strlen(r.c), 1), 0) <= {LONGEST} THEN regexp_replace(r.a, b, r.c, o) {_ELSE}",
)
"""Macros name each operand once, so nested calls do not multiply; a group of a pattern comes back at most doubled."""

_JOINING = (exp.DPipe, exp.Concat, exp.ConcatWs, exp.Array, exp.Struct, exp.Tuple, exp.Hex, exp.ToBase64)
_REPLACING = (exp.Replace, exp.RegexpReplace)


def with_short_texts(query: exp.Expr) -> str:
    """The query as DuckDB's text, generated afresh from the tree, with the limits."""
    holder = exp.Select(expressions=[query.copy()])
    for joining in list(holder.find_all(*_JOINING)):
        if not isinstance(joining, exp.Tuple) or isinstance(joining.parent, exp.Select | exp.Alias):
            _limit_operands(joining)
    for replacing in list(holder.find_all(*_REPLACING)):
        _limit_result(replacing)
    return str(holder.expressions[0].sql("duckdb"))


def _limit_operands(node: exp.Expr) -> None:
    operands = [each for each in node.iter_expressions() if not isinstance(each, exp.DataType)]
    share = LONGEST // max(1, len(operands))
    for operand in operands:
        value = operand.expression if isinstance(operand, exp.PropertyEQ) else operand
        if not _is_short(value, share):
            value.replace(exp.Anonymous(this="_short", expressions=[value.copy(), exp.Literal.number(share)]))


def _is_short(value: exp.Expr, share: int) -> bool:
    return isinstance(value, exp.Literal | exp.Null | exp.Boolean) and 4 * len(value.name) <= share


def _limit_result(node: exp.Expr) -> None:
    operands = [node.this, node.expression, node.args.get("replacement")]
    if None in operands:
        return
    if isinstance(node, exp.RegexpReplace):
        operands.append(node.args.get("modifiers") or exp.Literal.string(""))
    name = "_replace" if isinstance(node, exp.Replace) else "_regexp_replace"
    node.replace(exp.Anonymous(this=name, expressions=operands))
