"""The shape of a rule: an operation and the domains of its operands give the domain of the result."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.bounds.domain import Domain
from dpsql.expressions.expression import Call

Rule = Callable[[Call, tuple[Domain, ...]], Domain]
