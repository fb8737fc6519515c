"""Text to syntax tree: one read-only query, or an error that says what to write instead."""

from dpsql.parse.parse import parse_query
from dpsql.parse.span import refuse, span_of

__all__ = ["parse_query", "refuse", "span_of"]
