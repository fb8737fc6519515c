"""Text functions. Whatever can make a text longer is limited, and no pattern takes more than linear time.

Spark matches LIKE by Java's regular expressions, which try again and again: k parts that each follow a % take time n^k.
One such part is linear. For two and three the text is limited, and a longer one gives NULL; more are not computed, and
no regular expression is.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

from dpsql.engines.sql.case_mapping import LOWERED, SEPARATORS, UPPERED
from dpsql.engines.sql.expression_rules import Emit, Rule
from dpsql.errors import UnsupportedQuery
from dpsql.expressions.expression import Call, Expression, Literal

LONGEST = 2**18
"""The most bytes that a function which lengthens a text gives; a part that is too long becomes NULL."""
SHORT = 128
"""No number, date or timestamp has a longer text."""
PATTERNED = {2: 4096, 3: 256}
"""The bytes of a text that is matched with so many parts after a %."""


def text(value: str) -> str:
    """A string constant: whatever is no plain letter is escaped, so that no setting can read it differently."""
    return "'" + "".join(map(_escaped, value)) + "'"


def _escaped(letter: str) -> str:
    if letter.isascii() and (letter.isalnum() or letter in " -_.,:;/+*()[]<>=!?@#%&|~^"):
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 2**16 else f"\\U{ord(letter):08x}"


def short(made: str, most: int) -> str:
    """The text, or NULL if it has more bytes."""
    return f"CASE WHEN octet_length({made}) <= {most} THEN {made} END"


# what makes a text longer ---------------------------------------------------------------------------------------------


def _limited(node: Expression, emit: Emit, limit: int) -> str:
    """An operand in at most `limit` bytes; a longer one is NULL."""
    if limit < SHORT:
        raise UnsupportedQuery("this would make texts that are too long", span=node.span, hint="join fewer parts")
    made = emit(node, "VARCHAR")
    if isinstance(node, Literal):
        return made if len(str(node.value or "").encode()) <= limit else "CAST(NULL AS STRING)"
    return short(made, limit)


def _leaves(node: Call) -> list[Expression]:
    """The parts of a || b || c, so that each gets its share."""
    if node.op != "join":
        return list(node.args)
    return [leaf for a in node.args for leaf in (_leaves(a) if isinstance(a, Call) and a.op == "join" else [a])]


def _joined(call: Call, emit: Emit) -> str:
    """`||` is NULL if a part is; concat and concat_ws leave such parts out."""
    leaves = _leaves(call)
    share = LONGEST // (len(leaves) * (2 if call.op == "concat_ws" else 1))
    parts = ", ".join(_limited(leaf, emit, share) for leaf in leaves)
    return f"concat_ws('', {parts})" if call.op == "concat" else f"{call.op.replace('join', 'concat')}({parts})"


def _replaced(call: Call, emit: Emit) -> str:
    """Every byte of the text may become one replacement."""
    new = call.args[2]
    longest = len(new.value.encode()) if isinstance(new, Literal) and isinstance(new.value, str) else 4 * SHORT
    limits = (LONGEST // max(longest, 1), LONGEST, max(longest, SHORT))
    return f"replace({', '.join(_limited(a, emit, most) for a, most in zip(call.args, limits, strict=True))})"


# parts of a text ------------------------------------------------------------------------------------------------------


def _plain(name: str) -> Rule:
    return lambda call, emit: f"{name}({', '.join(emit(a, 'VARCHAR') for a in call.args)})"


def _cased(node: Expression, emit: Emit, function: str, letters: Mapping[str, str]) -> str:
    """Letters changed one by one, as DuckDB does.

    Spark's own way is many times faster, and right for texts of ASCII; but that needs the text twice more, so it is for
    columns and constants only.
    """
    made = emit(node, "VARCHAR")
    changed = f"translate({made}, {text(''.join(letters))}, {text(''.join(letters.values()))})"
    if isinstance(node, Call):
        return changed
    return f"CASE WHEN octet_length({made}) = char_length({made}) THEN {function}({made}) ELSE {changed} END"


def _lower(call: Call, emit: Emit) -> str:
    return _cased(call.args[0], emit, "lower", _LOWER)


def _upper(call: Call, emit: Emit) -> str:
    return _cased(call.args[0], emit, "upper", _UPPER)


_LOWER = {**dict(zip(string.ascii_uppercase, string.ascii_lowercase, strict=True)), **LOWERED}
_UPPER = {**dict(zip(string.ascii_lowercase, string.ascii_uppercase, strict=True)), **UPPERED}


def _length(call: Call, emit: Emit) -> str:
    return f"CAST(char_length({emit(call.args[0], 'VARCHAR')}) AS BIGINT)"


def _strpos(call: Call, emit: Emit) -> str:
    return f"CAST({_plain('instr')(call, emit)} AS BIGINT)"


def _trim(side: str) -> Rule:
    def rule(call: Call, emit: Emit) -> str:
        it, *signs = (emit(a, "VARCHAR") for a in call.args)
        return f"trim({side} {signs[0] if signs else text(SEPARATORS)} FROM {it})"

    return rule


def _numbers(call: Call) -> list[int]:
    option = call.option if isinstance(call.option, tuple) else (call.option,)
    return [number for number in option if isinstance(number, int)]


def _substring(call: Call, emit: Emit) -> str:
    """Positions count from 1, so a part that starts at 0 has one letter less."""
    it, (start, *length) = emit(call.args[0], "VARCHAR"), _numbers(call)
    if start == 0:
        return f"substring({it}, 1, {max(length[0] - 1, 0)})" if length else it
    return f"substring({', '.join([it, str(start), *map(str, length)])})"


def _left(call: Call, emit: Emit) -> str:
    it, [count] = emit(call.args[0], "VARCHAR"), _numbers(call)
    return f"substring({it}, 1, {count if count >= 0 else f'greatest(char_length({it}) - {-count}, 0)'})"


def _right(call: Call, emit: Emit) -> str:
    it, [count] = emit(call.args[0], "VARCHAR"), _numbers(call)
    if count < 0:
        return f"substring({it}, {1 - count})"
    return f"substring({it}, greatest(char_length({it}) - {count}, 0) + 1)"


# patterns -------------------------------------------------------------------------------------------------------------


def pattern_of(call: Call) -> list[str] | None:
    """A pattern as letters and wildcards (% and _ stand alone, a letter that is one of them behind a backslash)."""
    words = [a.value for a in call.args[1:] if isinstance(a, Literal)]
    if not words or not all(isinstance(word, str) for word in words):
        return None
    pattern, sign = str(words[0]), str(words[1]) if len(words) > 1 else ""
    if call.op == "glob":
        return [{"*": "%", "?": "_"}.get(c, _letter(c)) for c in pattern]
    parts = re.findall(f"{re.escape(sign)}(?:.)|.", pattern, re.DOTALL) if sign else list(pattern)
    return [p if p in ("%", "_") else _letter(p[-1]) for p in parts]


def _letter(sign: str) -> str:
    return f"\\{sign}" if sign in "%_\\" else sign


def effort(parts: Sequence[str]) -> int:
    """How many parts follow a %: the power of the text's length that matching may take."""
    return len(re.findall("%+[^%]", "".join("%" if p == "%" else "x" for p in parts)))


