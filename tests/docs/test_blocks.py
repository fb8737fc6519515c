"""The documentation runs: the Python blocks and commands of each page, in order, in a folder of their own."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pages import EXAMPLES, PAGES, ROOT, Block, blocks, inline_code, name_of
from tiers import need
from typer.testing import CliRunner

import dpsql
from dpsql.interfaces.cli.demo import make_shop
from dpsql.interfaces.cli.main import app
from dpsql.policy import parse_policy

RUN = [page for page in PAGES if any(block.kind in ("python", "console") for block in blocks(page))]
MAKE_SHOP = "$ dpsql demo --keep shop"
by_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "shop"
    folder.mkdir()
    make_shop(folder)
    return folder


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_blocks_of_a_page_run_in_order(
    page: Path, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the README the demo makes the shop; the other pages find it there. A block with a title is written into that file."""
    need("pyarrow", "polars")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSQL_HISTORY", str(tmp_path / "history"))
    monkeypatch.setenv("DPSQL_STEWARD", "the test")
    (tmp_path / "question.sql").write_text("SELECT count(*) FROM customers")
    if page.name != "README.md":
        shutil.copytree(shop, tmp_path / "shop")
    names: dict[str, Any] = {}
    for block in blocks(page):
        _run(block, page, names)


def _run(block: Block, page: Path, names: dict[str, Any]) -> None:
    if block.title:
        Path(block.title).write_text(block.text, encoding="utf-8")
    elif block.kind == "python":
        exec(compile(block.text, str(page), "exec"), names)
    elif block.kind == "console":
        for line in block.text.splitlines():
            if line != MAKE_SHOP or page.name == "README.md":
                _run_command(line)


def _run_command(line: str) -> None:
    prompt, program, *arguments = shlex.split(line)
    assert (prompt, program) == ("$", "dpsql")
    done = CliRunner().invoke(app, arguments, input="")
    assert done.exit_code == 0, f"{line}\n{done.output}"


def test_the_pages_that_should_run_do() -> None:
    names = {name_of(page) for page in RUN}
    assert {
        "README.md",
        "docs/analysts.md",
        "docs/stewards.md",
        "docs/python.md",
        "docs/reference/commands.md",
    } <= names


@by_page
def test_blocks_that_are_not_run_are_python_all_the_same(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "py":
            ast.parse(block.text)


@by_page
def test_every_block_says_what_it_is(page: Path) -> None:
    """Languages that these tests do not know would go untested."""
    known = {"python", "py", "console", "sh", "sql", "yaml", "text", "toml"}
    assert [block.kind for block in blocks(page) if block.kind not in known] == []


@by_page
def test_whole_policies_are_policies(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "yaml" and block.text.startswith("dataset:"):
            assert parse_policy(block.text).dataset


def test_the_queries_of_the_pages_are_answered(shop: Path) -> None:
    """Of those that ask the demo's shop; the page of refusals has tests of its own."""
    asked = 0
    with dpsql.connect(shop / "shop.duckdb", policy=shop / "policy.yaml", ledger=":memory:", analyst="ana") as db:
        for page in PAGES:
            for block in blocks(page):
                if block.kind == "sql" and re.match(r"SELECT|WITH|FROM", block.text):
                    assert db.explain(block.text).cost.epsilon > 0, (name_of(page), block.text)
                    asked += 1
    assert asked >= 7


# commands that are named ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=name_of)
def test_the_commands_that_a_page_shows_exist(page: Path) -> None:
    """In blocks with all of their options, and in the text."""
    for block in blocks(page):
        if block.kind in ("sh", "console", "text", ""):
            for line in block.text.splitlines():
                if re.match(r"(\$ |> )?dpsql [a-z]", line):
                    _check_command(line.removeprefix("$ ").removeprefix("> "))
    for code in inline_code(page):
        if re.match(r"dpsql [a-z]+( |$)", code):
            _check_command(code)


def _check_command(line: str) -> None:
    words = shlex.split(line.replace("…", "x").replace("|", " | "), comments=True)[1:]
    command: Any = typer.main.get_command(app)
    while words and (below := getattr(command, "commands", None)):
        names = words.pop(0).split("|")
        assert set(names) <= set(below), f"{line}: there is no command {names}"
        command = below[names[0]]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    used = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    assert [name for name in used if name not in {*options, "--help"}] == [], line


def test_every_command_has_its_place_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for below in getattr(command, "commands", None) or [""]:
            assert f"### dpsql {name} {below}".rstrip() + "\n" in page


# SQLAlchemy and the example --------------------------------------------------------------------------------------------


def test_the_block_about_sqlalchemy_runs(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    registry = pytest.importorskip("sqlalchemy.dialects").registry
    registry.register("dpsql", "dpsql.interfaces.sqlalchemy_dialect", "DpsqlDialect")
    [block] = [each for each in blocks(ROOT / "docs" / "python.md") if "create_engine" in each.text]
    shutil.copytree(shop, tmp_path / "shop")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(block.text, "docs/python.md", "exec"), names)
    assert "north" in capsys.readouterr().out
    names["engine"].dispose()


def test_the_example_runs(capsys: Any) -> None:
    names: dict[str, Any] = {"__file__": str(ROOT / "examples" / "first_steps.py"), "__name__": "example"}
    exec(Path(names["__file__"]).read_text(encoding="utf-8"), names)
    names["main"]()
    said = capsys.readouterr().out
    assert "stays_low" in said and "hint:" in said and "of your budget" in said
