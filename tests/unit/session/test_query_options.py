"""The options of a query: one class and one set of keywords, the same for every interface."""

from __future__ import annotations

from dataclasses import fields

import pandas as pd
import pytest

import dpsql
from dpsql.options import QueryKeywords, QueryOptions

POLICY = {
    "dataset": "d",
    "budget": {"epsilon": 5},
    "tables": {"t": {"unit": "u", "max_rows_per_unit": 1, "columns": {"x": {"min": 0, "max": 10}}}},
}


def test_keywords_and_options_are_the_same() -> None:
    assert list(QueryKeywords.__annotations__) == [field.name for field in fields(QueryOptions)]


def test_options_that_are_given_go_before_others() -> None:
    settings = QueryOptions(epsilon=1, delta=1e-8, mechanism="laplace")
    assert QueryOptions(epsilon=0.5, delta=0).over(settings) == QueryOptions(0.5, 0, "laplace")
    assert QueryOptions().over(settings) == settings
    assert settings.over(QueryOptions(clipped=True)) == QueryOptions(1, 1e-8, "laplace", clipped=True)


@pytest.mark.parametrize("method", ["query", "explain", "prepare"])
def test_an_unknown_option_is_an_ordinary_type_error(method: str) -> None:
    with dpsql.connect({"t": pd.DataFrame({"u": [1], "x": [2]})}, policy=POLICY, ledger=":memory:") as db:
        with pytest.raises(TypeError, match="epsilom"):
            getattr(db, method)("SELECT count(*) FROM t", epsilom=1)
        getattr(db, method)("SELECT count(*) FROM t", epsilon=1, nonnegative=True)
