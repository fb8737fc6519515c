"""Parse exactly one SELECT; everything else is refused by name before anything is planned."""

from __future__ import annotations

import logging

from sqlglot import Dialect, exp
from sqlglot.errors import ParseError as SyntaxProblem
from sqlglot.errors import SqlglotError

from dpsql.errors import Error, ParseError, Span, UnsupportedQuery
from dpsql.sql.hints import SETTINGS
from dpsql.sql.parameters import Parameters, bind
from dpsql.sql.postgres_syntax import in_duckdb, keep
from dpsql.sql.span import refuse
from dpsql.sql.text_limits import limit_parts, limit_text, limit_tokens

DIALECTS = ("duckdb", "postgres")
UNREADABLE = (SqlglotError, RecursionError, ValueError, KeyError, IndexError, TypeError, AttributeError)
"""The exceptions of the parser and its generator on text that is not SQL."""
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

RR_COUNT = "rr_count"
"""The one aggregate that is dpsql's own: see `dpsql.plan.builder.linear_aggregates`."""


def parse_query(sql: str, parameters: Parameters | None = None, dialect: str = "duckdb") -> exp.Query:
    """The syntax tree of one read-only query, with the parameters' values as literals in it.

    The tree is in DuckDB's dialect, whichever dialect the text is written in.
    """
    limit_text(sql)
    statements = _statements(sql, parameters, dialect)
    if not statements:
        raise ParseError("there is no query", hint="write a SELECT, for example: SELECT count(*) FROM …")
    if len(statements) > 1:
        raise refuse(
            "only one query at a time is allowed",
            statements[1],
            hint="send each SELECT on its own",
            kind=ParseError,
            reason="statement",
        )
    statement = statements[0]
    if isinstance(statement, exp.Subquery):
        extra = [name for name, part in statement.args.items() if part and name not in ("this", "alias")]
        if extra:
            raise refuse(
                f"{extra[0].strip('_').upper()} after the closing bracket is not supported",
                statement,
                hint="move it inside the brackets",
                kind=ParseError,
                reason="clause",
            )
        statement = statement.unnest()
    if not isinstance(statement, exp.Query) or isinstance(statement, exp.Subquery):
        raise _wrong_kind(statement)
    limit_parts(statement)
    _check_sides(statement)
    _join_constants(statement)
    for call in [c for c in statement.find_all(exp.Anonymous) if c.name.lower() == RR_COUNT]:
        counted = exp.AnonymousAggFunc(this=RR_COUNT, expressions=call.expressions)
        counted.meta.update(call.meta)
        call.replace(counted)
    if dialect == "postgres":
        in_duckdb(statement)
    for call in list(statement.find_all(exp.Anonymous)):
        if call.name.lower() == "mean" and len(call.expressions) == 1:
            average = exp.Avg(this=call.expressions[0])
            average.meta.update(call.meta)
            call.replace(average)
    _check_written(statement)
    return statement


def _check_written(statement: exp.Expr) -> None:
    """Refuse calls such as `DATE()`, which the parser accepts without arguments but cannot write again."""
    try:
        statement.sql("duckdb")
    except UNREADABLE as problem:
        hint = "check that each function has all its arguments"
        raise ParseError("this SQL could not be parsed", hint=hint) from problem


def _check_sides(statement: exp.Expr) -> None:
    """Refuse `(t) UNION SELECT …`, a table name in brackets beside a set operation, which the parser accepts."""
    for operation in statement.find_all(exp.SetOperation):
        for side in (operation.this, operation.expression):
            if not isinstance(side, exp.Query):
                words, hint = f"{operation.key.upper()} needs a SELECT on each side", "write SELECT … FROM … there"
                raise refuse(words, side, hint=hint, kind=ParseError, reason="clause")


def _join_constants(statement: exp.Expr) -> None:
    """`'%' || 'north' || '%'`, as tools write patterns, is one text."""
    for pipe in reversed(list(statement.find_all(exp.DPipe))):
        left, right = pipe.this, pipe.expression
        if all(isinstance(side, exp.Literal) and side.is_string for side in (left, right)):
            pipe.replace(exp.Literal.string(left.name + right.name))


def _statements(sql: str, parameters: Parameters | None, dialect: str) -> list[exp.Expr]:
    try:
        return _read(sql, parameters, dialect)
    except Error:
        raise
    except SyntaxProblem as problem:
        detail = problem.errors[0] if problem.errors else {}
        raise ParseError(
            f"this SQL could not be parsed: {_reason(str(detail.get('description') or 'syntax error'))}",
            sql=sql,
            span=_span(sql, detail),
            hint=_elsewhere(sql, parameters, dialect) or "check the spelling and the brackets near the mark",
        ) from None
    except UNREADABLE as problem:
        raise ParseError("this SQL could not be parsed", hint="check quotes, brackets and nesting") from problem


def _read(sql: str, parameters: Parameters | None, name: str) -> list[exp.Expr]:
    dialect = Dialect.get_or_raise(name)
    tokens = bind(dialect.tokenize(sql), parameters)
    tokens = keep(tokens) if name == "postgres" else tokens
    limit_tokens(tokens)
    return [s for s in dialect.parser().parse(tokens, sql) if s is not None and not isinstance(s, exp.Semicolon)]


def _elsewhere(sql: str, parameters: Parameters | None, dialect: str) -> str | None:
    """The hint that the text can be read in the other dialect."""
    for other in DIALECTS:
        try:
            if other != dialect and _read(sql, parameters, other):
                return f"it can be read in another dialect: SET dpsql.dialect = '{other}', or dialect=\"{other}\""
        except (Error, *UNREADABLE):
            continue
    return None


def _reason(description: str) -> str:
    """The parser's words without its internals."""
    if description.startswith("Required keyword"):
        return "something is missing here"
    return description.partition(" but got <")[0].partition("<class")[0]


def _span(sql: str, detail: dict[str, object]) -> Span | None:
    line, column, text = detail.get("line"), detail.get("col"), str(detail.get("highlight") or " ")
    if not isinstance(line, int) or not isinstance(column, int):
        return None
    begin = sum(len(part) + 1 for part in sql.split("\n")[: line - 1])
    end = min(len(sql), begin + column)
    return Span(max(0, end - len(text)), end) if sql else None


def _wrong_kind(statement: exp.Expr) -> UnsupportedQuery | ParseError:
    name = statement.this if isinstance(statement, exp.Command) else statement.key.upper()
    hints: dict[type[exp.Expr], str] = {
        exp.Set: f"only the price and the dialect of queries can be set, by a cursor or in the shell: {SETTINGS}",
        exp.Describe: "in the shell \\d TABLE shows a table's columns",
        exp.Show: "in the shell \\tables lists the tables",
        exp.Pragma: "settings of the database belong to the steward",
    }
    hint = hints.get(type(statement), "only SELECT (also WITH … SELECT, UNION) is answered")
    if isinstance(statement, exp.DML | exp.DDL | exp.Drop | exp.Alter | exp.TruncateTable):
        hint += "; the steward writes to the database itself"
    if str(name).upper().startswith(("EXPLAIN", "SUMMARIZE")):
        hint = "use db.explain(…) or `dpsql explain` to see a query's plan, cost and error"
    if str(name).upper() == "SHOW":
        hint = hints[exp.Show]
    return refuse(f"{str(name).upper().removesuffix('TABLE')} is not a query", statement, hint=hint, reason="statement")  # type: ignore[return-value]
