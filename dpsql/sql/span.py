"""The span of a syntax node in the analyst's text, and errors that point to it."""

from __future__ import annotations

from sqlglot import exp

from dpsql.errors import Error, Span, UnsupportedQuery


def span_of(node: exp.Expr | None) -> Span | None:
    """From the first to the last token that the parser marked at or below the node."""
    if node is None:
        return None
    marks = [part.meta for part in node.walk() if "start" in part.meta]
    if not marks:
        return span_of(node.parent) if node.parent is not None else None
    return Span(min(m["start"] for m in marks), max(m["end"] for m in marks) + 1)


def name_of(node: exp.Expr) -> str:
    """A function or clause as DuckDB names it, not as the parser does."""
    if isinstance(node, exp.Anonymous):
        return node.name
    if isinstance(node, exp.GroupConcat):
        return "STRING_AGG"
    return node.sql("duckdb").partition("(")[0].strip() if isinstance(node, exp.Func) else node.key.upper()


def refuse(
    message: str,
    node: exp.Expr | Span | None,
    *,
    hint: str | None = None,
    kind: type[Error] = UnsupportedQuery,
    reason: str | None = None,
) -> Error:
    """An error about that node, for a reason of the table `dpsql.refusals`; the conductor fills in the text itself."""
    made = kind(message, hint=hint, span=node if isinstance(node, Span) else span_of(node))
    made.reason = reason
    return made
