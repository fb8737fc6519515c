"""The README runs: its Python blocks and commands, in order, in one folder; and it names every command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tiers import need
from typer.testing import CliRunner

from dpsql.interfaces.cli.main import app
from dpsql.policy import parse_policy

README = Path(__file__).parents[2] / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.M | re.S)


def test_the_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    need("pyarrow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSQL_HISTORY", str(tmp_path / "history"))
    (tmp_path / "question.sql").write_text("SELECT count(*) FROM customers")
    names: dict[str, Any] = {}
    for kind, text in BLOCKS:
        if kind == "python":
            exec(compile(text, str(README), "exec"), names)
        elif kind == "console":
            for line in text.splitlines():
                _run(line)
    assert "hint" not in names  # the blocks define no stray names
    assert "customers_low" in capsys.readouterr().out


def _run(line: str) -> None:
    prompt, program, *arguments = shlex.split(line)
    assert (prompt, program) == ("$", "dpsql")
    done = CliRunner().invoke(app, arguments, input="")
    assert done.exit_code == 0, f"{line}\n{done.output}"


def test_there_are_blocks_of_each_kind() -> None:
    kinds = [kind for kind, _ in BLOCKS]
    assert kinds.count("python") >= 6 and kinds.count("console") >= 2 and "yaml" in kinds


def test_the_policy_is_a_policy() -> None:
    [text] = [text for kind, text in BLOCKS if kind == "yaml"]
    assert parse_policy(text).dataset == "shop"


def test_every_policy_key_is_explained() -> None:
    from dpsql.policy import Budget, Column, Defaults, Limits, Policy, Table

    section = TEXT.partition("## The policy, key by key")[2].partition("\n## ")[0]
    for model in (Policy, Budget, Limits, Defaults, Table, Column):
        for key in (name for name, field in model.model_fields.items() if not field.exclude):
            assert re.search(rf"\b{key}\b", section), f"{model.__name__}.{key}"


@pytest.mark.parametrize("command", sorted(typer.main.get_command(app).commands))  # type: ignore[attr-defined]
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"| `dpsql {command}" in TEXT


def test_every_option_of_query_is_in_the_readme() -> None:
    command = typer.main.get_command(app).commands["query"]  # type: ignore[attr-defined]
    options = [name for each in command.params for name in each.opts if name.startswith("--") and name != "--help"]
    assert len(options) > 5
    assert [name for name in options if name not in TEXT] == []


def test_the_commands_that_try_and_test_it_stand_at_the_top() -> None:
    top = TEXT.partition("## ")[0]
    assert "\npython3 -m venv .venv && .venv/bin/pip install . && .venv/bin/dpsql demo\n" in top
    assert "\npython3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest\n" in top
    every = ".venv/bin/pip install -e '.[test-all]' && .venv/bin/pytest --all -n 2"
    assert f"\n{every}\n" in top
    ci = (README.parent / ".ci" / "run").read_text()
    assert "install --quiet -e '.[test-all]'" in ci and '/pytest" --all -n 2' in ci


def test_the_changelog_begins_with_privacy() -> None:
    latest = TEXT.partition("## Changelog")[2]
    assert re.findall(r"^#### (.*)$", latest, re.M)[0] == "Privacy"


def test_the_example_runs(capsys: Any) -> None:
    names: dict[str, Any] = {"__file__": str(README.parent / "examples" / "first_steps.py"), "__name__": "example"}
    exec(Path(names["__file__"]).read_text(encoding="utf-8"), names)
    names["main"]()
    said = capsys.readouterr().out
    assert "stays_low" in said and "hint:" in said and "left for one query" in said
