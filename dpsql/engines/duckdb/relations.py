"""Private relations as DuckDB SQL: every row carries its owner in `_unit`, and rows without owner are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpsql.bounds import infer
from dpsql.engines.duckdb.clamp import clamped
from dpsql.engines.duckdb.expressions import sql
from dpsql.engines.duckdb.literals import quote
from dpsql.errors import InternalError
from dpsql.expressions.expression import Expression, columns_of
from dpsql.expressions.types import DOUBLE, INT64, Kind, Type
from dpsql.plan.relate import known_of
from dpsql.plan.relation import Aggregate, Field, Filter, Item, Project, Relation, Scan, UnitGroup
from dpsql.sensitivity.argument import summed

UNIT = "_unit"
Schema = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class From:
    """A FROM item, the conditions on its rows, and how its columns and owner are written."""

    source: str
    where: tuple[str, ...]
    columns: Mapping[str, str]
    unit: str | None

    def render(self, expression: Expression) -> str:
        """An expression over a row of this relation."""
        return sql(expression, self.columns.__getitem__)

    @property
    def conditions(self) -> str:
        """The WHERE clause, or nothing."""
        return f" WHERE {' AND '.join(self.where)}" if self.where else ""


def relation_sql(relation: Relation, needed: frozenset[str], schema: Schema) -> From:
    """The relation, with the columns that are needed of it."""
    match relation:
        case Scan():
            return _scan(relation, needed, schema)
        case Filter(source=Relation() as source, condition=Expression() as condition):
            below = relation_sql(source, needed | columns_of(condition), schema)
            return From(below.source, (*below.where, below.render(condition)), below.columns, below.unit)
        case Project(source=Relation() as source):
            return _project(source, [i for i in relation.items if i.name in needed], schema)
        case UnitGroup(source=Relation() as source):
            return _unit_group(relation, source, needed, schema)
    raise InternalError(f"no SQL for {type(relation).__name__}")


def _scan(scan: Scan, needed: frozenset[str], schema: Schema) -> From:
    stored = schema[scan.table.lower()]
    unit = None if scan.owner is None else _read(scan.owner, stored[scan.owner.name])
    where = () if unit is None else (f"{unit} IS NOT NULL",)
    columns = {f.name: _read(f, stored[f.name]) for f in scan.fields if f.name in needed}
    return From(quote(scan.table), where, columns, unit)


def _read(field: Field, stored: str) -> str:
    """A stored column in the type that the planner computes with; none of these casts can fail.

    Text is compared byte by byte: under another collation two units could be grouped as one, and the spelling that
    a group shows would be that of some person. A unit has one zero, for the same reason.
    """
    name = quote(field.name)
    plain = {Kind.DOUBLE: "DOUBLE", Kind.TEXT: "VARCHAR", Kind.TIMESTAMP: "TIMESTAMP"}.get(field.type.kind)
    read = name if plain is None or stored.upper() == plain else f"TRY_CAST({name} AS {plain})"
    if field.unit and field.type == DOUBLE:
        return one_zero(read)
    return f'({read} COLLATE "C")' if field.type.kind is Kind.TEXT else read


def one_zero(value: str) -> str:
    """A DOUBLE without negative zero: grouping takes both for one value, and would show that of some row."""
    return f"CASE WHEN {value} = 0 THEN CAST('0.0' AS DOUBLE) ELSE {value} END"


def _project(source: Relation, items: list[Item], schema: Schema) -> From:
    used = frozenset().union(*(columns_of(i.expression) for i in items)) if items else frozenset()
    below = relation_sql(source, used, schema)
    return _nested(below, {i.name: below.render(i.expression) for i in items})


def _nested(below: From, made: Mapping[str, str], group: str = "") -> From:
    """A subquery. Its columns are numbered: a name that an analyst chose could be taken for the owner's.

    **Theorem.** The owner that is read is the owner that was written. **Proof.** Inside the emitted SQL only `UNIT` and
    `c0, c1, …` occur above a stored table, each once in a SELECT list. **Checked by**
    `tests/privacy/test_found_by_review.py`, which gives columns the names that the emitted SQL uses.
    """
    columns = {name: f"c{number}" for number, name in enumerate(made)}
    listed = [f"{value} AS {columns[name]}" for name, value in made.items()]
    owner = [] if below.unit is None else [f"{below.unit} AS {UNIT}"]
    inner = f"SELECT {', '.join([*owner, *listed]) or '1'} FROM {below.source}{below.conditions}{group}"
    return From(f"({inner})", (), columns, None if below.unit is None else UNIT)


def _unit_group(relation: UnitGroup, source: Relation, needed: frozenset[str], schema: Schema) -> From:
    aggregates = [(n, a) for n, a in relation.aggregates if n in needed]
    expressions = [k.expression for k in relation.keys] + [a.argument for _, a in aggregates if a.argument is not None]
    used = frozenset().union(*map(columns_of, expressions))
    below = relation_sql(source, used, schema)
    keys = [_key(k.expression, below) for k in relation.keys]
    made = {k.name: key for key, k in zip(keys, relation.keys, strict=True)}
    made |= {n: _aggregate(a, relation.field(n).type, source, below) for n, a in aggregates}
    varying = [key for key, k in zip(keys, relation.keys, strict=True) if columns_of(k.expression)]
    group = f" GROUP BY {', '.join(dict.fromkeys([below.unit or '', *varying]))}"
    return _nested(below, made, group)


def _key(expression: Expression, below: From) -> str:
    value = below.render(expression)
    return one_zero(value) if expression.type == DOUBLE else value


def _aggregate(aggregate: Aggregate, type_: Type, source: Relation, below: From) -> str:
    """An aggregate over one unit's rows: exact, so that neither order nor threads matter, and clamped to its type."""
    if aggregate.argument is None:
        return "count(*)"
    value = below.render(aggregate.argument)
    if aggregate.function in ("count", "min", "max"):
        value = one_zero(value) if aggregate.argument.type == DOUBLE else value
        return f"{aggregate.function}({'DISTINCT ' if aggregate.distinct else ''}{value})"
    argument = summed(aggregate.argument, infer(aggregate.argument, known_of(source))) if _on_grid(aggregate) else None
    total = f"sum({'DISTINCT ' if aggregate.distinct else ''}{value if argument is None else clamped(argument, value)})"
    grid = Fraction(1) if argument is None else argument.grid
    if aggregate.function == "avg":
        counted = value if argument is None else clamped(argument, value)
        return f"(CAST({total} AS DOUBLE) / count({counted}){_scaled(grid)})"
    if type_ == DOUBLE:
        return f"(CAST({total} AS DOUBLE){_scaled(grid)})"
    return _into(total, type_)


