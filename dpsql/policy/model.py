"""What the steward declares, as immutable values.

A table or column that is not named here does not exist for the analyst. Numbers that steer the budget are
kept as decimals, so that `0.1` is a tenth and ten of them fit a cap of one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    WrapSerializer,
    model_validator,
)

from dpsql.errors import PolicyError
from dpsql.policy.consistency import column_mistakes, policy_mistakes, same_names, table_mistakes, view_mistakes
from dpsql.policy.identifiers import Names, fold, nearest
from dpsql.policy.policy_values import (
    Bound,
    Mistake,
    Mistakes,
    Value,
    read_bound,
    read_count,
    read_delta,
    read_duration,
    read_epsilon,
    read_every,
    read_flag,
    read_location,
    read_name,
    read_size,
    read_type,
    read_values,
    show,
    to_decimal,
    wrong,
)
from dpsql.policy.searched_subjects import UNSEARCHED, FoundBounds, Subject

Item = TypeVar("Item")


def _named(items: Mapping[str, Item]) -> Names[Item]:
    """Names in any case; two that differ only by case would be one to SQL."""
    mistakes = same_names(items)
    if mistakes:
        raise Mistakes(*mistakes)
    return Names(items)


def _read_view(value: object) -> object:
    """A view is its SQL, or a mapping with it."""
    return {"sql": value} if isinstance(value, str) else value


def _empty_if_null(value: object) -> object:
    """`note:` with nothing behind it means `note: {}`."""
    return {} if value is None else value


def _plain(names: Mapping[str, Item], serialize: Callable[[Any], Any]) -> Any:
    return serialize(None if names is None else dict(names))


def _read_unit(value: object) -> str | ForeignKey | None:
    """`id`, `row`, or a foreign-key path such as `{customer_id: customers.id}`."""
    if value is None or isinstance(value, ForeignKey):
        return value
    if isinstance(value, str):
        return "row" if fold(value) == "row" else read_name(value)
    if isinstance(value, Mapping) and set(value) == {"column", "references"}:
        return ForeignKey(column=value["column"], references=value["references"])
    if isinstance(value, Mapping) and len(value) == 1:
        [(column, references)] = value.items()
        return ForeignKey(column=read_name(column), references=_read_reference(references))
    raise wrong(
        f"{show(value)} is not a unit",
        "write the unit column, `row`, or a path such as {customer_id: customers.id}",
    )


def _read_reference(value: object) -> str:
    table, dot, column = read_name(value).rpartition(".")
    if not (table and dot and column):
        raise wrong(
            f"{show(value)} is not table.column",
            "name the table and its key, as in {customer_id: customers.id}",
        )
    return f"{table}.{column}"


def _read_tables(value: object) -> tuple[str, ...] | Names[tuple[str, ...] | None] | None:
    """A list of tables, or a mapping from each to its columns: a list of them, or `all`."""
    if value is None or isinstance(value, Names):
        return value
    if isinstance(value, Mapping):
        return _named({read_name(table): _read_columns(table, columns) for table, columns in value.items()})
    if not isinstance(value, (list, tuple)):
        raise wrong(
            f"{show(value)} is not a list of tables",
            "write a list such as [customers, orders], or columns too: {orders: [amount, status], customers: all}",
        )
    return tuple(read_name(each) for each in value)


def _write_tables(value: tuple[str, ...] | Mapping[str, tuple[str, ...] | None] | None) -> Any:
    """The form that `_read_tables` reads, in plain containers."""
    if isinstance(value, Mapping):
        return {table: "all" if columns is None else columns for table, columns in value.items()}
    return value


def _read_columns(table: str, value: object) -> tuple[str, ...] | None:
    if value == "all":
        return None
    if not isinstance(value, (list, tuple)):
        fix = f"write {table}: [<column>, …], or {table}: all"
        raise Mistakes(Mistake((table,), f"{show(value)} is neither `all` nor a list of columns", fix))
    return tuple(read_name(each) for each in value)


def _read_mechanism(value: object) -> str:
    known = ("auto", "laplace", "gaussian")
    if value not in known:
        guess = nearest(value, known) if isinstance(value, str) else None
        fix = f"did you mean {guess}?" if guess else "write auto, laplace or gaussian"
        raise wrong(f"{show(value)} is not a mechanism", fix)
    return str(value)


def _read_unique(value: object) -> bool | tuple[tuple[str, ...], ...]:
    """`true`: one row per unit. A list of columns is one key, and a list of such lists is several."""
    if isinstance(value, bool):
        return value
    several = isinstance(value, list | tuple) and all(isinstance(key, list | tuple) for key in value)
    keys: Any = value if several else [value]
    if not keys or not all(isinstance(key, list | tuple) and key for key in keys):
        raise wrong(
            f"{show(value)} is not a key",
            "write true (each unit has one row), the columns of a key, as in [part, supplier], or several keys, as in"
            " [[part, supplier], [id]]",
        )
    read = tuple(tuple(map(read_name, key)) for key in keys)
    for key in read:
        if len(set(map(fold, key))) < len(key):
            raise wrong(f"the key ({', '.join(key)}) names a column twice", "name each column of a key once")
    return read


def _read_auto(value: object) -> object:
    """`auto`: found by a private search."""
    if value not in (None, "auto"):
        raise wrong(f"{show(value)} is not a way to find bounds", "write `bounds: auto`, or min and max")
    return value


def _read_minmax(value: object) -> object:
    """`policy`: MIN and MAX are answered with the declared bounds."""
    if value not in (None, "policy"):
        raise wrong(f"{show(value)} is not a value of `minmax`", "write `minmax: policy`, or delete it")
    return value


def _read_prepare(value: object) -> object:
    """What becomes of the rows that a unit has beyond its bound, in a copy that is bounded at rest."""
    if value not in (None, "weigh", "keep"):
        raise wrong(
            f"{show(value)} is not a way to prepare a table",
            "write `prepare: weigh` (units with too many rows are down-weighted in each query, as without a copy), or"
            " `prepare: keep` (they keep max_rows_per_unit of their rows)",
        )
    return value


def _read_rows(value: object) -> int | str | None:
    """How many rows of a unit count, or `auto` for a private search."""
    return "auto" if value == "auto" else None if value is None else read_count(value)


def _read_replay(value: object) -> object:
    """`true`, `false`, or how long answers are kept."""
    if isinstance(value, bool | Mapping | Replay):
        return value
    raise wrong(f"{show(value)} is neither true nor false", "write true or false, or {keep: 30 days}")


_AS_IS = PlainSerializer(lambda value: value, return_type=Any)
Epsilon = Annotated[Decimal, BeforeValidator(read_epsilon)]
Delta = Annotated[Decimal, BeforeValidator(read_delta)]
Count = Annotated[int, BeforeValidator(read_count)]
Flag = Annotated[bool, BeforeValidator(read_flag)]
Name = Annotated[str, BeforeValidator(read_name)]
Rows = Annotated[int | Literal["auto"], BeforeValidator(_read_rows)]
Every = Annotated[str | None, BeforeValidator(read_every)]


class _Model(BaseModel):
    """Frozen, and closed to unknown keys: a misspelt rule must not be ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)


