"""What a notebook shows of answers, explanations and budgets: escaped, complete, and without a charge; and plots."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpsql.pandas
from dpsql import notebook_html as html
from dpsql import progress

EVIL = '<script>alert("x")</script>'
COLUMNS = {"age": {"min": 18, "max": 110}, "when": {"min": pd.Timestamp("2024-01-01").date(), "max": pd.Timestamp("2024-12-31").date()},
           "region": {"values": [EVIL, "a & b", "north\x07"], "nulls": True}}  # fmt: skip


@pytest.fixture
def db() -> Iterator[Any]:
    rows = 300
    frame = pd.DataFrame(
        {
            "id": np.arange(rows),
            "age": 20 + np.arange(rows) % 60,
            "region": np.resize([EVIL, "a & b", "north\x07"], rows),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(rows), unit="D"),
        }
    )
    policy = {"dataset": "town", "search": False, "budget": {"epsilon": 50}, "defaults": {"epsilon": 1},
              "tables": {"people": {"unit": "id", "max_rows_per_unit": 1, "columns": COLUMNS}}}  # fmt: skip
    with dpsql.connect({"people": frame}, policy=policy, ledger=":memory:") as made:
        yield made


class Page(HTMLParser):
    """The words of a page and the elements around them; a page that is not well nested is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.seen, self._open = "", [], []  # type: ignore[var-annotated]
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._open.append(tag)
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1] != "style":
            self.words += data

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.seen}


SQL = "SELECT region, count(*) AS n, avg(age) AS age FROM people GROUP BY region ORDER BY region"


def test_an_answer_has_values_bars_cost_and_what_is_left(db: Any) -> None:
    answer = db.query(SQL)
    page = Page(answer._repr_html_())
    for row in answer.fetchall():
        assert f"{row[1]:,}" in page.words
    assert page.words.count("±") >= 3 + 2  # a cell for each group, and the heads
    assert (
        "cost: 2.00% of your budget" in page.words
        and "spent 2.00%, left 98.00%" in page.words
        and "missing" in page.words
    )
    assert "counts as" in page.words or "clamped" in page.words
    assert "free (released before)" in Page(db.query(SQL)._repr_html_()).words
    assert db.budget().dataset.spent.epsilon == pytest.approx(1)


def test_values_of_the_data_are_escaped_everywhere(db: Any) -> None:
    for shown in (
        db.query(SQL),
        db.explain(SQL),
        db.query(f'SELECT count(*) AS "{EVIL.replace(chr(34), chr(39))}" FROM people'),
    ):
        text = shown._repr_html_()
        assert "<script" not in text and "script" not in Page(text).tags()
        assert "\x07" not in text
    assert EVIL in Page(db.query(SQL)._repr_html_()).words
    assert html.text('<a href="x">&') == "&lt;a href=&quot;x&quot;&gt;&amp;"
    assert html.element("p", "", title='"><script>') == '<p title="&quot;&gt;&lt;script&gt;"></p>'


def test_the_prompt_shows_values_with_bars_cost_and_notes(db: Any) -> None:
    answer = db.query(SQL)
    assert repr(answer) == str(answer)
    lines = str(answer).splitlines()
    assert lines[0].split() == ["region", "n", "age"] and "\x07" not in str(answer)
    for line, row in zip(lines[1:], answer.fetchall(), strict=False):
        assert f"{row[1]:,} ± " in line
    assert (
        "± is the 95% error bar of the noise" in lines
        and "cost: 2.00% of your budget" in str(answer)
        and "note: " in lines[-1]
    )
    assert "cost: free (replayed)" in str(db.query(SQL))
    assert "±" not in str(db.query("SELECT 1 AS one")) and "one" in repr(db.query("SELECT 1 AS one"))
    assert "more rows" in str(db.query("SELECT age, count(*) AS n FROM people GROUP BY age"))
    twice = db.query("SELECT count(*), count(*) FROM people")
    assert str(twice).count(" ± ") == 2 and Page(twice._repr_html_()).words.count("± ") >= 2
    assert repr(db.explain(SQL)) == str(db.explain(SQL)) and repr(db.budget()) == str(db.budget())


def test_a_long_answer_is_cut(db: Any) -> None:
    page = Page(db.query("SELECT age, count(*) AS n FROM people GROUP BY age")._repr_html_())
    assert "more rows" in page.words and sum(tag == "tr" for tag, _ in page.seen) < 70


def test_a_public_or_closed_answer_still_shows(db: Any) -> None:
    answer = db.query(SQL)
    bare = Page(db.query("SELECT 1 AS one")._repr_html_())
    assert "free" in bare.words and "±" not in bare.words
    db.close()
    assert "budget" not in Page(answer._repr_html_()).words.replace("your budget", "")


def test_an_explanation_is_a_tree_with_the_origin_of_every_bound(db: Any) -> None:
    page = Page(db.explain(SQL)._repr_html_())
    assert "declared for people.age" in page.words and "declared for people.region" in page.words
    assert "cost 2.00% of your budget" in page.words and "release over people" in page.words and "± " in page.words
    assert {"ul", "li", "details"} <= page.tags() and "SELECT" in page.words
    assert db.budget().dataset.spent.epsilon == 0


