"""Group keys: public where the policy and the query alone say which values there are, private otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, prod

from dpsql.bounds.domain import Domain, value_at
from dpsql.bounds.infer import AT_MOST
from dpsql.expressions.expression import Expression, Value
from dpsql.expressions.types import Kind, Type


@dataclass(frozen=True, slots=True)
class Key:
    """A group key. `values` lists a public key's values in their order, NULL last where it can occur.

    `null_declared`: the policy says that it may be missing. Elsewhere NULL is listed because nothing rules it out.
    """

    name: str
    expression: Expression
    domain: Domain
    values: tuple[Value, ...] | None
    attribute: bool
    null_declared: bool = field(default=False, compare=False)

    @property
    def contiguous(self) -> bool:
        """Whole numbers or days in a row, which need no list in the emitted SQL."""
        return self.values is not None and self.domain.values is None


def make_keys(named: Sequence[tuple[str, Expression, Domain, bool]], limit: int) -> tuple[Key, ...]:
    """All keys public, or all private: a product with one private key, or beyond the limit, is private.

    **Theorem.** Listing every public key, with zero where no row has it, tells nothing: the list is a function of the
    SQL and the policy. A value outside the list counts as NULL (or is dropped where NULL cannot be; a count per unit
    may be beyond what the policy counts, so there NULL can be), never as a value of the list.
    **Proof.** The values are read off a domain, which is inferred from those two alone, so neighbours have the same
    list; the emitted SQL joins each row to the list before anything is counted.
    **Requires** domains that narrow by SQL and policy only (`dpsql.bounds.infer`; public tables and released content
    count as such), and the join to the list in `dpsql.engines.sql.key_codes`.
    **Checked by** the neighbour test, which compares the keys of both databases.
    """
    keys = [
        Key(name, e, domain, public_values(domain, e.type, limit), attribute) for name, e, domain, attribute in named
    ]
    sizes = [len(key.values) for key in keys if key.values is not None]
    if len(sizes) == len(keys) and prod(sizes) <= limit:
        return tuple(keys)
    return tuple(Key(k.name, k.expression, k.domain, None, k.attribute) for k in keys)


def on_type(value: Value, type_: Type) -> Value:
    """The value as the column's type holds it, None if it cannot: a key that no row can have is no key."""
    match type_.kind, value:
        case Kind.BOOLEAN, bool():
            return value
        case Kind.INTEGER, int() | float() | Decimal() if not isinstance(value, bool) and value == int(value):
            return int(value)
        case Kind.DECIMAL, int() | float() | Decimal() if not isinstance(value, bool):
            exact = Fraction(value)
            whole = (exact * 10**type_.scale).denominator == 1
            return Decimal(int(exact * 10**type_.scale)).scaleb(-type_.scale) if whole else None
        case Kind.DOUBLE, int() | float() | Decimal() if not isinstance(value, bool):
            return float(value) + 0.0
        case Kind.TEXT, str():
            return value
        case Kind.TIMESTAMP, datetime():
            return value
        case Kind.TIMESTAMP, date():
            return datetime(value.year, value.month, value.day)
        case Kind.DATE, datetime():
            return value.date() if value.time() == time() else None
        case Kind.DATE, date():
            return value
    return None


def public_values(domain: Domain, type_: Type, limit: int) -> tuple[Value, ...] | None:
    """The values of a public key, or None if the key is private."""
    if domain.values is not None:
        kept = (on_type(v, type_) for v in domain.values if v is not None)
        values: tuple[Value, ...] = tuple(dict.fromkeys(v for v in kept if v is not None))
    elif type_.kind in (Kind.INTEGER, Kind.DATE) and domain.lower is not None and domain.upper is not None:
        low, high = ceil(domain.lower), floor(domain.upper)
        if high - low >= limit:
            return None
        values = tuple(value_at(position, type_) for position in range(low, high + 1))
    else:
        return None
    if len(values) > limit:
        return None
    beyond = any(origin.startswith(AT_MOST) for origin in domain.origin)
    return (*values, None) if domain.nullable or beyond else values
