"""The reports of an audit: JSON that can be added up, a page that needs nothing else, and the command's exit code."""

from __future__ import annotations

import json
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dpsql.audit.checks import floating, neighbours, timing
from dpsql.audit.outcome import Finding, Outcome, Series
from dpsql.audit.plots import plot
from dpsql.audit.report import Report, merged, shown
from dpsql.audit.settings import Settings
from dpsql.audit.tally import Tally
from dpsql.interfaces import audit_command
from dpsql.interfaces.cli.main import app

BAD = Finding("a <vector> moved", "SELECT count(*) FROM t WHERE x < '<script>'")


def _outcome(*findings: Finding) -> Outcome:
    tally = Tally(Counter(all=7), Counter(all=5), {"clip l1": 0.5}, Counter(WHERE=7), findings=list(findings))
    return neighbours.outcome(tally)


def test_a_report_is_read_as_it_was_written_and_parts_add_up() -> None:
    one, two = Report("a", "p", (_outcome(),), 1, 2), Report("a", "p", (_outcome(BAD),), 2, 2)
    assert Report.read(one.json()) == one
    both = merged([one, Report.read(two.json())])
    assert dict(both.outcomes[0].figures)["neighbouring pairs"] == 14
    assert not both.passed
    assert json.loads(both.json())["checks"][0]["findings"][0]["what"] == BAD.what


def test_the_page_holds_findings_as_text_and_asks_for_nothing() -> None:
    page = Report("<own>", "seed 0", (_outcome(BAD),)).html()
    parser = HTMLParser()
    parser.feed(page)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "prefers-color-scheme:dark" in page


@pytest.mark.parametrize("points", [(("a", 0.5), ("b", 2.0)), ((1.0, 0.5), (2.0, 2.0)), (("only", 0.0),)])
def test_a_plot_shows_what_is_over_the_limit(points: tuple[tuple[str | float, float], ...]) -> None:
    drawn = plot(Series("t", "x", "y", points, limit=1.0))
    assert drawn.count('class="over"') == sum(1 for _, y in points if y > 1)
    assert 'class="limit"' in drawn


def test_merging_prints_the_figures_and_fails_if_something_was_found(tmp_path: Path) -> None:
    files = []
    for number, (part, findings) in enumerate(((1, ()), (2, ()), (2, (BAD,)))):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(Report("a", "p", (_outcome(*findings),), part, 2).json())
    page = tmp_path / "all.html"
    good = CliRunner().invoke(app, ["audit", "merge", str(files[0]), str(files[1]), "--html", str(page)])
    assert page.stat().st_mode & 0o077 == 0
    assert good.exit_code == 0
    assert "14" in good.output
    assert page.read_text().startswith("<!doctype html>")
    bad = CliRunner().invoke(app, ["audit", "merge", str(files[0]), str(files[2])])
    assert bad.exit_code == 1
    assert BAD.what in bad.output


@pytest.mark.parametrize(
    "words", [["--part", "3/2"], ["--check", "neighbors"], ["merge"], ["merge", "nothing.json"], ["no.duckdb"]]
)
def test_what_cannot_be_done_is_said(words: list[str]) -> None:
    assert CliRunner().invoke(app, ["audit", *words]).exit_code == 2


def test_what_only_measures_says_so_and_what_was_not_run_is_named() -> None:
    made = Report("a", "p", (Outcome("timing", (("x", 1),), judged=False),))
    assert "measured" in made.html() and "neighbours, files, blackbox, floating, totality, doors, fuzz" in made.html()
    assert Report.read(made.json()) == made and made.passed


def test_a_check_that_fails_by_itself_loses_nothing_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Outcome:
        raise ModuleNotFoundError("secret")

    monkeypatch.setattr(timing, "check", lambda *_: Outcome("timing", (("seen", 7),), judged=False))
    monkeypatch.setattr(floating, "check", fails)
    words = ["audit", "--check", "timing", "--check", "floating", "--json", str(tmp_path / "r.json")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "the check stopped: ModuleNotFoundError" in done.output and "secret" not in done.output
    assert [each["check"] for each in json.loads((tmp_path / "r.json").read_text())["checks"]] == ["timing", "floating"]


def test_a_door_that_is_not_installed_is_named_and_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_command, "find_spec", lambda name: None if name == "sqlalchemy" else object())
    made = audit_command._with_doors(Settings())
    assert "SQLAlchemy" not in made.forbidden and "dpsql query" in made.forbidden
    assert made.door_notes == ("not installed here, so no door: SQLAlchemy (pip install 'dpsql[sqlalchemy]')",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "no/such/r.json"], "there is no folder no/such to write r.json into"),
        (["--html", "no/such/r.html"], "there is no folder no/such"),
        (["--check", "neighbours", "--resume", "no/such/state"], "there is no folder no/such"),
        (["--html", "."], "is a folder"),
        (["one.json", "two.json"], "dpsql audit merge one.json two.json"),
        (["one.duckdb", "two.duckdb"], "one database is audited at a time"),
        (["postgresql://reader@host/shop"], "an audit reads a DuckDB database file, a folder of files or one file"),
        (["local[2]"], "an audit reads a DuckDB database file, a folder of files or one file"),
        (["nothing.duckdb"], "there is no file or folder nothing.duckdb"),
    ],
)
def test_what_cannot_be_audited_or_written_is_said_before_the_work(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(audit_command, "run", lambda *args: pytest.fail("it was begun"))
    done = CliRunner().invoke(app, ["audit", *words])
    assert done.exit_code == 2 and said in done.output and "hint: " in done.output


def test_figures_have_few_digits() -> None:
    assert [shown(value) for value in (0.3143770852659109, 1234, 1234.5678, "all")] == [
        "0.3144",
        "1,234",
        "1,235",
        "all",
    ]


def test_a_check_of_dpsql_itself_says_that_it_looked_at_none_of_your_data(tmp_path: Path) -> None:
    database = tmp_path / "own.duckdb"
    with duckdb.connect(str(database)) as own:
        own.execute("CREATE TABLE t AS SELECT range AS u FROM range(9)")
    (tmp_path / "policy.yaml").write_text("dataset: d\nsearch: false\nbudget: {epsilon: 1}\ntables: {t: {unit: u}}\n")
    done = CliRunner().invoke(app, ["audit", str(database), "--check", "timing", "--json", str(tmp_path / "r.json")])
    assert done.exit_code == 0 and "nothing of your database was looked at" in " ".join(done.output.split())
    assert "measured, not judged" in done.output and "nothing was found" not in done.output
    made = Report.read((tmp_path / "r.json").read_text())
    assert made.verdict == "measured" and "pairs" not in made.how