def test_a_budget_is_a_bar(db: Any) -> None:
    def width(text: str) -> float:
        return float(re.search(r"width:([\d.]+)%", text).group(1))  # type: ignore[union-attr]

    assert width(db.budget()._repr_html_()) == 0
    db.query(SQL, epsilon=25)
    page = db.budget()._repr_html_()
    assert width(page) == pytest.approx(50) and "spent 50.00%, left 50.00%" in Page(page).words
    assert "one more query" in Page(page).words


def test_a_private_frame_shows_its_columns_and_budget() -> None:
    frame = pd.DataFrame({"x": [1, 2], EVIL: [3, 4]}).dp.protect(unit="row", bounds={"x": (0, 5)}, epsilon=3)
    page = Page(frame._repr_html_())
    assert (
        "0 to 5" in page.words
        and "spent 0.00%, left 100.00%" in page.words
        and EVIL in page.words
        and "script" not in page.tags()
    )
    assert "private column x" in Page(frame.x._repr_html_()).words


def test_the_style_follows_themes() -> None:
    assert "prefers-color-scheme:dark" in html.STYLE and "--jp-content-font-color1" in html.STYLE


# plots --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def plt() -> Iterator[Any]:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def test_bars_have_error_bars_titles_and_names(db: Any, plt: Any) -> None:
    answer = db.query("SELECT region, count(*) AS n FROM people GROUP BY region")
    flat = answer.plot()  # long names lie down
    assert [bar.get_width() for bar in flat.patches] == [row[1] for row in answer.fetchall()]
    answer = db.query("SELECT upper(substring(region, 1, 2)) AS region, count(*) AS n FROM people GROUP BY 1")
    axes = answer.plot()
    assert [bar.get_height() for bar in axes.patches] == [row[1] for row in answer.fetchall()]
    assert axes.get_title(loc="left") == "n by region" and axes.get_ylabel() == "n" and axes.get_xlabel() == "region"
    assert len(axes.containers) == 2 and axes.figure.patch.get_alpha() == 0
    assert [label.get_text() for label in axes.get_xticklabels()][-1] == "missing"


def test_dates_are_a_line(db: Any, plt: Any) -> None:
    answer = db.query(
        "SELECT date_trunc('month', \"when\") AS month, count(*) AS n, avg(age) AS age FROM people GROUP BY 1 HAVING month IS NOT NULL ORDER BY 1"
    )
    axes = answer.plot()
    assert len(axes.lines) >= 2 and axes.get_legend() is not None
    assert len(answer.plot(y="n", kind="bar").patches) == len(answer)


def test_many_groups_lie_down_and_histograms_have_edges(db: Any, plt: Any) -> None:
    axes = db.query("SELECT age, count(*) AS n FROM people WHERE age < 40 GROUP BY age").plot()
    assert axes.get_ylabel() == "age" and axes.get_xlabel() == "n"
    frame = pd.DataFrame({"x": np.arange(100)}).dp.protect(unit="row", bounds={"x": (0, 100)}, epsilon=9)
    drawn = frame.x.hist(bins=4).plot()
    assert [bar.get_x() for bar in drawn.patches] == [0, 25, 50, 75]


def test_into_axes_of_ones_own_and_a_single_number(db: Any, plt: Any) -> None:
    _, axes = plt.subplots()
    assert db.query("SELECT count(*) AS n FROM people").plot(ax=axes) is axes and len(axes.patches) == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"y": "m"}, "no column"),
        ({"kind": "pie"}, "no kind"),
        ({"backend": "gnuplot"}, "no backend"),
        ({"x": "q"}, "no column"),
    ],
)
def test_a_plot_that_cannot_be(db: Any, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(dpsql.InterfaceError, match=said):
        db.query("SELECT region, count(*) AS n FROM people GROUP BY region").plot(**asked)
    with pytest.raises(dpsql.InterfaceError, match="nothing with noise"):
        db.query("SELECT 1 AS one").plot()


def test_altair_draws_the_same(db: Any) -> None:
    pytest.importorskip("altair")
    answer = db.query("SELECT region, count(*) AS n, avg(age) AS age FROM people GROUP BY region")
    drawn = answer.plot(backend="altair").to_dict()
    assert drawn["title"] if "title" in drawn else drawn["layer"][0]["title"] == "n, age by region"
    [data] = drawn["datasets"].values()
    assert [row["value"] for row in data if row["series"] == "n"] == [row[1] for row in answer.fetchall()]
    assert all(row["low"] <= row["value"] <= row["high"] for row in data)


# waiting --------------------------------------------------------------------------------------------------------------


def test_nothing_is_shown_in_scripts(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.waiting("thinking"):
        time.sleep(0.05)
    assert "".join(capsys.readouterr()) == ""


def test_a_notebook_shows_a_line_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    shown: list[str] = []

    class Handle:
        def update(self, made: Any) -> None:
            shown.append(made.data)

    def kept(made: Any, display_id: bool) -> Handle:
        shown.append(made.data)
        return Handle()

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_notebook", lambda: True)
    monkeypatch.setattr(display, "display", kept)
    until = time.monotonic() + 120
    with progress.waiting("asking <the> database"):
        while not shown and time.monotonic() < until:
            time.sleep(0.01)
    assert "asking &lt;the&gt; database" in shown[0] and shown[-1] == ""
