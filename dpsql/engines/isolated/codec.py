"""Plans and integers as bytes, for the pipe between two processes of dpsql.

A message is a list of nodes in JSON. A node names its kind and holds plain values and the positions of earlier nodes.
Decoding creates only the types listed in `kinds`, each with fields of the declared types, and executes nothing.

Why not msgspec or cattrs: a plan shares nodes, which are written once here, and its fields are unions of dataclasses
that are recognised by name; both libraries would need a hook for every such field.
"""

from __future__ import annotations

import base64
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from dpsql.budget.pricing import Priced
from dpsql.engines.base import PublicRows
from dpsql.engines.sealed import Integers
from dpsql.engines.sql import relations as _every_relation  # noqa: F401  (so that each has its place in `kinds`)
from dpsql.errors import InternalError
from dpsql.plan.nodes.released_scan import Content

PLAIN = (str, int, float, bool, type(None))
MICROSECOND = timedelta(microseconds=1)
_ARRAYS = frozenset("?bBhHiIlLqQfd")

_TEXTS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], object]]] = {
    "Decimal": (Decimal, str, Decimal),
    "Fraction": (Fraction, str, Fraction),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (timedelta, lambda value: str(value // MICROSECOND), lambda text: int(text) * MICROSECOND),
    "bytes": (bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode),
}
_MANY: dict[str, Any] = {"tuple": tuple, "list": list, "frozenset": frozenset}


class BadMessage(Exception):
    """The data received is not a valid message."""


def pack(value: object) -> bytes:
    """Encode a value and everything it refers to; shared objects are written once."""
    return json.dumps(_Writer().write(value), separators=(",", ":")).encode()


def unpack(data: bytes) -> Any:
    """The value again; BadMessage unless every node is one that `pack` could have written."""
    made: list[object] = []
    try:
        for node in json.loads(data):
            kind, *cells = node
            made.append(_made(kind, [made[c[0]] if isinstance(c, list) else c for c in cells]))
        return made[-1]
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, AttributeError, InternalError) as problem:
        raise BadMessage(type(problem).__name__) from None


class _Writer:
    def __init__(self) -> None:
        self.table: list[list[object]] = []
        self.places: dict[int, int] = {}
        self.alive: list[object] = []

    def write(self, value: object) -> list[list[object]]:
        self._node(value)
        return self.table

    def _cell(self, value: object) -> object:
        return value if type(value) in PLAIN else [self._node(value)]

    def _node(self, value: object) -> int:
        if id(value) not in self.places:
            kind, parts = _taken_apart(value)
            self.table.append([kind, *(self._cell(part) for part in parts)])
            self.places[id(value)] = len(self.table) - 1
            self.alive.append(value)
        return self.places[id(value)]


def _taken_apart(value: Any) -> tuple[str, list[object]]:
    """The kind of a node and its parts."""
    if type(value) in PLAIN:
        return "plain", [value]
    if isinstance(value, np.ndarray):
        if value.dtype.char in _ARRAYS:
            return "array", [value.dtype.str, base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()]
        return "texts", [None if each is None else str(each) for each in value]
    if isinstance(value, Mapping):
        return "dict", [part for pair in value.items() for part in pair]
    for kind, many in _MANY.items():
        if type(value) is many:
            return kind, list(value)
    for kind, (type_, write, _) in _TEXTS.items():
        if type(value) is type_:
            return kind, [write(value)]
    name = _name(type(value))
    if kinds().get(name) is not type(value):
        raise TypeError(f"{name} cannot be sent")
    return name, [value.name] if isinstance(value, Enum) else [getattr(value, f.name) for f in fields(value)]


def _made(kind: str, parts: list[Any]) -> object:
    match kind:
        case "plain":
            return parts[0]
        case "array":
            dtype = np.dtype(parts[0])
            return np.frombuffer(base64.b64decode(parts[1]), dtype) if dtype.char in _ARRAYS else _MANY["unknown"]
        case "texts":
            return np.array(parts, dtype=object)
        case "dict":
            return dict(zip(parts[::2], parts[1::2], strict=True))
    if kind in _MANY:
        return _MANY[kind](parts)
    if kind in _TEXTS:
        return _TEXTS[kind][2](parts[0])
    type_ = kinds()[kind]
    if issubclass(type_, Enum):
        return type_[parts[0]]
    names = [f.name for f in fields(type_)]
    wrong = [n for n, part in zip(names, parts, strict=True) if not _fits(part, _hints(type_)[n])]
    if wrong:
        raise TypeError(f"{kind}.{wrong[0]}")
    return type_(**dict(zip(names, parts, strict=True)))


@cache
def kinds() -> Mapping[str, Any]:
    """The types allowed in messages: releases, contents and results, and the types of their fields."""
    found: dict[str, Any] = {}
    for root in (Priced, Content, Integers, PublicRows):
        _reach(root, found)
    return found


def _reach(hint: Any, found: dict[str, Any]) -> None:
    for inner in get_args(hint):
        _reach(inner, found)
    if not isinstance(hint, type) or not hint.__module__.startswith("dpsql."):
        return
    real: Any = getattr(sys.modules[hint.__module__], hint.__name__)
    if _name(real) not in found and (is_dataclass(real) or issubclass(real, Enum)):
        found[_name(real)] = real
        for inner in [] if issubclass(real, Enum) else _hints(real).values():
            _reach(inner, found)
    for below in real.__subclasses__():
        _reach(below, found)


def _name(type_: type) -> str:
    return f"{type_.__module__}.{type_.__name__}"


@cache
def _hints(type_: Any) -> Mapping[str, Any]:
    return get_type_hints(type_)


def _fits(value: object, hint: Any) -> bool:
    """Whether the value has the declared type, including the items of tuples and mappings."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is None:
        return hint is Any or value is None
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple:
        return isinstance(value, tuple) and _all_fit(value, inner)
    if origin is not None and issubclass(origin, Mapping):
        pairs: Iterator[tuple[Any, Any]] = iter(value.items()) if isinstance(value, dict) else iter([(BadMessage, 0)])
        return all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in pairs)
    if origin is frozenset:
        return isinstance(value, frozenset) and all(_fits(each, inner[0]) for each in value)
    if origin is not None:
        return isinstance(value, origin)
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is not int or not isinstance(value, bool))


def _all_fit(value: tuple[object, ...], inner: tuple[Any, ...]) -> bool:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return all(_fits(each, inner[0]) for each in value)
    return len(value) == len(inner) and all(map(_fits, value, inner))