def _like(call: Call, emit: Emit) -> str:
    parts = pattern_of(call)
    assert parts is not None
    it, pattern = emit(call.args[0], "VARCHAR"), "".join(parts)
    if "ilike" in call.op:
        it, pattern = _lower(call, emit), "".join(_LOWER.get(letter, letter) for letter in pattern)
    tries = effort(parts)
    it = short(it, PATTERNED[tries]) if tries in PATTERNED else it
    return f"({it} {'NOT ' if call.op.startswith('not_') else ''}LIKE {text(pattern)} ESCAPE {text(chr(92))})"


PATTERNS = {"like", "ilike", "glob", *(f"{no}{kind}_escape" for no in ("", "not_") for kind in ("like", "ilike"))}
RULES: dict[str, Rule] = {
    **dict.fromkeys(("join", "concat", "concat_ws"), _joined), "replace": _replaced, "length": _length,
    "strpos": _strpos, "lower": _lower, "upper": _upper, "starts_with": _plain("startswith"),
    "ends_with": _plain("endswith"), "contains": _plain("contains"), "trim": _trim("BOTH"), "ltrim": _trim("LEADING"),
    "rtrim": _trim("TRAILING"), "substring": _substring, "left": _left, "right": _right,
    **dict.fromkeys(PATTERNS, _like),
}  # fmt: skip


def computed(node: Call) -> bool:
    """Is there a total form of this very operation?"""
    if node.op in PATTERNS:
        parts = pattern_of(node)
        return parts is not None and effort(parts) <= max(PATTERNED)
    return node.op != "substring" or min(_numbers(node)[1:], default=0) >= 0