class DeclaredCaps(NamedTuple):
    """The most that may ever be spent, or with `every` in each window of the calendar: a weaker promise."""

    epsilon: Decimal
    delta: Decimal
    every: str | None = None


class Randomized(_Model):
    """How the answers in a column were randomised before they came here: by randomized response with this ε."""

    epsilon: Epsilon


class DeclaredColumn(_Model):
    """What the steward knows of a column without looking at the data; all of it may be left out."""

    min: Annotated[Bound | None, PlainValidator(read_bound), _AS_IS] = None
    max: Annotated[Bound | None, PlainValidator(read_bound), _AS_IS] = None
    values: Annotated[tuple[Value, ...] | None, PlainValidator(read_values), _AS_IS] = None
    values_from: Annotated[str | None, Field(exclude=True)] = None
    bounds: Annotated[Literal["auto"] | None, BeforeValidator(_read_auto)] = None
    nulls: Flag = True
    type: Annotated[str | None, BeforeValidator(read_type)] = None
    minmax: Annotated[Literal["policy"] | None, BeforeValidator(_read_minmax)] = None
    randomized: Randomized | None = None
    usual: Annotated[tuple[float, float] | None, Field(exclude=True)] = None

    @property
    def nullable(self) -> bool:
        """Does the policy say that it may be NULL?"""
        return self.nulls and "nulls" in self.model_fields_set

    @property
    def open(self) -> bool:
        """Does the policy leave one of its bounds open?"""
        return self.values is None and self.values_from is None and (self.min is None or self.max is None)

    @model_validator(mode="before")
    @classmethod
    def _referring(cls, data: Any) -> Any:
        """`values: {from: supplier.s_suppkey}` takes the values from a public table."""
        values = data.get("values") if isinstance(data, Mapping) else None
        if not isinstance(values, Mapping) or set(values) != {"from"}:
            return data
        try:
            reference = _read_reference(values["from"])
        except Mistakes as problem:
            fix = "name a column of a public table, as in {from: supplier.s_suppkey}"
            raise Mistakes(*(Mistake(("values", "from"), each.reason, fix) for each in problem.mistakes)) from None
        return {**{k: v for k, v in data.items() if k != "values"}, "values_from": reference}

    @model_validator(mode="after")
    def _consistent(self) -> DeclaredColumn:
        return _checked(self, column_mistakes(self))


