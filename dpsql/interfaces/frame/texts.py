"""`.str` of a private column."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dpsql.errors import InterfaceError
from dpsql.interfaces.frame.expressions import Kind, call, constant
from dpsql.interfaces.frame.hidden import PrivateRows

Make = Callable[[exp.Expr, Kind], Any]


class Texts:
    """Functions of text; each gives another private column."""

    __slots__ = ("__make", "__of")

    def __init__(self, make: Make, of: exp.Expr, kind: Kind, name: str) -> None:
        if kind is not Kind.TEXT:
            raise InterfaceError(f".str is for text, and {name} is none", hint="cast it first: .astype(str)")
        self.__make, self.__of = make, of

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(each for each in dir(Texts) if not each.startswith("_"))
        raise PrivateRows(f".str.{name} is not among the functions of private text", hint=f"there are {known}")

    def lower(self) -> Any:
        """In lower case."""
        return self.__text("lower")

    def upper(self) -> Any:
        """In upper case."""
        return self.__text("upper")

    def strip(self) -> Any:
        """Without blanks at both ends."""
        return self.__text("trim")

    def lstrip(self) -> Any:
        """Without blanks at the beginning."""
        return self.__text("ltrim")

    def rstrip(self) -> Any:
        """Without blanks at the end."""
        return self.__text("rtrim")

    def len(self) -> Any:
        """The number of characters."""
        return self.__make(call("length", self.__of), Kind.NUMBER)

    def contains(self, pat: str, case: bool = True, regex: bool = True, na: Any = None) -> Any:
        """Whether the text holds another one; patterns with special signs are refused, for they read differently."""
        _literal(pat, "contains", regex)
        of, part = (self.__of, pat) if case else (call("lower", self.__of), pat.lower())
        return self.__make(call("contains", of, constant(part)), Kind.MASK)

    def startswith(self, pat: str, na: Any = None) -> Any:
        """Whether the text begins so."""
        return self.__make(call("starts_with", self.__of, constant(pat)), Kind.MASK)

    def endswith(self, pat: str, na: Any = None) -> Any:
        """Whether the text ends so."""
        return self.__make(call("ends_with", self.__of, constant(pat)), Kind.MASK)

    def replace(self, pat: str, repl: str, regex: bool = False) -> Any:
        """With one text in the place of another."""
        _literal(pat, "replace", regex)
        return self.__make(call("replace", self.__of, constant(pat), constant(repl)), Kind.TEXT)

    def slice(self, start: int | None = None, stop: int | None = None, step: int | None = None) -> Any:
        """A part of the text, counted from its beginning."""
        first, last = start or 0, stop
        if step not in (None, 1) or first < 0 or (last is not None and last < first):
            raise InterfaceError("a part of a text is counted from its beginning", hint="write .str[0:3]")
        ends = [constant(first + 1)] + ([] if last is None else [constant(last - first)])
        return self.__make(call("substring", self.__of, *ends), Kind.TEXT)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        return self.slice(key, key + 1)

    def __text(self, function: str) -> Any:
        return self.__make(call(function, self.__of), Kind.TEXT)


def _literal(pattern: str, name: str, regex: bool) -> None:
    if regex and re.escape(pattern).replace("\\ ", " ").replace("\\-", "-") != pattern:
        raise InterfaceError(
            "regular expressions are not supported on private text", hint=f"write .str.{name}(…, regex=False)"
        )
