"""Emitted SQL laid out for people: a line for each clause, and for each item of what does not fit on one line.

Engines run the SQL as it is emitted, on one line, and the mark of a release names that text
(`dpsql.budget.fingerprint`). Only `explain` shows a layout.

**Theorem.** The laid-out text has the tokens of the emitted text, in their order.
**Proof.** `_read` cuts the text into tokens and keeps each of them whole: constants and quoted names between their
quotes, everything else between spaces, brackets and commas. Every token is then written once, in order. Spaces and line
breaks are added only where the emitted text has a space, after an opening bracket, and before a closing one.
**Requires** emitted SQL without comments, in which quotes are doubled inside quotes.
**Checked by** `tests/unit/engines/test_sql_layout.py`, which compares the tokens and runs the layout of each golden
query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

WIDTH = 110
STEP = 2
DEEPEST = 60
"""SQL with more brackets inside each other than these stays on one line."""
SHORT_ITEM = 24
"""Items that are no longer share lines, as in a list of constants."""

_TOKENS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|[()\[\],]|[^\s()\[\],'"`]+""")
_CLOSES = {"(": ")", "[": "]", "CASE": "END"}
_CLAUSES = (
    ("WITH",), ("SELECT", "DISTINCT"), ("SELECT",), ("FROM",), ("LEFT", "ANTI", "JOIN"), ("LEFT", "JOIN"),
    ("FULL", "JOIN"), ("JOIN",), ("WHERE",), ("GROUP", "BY"), ("HAVING",), ("UNION", "ALL"),
)  # fmt: skip
"""What begins a line of a query."""
_QUERIES = ("SELECT", "WITH")


@dataclass(frozen=True, slots=True)
class _Group:
    """The text between brackets, or between CASE and END; `flat` is all of it on one line."""

    opening: str
    parts: tuple[_Part, ...]
    closing: str
    flat: str


@dataclass(frozen=True, slots=True)
class _Part:
    """A token or a group, and whether a space stands before it."""

    spaced: bool
    item: str | _Group

    @property
    def flat(self) -> str:
        """The part on one line, without the space."""
        return self.item if isinstance(self.item, str) else self.item.flat


def lay_out(sql: str) -> str:
    """The statement on as many lines as it takes."""
    parts = _read(sql)
    return sql if parts is None else "\n".join(_lines(parts, 0))


def _flat(parts: Sequence[_Part]) -> str:
    return "".join(f"{' ' if part.spaced and i else ''}{part.flat}" for i, part in enumerate(parts))


# reading --------------------------------------------------------------------------------------------------------------


def _read(sql: str) -> tuple[_Part, ...] | None:
    """The tokens, brackets and CASE … END as groups; None if these are nested too deeply."""
    open_: list[tuple[bool, str, list[_Part]]] = []
    here: list[_Part] = []
    end = 0
    for found in _TOKENS.finditer(sql):
        token, spaced, end = found[0], found.start() > end, found.end()
        if token in _CLOSES:
            open_.append((spaced, token, here))
            here = []
            if len(open_) > DEEPEST:
                return None
        elif open_ and token == _CLOSES[open_[-1][1]]:
            before, opening, above = open_.pop()
            above.append(_Part(before, _group(opening, tuple(here), token)))
            here = above
        else:
            here.append(_Part(spaced, token))
    return tuple(here)


def _group(opening: str, parts: tuple[_Part, ...], closing: str) -> _Group:
    space = " " if opening == "CASE" else ""
    return _Group(opening, parts, closing, f"{opening}{space}{_flat(parts)}{space}{closing}")


# writing --------------------------------------------------------------------------------------------------------------


def _lines(parts: Sequence[_Part], indent: int) -> list[str]:
    """A query, a list or an expression from this column on."""
    if len(flat := _flat(parts)) + indent <= WIDTH:
        return [" " * indent + flat]
    if parts[0].item in _QUERIES:
        return [line for keyword, clause in _clauses(parts) for line in _clause(keyword, clause, indent)]
    items = _split(parts, ",")
    if len(items) > 1:
        return _listed(items, indent)
    for word in ("OR", "AND"):
        terms = _split(parts, word)
        if len(terms) > 1:
            return [line for term in terms for line in _expression(term, indent)]
    return _expression(parts, indent)


