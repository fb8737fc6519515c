"""Texts above the aggregate stay short: DuckDB builds those of 2,048 rows at once, whatever its limits are.

Whatever can make a longer text (or list) of others gets operands of limited length, so a few letters of SQL cannot
take gigabytes. What would be longer is an error, which depends on released and public values only.
"""

from __future__ import annotations

from sqlglot import exp

LONGEST = 2**14
TOO_LONG = "a text is too long"

_ELSE = f"ELSE error('{TOO_LONG}') END)[1]"
MACROS = (
    "CREATE MACRO _short(a, most) AS list_transform([a], lambda r: CASE WHEN "
    f"coalesce(strlen(CAST(r AS VARCHAR)), 0) <= most THEN r {_ELSE}",
    "CREATE MACRO _replace(a, b, c) AS list_transform([{'a': a, 'b': b, 'c': c}], lambda r: CASE WHEN "
    f"coalesce(strlen(r.a) * greatest(strlen(r.c), 1), 0) <= {LONGEST} THEN replace(r.a, r.b, r.c) {_ELSE}",
    "CREATE MACRO _regexp_replace(a, b, c, o) AS list_transform([{'a': a, 'c': c}], lambda r: CASE WHEN coalesce("
    f"(2 * strlen(r.a) + 1) * greatest(strlen(r.c), 1), 0) <= {LONGEST} THEN regexp_replace(r.a, b, r.c, o) {_ELSE}",
)
"""Macros name each operand once, so nested calls do not multiply; a group of a pattern comes back at most doubled."""

_JOINING = (exp.DPipe, exp.Concat, exp.ConcatWs, exp.Array, exp.Struct, exp.Tuple, exp.Hex, exp.ToBase64)
_REPLACING = (exp.Replace, exp.RegexpReplace)


def with_short_texts(query: exp.Expr) -> str:
    """The query as DuckDB's text, generated afresh from the tree, with the limits."""
    holder = exp.Select(expressions=[query.copy()])
    for joining in list(holder.find_all(*_JOINING)):
        if not isinstance(joining, exp.Tuple) or isinstance(joining.parent, exp.Select | exp.Alias):
            _limit_operands(joining)
    for replacing in list(holder.find_all(*_REPLACING)):
        _limit_result(replacing)
    return str(holder.expressions[0].sql("duckdb"))


def _limit_operands(node: exp.Expr) -> None:
    operands = [each for each in node.iter_expressions() if not isinstance(each, exp.DataType)]
    share = LONGEST // max(1, len(operands))
    for operand in operands:
        value = operand.expression if isinstance(operand, exp.PropertyEQ) else operand
        if not _is_short(value, share):
            value.replace(exp.Anonymous(this="_short", expressions=[value.copy(), exp.Literal.number(share)]))


def _is_short(value: exp.Expr, share: int) -> bool:
    return isinstance(value, exp.Literal | exp.Null | exp.Boolean) and 4 * len(value.name) <= share


def _limit_result(node: exp.Expr) -> None:
    operands = [node.this, node.expression, node.args.get("replacement")]
    if None in operands:
        return
    if isinstance(node, exp.RegexpReplace):
        operands.append(node.args.get("modifiers") or exp.Literal.string(""))
    name = "_replace" if isinstance(node, exp.Replace) else "_regexp_replace"
    node.replace(exp.Anonymous(this=name, expressions=operands))
