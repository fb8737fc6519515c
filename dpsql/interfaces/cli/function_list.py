"""The functions and forms that may be used below an aggregate, read from the planner's allow-list."""

from __future__ import annotations

from sqlglot import exp

from dpsql.expressions.functions.conditions import SYNTAX
from dpsql.expressions.functions.datetimes import PARTS, SHIFTS, UNITS
from dpsql.expressions.functions.table import SUBJECTS, called
from dpsql.expressions.typing import CASTS
from dpsql.plan.builder.group_by import _FUNCTIONS
from dpsql.plan.builder.moments import PAIRS, SPREADS
from dpsql.plan.finishing import BARS


def listing() -> dict[str, list[str]]:
    """The allowed forms by group, in the order in which people look for them."""
    groups: dict[str, list[str]] = {"aggregates": _aggregates()}
    for subject, functions in SUBJECTS.items():
        groups[subject] = [name for f in functions for name in called(f) or f.written[:1]]
    groups["conditions"] += SYNTAX
    groups["dates"] += SHIFTS
    groups["error bars"] = [f"{name}(<aggregate>[, 0.95])" for name in BARS]
    groups["date parts"] = [part.lower() for part in PARTS]
    groups["date units"] = [unit.lower() for unit in UNITS]
    groups["types"] = ["decimal(p, s)", *_types()]
    return groups


def _types() -> list[str]:
    """As DuckDB spells them, each once."""
    return list(dict.fromkeys(exp.DataType.build(name).sql("duckdb").lower() for name in CASTS))


def _aggregates() -> list[str]:
    names = {"count(*)", "count(DISTINCT x)", "approx_count_distinct(x)"}
    for kind, name in _FUNCTIONS.items():
        names.add("count_if(…)" if kind is exp.CountIf else f"{name}(x)")
    composed = [f"{name}(x)" for name in dict.fromkeys(SPREADS.values())] + [f"{name}(y, x)" for name in PAIRS.values()]
    chosen = ["min(x)", "max(x)", "median(x)", "mode(x)", "quantile_cont(x, 0.9)", "quantile_disc(x, 0.9)"]
    chosen += [f"{name}(0.9) WITHIN GROUP (ORDER BY x)" for name in ("percentile_cont", "percentile_disc")]
    return [
        *sorted(names),
        *chosen,
        *composed,
        "rr_count(x[, value])",
        "bool_or(…)",
        "bool_and(…)",
        "… FILTER (WHERE …)",
    ]
