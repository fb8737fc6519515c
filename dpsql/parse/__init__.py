"""Text to syntax tree: one read-only query, or an error that says what to write instead."""

from dpsql.parse.asked import SETTINGS, known_dialect, read_hints, read_setting
from dpsql.parse.limits import limit_text
from dpsql.parse.parameters import Parameters, meaning
from dpsql.parse.parse import parse_query
from dpsql.parse.span import refuse, span_of

__all__ = [
    "SETTINGS",
    "Parameters",
    "known_dialect",
    "limit_text",
    "meaning",
    "parse_query",
    "read_hints",
    "read_setting",
    "refuse",
    "span_of",
]
