"""The tool that plants bugs is itself checked: it plants three, of which two are caught and one is harmless."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hand import bugs
from killers import Chunk, Killers
from mechanical import Module
from modules import ROOT, privacy_modules
from plant import changed_functions
from pool import Worker, workers
from score import interval, read_reasons, read_results, report
from trial import Trial

SUITE = "tests/unit/budget/test_window.py"
WINDOW = "dpsql/budget/calendar_windows.py"


@pytest.fixture(scope="module")
def warm() -> Iterator[Worker]:
    with workers(1, "warm", SUITE) as [worker]:
        yield worker


def _mutant(before: str, after: str) -> dict[str, str]:
    [found] = [m for m in Module(WINDOW).mutants if (m.before, m.after) == (before, after)]
    return {"id": found.id, "module": WINDOW, "source": ""}


def test_a_bug_in_a_function_is_caught_by_a_test_that_names_it(warm: Worker) -> None:
    verdict = warm.ask(_mutant("every == 'week'", "every != 'week'") | {"tests": warm.tests})
    assert verdict["verdict"] == "killed" and verdict["killer"] in warm.tests


def test_a_bug_in_a_constant_is_caught_in_a_copy_and_a_harmless_change_is_not(warm: Worker, tmp_path: Path) -> None:
    source, job = (ROOT / WINDOW).read_text(), {"id": "constant", "module": WINDOW, "tests": warm.tests}
    with workers(1, "cold", str(tmp_path)) as [worker]:
        bug = worker.ask(job | {"source": source.replace('"quarter": 3', '"quarter": 4')})
        harmless = worker.ask(
            job | {"source": source.replace("        return day\n", "        return day + timedelta()\n", 1)}
        )
    assert (bug["verdict"], harmless["verdict"]) == ("killed", "survived")
    assert harmless["tests"] == len(warm.tests)
    assert (ROOT / WINDOW).read_text() == source


def test_a_package_that_cannot_be_imported_is_caught(warm: Worker, tmp_path: Path) -> None:
    """Whoever imports it first: the tests' own settings do, before one of them is collected."""
    source = (ROOT / "dpsql/errors.py").read_text() + "\nraise TypeError\n"
    with workers(1, "cold", str(tmp_path)) as [worker]:
        broken = worker.ask({"id": "x", "module": "dpsql/errors.py", "tests": warm.tests, "source": source})
    assert (broken["verdict"], broken["tests"]) == ("killed", 0)


def test_what_runs_at_import_is_not_planted_in_living_functions(warm: Worker) -> None:
    verdict = warm.ask(_mutant("3", "4") | {"tests": warm.tests})
    assert (verdict["verdict"], verdict["how"]) == ("broken", "runs at import")


def test_what_a_comprehension_of_a_module_made_is_not_planted_in_living_functions() -> None:
    source = "kept = tuple(i + 1 for i in range(3))\ndef told():\n    return [i * 2 for i in kept]\n"
    before, made, run = (
        compile(each, "m", "exec") for each in (source, source.replace("+", "-"), source.replace("*", "+"))
    )
    assert changed_functions(before, made) is None
    assert {old.co_name for old, _ in changed_functions(before, run) or ()} >= {"told"}


def test_a_whole_run_catches_a_constant_whoever_read_the_module(warm: Worker, tmp_path: Path) -> None:
    [mutant] = [m for m in Module(WINDOW).mutants if (m.before, m.after) == ("3", "4")]
    chunk = Chunk(tuple(warm.tests), 0.1, {WINDOW: -1}, 1)
    killers = Killers(dict.fromkeys(warm.tests, 0.1), [chunk])
    Trial(killers, tmp_path / "results.jsonl", patience=30, jobs=1).run([mutant])
    [verdict] = read_results(tmp_path / "results.jsonl").values()
    assert (verdict["verdict"], verdict["killer"].split("::")[0]) == ("killed", SUITE)


def test_a_test_that_fails_in_every_copy_kills_nothing(tmp_path: Path) -> None:
    [mutant] = [m for m in Module(WINDOW).mutants if (m.before, m.after) == ("3", "4")]
    own = "tests/unit/budget/test_of_this_mutant_only.py"
    (ROOT / own).write_text("from pathlib import Path\nimport dpsql\n\n\ndef test_here():\n"
                            f"    assert Path(dpsql.__file__).is_relative_to({str(ROOT)!r})\n")  # fmt: skip
    try:
        test = f"{own}::test_here"
        killers = Killers({test: 0.1}, [Chunk((test,), 0.1, {WINDOW: -1}, 1)])
        Trial(killers, tmp_path / "results.jsonl", patience=30, jobs=1).run([mutant])
    finally:
        (ROOT / own).unlink()
    [verdict] = read_results(tmp_path / "results.jsonl").values()
    assert verdict["verdict"] == "survived"


def test_tests_of_folders_with_a_conftest_each_are_asked_together() -> None:
    pytest.importorskip("psycopg")
    files = ["tests/unit/mechanisms/test_entropy.py", "tests/server/test_catalogue.py"]
    with workers(1, "warm", *files) as [worker]:
        assert {test.split("::")[0] for test in worker.tests} == set(files)


def test_a_test_that_cannot_be_imported_is_not_left_out_in_silence(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import no_such_module\n")
    with pytest.raises(SystemExit, match="test_broken"), workers(1, "warm", SUITE, str(tmp_path)):
        pass


def test_each_bug_planted_by_hand_still_has_its_place() -> None:
    found = bugs()
    assert len(found) >= 40
    assert len({bug.mutant.id for bug in found}) == len(found)


def test_each_written_reason_is_of_a_mutant_that_can_be_made() -> None:
    reasons = read_reasons()
    made = {bug.mutant.id for bug in bugs()}
    for name in {mutant.split("::")[0] for mutant in reasons} - {"hand"}:
        made |= {mutant.id for mutant in Module(name).mutants}
    assert set(reasons) <= made


def test_every_privacy_module_is_there() -> None:
    assert [name for name in privacy_modules() if not (ROOT / name).is_file()] == []


def test_every_file_with_a_theorem_is_a_privacy_module() -> None:
    """By its docstrings, as `tests/unit/test_proofs.py` reads them."""
    stating = set()
    for path in (ROOT / "dpsql").rglob("*.py"):
        nodes = [
            n
            for n in ast.walk(ast.parse(path.read_text()))
            if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)
        ]
        if any("**Theorem" in (ast.get_docstring(node) or "") for node in nodes):
            stating.add(path.relative_to(ROOT).as_posix())
    assert len(stating) > 100
    assert stating - set(privacy_modules()) == set()


def test_a_mutant_is_one_change_and_the_module_is_whole_again() -> None:
    module = Module("dpsql/mechanisms/discrete_noise.py")
    assert len(module.mutants) > 40
    texts = {module.mutated(mutant.id) for mutant in module.mutants}
    assert len(texts) == len(module.mutants)
    assert module.source == (ROOT / module.name).read_text()


def test_the_score_counts_neither_excused_mutants_nor_forgives_missed_ones() -> None:
    told = {"module": "dpsql/a/b.py", "line": 1, "before": "<", "after": "<=", "kind": "comparison"}
    verdicts = [{"verdict": "killed", "killer": "t"}] * 9 + [{"verdict": "survived"}]
    results = {str(number): told | {"id": str(number)} | each for number, each in enumerate(verdicts)}
    text = report(results)
    assert "Score 90.0%" in text and "10 mutants, 9 caught, 1 missed, excused: none" in text
    assert text.count("killed by t") == 9 and text.count("MISSED") == 1
    low, high = interval(9, 10)
    assert low < 0.9 < high