def _clauses(parts: Sequence[_Part]) -> Iterator[tuple[Sequence[_Part], Sequence[_Part]]]:
    """The keyword of each clause of a query, and what follows it."""
    words = [part.item if isinstance(part.item, str) else "" for part in parts]
    starts = [(i, len(k)) for i in range(len(parts)) if (k := _keyword(words, i))]
    starts = [(i, n) for i, n in starts if not any(j < i < j + m for j, m in starts)]
    for (start, length), (end, _) in zip(starts, [*starts[1:], (len(parts), 0)], strict=True):
        yield parts[start : start + length], parts[start + length : end]


def _keyword(words: Sequence[str], start: int) -> tuple[str, ...]:
    return next((k for k in _CLAUSES if tuple(words[start : start + len(k)]) == k), ())


def _clause(keyword: Sequence[_Part], parts: Sequence[_Part], indent: int) -> list[str]:
    """A clause on one line, or its items below the keyword; a single table or condition begins beside it."""
    head = " " * indent + _flat(keyword)
    if not parts:
        return [head]
    if len(head) + 1 + len(_flat(parts)) <= WIDTH:
        return [f"{head} {_flat(parts)}"]
    if head.endswith(("SELECT", "DISTINCT", "WITH", "WHERE", "GROUP BY")):
        return [head, *_lines(parts, indent + STEP)]
    return _expression([*keyword, *parts], indent)


def _listed(items: Sequence[Sequence[_Part]], indent: int) -> list[str]:
    """An item on each line; many short ones share lines."""
    flats = [_flat(item) for item in items]
    if max(map(len, flats)) > SHORT_ITEM:
        return [line for item in items for line in _expression(item, indent)]
    lines, line = [], ""
    for flat in flats:
        if line and indent + len(line) + 1 + len(flat) > WIDTH:
            lines.append(" " * indent + line)
            line = ""
        line = f"{line} {flat}" if line else flat
    return [*lines, " " * indent + line]


def _split(parts: Sequence[_Part], word: str) -> list[Sequence[_Part]]:
    """Parts between commas (which stay behind their items), or from one AND or OR to the next.

    The AND of BETWEEN stays where it is.
    """
    cuts, between = [], False
    for i, part in enumerate(parts):
        if part.item == word and i and not between:
            cuts.append(i + 1 if word == "," else i)
        between = part.item == "BETWEEN" or (between and part.item != "AND")
    return [parts[a:b] for a, b in zip([0, *cuts], [*cuts, len(parts)], strict=True)]


def _expression(parts: Sequence[_Part], indent: int, head: str = "") -> list[str]:
    """One item: on one line, or with the groups that do not fit opened, each on lines of its own.

    It begins behind `head`, or at the indent.
    """
    head = head or " " * indent
    if len(head) + len(_flat(parts)) <= WIDTH:
        return [head + _flat(parts)]
    if parts[0].item == "WHEN" and len(branch := _split(parts, "THEN")) > 1:
        first, *others = _split(branch[0], "AND")
        below = [line for each in (*others, branch[1]) for line in _expression(each, indent + STEP)]
        return [*_expression(first, indent), *below]
    lines, line = [], head
    for i, part in enumerate(parts):
        line += " " if part.spaced and i else ""
        width = len(line) + len(part.flat) + len(_flat(parts[i + 1 : i + 3]))
        if isinstance(part.item, str) or len(part.flat) <= SHORT_ITEM or width < WIDTH:
            line += part.flat
            continue
        *above, line = _opened(part.item, indent, line)
        lines += above
    return [*lines, line]


def _opened(group: _Group, indent: int, head: str) -> list[str]:
    """A group on lines of its own, behind `head`; its end begins a line.

    A group that holds nothing but one expression begins and ends where that does.
    """
    if group.opening == "CASE":
        cuts = [i for i, part in enumerate(group.parts) if part.item in ("WHEN", "ELSE")]
        branches = [group.parts[a:b] for a, b in zip(cuts, [*cuts[1:], len(group.parts)], strict=True)]
        operand = _expression(group.parts[: cuts[0]], indent, f"{head}CASE ") if cuts[0] else [f"{head}CASE"]
        return [*operand, *(each for b in branches for each in _expression(b, indent + STEP)), " " * indent + "END"]
    head += group.opening
    alone = group.parts[0].item not in _QUERIES and all(len(_split(group.parts, w)) == 1 for w in (",", "OR", "AND"))
    inner = _expression(group.parts, indent, head) if alone and len(head) < WIDTH - STEP * 8 else []
    if len(inner) > 1 and len(inner[0]) <= WIDTH:
        return [*inner[:-1], inner[-1] + group.closing]
    return [head, *_lines(group.parts, indent + STEP), " " * indent + group.closing]
