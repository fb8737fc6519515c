"""The verbs that give one number for each column, of a whole frame or in each of its groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from sqlglot import exp

from dpsql.interfaces.frame.aggregates import aggregate, named
from dpsql.interfaces.frame.asking import Price
from dpsql.interfaces.frame.view import Field


class EachColumn:
    """Where the columns come from, and how they are asked for, is the heir's."""

    __slots__ = ()

    @abstractmethod
    def _chosen(self) -> Mapping[str, Field]:
        """All columns that are meant."""

    @abstractmethod
    def _numbers(self) -> Mapping[str, Field]:
        """Those of them that have bounds."""

    @abstractmethod
    def _ask(self, items: Sequence[exp.Expr], price: Price) -> Any:
        """Ask for these expressions."""

    def count(self, **price: Unpack[Price]) -> Any:
        """How many values of each column are not missing."""
        return self._each("count", price)

    def mean(self, **price: Unpack[Price]) -> Any:
        """The average of each column that has bounds."""
        return self._each("mean", price)

    def sum(self, **price: Unpack[Price]) -> Any:
        """The sum of each column that has bounds."""
        return self._each("sum", price)

    def std(self, ddof: int = 1, **price: Unpack[Price]) -> Any:
        """The standard deviation of each column that has bounds."""
        return self._each("std", price, ddof)

    def var(self, ddof: int = 1, **price: Unpack[Price]) -> Any:
        """The variance of each column that has bounds."""
        return self._each("var", price, ddof)

    def median(self, **price: Unpack[Price]) -> Any:
        """The middle value of each column that has bounds."""
        return self._each("median", price)

    def min(self, **price: Unpack[Price]) -> Any:
        """The smallest value of each column that has bounds."""
        return self._each("min", price)

    def max(self, **price: Unpack[Price]) -> Any:
        """The largest value of each column that has bounds."""
        return self._each("max", price)

    def nunique(self, **price: Unpack[Price]) -> Any:
        """How many different values each column has."""
        return self._each("nunique", price)

    def _each(self, name: str, price: Price, ddof: int = 1) -> Any:
        chosen = self._chosen() if name in ("count", "nunique") else self._numbers()
        items = [named(aggregate(name, f.expression, f.kind, ddof), title) for title, f in chosen.items()]
        return self._ask(items, price)
