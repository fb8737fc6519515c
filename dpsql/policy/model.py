"""What the steward declares, as immutable values.

A table or column that is not named here does not exist for the analyst. Numbers that steer the budget are
kept as decimals, so that `0.1` is a tenth and ten of them fit a cap of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WrapSerializer,
    model_validator,
)

from dpsql.errors import PolicyError
from dpsql.policy.consistency import column_mistakes, policy_mistakes, same_names, table_mistakes
from dpsql.policy.mistake import Mistake, Mistakes, wrong
from dpsql.policy.names import Names, fold, nearest
from dpsql.policy.scalars import (
    Bound,
    Value,
    read_bound,
    read_count,
    read_delta,
    read_epsilon,
    read_flag,
    read_name,
    read_values,
    show,
)

Item = TypeVar("Item")


def _named(items: Mapping[str, Item]) -> Names[Item]:
    """Names in any case; two that differ only by case would be one to SQL."""
    mistakes = same_names(items)
    if mistakes:
        raise Mistakes(*mistakes)
    return Names(items)


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
        f"{show(value)} names no unit",
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


def _read_tables(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise wrong(f"{show(value)} is not a list of tables", "write a list such as [customers, orders]")
    return tuple(read_name(each) for each in value)


def _read_mechanism(value: object) -> str:
    known = ("auto", "laplace", "gaussian")
    if value not in known:
        guess = nearest(value, known) if isinstance(value, str) else None
        fix = f"did you mean {guess}?" if guess else "write auto, laplace or gaussian"
        raise wrong(f"{show(value)} is not a mechanism", fix)
    return str(value)


_AS_IS = PlainSerializer(lambda value: value, return_type=Any)
Epsilon = Annotated[Decimal, BeforeValidator(read_epsilon)]
Delta = Annotated[Decimal, BeforeValidator(read_delta)]
Count = Annotated[int, BeforeValidator(read_count)]
Flag = Annotated[bool, BeforeValidator(read_flag)]
Name = Annotated[str, BeforeValidator(read_name)]


class _Model(BaseModel):
    """Frozen, and closed to unknown keys: a misspelt rule must not be ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)


class Caps(NamedTuple):
    """The most that may ever be spent."""

    epsilon: Decimal
    delta: Decimal


class Column(_Model):
    """What the steward knows of a column without looking at the data; all of it may be left out."""

    min: Annotated[Bound | None, PlainValidator(read_bound), _AS_IS] = None
    max: Annotated[Bound | None, PlainValidator(read_bound), _AS_IS] = None
    values: Annotated[tuple[Value, ...] | None, PlainValidator(read_values), _AS_IS] = None
    values_from: Annotated[str | None, Field(exclude=True)] = None
    nulls: Flag = True

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
    def _consistent(self) -> Column:
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


