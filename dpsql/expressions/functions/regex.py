"""Which regular expressions are taken: a part of RE2's grammar that cannot fail to compile and stays small.

A pattern is a constant of the query, so that nothing about it depends on data; RE2 takes linear time in the text.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_LENGTH = 500
MOST_REPEATED = 100
MOST_SIZE = 2_000
MOST_DEPTH = 20
_CLASSES = set("dDwWsS")
_PLACES = set("bBAz")
_CONTROLS = set("tnrf")
_PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
_SPECIAL = set("*+?{}()|[]\\^$.")


class Rejected(Exception):
    """A pattern outside the grammar; the message says where."""


@dataclass(slots=True)
class PatternReader:
    """A recursive descent; `size` counts atoms times how often they are repeated."""

    text: str
    place: int = 0
    groups: int = 0
    depth: int = 0

    def peek(self) -> str:
        """The next character, or nothing."""
        return self.text[self.place : self.place + 1]

    def take(self) -> str:
        """The next character, which is consumed."""
        made = self.peek()
        if not made:
            raise Rejected("ends too early")
        self.place += 1
        return made

    def alternatives(self) -> int:
        """a|b|c"""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise Rejected("is nested too deeply")
        size = self.sequence()
        while self.peek() == "|":
            self.take()
            size += 1 + self.sequence()
        self.depth -= 1
        return size

    def sequence(self) -> int:
        """Atoms one after the other, each with its repetition."""
        size = 0
        while self.peek() and self.peek() not in "|)":
            one, fixed = self.atom()
            size += one if fixed else one * self.repetition()
            if size > MOST_SIZE:
                raise Rejected("is too large once its repetitions are written out")
        return size

    def atom(self) -> tuple[int, bool]:
        """Its size, and whether it is a place, which cannot be repeated."""
        sign = self.take()
        if sign == "(":
            return self.group(), False
        if sign == "[":
            return self.set(), False
        if sign == "\\":
            escaped = self.take()
            if escaped in _PLACES:
                return 1, True
            if escaped not in _CLASSES | _CONTROLS | _PUNCTUATION:
                raise Rejected(f"has \\{escaped}, which is not taken")
            return 1, False
        if sign in "^$":
            return 1, True
        if sign != "." and sign in _SPECIAL:
            raise Rejected(f"has a {sign} where it means nothing; write \\{sign}")
        return 1, False

    def group(self) -> int:
        """(…), (?:…) or (?i:…)"""
        if self.peek() == "?":
            self.take()
            flag = self.take()
            if flag in "is":
                flag = self.take()
            if flag != ":":
                raise Rejected("has a group of a kind that is not taken; write (?:…)")
        else:
            self.groups += 1
        size = self.alternatives()
        if self.peek() != ")":
            raise Rejected("has a bracket that is not closed")
        self.take()
        return size + 1

    def set(self) -> int:
        """[a-z], [^…]"""
        if self.peek() == "^":
            self.take()
        members = 0
        while self.peek() != "]" or not members:
            low = self.member()
            if low is not None and self.peek() == "-" and self.text[self.place + 1 : self.place + 2] not in ("]", ""):
                self.take()
                high = self.member()
                if high is None or high < low:
                    raise Rejected("has a range of letters that is the wrong way round")
            members += 1
        self.take()
        return 2

    def member(self) -> str | None:
        """One letter of a set; None for a class, such as that of digits."""
        sign = self.take()
        if sign == "\\":
            escaped = self.take()
            if escaped in _CLASSES:
                return None
            if escaped not in _CONTROLS | _PUNCTUATION:
                raise Rejected(f"has \\{escaped}, which is not taken")
            return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escaped, escaped)
        if sign in "[]^":
            raise Rejected(f"has a {sign} inside […]; write \\{sign}")
        return sign

    def repetition(self) -> int:
        """How often the atom before may count: * + ? {2} {2,5} {2,}, each also lazy."""
        most = 1
        if self.peek() and self.peek() in "*+?":
            most = 2 if self.take() == "+" else 1
        elif self.peek() == "{":
            most = self.counted()
        else:
            return 1
        if self.peek() == "?":
            self.take()
        if self.peek() and self.peek() in "*+?{":
            raise Rejected("repeats a repetition")
        return most

    def counted(self) -> int:
        """{2}, {2,} or {2,5}"""
        end = self.text.find("}", self.place)
        low, comma, high = self.text[self.place + 1 : max(end, self.place + 1)].partition(",")
        numbers = [n for n in (low, high) if n]
        if end < 0 or not low or not all(n.isascii() and n.isdigit() and len(n) < 4 for n in numbers):
            raise Rejected("has a { that is no repetition; write \\{")
        sizes = [int(n) for n in numbers]
        if max(sizes) > MOST_REPEATED or sizes != sorted(sizes):
            raise Rejected(f"repeats more than {MOST_REPEATED} times, or the wrong way round")
        self.place = end + 1
        return max(sizes) + (1 if comma and not high else 0) or 1


def groups_of(pattern: str) -> int:
    """The number of groups of a pattern that is taken; raises Rejected for any other."""
    if len(pattern) > MOST_LENGTH or "\0" in pattern:
        raise Rejected(f"has more than {MOST_LENGTH} characters, or a NUL")
    reader = PatternReader(pattern)
    reader.alternatives()
    if reader.place < len(pattern):
        raise Rejected("has a bracket that was not opened")
    return reader.groups
