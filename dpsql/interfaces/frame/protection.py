"""`protect`: a table and what is known about it become a private frame with a budget of its own.

The default is pure differential privacy (delta = 0): one number to explain, and nothing to get wrong. A default delta
would have to be far below one over the number of people, which is not known without looking. It also means that a group
whose name is not listed is shown only if the owner writes `delta=1e-6`, and so knows that names will be shown.

What a frame needs again when its cell is run twice (the account, the random answers) is kept by this process.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, TypeVar

from dpsql.bounds.domain import Domain
from dpsql.budget import Ledger, open_ledger
from dpsql.budget.ledger.backend import LedgerLocation
from dpsql.budget.ledger.locations import location_of
from dpsql.budget.ledger.sqlite_backend import FileLocation
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.object_columns import is_pandas, object_columns
from dpsql.errors import Error, InterfaceError, PolicyError
from dpsql.expressions.types import Kind as Stored
from dpsql.expressions.types import Type, from_engine
from dpsql.interfaces.frame.frame_view import ColumnExpression, FrameView
from dpsql.interfaces.frame.private_frame import PrivateFrame
from dpsql.interfaces.frame.sql_expressions import ColumnKind, column
from dpsql.interfaces.visible_tables import visible_tables
from dpsql.plan.catalog import PrivateTable, PublicTable, suggest
from dpsql.policy import Policy, load_policy, to_decimal
from dpsql.session import Connection

T = TypeVar("T")
NAMELESS = "df"


class PerTable(Generic[T]):
    """One value for each name, or without a name for each table object, as long as that lives."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._by_name: dict[str, T] = {}
        self._by_table: dict[int, tuple[weakref.ref[Any], T]] = {}

    def of(self, table: object, name: str | None) -> T:
        """The value for the name or the table; made on first use."""
        with self._lock:
            if name is None:
                return self._of_table(table)
            if name not in self._by_name:
                self._by_name[name] = self._make(name)
            return self._by_name[name]

    def _of_table(self, table: object) -> T:
        known = self._by_table.get(id(table))
        if known is not None and known[0]() is table:
            return known[1]
        made, key = self._make(NAMELESS), id(table)
        with suppress(TypeError):
            self._by_table[key] = weakref.ref(table, lambda _: self._by_table.pop(key, None) and None), made
        return made


# accounts ------------------------------------------------------------------------------------------------------------

_ledgers: PerTable[Ledger] = PerTable(lambda name: open_ledger(":memory:", name))


def ledger_for(table: object, name: str | None, path: str | os.PathLike[str] | None) -> tuple[Ledger, str]:
    """The ledger and its name: the given one, else the one that this process keeps for the name or the table."""
    if path is None or str(path) == ":memory:":
        return _ledgers.of(table, name), name or NAMELESS
    named = path if isinstance(path, str) else Path(path)
    dataset = name or _named_by(location_of(named))
    return open_ledger(named, dataset), dataset


def _named_by(place: LedgerLocation) -> str:
    """A file's own name is that of its account; at an address there may be many."""
    if not isinstance(place, FileLocation):
        raise InterfaceError(f"whose account at {place.name}?", hint="give name=, as the account was created")
    return Path(place.name).stem


# tables --------------------------------------------------------------------------------------------------------------


def read_table(table: Any) -> Any:
    """The table as the engine takes it, and as it is now: later changes of the caller's frame do not reach it."""
    if isinstance(table, str | os.PathLike):
        return _parquet(Path(table))
    library = type(table).__module__.partition(".")[0]
    kind = type(table).__name__
    if library == "pandas" and kind == "DataFrame":
        return _pandas(table)
    if library == "polars" and kind in ("DataFrame", "LazyFrame"):
        return (table.collect() if kind == "LazyFrame" else table).to_arrow()
    if library == "pyarrow" and kind in ("Table", "RecordBatch", "RecordBatchReader"):
        return _arrow(table, kind)
    raise InterfaceError(
        f"a {kind} cannot be protected",
        hint="give a pandas, Polars or Arrow table, or the path of a Parquet file; pd.DataFrame(…) makes a table",
    )