class ForeignKey(_Model):
    """The owner of a row is the owner of the parent row that `column` points to."""

    column: Name
    references: Annotated[str, BeforeValidator(_read_reference)]

    @property
    def table(self) -> str:
        """The parent table."""
        return self.references.rpartition(".")[0]

    @property
    def key(self) -> str:
        """The parent's key column."""
        return self.references.rpartition(".")[2]

    @property
    def fact(self) -> str:
        """What `dpsql check` verifies, as it is named in the ledger."""
        return f"foreign_key:{self.column}->{self.references}"


class DeclaredTable(_Model):
    """One table: who owns its rows, how many of them count, and which columns exist.

    Without `columns` a public table has all of its columns, a private one only its unit column.
    """

    unit: Annotated[str | ForeignKey | None, PlainValidator(_read_unit), _AS_IS] = None
    public: Flag = False
    unique: Annotated[bool | tuple[tuple[str, ...], ...], PlainValidator(_read_unique), _AS_IS] = False
    max_rows_per_unit: Rows | None = None
    max_groups_per_unit: Count | None = None
    prepare: Annotated[Literal["weigh", "keep"] | None, BeforeValidator(_read_prepare)] = None
    columns: Annotated[
        Mapping[str, Annotated[DeclaredColumn, BeforeValidator(_empty_if_null)]] | None,
        AfterValidator(lambda items: None if items is None else _named(items)),
        WrapSerializer(_plain),
    ] = None

    @property
    def private(self) -> bool:
        """Whether the rows belong to units: everything that is not declared public."""
        return not self.public

    @property
    def by_row(self) -> bool:
        """Whether each row is a unit of its own."""
        return self.unit == "row"

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """Sets of columns each of which names at most one row, as far as the policy says so."""
        return () if isinstance(self.unique, bool) else self.unique

    @property
    def one_row(self) -> bool:
        """Does the policy say that each unit has one row: by `unique: true`, or by a key that is the unit's column?"""
        if isinstance(self.unique, bool):
            return self.unique
        return isinstance(self.unit, str) and not self.by_row and any(_same(key, (self.unit,)) for key in self.keys)

    @property
    def unit_column(self) -> str | None:
        """The column of this table that leads to the owner."""
        if isinstance(self.unit, ForeignKey):
            return self.unit.column
        return None if self.by_row else self.unit

    @model_validator(mode="after")
    def _consistent(self) -> DeclaredTable:
        return _checked(self, table_mistakes(self))


OWNED = "owned"
"""The fact that each row of a table has a value in the column that leads to its unit."""


def key_fact(key: Iterable[str]) -> str:
    """What `dpsql check` verifies of a key, as it is named in the ledger: the columns, in whatever order and case."""
    return f"key:{json.dumps(sorted(map(fold, key)))}"


def _same(one: Iterable[str], two: Iterable[str]) -> bool:
    return set(map(fold, one)) == set(map(fold, two))


class PurposeBudget(_Model):
    """What may be spent on one purpose; what is left out is as for the analyst."""

    epsilon: Epsilon | None = None
    delta: Delta | None = None
    every: Every = None