def _on_grid(aggregate: Aggregate) -> bool:
    """Doubles, and integers whose sum might not fit, are added on a grid."""
    type_ = aggregate.argument.type if aggregate.argument is not None else DOUBLE
    return type_ == DOUBLE or (type_.kind is Kind.INTEGER and not (INT64[0] <= type_.lower and type_.upper <= INT64[1]))


def _scaled(grid: Fraction) -> str:
    return "" if grid == 1 else f" * {float(grid)!r}::DOUBLE"


def _into(total: str, type_: Type) -> str:
    """The total clamped to its type's range; NULL stays NULL (least and greatest would make it a bound)."""
    if type_.kind is Kind.DECIMAL:
        low, high = (_decimal(x, type_.scale) for x in (type_.lower, type_.upper))
        stored = f"DECIMAL(18,{type_.scale})"
    else:
        low, high = str(type_.lower), str(type_.upper)
        stored = "BIGINT" if INT64[0] <= type_.lower and type_.upper <= INT64[1] else "HUGEINT"
    return f"CAST(CASE WHEN {total} > {high} THEN {high} WHEN {total} < {low} THEN {low} ELSE {total} END AS {stored})"


def _decimal(unscaled: int, scale: int) -> str:
    sign, digits = "-" if unscaled < 0 else "", str(abs(unscaled)).rjust(scale + 1, "0")
    return f"CAST({sign}{digits[:-scale]}.{digits[-scale:]} AS DECIMAL(38,{scale}))"