def _parquet(path: Path) -> str:
    if not path.is_file() or path.suffix.lower() not in (".parquet", ".pq"):
        raise InterfaceError(
            f"there is no Parquet file {path}",
            hint="give the path of a .parquet file; read other files first: pd.read_csv(…).dp.protect(…)",
        )
    return str(path)


def _arrow(table: Any, kind: str) -> Any:
    if kind == "RecordBatchReader":
        return table.read_all()
    return sys.modules["pyarrow"].Table.from_batches([table]) if kind == "RecordBatch" else table


def _pandas(frame: Any) -> Any:
    """A copy (lazy where pandas copies on write) whose named index levels are columns like others."""
    if not all(isinstance(name, str) for name in frame.columns):
        raise InterfaceError(
            "the columns need names that are text", hint="rename them first: df.columns = ['user_id', 'amount', …]"
        )
    if not frame.columns.is_unique:
        raise InterfaceError("two columns have the same name", hint="rename one of them: df.columns = […]")
    lazy = int(sys.modules["pandas"].__version__.partition(".")[0]) >= 3
    levels = [name for name in frame.index.names if isinstance(name, str) and name not in frame.columns]
    copied = frame.copy(deep=not lazy)
    return copied.reset_index(levels) if levels else copied


# protection ----------------------------------------------------------------------------------------------------------

_KINDS = {
    Stored.BOOLEAN: ColumnKind.BOOLEAN, Stored.TEXT: ColumnKind.TEXT, Stored.DATE: ColumnKind.TIME,
    Stored.TIMESTAMP: ColumnKind.TIME,
    Stored.INTEGER: ColumnKind.NUMBER, Stored.DECIMAL: ColumnKind.NUMBER, Stored.DOUBLE: ColumnKind.NUMBER,
}  # fmt: skip
Bounds = Mapping[str, tuple[Any, Any] | str]
Values = Mapping[str, Iterable[Any]]
Randomized = Mapping[str, float | Decimal]


@dataclass(frozen=True, slots=True)
class ProtectedTable:
    """A table, what the policy says of it, and the caller's own object, by which it is known again."""

    table: Any = field(repr=False)
    spec: Mapping[str, Any]
    origin: Any = field(repr=False)


