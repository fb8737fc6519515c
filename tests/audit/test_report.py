"""The reports of an audit: JSON that can be added up, a page that needs nothing else, and the command's exit code."""

from __future__ import annotations

import json
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest
from attack.checks import ATTACKS
from attack.doors.interfaces import ALL_DOORS
from attack.run import app as attacks
from typer.testing import CliRunner

from dpsql.audit import neighbour_check
from dpsql.audit.outcome import AuditCheck, AuditFinding, Outcome, PlotSeries, Settings, Tally
from dpsql.audit.report import Report, merged, plot, shown
from dpsql.interfaces.cli import audit_command
from dpsql.interfaces.cli.main import app

BAD = AuditFinding("a <vector> moved", "SELECT count(*) FROM t WHERE x < '<script>'")


def _outcome(*findings: AuditFinding) -> Outcome:
    tally = Tally(Counter(all=7), Counter(all=5), {"clip l1": 0.5}, Counter(WHERE=7), findings=list(findings))
    return neighbour_check.outcome_of(tally)


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
    drawn = plot(PlotSeries("t", "x", "y", points, limit=1.0))
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
    made = Report("a", "p", (Outcome("timing", (("x", 1),), judged=False),), checks=ATTACKS)
    assert "measured" in made.html() and "neighbours, files, blackbox, floating, totality, doors, fuzz" in made.html()
    assert Report.read(made.json()) == made and made.passed


def test_a_check_that_fails_by_itself_loses_nothing_of_the_others() -> None:
    def fails(*_: object) -> Outcome:
        raise ModuleNotFoundError("secret")

    measured = Outcome("timing", (("seen", 7),), judged=False)
    checks = {"timing": AuditCheck("a figure", lambda *_: measured), "floating": AuditCheck("fails", fails)}
    made = audit_command.run_checks((), Settings(), checks, None, "d")
    assert [each.check for each in made.outcomes] == ["timing", "floating"] and not made.passed
    assert made.outcomes[1].incomplete == "the check stopped: ModuleNotFoundError: please report this as a bug"
    assert "secret" not in made.json()


def test_a_door_that_is_not_installed_is_named_and_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_command, "find_spec", lambda name: None if name == "sqlalchemy" else object())
    doors, absent = audit_command.installed_doors(ALL_DOORS)
    assert "SQLAlchemy" not in doors and "dpsql query" in doors
    (note,) = Settings(absent=absent).door_notes
    assert note == "not installed, so not tried: SQLAlchemy (pip install 'dpsql[sqlalchemy]')"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "no/such/r.json"], "there is no folder no/such to write r.json into"),
        (["--html", "no/such/r.html"], "there is no folder no/such"),
        (["--check", "neighbours", "--resume", "no/such/state"], "there is no folder no/such"),
        (["--html", "."], "is a folder"),
        (["one.json", "two.json"], "dpsql audit merge one.json two.json"),
        (["one.duckdb", "two.duckdb"], "only one database can be audited at a time"),
        (
            ["postgresql://reader@host/shop"],
            "an audit reads a DuckDB database file, a data file or a folder of data files",
        ),
        (["local[2]"], "an audit reads a DuckDB database file, a data file or a folder of data files"),
        (["nothing.duckdb"], "there is no file or folder nothing.duckdb"),
        ([], "name the database to audit"),
    ],
)
def test_what_cannot_be_audited_or_written_is_said_before_the_work(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(audit_command, "run_checks", lambda *args: pytest.fail("it was begun"))
    done = CliRunner().invoke(app, ["audit", *words])
    assert done.exit_code == 2 and said in done.output and "hint: " in done.output


def test_figures_have_few_digits() -> None:
    assert [shown(value) for value in (0.3143770852659109, 1234, 1234.5678, "all")] == [
        "0.3144",
        "1,234",
        "1,235",
        "all",
    ]


def test_the_attacks_need_no_database_and_a_measurement_is_not_judged(tmp_path: Path) -> None:
    done = CliRunner().invoke(attacks, ["--check", "timing", "--json", str(tmp_path / "r.json")])
    assert done.exit_code == 0 and "measured, not judged" in done.output and "nothing was found" not in done.output
    made = Report.read((tmp_path / "r.json").read_text(), ATTACKS)
    assert made.verdict == "measured" and "pairs" not in made.how and made.subject == "the built-in worlds"
    assert CliRunner().invoke(attacks, ["own.duckdb"]).exit_code == 2


def test_the_attacks_and_their_data_are_no_part_of_the_command_for_stewards(tmp_path: Path) -> None:
    database = tmp_path / "own.duckdb"
    with duckdb.connect(str(database)) as own:
        own.execute("CREATE TABLE t AS SELECT range AS u FROM range(9)")
    (tmp_path / "policy.yaml").write_text("dataset: d\nsearch: false\nbudget: {epsilon: 1}\ntables: {t: {unit: u}}\n")
    words = ["audit", str(database), "--json", str(tmp_path / "r.json")]
    wrong = CliRunner().invoke(app, [*words, "--check", "fuzz"])
    assert wrong.exit_code == 2 and "checks: neighbours, blackbox" in wrong.output
    done = CliRunner().invoke(app, [*words, "--check", "neighbours", "--pairs", "1"])
    assert done.exit_code == 0, done.output
    made = Report.read((tmp_path / "r.json").read_text())
    assert made.subject == "d" and made.not_run == ("blackbox",) and made.how == "1 pairs requested, seed 0"
