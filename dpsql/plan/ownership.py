"""Who owns the rows of a table: its unit column, or a path of verified foreign keys that leads to one."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.errors import PolicyError
from dpsql.expressions.types import DOUBLE, SPELLINGS, Type, from_engine
from dpsql.plan.nodes.relation import UNIT, Step
from dpsql.policy import Policy, fold
from dpsql.policy.identifiers import nearest
from dpsql.policy.model import OWNED, ForeignKey, key_fact
from dpsql.policy.model import DeclaredTable as Declared

Schema = Mapping[str, Mapping[str, str]]
Facts = frozenset[tuple[str, str]]
_NOT_ONE_TO_ONE = ("TIMESTAMP_NS", "TIMESTAMP_S", "TIMESTAMP_MS", SPELLINGS)


def _indirect(declared: Declared, policy: Policy) -> bool:
    """Does the path lead through a row anywhere, rather than name the unit itself at every step?

    **Theorem.** If not, the column's value is the owner. **Proof.** By induction along the path: the key it points to
    is the parent's own unit column, whose value is the owner, and equal values name equal units.
    **Requires** that the foreign keys on the path were verified or are constraints (`dpsql.policy.check`), and one id
    space for all units of a policy.
    **Checked by** `tests/unit/plan/test_catalog.py`.
    """
    unit = declared.unit
    if not isinstance(unit, ForeignKey):
        return False
    parent = policy.tables[unit.table]
    return fold(parent.unit_column or "") != fold(unit.key) or _indirect(parent, policy)


def unverified(name: str, policy: Policy, facts: Facts) -> bool:
    """Is the owner found through rows of another table, by a foreign key that nobody has verified?"""
    table = policy.tables[name]
    while _indirect(table, policy):
        link = table.unit
        assert isinstance(link, ForeignKey)
        if (fold(name), link.fact) not in facts:
            return True
        name, table = link.table, policy.tables[link.table]
    return False


def path_to_unit(name: str, policy: Policy, schema: Schema) -> tuple[tuple[Step, ...], str]:
    """The steps to the row that names the owner, and its unit column; each key is read one to one."""
    steps: list[Step] = []
    table = policy.tables[name]
    while _indirect(table, policy):
        link = table.unit
        assert isinstance(link, ForeignKey)
        column, key = _key(name, link.column, schema), _key(link.table, link.key, schema)
        if column[1] != key[1]:
            raise PolicyError(
                f"tables.{name}.unit: {link.column} and {link.references} have different types",
                hint="give both columns the same type",
            )
        steps.append(Step(column[0], link.table, key[0]))
        name, table = link.table, policy.tables[link.table]
    return tuple(steps), _key(name, table.unit_column or "", schema)[0]


def _key(table: str, column: str, schema: Schema) -> tuple[str, Type]:
    """A column that leads to an owner: two of its values must never be read as one."""
    stored = schema.get(fold(table), {})
    name, type_ = stored_column(table, column, stored, unit=True)
    if stored[name] == SPELLINGS:
        raise PolicyError(
            f"tables.{table}.unit: the collation of {name} accepts several spellings for one unit, and dpsql would "
            "count each spelling as a unit of its own",
            hint="give the table a unit column with a deterministic collation",
        )
    if not one_to_one(stored[name]):
        raise PolicyError(
            f"tables.{table}.unit: a column of type {stored[name]} cannot be a unit: reading it could merge two units",
            hint="give the table a unit column of a whole number, text or date type",
        )
    return name, type_


def without_owner(name: str, policy: Policy, facts: Facts) -> str | None:
    """The column of a table that leaves a row without an owner where it is NULL; "" if a table on the way has it.

    None if there is none: the policy declares the column without NULL, or a constraint of the database does. It decides
    what a note says, and nothing else.
    """
    table = policy.tables[name]
    if table.by_row or table.unit_column is None:
        return None
    declared = next((s for c, s in (table.columns or {}).items() if fold(c) == fold(table.unit_column)), None)
    if (declared is None or declared.nulls) and (fold(name), OWNED) not in facts:
        return table.unit_column
    further = isinstance(table.unit, ForeignKey) and without_owner(table.unit.table, policy, facts) is not None
    return "" if further else None


def _label(link: ForeignKey, policy: Policy) -> str:
    """How a foreign key's values determine the owner: as those of the key it points to."""
    parent = policy.tables[link.table]
    if not isinstance(parent.unit, ForeignKey) or fold(parent.unit.column) != fold(link.key):
        return fold(link.references)
    return _label(parent.unit, policy)


def labels_of(
    name: str, policy: Policy, facts: Facts, stored: Mapping[str, str]
) -> tuple[dict[str, str], frozenset[frozenset[str]]]:
    """The columns of a table that determine the owner, by label; and the keys that are verified; names are folded.

    A fact is about stored values: it says nothing of a column that is read with less precision than it holds, since
    two keys could be read as one.
    """
    declared, labels, keys = policy.tables[name], dict[str, str](), set(keys_of(name, policy, facts, stored))
    for child, table in policy.tables.items():
        link = table.unit
        if isinstance(link, ForeignKey) and fold(link.table) == fold(name) and (fold(child), link.fact) in facts:
            keys.add(frozenset({fold(link.key)}))
            labels[fold(link.key)] = _label(link, policy)
    if isinstance(declared.unit, ForeignKey) and _indirect(declared, policy):
        labels[fold(declared.unit.column)] = _label(declared.unit, policy)
    elif declared.unit_column is not None:
        labels[fold(declared.unit_column)] = UNIT
    whole = _whole(stored)
    return (
        {column: label for column, label in labels.items() if column in whole},
        frozenset(key for key in keys if key <= whole),
    )


def keys_of(name: str, policy: Policy, facts: Facts, stored: Mapping[str, str]) -> frozenset[frozenset[str]]:
    """The declared keys of a table that are verified, and read as they are stored; names are folded."""
    declared = [key for key in policy.tables[name].keys if (fold(name), key_fact(key)) in facts]
    keys = [frozenset(map(fold, key)) for key in declared]
    return frozenset(key for key in keys if key <= _whole(stored))


def _whole(stored: Mapping[str, str]) -> frozenset[str]:
    """The columns that are read as precisely as they are stored."""
    return frozenset(fold(column) for column, engine_type in stored.items() if one_to_one(engine_type))


def one_to_one(engine_type: str) -> bool:
    """Whether two stored values are equal in the database exactly if they are equal after they are read."""
    kind = from_engine(engine_type)
    wide = engine_type.upper().startswith("DECIMAL") and kind == DOUBLE
    return kind is not None and not wide and engine_type.upper() not in _NOT_ONE_TO_ONE


def stored_column(table: str, column: str, stored: Mapping[str, str], *, unit: bool = False) -> tuple[str, Type]:
    """The name and type of a column as it is stored; `unit` says that the policy names it there."""
    for name, engine_type in stored.items():
        if fold(name) == fold(column):
            type_ = from_engine(engine_type)
            if type_ is None:
                raise PolicyError(
                    f"tables.{table}.columns.{name}: a column of type {engine_type} cannot be queried privately",
                    hint="leave the column out of the policy, or give the table a column of a plain type",
                )
            return name, type_
    guess = nearest(column, stored)
    raise PolicyError(
        f"tables.{table}.{'unit' if unit else f'columns.{column}'}: the table has no column {column}",
        hint=(f"did you mean {guess}? " if guess else "") + f"columns: {', '.join(stored)}",
    )