class Protection:
    """The tables that belong together, their budget and their one ledger; a connection for each set of them."""

    def __init__(
        self, name: str, epsilon: Decimal, delta: Decimal, ledger: Ledger, *, durable: bool, search: bool
    ) -> None:
        self.name, self.epsilon, self.delta, self.durable = name, epsilon, delta, durable
        self._ledger, self._search = ledger, search
        self._tables: dict[str, ProtectedTable] = {}
        self._connections: dict[frozenset[str], Connection] = {}
        self.close = weakref.finalize(self, _close, self._connections)

    def __repr__(self) -> str:
        return f"<protection of {self.name}: ε = {self.epsilon}, δ = {self.delta}>"

    def add(self, name: str, declared: ProtectedTable) -> None:
        """Add a table; the first connection to it shows whether the policy fits."""
        if any(name.lower() == known.lower() for known in self._tables):
            raise InterfaceError(f"there is a table {name} already", hint='give it another name: called="orders"')
        self._tables[name] = declared
        try:
            self.connection((name,)).dataset.catalog  # noqa: B018 - read once here, so that mistakes show in `protect`
        except Error:
            del self._tables[name]
            raise

    def public(self, table: Any) -> str:
        """The name of a public table, which is added at its first use; a protected one is not public."""
        for name, declared in self._tables.items():
            if declared.origin is table:
                if declared.spec.get("public"):
                    return name
                raise InterfaceError(
                    "this table is protected: merged as a plain frame, its rows would count as public",
                    hint="merge the private frame that protect gave for it",
                )
        name = f"public_{sum(1 for each in self._tables.values() if each.spec.get('public')) + 1}"
        self.add(name, ProtectedTable(read_table(table), {"public": True}, table))
        return name

    def protects(self, table: Any) -> bool:
        """Whether this very object was protected here."""
        return any(each.origin is table and not each.spec.get("public") for each in self._tables.values())

    def unit(self, name: str) -> str | None:
        """The column of a private table that names its unit."""
        said = self._tables[name].spec.get("unit")
        return None if said == "row" else said

    def connection(self, tables: Iterable[str]) -> Connection:
        """The door to these tables."""
        chosen = frozenset(tables)
        if chosen not in self._connections:
            tables = {name: self._tables[name].table for name in chosen}
            engine = DuckDBEngine(tables, policy=self._policy({name: self._spec(name) for name in chosen}))
            try:
                policy = self._policy({name: self._named(name, engine) for name in chosen})
            except Error:
                engine.close()
                raise
            self._connections[chosen] = Connection(engine, policy, self._ledger, None, steward=False)
        return self._connections[chosen]

    def named_in(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names that are tables here, in any case."""
        folded = {name.lower(): name for name in self._tables}
        return tuple(dict.fromkeys(folded[name.lower()] for name in names if name.lower() in folded))

    def fields(self, name: str) -> dict[str, ColumnExpression]:
        """The columns of a table with what is known of them: from the policy and the types, never from rows."""
        connection = self.connection((name,))
        [told] = visible_tables(connection)
        notes = {each.name: each.note for each in told.columns}
        found = connection.dataset.catalog.find(name)
        unit = ""
        if isinstance(found, PrivateTable):
            listed = [(f.name, f.type, f.domain) for f in found.scan.fields]
            unit = found.scan.unit or ""
        else:
            assert isinstance(found, PublicTable)
            listed = [(each, type_, Domain()) for each, type_ in zip(found.columns, found.types, strict=True)]
        order = {each: i for i, each in enumerate(connection.engine.schema()[name.lower()])}
        listed.sort(key=lambda each: order[each[0]])
        searched = {each for each, said in self._tables[name].spec.get("columns", {}).items() if "bounds" in said}
        return {
            each: _field(each, type_, domain, notes.get(each, ""), unit=each == unit, searched=each in searched)
            for each, type_, domain in listed
        }

    def _spec(self, name: str) -> dict[str, Any]:
        """What was declared for a table; a column of objects without a declaration is text, whatever its rows hold."""
        declared = self._tables[name]
        if declared.spec.get("public") or not is_pandas(declared.table):
            return dict(declared.spec)
        texts = {column: {"type": "text"} for column in object_columns(declared.table)}
        return {**declared.spec, "columns": {**texts, **declared.spec["columns"]}}

    def _named(self, name: str, engine: DuckDBEngine) -> dict[str, Any]:
        """The same, with all columns that can be queried."""
        spec = self._spec(name)
        if not spec.get("public"):
            spec["columns"] = _columns(spec["columns"], engine.schema()[name.lower()], spec["unit"])
        return spec

    def _policy(self, specs: dict[str, dict[str, Any]]) -> Policy:
        budget = {"epsilon": self.epsilon, "delta": self.delta}
        defaults = {"epsilon": self.epsilon / 10}
        declared = {"dataset": self.name, "budget": budget, "defaults": defaults, "search": self._search}
        return load_policy({**declared, "tables": specs})


def _close(connections: dict[frozenset[str], Connection]) -> None:
    """Let go of the data, when the last frame over it is gone or the process ends; the account stays."""
    for connection in connections.values():
        connection.release()
    connections.clear()


def protect(
    table: Any,
    *,
    unit: str | None = None,
    epsilon: float | Decimal | None = None,
    bounds: Bounds | None = None,
    values: Values | None = None,
    randomized: Randomized | None = None,
    delta: float | Decimal = 0,
    max_rows_per_unit: int | str | None = None,
    max_groups_per_unit: int | None = None,
    search: bool = True,
    name: str | None = None,
    ledger: str | os.PathLike[str] | None = None,
    called: str = "df",
    beside: PrivateFrame | None = None,
) -> PrivateFrame:
    """A private frame over a pandas, Polars or Arrow table or a Parquet file.

    `unit` is the column that names the person behind each row ("row" if every row is another person). `epsilon` is
    the budget of all answers together; a verb takes a tenth of it unless it says `epsilon=`. `bounds` and `values`
    say what is known of the columns without looking; "auto" in place of bounds, or of `max_rows_per_unit`, has them
    found by a private search, which is charged once. How much one person may add to an answer is found by a private
    search too, out of the price of that answer, unless `search` is False: then declared bounds decide alone.
    `randomized` gives the ε of columns that were randomised at the source, for `rr_count` in `.sql(…)`. `name` is
    the account: the same name is the same account, in this process or, with `ledger` (a file), for ever. `called`
    is the table's name in `.sql(…)`. With `beside` the table joins the account of another private frame, and can be
    merged with it on the unit.
    """
    if unit is None:
        raise InterfaceError(
            "the unit is missing: who is protected?",
            hint='write unit="user_id", the column that names the person behind each row, or unit="row" if no two '
            "rows belong to one person",
        )
    spec: dict[str, Any] = {"unit": unit, "columns": _declared(bounds or {}, values or {}, randomized or {})}
    spec |= {k: v for k, v in (("max_rows_per_unit", max_rows_per_unit), ("max_groups_per_unit", max_groups_per_unit))
             if v is not None}  # fmt: skip
    if beside is not None:
        if epsilon is not None or delta or name is not None or ledger is not None:
            raise InterfaceError(
                "beside another frame there is one budget and one ledger: its own",
                hint="leave out epsilon, delta, name and ledger",
            )
        protection = beside._view.protection
    else:
        protection = _account(table, epsilon, delta, name, ledger, search=search)
    protection.add(called, ProtectedTable(read_table(table), spec, table))
    return PrivateFrame(FrameView(protection, (called,), (), protection.fields(called)))


def _account(
    table: Any,
    epsilon: float | Decimal | None,
    delta: float | Decimal,
    name: str | None,
    ledger: str | os.PathLike[str] | None,
    *,
    search: bool,
) -> Protection:
    if epsilon is None:
        raise InterfaceError(
            "epsilon is missing: it says how much all answers together may reveal",
            hint="write epsilon=3, or less: a smaller one protects more",
        )
    try:
        whole, slack = to_decimal(epsilon), to_decimal(delta)
    except ValueError as problem:
        raise PolicyError(f"epsilon and delta must be numbers: {problem}", hint="write epsilon=3, delta=0") from None
    account, dataset = ledger_for(table, name, ledger)
    durable = ledger is not None and str(ledger) != ":memory:"
    return Protection(dataset, whole, slack, account, durable=durable, search=search)


def _declared(bounds: Bounds, values: Values, randomized: Randomized) -> dict[str, dict[str, Any]]:
    columns: dict[str, dict[str, Any]] = {}
    for name, ends in bounds.items():
        if ends == "auto":
            columns[name] = {"bounds": "auto"}
            continue
        if isinstance(ends, str) or not hasattr(ends, "__len__") or len(ends) != 2:
            raise InterfaceError(
                f"the bounds of {name} must be two values", hint=f'write bounds={{"{name}": (0, 100)}}'
            )
        columns[name] = {"min": _plain(ends[0]), "max": _plain(ends[1])}
    for name, listed in values.items():
        if isinstance(listed, str):
            raise InterfaceError(f"the values of {name} must be a list", hint=f'write values={{"{name}": ["a", "b"]}}')
        columns.setdefault(name, {})["values"] = [_plain(value) for value in listed]
    for name, rate in randomized.items():
        columns.setdefault(name, {})["randomized"] = {"epsilon": rate}
    return columns


def _plain(value: Any) -> Any:
    """A NumPy scalar or a pandas time stamp as Python's own; a time stamp at midnight is a date."""
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _columns(declared: Mapping[str, Any], stored: Mapping[str, str], unit: str) -> dict[str, Any]:
    """Every column of a type that can be queried, with what was declared; a declared one that is not there is wrong."""
    for name in [*declared, *([] if unit == "row" else [unit])]:
        if name not in stored:
            raise InterfaceError(f"there is no column {name!r}", hint=suggest(str(name), list(stored), "columns"))
    return {name: declared.get(name, {}) for name, type_ in stored.items() if from_engine(type_) is not None}


def _field(name: str, type_: Type, domain: Domain, note: str, *, unit: bool, searched: bool) -> ColumnExpression:
    kind = _KINDS.get(type_.kind, ColumnKind.TEXT)
    bounded = searched or (domain.lower is not None and domain.upper is not None)
    countable = kind is ColumnKind.BOOLEAN or (kind is ColumnKind.NUMBER and bounded and not unit)
    return ColumnExpression(column(name), kind, note, countable, domain)
