"""GROUP BY ROLLUP, CUBE and GROUPING SETS: several groupings of one SELECT, each a release of its own.

**Theorem.** A query over S grouping sets is S releases over the same rows. **Proof.** It is by definition the UNION ALL
of the SELECT grouped by each set, with NULL for the keys that the set lacks. Every set is bounded, priced and charged
like any other release (a unit is in all of them), and the union is taken over released tables.
**Requires** one charge that covers the releases of all sets together (`dpsql.budget.pricing`), and GROUPING() as a
constant of each set.
**Checked by** `tests/properties/test_grouping_sets.py`, with the planted bug "a coarser set without its charge".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from dpsql.errors import ParseError
from dpsql.expressions.expression import Expression
from dpsql.plan.plan import Family, Member
from dpsql.sql.span import name_of, refuse

MOST_SETS = 64
Set = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """The keys of a grouped SELECT, and the sets of them (by their places) that it groups by."""

    expressions: tuple[Expression, ...]
    sets: tuple[Set, ...]

    @property
    def plain(self) -> bool:
        """Is it one grouping, by all keys?"""
        return len(self.sets) == 1


def plain_keys(keys: Sequence[Expression]) -> GroupKeys:
    """One grouping by all of these, each once."""
    distinct = tuple(dict.fromkeys(keys))
    return GroupKeys(distinct, (tuple(range(len(distinct))),))


def group_by(group: exp.Group, key: Callable[[exp.Expr], Expression]) -> GroupKeys:
    """The sets of a GROUP BY clause: the product of its items, each of which lists some."""
    for name in ("rollup", "cube", "grouping_sets", "totals"):
        if group.args.get(name):
            raise refuse(
                f"GROUP BY … WITH {name.upper()} is not DuckDB's spelling",
                group,
                kind=ParseError,
                hint=f"write GROUP BY {'ROLLUP' if name == 'totals' else name.upper()} (a, b)",
                reason="clause",
            )
    choices = [_sets(item, key) for item in group.expressions]
    many = 1
    for each in choices:
        many *= len(each)
    if many > MOST_SETS:
        raise refuse(
            f"GROUP BY has {many} grouping sets, of at most {MOST_SETS}",
            group,
            hint="ask for fewer at a time",
            reason="size",
        )
    chosen = [tuple(dict.fromkeys(k for part in parts for k in part)) for parts in product(*choices)]
    keys = tuple(dict.fromkeys(k for each in chosen for k in each))
    return GroupKeys(keys, tuple(tuple(sorted(map(keys.index, each))) for each in chosen))


def _sets(item: exp.Expr, key: Callable[[exp.Expr], Expression]) -> list[tuple[Expression, ...]]:
    """The grouping sets of one item of GROUP BY."""
    match item:
        case exp.GroupingSets():
            return [each for part in item.expressions for each in _sets(part, key)]
        case exp.Rollup():
            parts = [_together(part, key) for part in item.expressions]
            return [sum(parts[:size], ()) for size in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_together(part, key) for part in item.expressions]
            sizes = range(len(parts), -1, -1) if len(parts) <= MOST_SETS.bit_length() else ()
            if not sizes:
                raise refuse(
                    f"CUBE of {len(parts)} keys has too many sets",
                    item,
                    hint="list them: GROUPING SETS (…)",
                    reason="size",
                )
            return [sum(each, ()) for size in sizes for each in combinations(parts, size)]
    return [_together(item, key)]


def _together(item: exp.Expr, key: Callable[[exp.Expr], Expression]) -> tuple[Expression, ...]:
    """A key, or several in brackets."""
    if isinstance(item, exp.Tuple):
        return tuple(key(part) for part in item.expressions)
    return (key(item.this if isinstance(item, exp.Paren) else item),)


def union_of_sets(name: str, releases: Sequence[str], keys: GroupKeys) -> Family:
    """The union of the releases; a set that is written twice is released once and read twice."""
    names = dict(zip(dict.fromkeys(keys.sets), releases, strict=True))
    every = frozenset(f"_k{i}" for i in range(len(keys.expressions)))
    return Family(name, tuple(Member(names[each], every - {f"_k{i}" for i in each}) for each in keys.sets))


def union_of(family: Family, columns: Sequence[str]) -> exp.Subquery:
    """The union in SQL: `_set` is the number of the grouping set, `_row` combines it with the row number."""
    many, selects = len(family.members), []
    for place, member in enumerate(family.members):
        row = exp.Add(this=exp.Mul(this=exp.column("_row"), expression=_number(many)), expression=_number(place))
        listed = [exp.alias_(row, "_row"), exp.alias_(_number(place), "_set")]
        listed += [exp.column(c) for c in columns if c not in member.missing]
        selects.append(exp.Select(expressions=listed, from_=exp.From(this=exp.to_table(member.release))))
    union: exp.Query = selects[0]
    for each in selects[1:]:
        union = exp.Union(this=union, expression=each, distinct=False, by_name=True)
    return exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier(family.name)))


def is_grouping(node: exp.Expr) -> bool:
    """GROUPING(…) or GROUPING_ID(…)."""
    return isinstance(node, exp.Grouping | exp.GroupingId)


def grouping(node: exp.Expr, places: Sequence[int | None], sets: Sequence[Set], column: exp.Expr) -> exp.Expr:
    """GROUPING(a, b): a bit for each key, the last one the lowest, set where the row's grouping set lacks the key."""
    if None in places:
        raise refuse(
            f"{name_of(node)} takes group keys",
            node,
            kind=ParseError,
            hint="name the keys as they stand in GROUP BY",
            reason="group-key",
        )
    bits = [int("".join(str(int(place not in each)) for place in places) or "0", 2) for each in sets]
    if len(set(bits)) == 1:
        return exp.cast(_number(bits[0]), "BIGINT")
    ifs = [exp.If(this=_number(place), true=_number(value)) for place, value in enumerate(bits)]
    return exp.cast(exp.Case(this=column, ifs=ifs), "BIGINT")


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)
