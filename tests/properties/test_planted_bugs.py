"""Each bug that would break the promise is planted in the product, and the checks of this folder must report it.

Without the bug the same check reports nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from itertools import permutations
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from attack.neighbours import run_block
from property_price import price_violations, shown_bias, variance_violations
from property_tight import CASES, Case, run_cases, unit_rows
from property_world import Row, make_policy, opened, traced, without_unowned
from unlocked import released, unsealed

from dpsql.answers import noise_stage
from dpsql.answers.noise_stage import Released
from dpsql.audit.comparison import compare_equal
from dpsql.audit.grammar.query_writer import Query
from dpsql.budget.pricing import Priced
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.sealed import Exact
from dpsql.engines.sql import emit, relations
from dpsql.engines.sql.clamp import Piece
from dpsql.errors import InternalError
from dpsql.mechanisms import DiscreteGaussian, DiscreteLaplace, Noise
from dpsql.plan.nodes.relation import Relation
from dpsql.policy import Policy
from dpsql.sensitivity.argument import Argument
from dpsql.sensitivity.claim import Claim
from dpsql.sensitivity.unit_weight import Term

allocate: Any = import_module("dpsql.budget.pricing")
bound: Any = import_module("dpsql.sensitivity.bound")
per_unit: Any = import_module("dpsql.plan.builder.private_select")
canonical: Any = import_module("dpsql.plan.canonical")
relate: Any = import_module("dpsql.plan.nodes.unary")
Patch = pytest.MonkeyPatch
Check = Callable[[], list[str]]


@dataclass(frozen=True, slots=True)
class Bug:
    """How a bug is planted, the check that must find it, and a word of what it must say.

    `locked`: the plan's second check stops it before anything is bounded.
    """

    name: str
    plant: Callable[[Patch], None]
    check: Check
    says: str
    locked: bool = False


# the checks -------------------------------------------------------------------------------------------------------------


def _cases(*cases: Case) -> Check:
    return lambda: [violation for _, found in run_cases(cases) for violation in found.violations]


def _rule(*rules: str) -> Check:
    """The units of these rules that have more than they may."""
    return _cases(*(case for case in CASES if case.rule in rules and len(case.rows) != 4))


def _one_query(check: Callable[..., list[str]], *queries: Query) -> Check:
    def run() -> list[str]:
        with opened({"visits": [{"x": 1.0, "note": "a", "level": 1}]}, make_policy()) as database:
            return [violation for query in queries for violation in check(database, query)]

    return run


def _reordered(sql: str, rows: Sequence[Row]) -> Check:
    """Whatever the order of the rows, the integers are the same."""

    def run() -> list[str]:
        query, seen = Query(sql, 0, "laplace", 1.0), []
        for order in permutations(rows):
            with opened({"visits": list(order)}, make_policy()) as database:
                seen.append(traced(database, query))
        return [violation for other in seen[1:] for violation in compare_equal(seen[0], other)]

    return run


def _unowned() -> list[str]:
    """Rows without owner change nothing."""
    tables = {"orders": [{"id": unit, "x": 5.0, "kind": "a", "note": "n"} for unit in (1, 2, None, None)]}
    found = []
    with opened(tables, make_policy()) as one, opened(without_unowned(tables), make_policy()) as two:
        for sql in ("SELECT count(*) FROM orders", "SELECT note, count(*) FROM orders GROUP BY note",
                    "SELECT sum(t) FROM (SELECT id, sum(x) AS t FROM orders GROUP BY id)"):  # fmt: skip
            query = Query(sql, 0, "gaussian", 1.0)
            found += compare_equal(traced(one, query), traced(two, query))
    return found


def _price(*sql: str, epsilons: Sequence[float] = (1.0,)) -> Check:
    queries = [
        Query(text, 0, mechanism, epsilon)
        for text in sql
        for mechanism in ("laplace", "gaussian")
        for epsilon in epsilons
    ]
    return _one_query(price_violations, *queries)


_BY_NOTE = "SELECT note, count(*), avg(x) FROM visits GROUP BY note"
_BY_DAY = "SELECT day, level, count(*) FROM visits GROUP BY day, level"
_ACROSS = "SELECT note, count(*) FROM orders GROUP BY note"
_OUTSIDE = Case("row", "SELECT kind, sum(x) FROM visits GROUP BY kind", "visits", unit_rows(1, x=1e6))
_COLUMN = replace(_OUTSIDE, sql="SELECT sum(x) FROM visits")
_TWICE = Case("", "SELECT kind, count(*) FROM members GROUP BY kind", "members", unit_rows(6, "abc"))
_TWO_KEYS = Case(
    "",
    "SELECT sum(t) FROM (SELECT id, kind, sum(x) AS t FROM orders GROUP BY id, kind) AS u",
    "orders",
    unit_rows(6, "abcdef"),
)
_MANY_KEYS = tuple(Case("clip", "SELECT day, count(*) FROM orders GROUP BY day", "orders", unit_rows(days, by_day=True), epsilon=0.001)
                   for days in (77, 83, 89))  # fmt: skip
_CANCELLING = [{"wide": value} for value in (1e199, -1e199, -1e182)]


# the bugs ---------------------------------------------------------------------------------------------------------------


def _raw(argument: Argument, value: str) -> str:
    """The value on its grid, wherever it lies."""
    return f"TRY_CAST(round(CAST({value} AS DOUBLE) * {float(1 / argument.grid)!r}) AS BIGINT)"


def _no_clamp(patch: Patch) -> None:
    def raw(dialect: object, argument: Argument, value: str, *, otherwise: str = "NULL") -> str:
        return f"coalesce({_raw(argument, value)}, {otherwise})"

    patch.setattr(emit, "clamped", raw)


def _no_clamp_of_a_column(patch: Patch) -> None:
    patch.setattr(emit, "pieces", lambda dialect, argument, value: (Piece("TRUE", _raw(argument, value)),))


def _float_sums(patch: Patch) -> None:
    def real(dialect: object, argument: Argument, value: str, *, otherwise: str = "NULL") -> str:
        low, high, grid = (
            float(x) for x in (argument.lower * argument.grid, argument.upper * argument.grid, argument.grid)
        )
        return f"coalesce(least(greatest({value}, {low!r}), {high!r}) / {grid!r}, {otherwise})"

    _rewrite(
        patch,
        emit,
        "_statistics",
        lambda text: re.sub(r"coalesce\((s\d), 0\)", r"CAST(floor(coalesce(\1, 0)) AS HUGEINT)", text),
    )
    patch.setattr(emit, "clamped", real)


def _rewrite(patch: Patch, module: Any, function: str, change: Callable[[str], str]) -> None:
    """Change the SQL that an emitter gives, be it one text or a list of them."""
    original = getattr(module, function)

    def changed(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        return change(made) if isinstance(made, str) else [change(text) for text in made]

    patch.setattr(module, function, changed)


def _no_group_cap(patch: Patch) -> None:
    _rewrite(patch, emit, "_clip_pairs", lambda text: re.sub(r"<= \d+ THEN", "<= 1000000 THEN", text))


def _pooled(patch: Patch) -> None:
    original = relations._scan
    patch.setattr(relations, "_scan", lambda *args: replace(original(*args), where=()))


def _no_weight(patch: Patch) -> None:
    patch.setattr(emit, "_weight", lambda dialect, terms, total: str(emit.ONE))


def _weight_per_row(patch: Patch) -> None:
    original = emit._weight

    def each(dialect: object, terms: Sequence[Term], total: dict[str, str]) -> str:
        return original(dialect, terms, dict.fromkeys(total, "1"))

    patch.setattr(emit, "_weight", each)


def _weight_per_group(patch: Patch) -> None:
    def grouped(text: str) -> str:
        return (
            text.replace("w AS (SELECT u,", "w AS (SELECT u, k0,")
            .replace("FROM c GROUP BY u)", "FROM c GROUP BY u, k0)")
            .replace("USING (u)", "USING (u, k0)")
        )

    _rewrite(patch, emit, "_clip_rows", grouped)


def _smaller_scale(patch: Patch) -> None:
    laplace, gaussian = DiscreteLaplace.for_epsilon, DiscreteGaussian.for_rho

    def shrunk(law: type[Any], made: Noise) -> Any:
        return law(Fraction(made.scale.numerator * 4 // 5, made.scale.denominator))

    patch.setattr(
        DiscreteLaplace, "for_epsilon", classmethod(lambda cls, *args: shrunk(DiscreteLaplace, laplace(*args)))
    )
    patch.setattr(
        DiscreteGaussian, "for_rho", classmethod(lambda cls, *args: shrunk(DiscreteGaussian, gaussian(*args)))
    )


def _smaller_draws(patch: Patch) -> None:
    original = Noise.sample
    patch.setattr(Noise, "sample", lambda self, n: np.rint(0.8 * original(self, n)).astype(np.int64))


def _double_delta(patch: Patch) -> None:
    original = allocate.threshold
    patch.setattr(allocate, "threshold", lambda law, weights, delta: original(law, weights, 2 * delta))


def _continuous_threshold(patch: Patch) -> None:
    def smooth(law: Noise, weights: Sequence[int], delta: float) -> int:
        reached = []
        for groups, weight in enumerate(weights, 1):
            each = -math.expm1(math.log1p(-delta) / groups)
            far = -math.log(2 * each) if isinstance(law, DiscreteLaplace) else -NormalDist().inv_cdf(each)
            reached.append(weight + float(law.scale) * far)
        return math.ceil(max(reached))

    patch.setattr(allocate, "threshold", smooth)


def _believed(patch: Patch) -> None:
    def declared(self: DuckDBEngine, policy: Policy) -> frozenset[tuple[str, str]]:
        return frozenset((name, policy.unique_fact(name)) for name, table in policy.tables.items() if table.unique)

    patch.setattr(DuckDBEngine, "constraints", declared)


def _one_noise(patch: Patch) -> None:
    def biased(priced: Priced, sealed: Exact) -> Released:
        exact = unsealed(sealed)
        assert priced.selection is not None and priced.threshold is not None and exact.selection is not None
        drawn = priced.selection.noise.sample(len(exact.selection))
        shown = np.flatnonzero(exact.selection + drawn >= priced.threshold)
        return released(
            priced, tuple(exact.keys[i] for i in shown), tuple(v[shown] + drawn[shown] for v in exact.values)
        )

    patch.setattr(noise_stage, "add_noise", biased)


def _no_inflation(patch: Patch) -> None:
    def coarser(self: Claim, shift: int) -> Claim:
        linf, l1, l2 = (-(-norm // 2**shift) for norm in (self.linf, self.l1, self.l2))
        return Claim(self.l0, linf, l1, l2, self.reach)

    patch.setattr(Claim, "coarser", coarser)


def _half_a_pair(patch: Patch) -> None:
    original = bound._joint

    def halved(statistics: Any) -> Claim:
        made: Claim = original(statistics)
        return made if len(statistics) == 1 else replace(made, l1=made.l1 // 2, l2=made.l2 // 2)

    patch.setattr(bound, "_joint", halved)


def _grouped_by_name(patch: Patch) -> None:
    """A subquery that groups by the unit is taken for one row per unit, whatever else it groups by."""
    original = relate.unit_grouped

    def single(*args: Any) -> Relation:
        made: Relation = original(*args)
        return replace(made, single=True, fields=tuple(replace(f, attribute=True) for f in made.fields))

    for module in (per_unit, canonical):
        patch.setattr(module, "unit_grouped", single)


BUGS = (
    Bug("no clamp", _no_clamp, _cases(_OUTSIDE), "linf"),
    Bug("no clamp of a column", _no_clamp_of_a_column, _cases(_COLUMN), "linf"),
    Bug("float sums", _float_sums, _reordered("SELECT flag, sum(wide) FROM visits GROUP BY flag", _CANCELLING), "sum0 differs"),
    Bug("no group cap", _no_group_cap, _rule("selection"), "selection: l0"),
    Bug("NULL owners pooled", _pooled, _unowned, "differs"),
    Bug("weight ignored", _no_weight, _rule("one_group", "clip"), "l1"),
    Bug("weight per row", _weight_per_row, _rule("one_group", "clip"), "l1"),
    Bug("weight per group", _weight_per_group, _rule("clip"), "l1"),
    Bug("scale 0.8 times", _smaller_scale, _price(_BY_NOTE, "SELECT avg(x), sum(debt) FROM visits"), "is spent"),
    Bug("draws 0.8 times", _smaller_draws, _one_query(variance_violations, Query(_BY_DAY, 0, "laplace", 0.01), Query(_BY_DAY, 0, "gaussian", 0.1)),
        "variance"),
    Bug("delta doubled", _double_delta, _price(_BY_NOTE, _ACROSS), "thresholds expose"),
    Bug("continuous threshold", _continuous_threshold, _price("SELECT note FROM visits GROUP BY note", epsilons=(1.01, 2.02)), "thresholds expose"),
    Bug("threshold on the number shown", _one_noise, _one_query(shown_bias, Query("SELECT note, count(*) FROM visits GROUP BY note", 1, "laplace", 1.0)),
        "off by"),
    Bug("unverified unique believed", _believed, _cases(_TWICE), "l1"),
    Bug("floor inflation forgotten", _no_inflation, _cases(*_MANY_KEYS), "l1"),
    Bug("joint claim halved", _half_a_pair, _rule("row", "single_row"), "above"),
    Bug("one row per group taken for one per unit", _grouped_by_name, _cases(_TWO_KEYS), "l1", locked=True),
)  # fmt: skip


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_reported(bug: Bug, monkeypatch: Patch) -> None:
    assert bug.check() == []
    bug.plant(monkeypatch)
    if bug.locked:
        with pytest.raises(InternalError, match=r"not proved|not looked up|more than once|rows per unit"):
            bug.check()
        monkeypatch.setattr(bound, "check_facts", lambda *args: None)
    assert any(bug.says in violation for violation in bug.check())


@pytest.mark.parametrize("plant", [_no_clamp, _no_weight, _no_group_cap, _pooled, _believed, _half_a_pair],
                         ids=lambda plant: plant.__name__.strip("_"))  # fmt: skip
def test_the_random_search_finds_it_too(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """Without being told where to look; the search stops at the first violation."""
    plant(monkeypatch)
    assert any(run_block(0, number, queries=12).findings for number in range(24))
