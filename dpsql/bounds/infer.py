"""The domain of an expression over a row: one small file of rules for each family, dispatched here.

**Theorem.** On a row whose columns lie in the known domains, DuckDB's value of the expression (as this project emits
it) lies in `infer(expression, known)`. **Proof.** By induction: every rule encloses its operation on the operands'
domains; an operation without a rule has the domain of its type. **Requires** nothing of the data: the domain is not
trusted, the emitted SQL clamps to it. **Checked by** `tests/unit/bounds/test_bounds_soundness.py`, which computes
random expressions over random rows in DuckDB.
"""

from __future__ import annotations

from itertools import product
from math import ceil, floor, prod

from dpsql.bounds import arithmetic, casts, date_arithmetic, function_bounds, logic
from dpsql.bounds.constant_folding import Unsure, as_type, evaluate
from dpsql.bounds.domain import (
    ONLY_NULL,
    UNKNOWN,
    Domain,
    RowDomains,
    Rule,
    finite,
    intersect,
    interval,
    number,
    of_type,
    tidy,
    value_at,
)
from dpsql.bounds.function_bounds import lenient, rule_of
from dpsql.bounds.predicates import Truth, narrowed
from dpsql.expressions.expression import Call, Column, Expression, Literal, Value
from dpsql.expressions.types import Kind, Type

MOST_LISTED = 10_000

MOST_VALUES = 10_000

MOST_PRODUCTS = 1_000

_RULES: dict[str, Rule] = {
    **arithmetic.RULES, **casts.RULES, **logic.RULES, **date_arithmetic.RULES,
    **function_bounds.RULES,
}  # fmt: skip

_LENIENT = logic.LENIENT | {"coalesce", "greatest", "least", "concat", "nullif"}

_LISTING = {"mul", "round", "strftime"}
"""Operations that leave gaps: over whole numbers in bounds they give a list."""


def infer(expression: Expression, known: RowDomains) -> Domain:
    """What is known of the expression's values on such a row."""
    match expression:
        case Column():
            return tidy(known.column(expression), expression.type)
        case Literal():
            return _constant(expression)
        case Call():
            made = intersect(_call(expression, known), of_type(expression.type))
            return known.sharpen(expression, made)
    return of_type(expression.type)


def _constant(node: Literal) -> Domain:
    """A constant beyond the range of floats is infinite, which an interval cannot represent."""
    if node.value is None:
        return ONLY_NULL
    try:
        return finite((as_type(node.value, node.type),), node.type, nullable=False)
    except Unsure:
        return Domain(nullable=False)


def _call(call: Call, known: RowDomains) -> Domain:
    if call.op == "case":
        return logic.case(call, known, infer, _branch)
    args = tuple(infer(a, known) for a in call.args)
    if call.op not in _LENIENT and not lenient(call.op):
        if any(d.empty for d in args):
            return ONLY_NULL
        listed = _evaluated(call, args)
        if listed is not None:
            return listed
    rule = _RULES.get(call.op) or rule_of(call.op)
    return of_type(call.type) if rule is None else _whole_list(call, rule(call, args))


def _branch(known: RowDomains, condition: Expression, holds: bool) -> RowDomains:
    return narrowed(known, condition, Truth(holds, or_null=not holds), infer, "CASE")


def _evaluated(call: Call, args: tuple[Domain, ...]) -> Domain | None:
    """The operation on every combination of the operands' values, where there are few and Python is certain."""
    choices = _choices(call, args)
    if choices is None or any(d.nan for d in args):
        return None
    try:
        made = [evaluate(call, combination) for combination in product(*choices)]
    except Unsure:
        return None
    null = None in made or any(d.nullable for d in args)
    values = [v for v in made if v is not None]
    ordered = values if call.type.kind is Kind.TEXT else sorted(values, key=number)
    return finite(ordered, call.type, nullable=null, origin=[o for d in args for o in d.origin])


def _choices(call: Call, args: tuple[Domain, ...]) -> list[tuple[Value, ...]] | None:
    """The values of each operand, if their combinations are few; whole numbers are listed for one operand only."""
    varied = sum(d.values is None or len(d.values) > 1 for d in args)
    found = [_values(call, d, a.type) if varied <= 1 else d.values for d, a in zip(args, call.args, strict=True)]
    choices = [values for values in found if values is not None]
    limit = MOST_VALUES if varied <= 1 and call.type.kind is not Kind.BOOLEAN else MOST_PRODUCTS
    few = prod(map(len, choices)) <= limit
    return choices if len(choices) == len(args) and few else None


def _values(call: Call, domain: Domain, type_: Type) -> tuple[Value, ...] | None:
    if domain.values is not None:
        return domain.values
    listing = call.op in _LISTING or (call.op == "cast" and call.type.kind is Kind.TEXT)
    places = _places(domain) if listing and type_.kind in (Kind.INTEGER, Kind.DATE) else None
    found = None if places is None else tuple(value_at(position, type_) for position in places)
    return None if found is None or None in found else found


def _places(domain: Domain) -> range | None:
    """The whole numbers in bounds, if they are few."""
    if domain.lower is None or domain.upper is None:
        return None
    low, high = ceil(domain.lower), floor(domain.upper)
    return range(low, high + 1) if high - low < MOST_LISTED else None


def _whole_list(call: Call, domain: Domain) -> Domain:
    """floor(x) and the like over DOUBLE in bounds: whole numbers, which can be listed."""
    whole = call.op in ("floor", "ceil", "trunc") or (call.op == "round" and call.option == 0)
    places = _places(domain) if whole and call.type.kind is Kind.DOUBLE and not domain.nan else None
    if places is None:
        return domain
    return finite(map(float, places), call.type, nullable=domain.nullable, origin=domain.origin)


# Conditions ----------------------------------------------------------------------------------------------------------

MOST_PASSES = 12


def narrow(known: RowDomains, condition: Expression, holds: bool = True) -> RowDomains:
    """The row, where the condition is TRUE; or, if it did not hold, FALSE or NULL.

    Again until nothing changes, so that what one conjunct says of a column reaches the columns that another one
    compares it with, in whatever order they are written; `x < y AND y < x` would shrink for ever, so not more often
    than there are comparisons.
    """
    truth = Truth(holds, or_null=not holds)
    comparisons = sum(1 for node in condition.walk() if isinstance(node, Call))
    for _ in range(min(MOST_PASSES, comparisons + 1)):
        before, known = known, narrowed(known, condition, truth, infer, "WHERE")
        if known == before:
            break
    return known


# Aggregates ----------------------------------------------------------------------------------------------------------

AT_MOST = "at most "
"""How the origin begins of a bound that rests on how many rows of a unit count."""


def aggregate_domain(function: str, argument: Domain | None, rows: int) -> Domain:
    """The domain of COUNT, SUM, AVG, MIN or MAX over one unit's rows; a group exists only if it has a row."""
    if function == "count":
        least = 1 if argument is None or not argument.nullable else 0
        return interval(least, rows, nullable=False, origin=(f"{AT_MOST}{rows} rows per unit",))
    if argument is None:
        return UNKNOWN
    if function == "sum":
        low = None if argument.lower is None else min(argument.lower, rows * argument.lower)
        high = None if argument.upper is None else max(argument.upper, rows * argument.upper)
        origin = (*argument.origin, f"{AT_MOST}{rows} rows per unit")
        return interval(low, high, nullable=argument.nullable, origin=origin)
    return Domain(argument.lower, argument.upper, None, argument.nullable, False, argument.origin)
