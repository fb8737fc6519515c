"""The price that one query asks for, inside what the policy allows."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from dpsql.errors import InterfaceError, PolicyError
from dpsql.flow.accounts import Accounts
from dpsql.options import QueryOptions
from dpsql.policy import to_decimal


def price_of(keywords: QueryOptions, accounts: Accounts, *, accurate: bool = False) -> tuple[Fraction, Fraction]:
    """The asked price, inside what the policy allows for one query; with an accuracy, the most it may be."""
    limits, defaults = accounts.policy.limits, accounts.policy.defaults
    epsilon, delta = keywords.epsilon, keywords.delta
    most = min(limits.epsilon, accounts.most_epsilon) if accurate else defaults.epsilon
    asked = Fraction(_number(epsilon, "epsilon")) if epsilon is not None else Fraction(most)
    slack = Fraction(_number(delta, "delta")) if delta is not None else Fraction(accounts.default_delta)
    if asked <= 0 or not 0 <= slack < 1:
        wrong = f"epsilon must be positive, got {epsilon}" if asked <= 0 else f"delta must be in [0, 1), got {delta}"
        raise PolicyError(wrong, hint="ask for epsilon=0.5, for example; a delta is far below 1, such as 1e-8")
    for name, value, limit in (("epsilon", asked, limits.epsilon), ("delta", slack, limits.delta)):
        if value > Fraction(limit):
            raise PolicyError(
                f"one query may ask for {name} up to {limit}, not {float(value):g}",
                hint=f"ask for {name}={limit} or less" if limit else f"leave {name} out: the budget has none",
            )
    return asked, slack


def known_mechanism(name: str) -> str:
    """The name, if there is such a mechanism to ask for."""
    if name not in ("auto", "laplace", "gaussian"):
        raise InterfaceError(f"there is no mechanism {name!r}", hint="use laplace, gaussian or auto")
    return name


def _number(value: float | Decimal, name: str) -> Decimal:
    try:
        return to_decimal(value)
    except ValueError as problem:
        raise PolicyError(
            f"{name} = {value!r} is not a valid price: {problem}", hint=f"write {name}=0.5, for example"
        ) from None