class AnalystBudget(_Model):
    """What one analyst may spend (None: as much as the dataset) and see (None: every table and column).

    With `every` the analyst's own account starts afresh with each day, week, month, quarter or year (UTC). That is a
    weaker promise than a cap: what the analyst learns over many windows adds up, and only the dataset's cap, which
    never starts afresh, bounds it.
    """

    epsilon: Epsilon | None = None
    delta: Delta | None = None
    every: Every = None
    tables: Annotated[
        tuple[str, ...] | Mapping[str, tuple[str, ...] | None] | None,
        PlainValidator(_read_tables),
        PlainSerializer(_write_tables, return_type=Any),
    ] = None
    purposes: Annotated[
        Mapping[str, Annotated[PurposeBudget, BeforeValidator(_empty_if_null)]],
        BeforeValidator(_empty_if_null),
        AfterValidator(_named),
        WrapSerializer(_plain),
    ] = Names()


class Budget(_Model):
    """The caps of the dataset, for all analysts together, for ever."""

    epsilon: Epsilon
    delta: Delta = Decimal(0)
    analysts: Annotated[
        Mapping[str, Annotated[AnalystBudget, BeforeValidator(_empty_if_null)]],
        BeforeValidator(_empty_if_null),
        AfterValidator(_named),
        WrapSerializer(_plain),
    ] = Names()


def _read_seconds(value: object) -> int | None:
    return None if value is None else read_count(value)


def _read_pad(value: object) -> float | None:
    """A number of seconds above zero, and at most an hour."""
    if value is None:
        return None
    seconds = float(to_decimal(value))
    if not 0 < seconds <= 3600:
        raise wrong(f"must be above 0 and at most 3600 seconds, not {show(value)}", "write a number such as 0.25")
    return seconds


Size = Annotated[int | None, BeforeValidator(read_size)]


class QueryLimits(_Model):
    """The most that one query may ask for; inside a policy what is left out is the whole budget."""

    epsilon: Epsilon = Decimal("Infinity")
    delta: Delta = Decimal("0.01")
    max_public_keys: Count = 100_000
    seconds: Annotated[int | None, BeforeValidator(_read_seconds)] = None
    pad: Annotated[float | None, BeforeValidator(_read_pad)] = None
    memory: Size = None
    spill: Size = None


class Defaults(_Model):
    """What a query costs and how it is answered if it does not say; in a policy always within the limits."""

    epsilon: Epsilon = Decimal("0.5")
    delta: Delta = Decimal(0)
    mechanism: Annotated[Literal["auto", "laplace", "gaussian"], BeforeValidator(_read_mechanism)] = "auto"
    max_rows_per_unit: Rows = 50
    max_groups_per_unit: Count = 10
    search: Epsilon = Decimal("0.1")


class Replay(_Model):
    """How long a released answer is given again; None: for ever."""

    keep: Annotated[timedelta | None, PlainValidator(read_duration), _AS_IS] = None


class DeclaredView(_Model):
    """A query under a name; an analyst who may see all that it reads may read it like a table."""

    sql: Annotated[str, Field(strict=True, min_length=1)]


