"""Text in: one read-only query as a syntax tree, or an error that says what to write instead."""

from dpsql.sql.hints import SETTING_NAMES, SETTINGS, known_dialect, read_hints, read_setting
from dpsql.sql.parameters import Parameters, meaning
from dpsql.sql.parse import parse_query
from dpsql.sql.span import refuse, span_of
from dpsql.sql.text_limits import limit_text

__all__ = [
    "SETTINGS",
    "SETTING_NAMES",
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
