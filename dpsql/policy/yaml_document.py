"""Reads YAML with line numbers. Keys stay text, and numbers stay exact.

PyYAML parses the text into nodes; the values are made here. A YAML 1.2 library such as ruamel.yaml would need the same
code: its own rules turn 1e-6 into a float and `no` into text without a warning, and its errors have other texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import yaml

from dpsql.policy.policy_values import Mistake, Path

_TAG = "tag:yaml.org,2002:"
_SWITCHES = frozenset({"yes", "no", "on", "off"})


class _Loader(yaml.SafeLoader):
    """Plain scalars as people read them.

    YAML 1.1 takes 1e-6 for a text, 010 for eight and 12:30 for 750.
    Here the first is a number and the other two are texts.
    """

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - as PyYAML declares it


_WHOLE = r"(?:0|[1-9][0-9_]*)"
_CLOCK = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:z|[-+]\d\d:\d\d)?"
_PLAIN = {
    "bool": ("true|false|yes|no|on|off", "tTfFyYnNoO"),
    "int": (rf"[-+]?{_WHOLE}", "-+0123456789"),
    "float": (rf"[-+]?(?:(?:{_WHOLE}?\.[0-9_]+|{_WHOLE}\.?)(?:e[-+]?[0-9]+)?|\.inf)|\.nan", "-+.0123456789"),
    "null": ("~|null", "~nN"),
    "timestamp": (rf"\d{{4}}-\d\d-\d\d(?:[t ]{_CLOCK})?", "0123456789"),
}
for _tag, (_pattern, _first) in _PLAIN.items():
    _Loader.add_implicit_resolver(_TAG + _tag, re.compile(rf"^(?:{_pattern})$", re.IGNORECASE), list(_first))
_Loader.add_implicit_resolver(_TAG + "null", re.compile("^$"), [""])


def read_document(text: str) -> Document:
    """Read one YAML document; mistakes are collected, not raised."""
    document = Document()
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        document.mistakes.append(_syntax(document, error))
        return document
    if node is not None:
        document.data = _Reader(document).read(node, ())
    return document


def _syntax(document: Document, error: yaml.YAMLError) -> Mistake:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        document.lines[()] = mark.line + 1
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return Mistake((), f"this is not YAML: {reason}", "check the indentation, colons and brackets there")


class _Reader:
    """Turns nodes into values, noting lines and mistakes on the way."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.open: list[yaml.Node] = []

    def read(self, node: yaml.Node, path: Path) -> Any:
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if any(node is each for each in self.open):
            return self.wrong(
                path, "an alias refers to the mapping or list that contains it", "write the part out instead"
            )
        self.open.append(node)
        try:
            return self.convert(node, path)
        finally:
            self.open.pop()

    def convert(self, node: yaml.Node, path: Path) -> Any:
        if isinstance(node, yaml.MappingNode):
            return dict(self.entries(node, path))
        if isinstance(node, yaml.SequenceNode):
            return [self.read(each, (*path, position)) for position, each in enumerate(node.value)]
        return self.scalar(node, path)

    def entries(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, Any]]:
        """Keys are names, whatever YAML would make of `no` or `2024`; each may stand once."""
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.document.lines.setdefault(path, key.start_mark.line + 1)
                self.wrong(path, "a key must be a name", "write `name: …`")
                continue
            line = key.start_mark.line + 1
            inner = (*path, key.value)
            if key.value in seen:
                first = seen[key.value]
                reason = f"the key appears twice, on lines {first} and {line}"
                self.wrong(inner, reason, "keep one of the two")
                continue
            seen[key.value] = line
            self.document.lines[inner] = line
            yield key.value, self.read(value, inner)

    def scalar(self, node: yaml.Node, path: Path) -> Any:
        text = str(node.value)
        tag = node.tag.removeprefix(_TAG)
        if tag == "bool" and "values" in path[-2:-1] and text.lower() in _SWITCHES:
            return self.wrong(
                path,
                f"YAML reads {text} as {str(_boolean(text)).lower()}",
                f"write '{text}' in quotes for a text, or true and false for a boolean column",
                instead=text,
            )
        try:
            return _READERS[tag](text)
        except KeyError:
            return self.wrong(path, f"the tag {node.tag} is not known here", "write the plain value")
        except ValueError as error:
            return self.wrong(path, f"{text} cannot be read: {error}", "write it in quotes if it is a text")

    def wrong(self, path: Path, reason: str, fix: str, instead: Any = None) -> Any:
        self.document.mistakes.append(Mistake(path, reason, fix))
        return instead


def _boolean(text: str) -> bool:
    return text.lower() in {"true", "yes", "on"}


def _number(text: str) -> Decimal:
    return Decimal(text.lower().replace(".inf", "inf").replace(".nan", "nan").replace("_", ""))


def _moment(text: str) -> date:
    return date.fromisoformat(text) if len(text) == len("2024-12-31") else datetime.fromisoformat(text.upper())


_READERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "null": lambda _: None,
    "bool": _boolean,
    "int": int,
    "float": _number,
    "timestamp": _moment,
}


# the text as data with line numbers; a policy given as a dict needs no YAML


@dataclass(slots=True)
class Document:
    """What a YAML text says, the line of each key, and what is wrong with the text as YAML."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def line(self, path: Path) -> int | None:
        """The line of a key, or of the nearest key above it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)
