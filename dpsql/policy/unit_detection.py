"""Detects the likely unit column of each table from names and constraints alone; doubtful cases stay undecided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpsql.policy.database_catalog import CatalogRelation, Link, family
from dpsql.policy.identifiers import Names, fold

PEOPLE = (
    "person",
    "patient",
    "customer",
    "client",
    "user",
    "member",
    "household",
    "subscriber",
    "participant",
    "subject",
    "individual",
    "citizen",
    "resident",
    "student",
    "pupil",
    "passenger",
    "guest",
    "donor",
    "voter",
    "employee",
    "worker",
    "staff",
    "visitor",
    "account",
    "device",
)
MANY = 3


@dataclass(frozen=True, slots=True)
class Owner:
    """A guess: the unit column, the parent's key that it points to if ownership goes through it, and why."""

    column: str
    why: str
    references: str | None = None
    unique: bool = False
    likely_key: str | None = None


@dataclass(frozen=True, slots=True)
class Undecided:
    """No guess, and why the steward must decide."""

    why: str


Guess = Owner | Undecided


def guess_owners(catalog: Names[CatalogRelation]) -> dict[str, Guess]:
    """One guess for each relation, all of them in one id space."""
    tables = Names({name: each for name, each in catalog.items() if not each.view})
    home = _home(tables)
    guesses = _by_home(tables, home) if home else _by_shared_column(tables)
    _follow_parents(tables, guesses)
    return {name: guesses.get(name) or _undecided(each, home) for name, each in catalog.items()}


def singular(name: str) -> str:
    """`orders` → `order`, `companies` → `company`, `people` → `person`; good enough to match names."""
    name = fold(name)
    for plural, single in (("people", "person"), ("ies", "y"), ("sses", "ss"), ("ss", "ss"), ("s", "")):
        if name.endswith(plural):
            return name[: len(name) - len(plural)] + single
    return name


def _home(tables: Names[CatalogRelation]) -> tuple[CatalogRelation, str] | None:
    """The table of the units and its key: named after people, and referred to by most others."""
    candidates = [(each, key) for each in tables.values() if (key := _key_of_people(each))]
    return max(candidates, key=lambda pair: _rank(tables, *pair), default=None)


def _rank(tables: Names[CatalogRelation], home: CatalogRelation, key: str) -> tuple[int, int]:
    references = sum(1 for each in tables.values() if each is not home and _links(each, home, key))
    return references, -PEOPLE.index(_stem(home.name))


def _key_of_people(table: CatalogRelation) -> str | None:
    if _stem(table.name) not in PEOPLE:
        return None
    names = [table.primary or "id", "id", f"{_stem(table.name)}_id", f"{singular(table.name)}_id"]
    return next((table.columns.spelling(each) for each in names if each in table.columns and _usable(each)), None)


def _stem(name: str) -> str:
    """`dim_customers` → `customer`."""
    return singular(name).rpartition("_")[2]


def _usable(column: str) -> bool:
    """Whether a policy can name this unit column: `row` and dots mean something else there."""
    return fold(column) != "row" and "." not in column and column.isprintable()


def _links(child: CatalogRelation, parent: CatalogRelation, key: str) -> list[Link]:
    """The columns of a child that point to the parent's key: by constraint, else by name and type."""
    declared = [each for each in child.links if fold(each.table) == fold(parent.name) and fold(each.key) == fold(key)]
    return declared or [
        Link(column, parent.name, key)
        for column, data_type in child.columns.items()
        if _matches(column, parent, key) and data_type == parent.columns[key] and family(data_type)
    ]


def _matches(column: str, parent: CatalogRelation, key: str) -> bool:
    names = {f"{singular(parent.name)}_id", f"{_stem(parent.name)}_id"}
    return fold(column) in names | ({fold(key)} if fold(key) != "id" else set())


def _by_home(tables: Names[CatalogRelation], home: tuple[CatalogRelation, str]) -> dict[str, Guess]:
    parent, key = home
    unique = parent.is_key(key)
    guesses: dict[str, Guess] = {parent.name: Owner(key, f"the key of {parent.name}", unique=unique)}
    for name, table in tables.items():
        links = [] if table is parent else [each for each in _links(table, parent, key) if _usable(each.column)]
        if len(links) == 1:
            guesses[name] = _child(table, links[0], parent)
        elif links:
            guesses[name] = _several(links)
    return guesses


def _child(table: CatalogRelation, link: Link, parent: CatalogRelation) -> Owner:
    """A constraint makes the path a fact; a mere name leaves the column itself as the unit."""
    unique = table.is_key(link.column)
    target = f"{parent.name}.{link.key}"
    if link in table.links and parent.is_key(link.key):
        return Owner(link.column, f"a foreign key to {target}", references=target, unique=unique)
    return Owner(link.column, f"named like a reference to {target}", unique=unique, likely_key=target)


def _several(links: list[Link]) -> Undecided:
    columns = " and ".join(each.column for each in links)
    return Undecided(f"{columns} each lead to an owner, and a row has exactly one")


def _by_shared_column(tables: Names[CatalogRelation]) -> dict[str, Guess]:
    """Without a table of people: an id column of people, or one that many tables share."""
    holders: dict[str, list[CatalogRelation]] = {}
    for table in tables.values():
        for column in table.columns:
            if fold(column).endswith("_id") and _usable(column):
                holders.setdefault(fold(column), []).append(table)
    likely = {name: found for name, found in holders.items() if _people_id(name) or len(found) >= MANY}
    if not likely:
        return {}
    best = max(likely, key=lambda name: (_people_id(name), len(likely[name])))
    why = f"shared by {len(likely[best])} tables" if len(likely[best]) > 1 else "named like the id of a person"
    return {table.name: Owner(table.columns.spelling(best), why, unique=table.is_key(best)) for table in likely[best]}


def _people_id(column: str) -> bool:
    return _stem(column.removesuffix("_id")) in PEOPLE


def _follow_parents(tables: Names[CatalogRelation], guesses: dict[str, Guess]) -> None:
    """Tables that lead to an owned table by its key, then tables that lead to those, and so on."""
    while True:
        found = {
            name: guess
            for name, table in tables.items()
            if name not in guesses and (guess := _through_parent(table, tables, guesses))
        }
        if not found:
            return
        guesses |= found


def _through_parent(
    table: CatalogRelation, tables: Names[CatalogRelation], guesses: Mapping[str, Guess]
) -> Guess | None:
    links = [each for each in _parents(table, tables, guesses) if _usable(each.column) and _usable(each.key)]
    if len(links) > 1:
        return _several(links)
    if not links:
        return None
    target = f"{links[0].table}.{links[0].key}"
    how = "a foreign key to" if links[0] in table.links else "named like a reference to"
    return Owner(links[0].column, f"{how} {target}", references=target)


def _parents(table: CatalogRelation, tables: Names[CatalogRelation], guesses: Mapping[str, Guess]) -> Iterator[Link]:
    for name, guess in guesses.items():
        parent = tables[name]
        if isinstance(guess, Owner) and parent.primary is not None and parent is not table:
            yield from _links(table, parent, parent.primary)


def _undecided(relation: CatalogRelation, home: tuple[CatalogRelation, str] | None) -> Undecided:
    if relation.view:
        return Undecided("a view: declare the tables behind it instead")
    if _stem(relation.name) in PEOPLE and home is not None:
        return Undecided(f"people other than those of {home[0].name}, and all units share one id space")
    return Undecided("no column leads to the people behind the rows")
