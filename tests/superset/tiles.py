"""The charts and the dashboard of the tour, as Superset's pages send them to its REST interface."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

TITLE, FILTER = "The shop, privately", "Category"


@dataclass(frozen=True)
class Tile:
    """A chart: what it shows, and what has to be seen on its page."""

    title: str
    picture: str
    kind: str
    rows: int
    words: tuple[str, ...]
    drawn: str
    form: dict[str, Any] = field(default_factory=dict)

    def chart(self, dataset: int) -> dict[str, Any]:
        """The body of a new chart."""
        form = {"datasource": f"{dataset}__table", "viz_type": self.kind, "row_limit": 1000, **self.form}
        return {
            "slice_name": self.title, "viz_type": self.kind, "datasource_id": dataset, "datasource_type": "table",
            "params": json.dumps(form),
        }  # fmt: skip


def aggregate(function: str, column: str) -> dict[str, Any]:
    """A metric, as the page's own form makes it."""
    label = f"{function.lower()} {column}"
    return {"expressionType": "SIMPLE", "aggregate": function, "column": {"column_name": column}, "label": label}


ALWAYS = {
    "clause": "WHERE", "subject": "placed", "operator": "TEMPORAL_RANGE", "comparator": "No filter",
    "expressionType": "SIMPLE",
}  # fmt: skip
MONTHS = Tile(
    "Orders by month", "chart_months", "echarts_timeseries_bar", 12, ("2024-01-01", "2024-12-01"), "canvas",
    {"x_axis": "placed", "time_grain_sqla": "P1M", "metrics": ["count"], "groupby": [], "adhoc_filters": [ALWAYS]},
)  # fmt: skip
CATEGORIES = Tile(
    "Orders and baskets by category", "chart_categories", "table", 5, ("books", "food", "garden", "music", "toys"), "td",
    {"query_mode": "aggregate", "groupby": ["category"], "metrics": ["count", aggregate("AVG", "amount")]},
)  # fmt: skip
STATUS = Tile(
    "Orders by status", "chart_status", "pie", 3, (), "canvas", {"groupby": ["status"], "metric": "count"}
)  # fmt: skip


def ends_of(dataset: int, column: str) -> dict[str, Any]:
    """The query of a range picker."""
    metrics = [
        {"expressionType": "SQL", "sqlExpression": f"{name}({column})", "label": name.lower()}
        for name in ("MIN", "MAX")
    ]
    query = {"columns": [], "metrics": metrics}
    return {"datasource": {"id": dataset, "type": "table"}, "queries": [query], "result_format": "json"}


def dashboard(dataset: int, charts: Sequence[int]) -> dict[str, Any]:
    """A dashboard of one row, with a filter of categories."""
    layout: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"id": "ROOT_ID", "type": "ROOT", "children": ["GRID_ID"]},
        "GRID_ID": {"id": "GRID_ID", "type": "GRID", "children": ["ROW"], "parents": ["ROOT_ID"]},
        "ROW": {
            "id": "ROW", "type": "ROW", "children": [f"CHART-{each}" for each in charts],
            "parents": ["ROOT_ID", "GRID_ID"], "meta": {"background": "BACKGROUND_TRANSPARENT"},
        },
    }  # fmt: skip
    for each in charts:
        layout[f"CHART-{each}"] = {
            "id": f"CHART-{each}", "type": "CHART", "children": [], "parents": ["ROOT_ID", "GRID_ID", "ROW"],
            "meta": {"chartId": each, "width": 12 // len(charts), "height": 50},
        }  # fmt: skip
    chosen = {
        "id": "NATIVE_FILTER-category", "name": FILTER, "type": "NATIVE_FILTER", "filterType": "filter_select",
        "targets": [{"datasetId": dataset, "column": {"name": "category"}}], "cascadeParentIds": [],
        "scope": {"rootPath": ["ROOT_ID"], "excluded": []}, "defaultDataMask": {"extraFormData": {}, "filterState": {}},
        "controlValues": {"multiSelect": True, "enableEmptyFilter": False, "searchAllOptions": False},
    }  # fmt: skip
    settings = {"native_filter_configuration": [chosen], "positions": layout}
    return {"dashboard_title": TITLE, "position_json": json.dumps(layout), "json_metadata": json.dumps(settings)}