class Policy(_Model):
    """All that the steward declares about one dataset."""

    dataset: Name
    ledger: Annotated[str | None, BeforeValidator(read_location)] = None
    budget: Budget
    limits: Annotated[QueryLimits, BeforeValidator(_empty_if_null)] = Field(default_factory=QueryLimits)
    replay: Annotated[
        Annotated[bool, Tag("[flag]")] | Annotated[Replay, Tag("[mapping]")],
        Discriminator(lambda value: "[flag]" if isinstance(value, bool) else "[mapping]"),
        BeforeValidator(_read_replay),
    ] = True
    defaults: Annotated[Defaults, BeforeValidator(_empty_if_null)] = Field(default_factory=Defaults)
    search: Flag = True
    tables: Annotated[
        Mapping[str, Annotated[DeclaredTable, BeforeValidator(_empty_if_null)]],
        BeforeValidator(_empty_if_null),
        AfterValidator(_named),
        WrapSerializer(_plain),
    ]
    views: Annotated[
        Mapping[str, Annotated[DeclaredView, BeforeValidator(_read_view)]],
        BeforeValidator(_empty_if_null),
        AfterValidator(_named),
        WrapSerializer(_plain),
    ] = Names()

    @model_validator(mode="after")
    def _consistent(self) -> Policy:
        _checked(self, policy_mistakes(self.budget, self.limits, self.defaults, self.tables))
        _checked(self, view_mistakes(self.views, self.tables))
        limits = _fill(self.limits, epsilon=self.budget.epsilon, delta=self.budget.delta)
        defaults = _fill(
            self.defaults,
            epsilon=min(Decimal("0.5"), limits.epsilon),
            delta=min(self.budget.delta / 100, limits.delta),
            search=min(Decimal("0.1"), limits.epsilon),
        )
        object.__setattr__(self, "limits", limits)
        object.__setattr__(self, "defaults", defaults)
        return self

    @property
    def keep(self) -> timedelta | None:
        """How old an answer may be that is given again, where any is; None: of any age."""
        return self.replay.keep if isinstance(self.replay, Replay) else None

    @property
    def view_queries(self) -> dict[str, str]:
        """The SQL of each view."""
        return {name: view.sql for name, view in self.views.items()}

    def owner_path(self, table: str) -> list[str]:
        """The way from a table to its owner, step by step: the foreign keys, and last the column of the unit."""
        unit = self.tables[table].unit
        if isinstance(unit, ForeignKey):
            return [fold(unit.fact), *self.owner_path(unit.table)]
        return [fold(unit or "")]

    def unique_fact(self, table: str) -> str:
        """What `dpsql check` verifies for `unique`, as it is named in the ledger: unique in which unit.

        It names the whole path: another unit of a parent table is another owner, of whom nothing was verified.
        """
        [*links, unit] = self.owner_path(table)
        return f"unique:{json.dumps([*links, unit]) if links else unit}"

    def rows_per_unit(self, table: str) -> int:
        """How many rows of one unit count; one where each unit has one row."""
        declared = self._private(table)
        if declared.one_row or declared.by_row:
            return 1
        rows = declared.max_rows_per_unit or self.defaults.max_rows_per_unit
        return UNSEARCHED if rows == "auto" else rows

    @property
    def searches(self) -> bool:
        """May a query search privately for what the policy leaves open, and for the clip with the least error?"""
        return self.search

    def capped(self, table: str) -> bool:
        """Does the policy declare how many rows of one unit count?"""
        declared = self._private(table)
        by_default = "max_rows_per_unit" in self.defaults.model_fields_set
        return declared.one_row or declared.by_row or declared.max_rows_per_unit is not None or by_default

    @property
    def prepared(self) -> tuple[str, ...]:
        """The tables of which `dpsql prepare` writes a copy."""
        return tuple(name for name, table in self.tables.items() if table.prepare is not None)

    def searched(self) -> tuple[Subject, ...]:
        """All that a private search has to find before it can be used, in the policy's order."""
        subjects: list[Subject] = []
        for name, table in self.tables.items():
            rows = table.max_rows_per_unit or self.defaults.max_rows_per_unit
            if rows == "auto" and not (table.public or table.one_row or table.by_row):
                subjects.append(Subject(name))
            subjects += [Subject(name, column) for column, spec in (table.columns or {}).items() if spec.bounds]
        return tuple(subjects)

    def with_found(self, found: Mapping[Subject, FoundBounds]) -> Policy:
        """The policy with what was found wherever it leaves something open."""
        tables = dict(self.tables)
        for subject, what in found.items():
            table = tables[subject.table]
            if subject.column is None:
                tables[subject.table] = table.model_copy(update={"max_rows_per_unit": what.upper})
                continue
            columns = dict(table.columns or {})
            columns[subject.column] = _with_found(columns[subject.column], what.wider() if self.search else what)
            tables[subject.table] = table.model_copy(update={"columns": Names(columns)})
        return self.model_copy(update={"tables": Names(tables)})

    def groups_per_unit(self, table: str) -> int:
        """In how many groups one unit counts; no more than it has rows, unless the table says so."""
        declared = self._private(table).max_groups_per_unit
        return declared or min(self.defaults.max_groups_per_unit, self.rows_per_unit(table))

    def groups_capped(self, table: str) -> bool:
        """Does the policy declare in how many groups one unit counts?"""
        return (
            self._private(table).max_groups_per_unit is not None
            or "max_groups_per_unit" in self.defaults.model_fields_set
        )

    def tables_for(self, analyst: str | None) -> tuple[str, ...]:
        """The tables that exist for this analyst (None: the steward), in the policy's order and spelling."""
        allowed = self._account(analyst).tables
        folded = None if allowed is None else {fold(name) for name in allowed}
        return tuple(name for name in self.tables if folded is None or fold(name) in folded)

    def columns_for(self, analyst: str | None, table: str) -> frozenset[str] | None:
        """The columns of a table, folded, that exist for this analyst; None where all that the policy names do."""
        allowed = self._account(analyst).tables
        columns = allowed.get(table) if isinstance(allowed, Mapping) else None
        return None if columns is None else frozenset(map(fold, columns))

    def sees_all(self, analyst: str | None) -> bool:
        """Whether every table and column of the policy exists for this analyst."""
        return self._account(analyst).tables is None

    def caps(self, analyst: str | None = None, purpose: str | None = None) -> DeclaredCaps:
        """The caps of this analyst, of one of their purposes, or of the dataset."""
        whole, account = DeclaredCaps(self.budget.epsilon, self.budget.delta), self._account(analyst)
        own = _within(whole, account)
        return own if purpose is None else _within(own, account.purposes[purpose])

    def accounts(self) -> list[tuple[str | None, str | None]]:
        """All accounts with caps, as (analyst, purpose): the dataset's, each analyst's, each of their purposes'."""
        named: list[tuple[str | None, str | None]] = [(None, None)]
        for analyst, account in self.budget.analysts.items():
            named += [(analyst, None), *((analyst, purpose) for purpose in account.purposes)]
        return named

    def check_purpose(self, analyst: str | None, purpose: str | None) -> None:
        """Where the policy lists purposes for an analyst a connection names one of them, letter by letter."""
        listed = tuple(self._account(analyst).purposes)
        if (purpose is None and not listed) or purpose in listed:
            return
        if not listed:
            raise PolicyError(
                f"the policy of {self.dataset} has no purpose {show(purpose)}", hint="connect without a purpose"
            )
        said = "a purpose is required" if purpose is None else f"there is no purpose {show(purpose)}"
        raise PolicyError(f"{said} for this analyst", hint=f"name one of: {', '.join(listed)}")

    def _account(self, analyst: str | None) -> AnalystBudget:
        """An analyst who is not listed, letter by letter, has no account, unless the policy lists nobody."""
        if analyst is None or not self.budget.analysts:
            return AnalystBudget()
        if analyst not in tuple(self.budget.analysts):
            raise PolicyError(
                f"the policy of {self.dataset} has no analyst {show(analyst)}",
                hint="give a name listed in budget.analysts: analyst=… in Python, --analyst on the command line",
            )
        return self.budget.analysts[analyst]

    def _private(self, table: str) -> DeclaredTable:
        if table not in self.tables or self.tables[table].public:
            raise PolicyError(f"{table} is not a private table of the policy", hint="name a table with a unit")
        return self.tables[table]


ModelT = TypeVar("ModelT", bound=_Model)


def _checked(model: ModelT, mistakes: list[Mistake]) -> ModelT:
    if mistakes:
        raise Mistakes(*mistakes)
    return model


def _with_found(column: DeclaredColumn, found: FoundBounds) -> DeclaredColumn:
    """A column with what was found, where the policy declares nothing."""
    if not column.open:
        return column.model_copy(update={"usual": found.usual})
    low, high = (found.lower, found.upper)
    ends = {"min": low if column.min is None else column.min, "max": high if column.max is None else column.max}
    return column.model_copy(update={**ends, "bounds": "auto", "usual": found.usual})


def _within(outer: DeclaredCaps, account: AnalystBudget | PurposeBudget) -> DeclaredCaps:
    """The caps of an account; what it leaves out is as for the one around it."""
    return DeclaredCaps(
        outer.epsilon if account.epsilon is None else account.epsilon,
        outer.delta if account.delta is None else account.delta,
        outer.every if account.every is None else account.every,
    )


def _fill(model: ModelT, **values: Decimal) -> ModelT:
    """The model with what the steward left out."""
    return model.model_copy(update={k: v for k, v in values.items() if k not in model.model_fields_set})