class Table(_Model):
    """One table: who owns its rows, how many of them count, and which columns exist.

    Without `columns` a public table has all of its columns, a private one only its unit column.
    """

    unit: Annotated[str | ForeignKey | None, PlainValidator(_read_unit), _AS_IS] = None
    public: Flag = False
    unique: Flag = False
    max_rows_per_unit: Count | None = None
    max_groups_per_unit: Count | None = None
    columns: Annotated[
        Mapping[str, Annotated[Column, BeforeValidator(_empty_if_null)]] | None,
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
    def unique_fact(self) -> str:
        """What `dpsql check` verifies for `unique`, as it is named in the ledger: unique in which unit."""
        unit = self.unit.fact if isinstance(self.unit, ForeignKey) else self.unit
        return f"unique:{unit}".lower()

    @property
    def unit_column(self) -> str | None:
        """The column of this table that leads to the owner."""
        if isinstance(self.unit, ForeignKey):
            return self.unit.column
        return None if self.by_row else self.unit

    @model_validator(mode="after")
    def _consistent(self) -> Table:
        return _checked(self, table_mistakes(self))


class AnalystBudget(_Model):
    """What one analyst may spend (None: as much as the dataset) and see (None: every table)."""

    epsilon: Epsilon | None = None
    delta: Delta | None = None
    tables: Annotated[tuple[str, ...] | None, BeforeValidator(_read_tables)] = None


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


class Limits(_Model):
    """The most that one query may ask for; inside a policy what is left out is the whole budget."""

    epsilon: Epsilon = Decimal("Infinity")
    delta: Delta = Decimal("0.01")
    max_public_keys: Count = 100_000


class Defaults(_Model):
    """What a query costs and how it is answered if it does not say; in a policy always within the limits."""

    epsilon: Epsilon = Decimal("0.5")
    delta: Delta = Decimal(0)
    mechanism: Annotated[Literal["auto", "laplace", "gaussian"], BeforeValidator(_read_mechanism)] = "auto"
    max_rows_per_unit: Count = 50
    max_groups_per_unit: Count = 10


class Policy(_Model):
    """All that the steward declares about one dataset."""

    dataset: Name
    budget: Budget
    limits: Annotated[Limits, BeforeValidator(_empty_if_null)] = Field(default_factory=Limits)
    replay: Flag = True
    defaults: Annotated[Defaults, BeforeValidator(_empty_if_null)] = Field(default_factory=Defaults)
    tables: Annotated[
        Mapping[str, Annotated[Table, BeforeValidator(_empty_if_null)]],
        BeforeValidator(_empty_if_null),
        AfterValidator(_named),
        WrapSerializer(_plain),
    ]

    @model_validator(mode="after")
    def _consistent(self) -> Policy:
        _checked(self, policy_mistakes(self.budget, self.limits, self.defaults, self.tables))
        limits = _fill(self.limits, epsilon=self.budget.epsilon, delta=self.budget.delta)
        defaults = _fill(
            self.defaults,
            epsilon=min(Decimal("0.5"), limits.epsilon),
            delta=min(self.budget.delta / 100, limits.delta),
        )
        object.__setattr__(self, "limits", limits)
        object.__setattr__(self, "defaults", defaults)
        return self

    def rows_per_unit(self, table: str) -> int:
        """How many rows of one unit count; one where each unit has one row."""
        declared = self._private(table)
        if declared.unique or declared.by_row:
            return 1
        return declared.max_rows_per_unit or self.defaults.max_rows_per_unit

    def groups_per_unit(self, table: str) -> int:
        """In how many groups one unit counts; no more than it has rows, unless the table says so."""
        declared = self._private(table).max_groups_per_unit
        return declared or min(self.defaults.max_groups_per_unit, self.rows_per_unit(table))

    def tables_for(self, analyst: str | None) -> tuple[str, ...]:
        """The tables that exist for this analyst (None: the steward), in the policy's order and spelling."""
        allowed = self._account(analyst).tables
        folded = None if allowed is None else {fold(name) for name in allowed}
        return tuple(name for name in self.tables if folded is None or fold(name) in folded)

    def caps(self, analyst: str | None = None) -> Caps:
        """The caps of this analyst, or of the dataset."""
        account = self._account(analyst)
        return Caps(
            self.budget.epsilon if account.epsilon is None else account.epsilon,
            self.budget.delta if account.delta is None else account.delta,
        )

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

    def _private(self, table: str) -> Table:
        if table not in self.tables or self.tables[table].public:
            raise PolicyError(f"{table} is not a private table of the policy", hint="name a table with a unit")
        return self.tables[table]


ModelT = TypeVar("ModelT", bound=_Model)


def _checked(model: ModelT, mistakes: list[Mistake]) -> ModelT:
    if mistakes:
        raise Mistakes(*mistakes)
    return model


def _fill(model: ModelT, **values: Decimal) -> ModelT:
    """The model with what the steward left out."""
    return model.model_copy(update={k: v for k, v in values.items() if k not in model.model_fields_set})
