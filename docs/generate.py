"""Write the generated parts of the documentation: `python docs/generate.py`; `--check` only names what is out of date.

A page names its generated parts by a pair of comments, `<!-- generated: NAME -->` and `<!-- end -->`. What stands
around them is written by hand. A test runs the check, so that a page cannot fall behind the code.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import typer.main
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from dpsql.expressions.functions.function import Function
from dpsql.expressions.functions.table import SUBJECTS, called
from dpsql.interfaces.cli.function_list import listing
from dpsql.interfaces.cli.main import app
from dpsql.policy import Policy
from dpsql.refusals import page as refusals_page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
_PART = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


# policy keys ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the policy: its path, where `<name>` stands for a name that the steward chooses, and its default."""

    path: str
    default: str

    @property
    def parent(self) -> str:
        """The path of the mapping that the key is in."""
        return self.path.rpartition(".")[0]


def keys(model: type[BaseModel] = Policy, prefix: str = "") -> Iterator[Key]:
    """All keys of the policy, in the order of the model."""
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        yield Key(f"{prefix}{name}", _default(field))
        for each, named in _models(field.annotation, *field.metadata):
            yield from keys(each, f"{prefix}{name}.<{name.removesuffix('s')}>." if named else f"{prefix}{name}.")


def _models(*annotations: Any) -> list[tuple[type[BaseModel], bool]]:
    """The models inside an annotation, and whether each stands behind a name that the steward chooses."""
    found: list[tuple[type[BaseModel], bool]] = []
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found.append((annotation, False))
            continue
        mapping = isinstance(origin := getattr(annotation, "__origin__", None), type) and issubclass(origin, Mapping)
        found += [(model, named or mapping) for model, named in _models(*get_args(annotation))]
    return found


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is PydanticUndefined or isinstance(value, Mapping) or value is None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def policy_keys() -> str:
    """One table for each mapping of the policy, with what `docs/policy_keys.toml` says about each key."""
    described = tomllib.loads((DOCS / "policy_keys.toml").read_text(encoding="utf-8"))
    found = {key.path: key for key in keys()}
    if missing := sorted(set(found) ^ set(described["keys"])):
        raise SystemExit(f"docs/policy_keys.toml and the model of the policy differ in: {', '.join(missing)}")
    parts, listed = [], 0
    for section in described["section"]:
        rows = [_row(key, described["keys"][path]) for path, key in found.items() if key.parent in section["parents"]]
        listed += len(rows)
        table = "| key | default | meaning |\n|---|---|---|\n" + "\n".join(rows)
        parts.append(f"## {section['title']}\n\n{section['text']}\n\n{table}\n")
    if listed != len(found):
        raise SystemExit(f"the sections of docs/policy_keys.toml list {listed} of {len(found)} keys")
    return "\n".join(parts)


def _row(key: Key, described: Mapping[str, str]) -> str:
    """A key by the last two parts of its path, so that `purpose` and `analyst` can be told apart."""
    short = (
        re.sub(r"^.*<\w+>\.(?=\w)", "", key.path)
        if "<purpose>" not in key.path
        else f"purposes.{key.path.rpartition('purposes.')[2]}"
    )
    return f"| `{short}` | {described.get('default', key.default)} | {described['text']} |"


# SQL ------------------------------------------------------------------------------------------------------------------


def functions() -> str:
    """All that may stand below an aggregate, by subject."""
    lists = listing()
    parts = ["## Aggregates\n\n" + _inline(lists["aggregates"]) + "\n"]
    for subject, members in SUBJECTS.items():
        rows = "\n".join(_function(each) for each in members)
        parts.append(f"## {subject.capitalize()}\n\n| function | also | forms |\n|---|---|---|\n{rows}\n")
        extra = [form for form in lists[subject] if not any(form in (*called(f), *f.written[:1]) for f in members)]
        if extra:
            parts.append("Also: " + _inline(extra) + "\n")
    for title in ("error bars", "date parts", "date units", "types"):
        parts.append(f"## {title.capitalize()}\n\n" + _inline(lists[title]) + "\n")
    return "\n".join(parts)


def _function(function: Function) -> str:
    names = called(function)
    name = f"`{function.name}`" if function.name in names else _cell(function.written[0])
    forms = [form for form in function.written if not re.search(r"\d{9}", form)]
    return f"| {name} | {_inline([each for each in names if each != function.name])} | {_inline(forms[:2])} |"


def _inline(items: list[str]) -> str:
    return ", ".join(_cell(each) for each in items)


def _cell(code: str) -> str:
    """Code in a cell of a table, where a vertical bar would end the cell."""
    return f"`{code}`" if "|" not in code else "<code>" + code.replace("|", "&#124;") + "</code>"


def refusals() -> str:
    """The table of refusals, as `dpsql refusals` prints it, without its title."""
    return refusals_page().partition("\n\n")[2]


# commands -------------------------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its arguments and options."""
    return "\n".join(_command(name, each) for name, each in _leaves(typer.main.get_command(app), ("dpsql",)))


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if not below:
        yield " ".join(path), command
        return
    for name in sorted(below):
        yield from _leaves(below[name], (*path, name))


def _command(name: str, command: Any) -> str:
    rows = [row for each in command.params if (row := _parameter(each))]
    table = "| argument | meaning |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    said = " ".join(str(command.help or "").split())
    return f"### {name}\n\n{said}\n\n{table}"


def _parameter(parameter: Any) -> str:
    if parameter.name in ("help", "version"):
        return ""
    said = " ".join(str(getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
    long = [each for each in parameter.opts if each.startswith("--")]
    names = ", ".join(f"`{each}`" for each in (long or [parameter.metavar or parameter.name.upper()]))
    short = [each for each in parameter.opts if each.startswith("-") and not each.startswith("--")]
    names += "".join(f", `{each}`" for each in short)
    return f"| {names} | {said} |"


# proofs ---------------------------------------------------------------------------------------------------------------


def proofs() -> str:
    """Every theorem of the package, and what checks it."""
    by_room: dict[str, list[str]] = {}
    for path in sorted((ROOT / "dpsql").rglob("*.py")):
        for where, text in _docstrings(path):
            if "**Theorem" not in text:
                continue
            place = path.relative_to(ROOT)
            checks = "; ".join(
                _said(each) for each in re.findall(r"\*\*Checked by\*\*(.*?)(?=\*\*[A-Z]|\n\s*\n|\Z)", text, re.DOTALL)
            )
            claims = re.findall(r"\*\*Theorem(?: \(([^)]*)\))?\.\*\*(.*?)(?=\*\*Proof)", text, re.DOTALL)
            said = [(f"*{name}*: " if name else "") + _said(claim) + "." for name, claim in claims]
            room = place.parts[1].removesuffix(".py")
            item = [f"**`{place.as_posix()}`{where}**", *said, f"Checked by {checks}."]
            by_room.setdefault(room, []).append("- " + "\n\n    ".join(item) + "\n")
    return "\n".join(f"## {room}\n\n" + "\n".join(items) for room, items in by_room.items())


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield "", ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield f", `{node.name}`", ast.get_docstring(node) or ""


def _said(text: str) -> str:
    """One line, fit for a cell."""
    return " ".join(text.split()).replace("|", "&#124;").replace("<", "&lt;").rstrip(" .")


# rooms ----------------------------------------------------------------------------------------------------------------


def rooms() -> str:
    """Each package and module of the top level, with the first line of its docstring, in the order of the layers."""
    order = _layers()
    rows = [
        f"| `dpsql/{name}` | {said} |"
        for name, said in sorted(_rooms(), key=lambda room: order.index(re.split(r"[./]", room[0])[0]))
    ]
    return "| in the order of imports | holds |\n|---|---|\n" + "\n".join(rows)


def _layers() -> list[str]:
    """The order that `tests/unit/test_layers.py` checks."""
    for node in ast.walk(ast.parse((ROOT / "tests" / "unit" / "test_layers.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FLOW":
            return list(ast.literal_eval(node.value))
    raise SystemExit("tests/unit/test_layers.py has no FLOW")


def _rooms() -> Iterator[tuple[str, str]]:
    """Modules and packages of the top level, and the packages inside these."""
    for path in sorted((ROOT / "dpsql").iterdir()):
        if path.suffix == ".py" and path.stem != "__init__":
            yield path.name, _first_line(path)
        elif (path / "__init__.py").exists():
            for package in [path, *sorted(each.parent for each in path.rglob("*/__init__.py"))]:
                yield f"{package.relative_to(ROOT / 'dpsql').as_posix()}/", _first_line(package / "__init__.py")


def _first_line(source: Path) -> str:
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return _said(docstring.partition("\n\n")[0]) + "." if docstring else ""


# pages ----------------------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[], str]] = {
    "policy_keys": policy_keys, "functions": functions, "refusals": refusals, "commands": commands, "proofs": proofs,
    "rooms": rooms,
}  # fmt: skip


def renewed(page: str) -> str:
    """The page with its generated parts made again."""
    return _PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[4]}", page)


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` name those that are out of date."""
    stale = []
    for path in sorted(DOCS.rglob("*.md")):
        page = path.read_text(encoding="utf-8")
        if (new := renewed(page)) != page:
            stale.append(path.relative_to(ROOT).as_posix())
            if "--check" not in arguments:
                path.write_text(new, encoding="utf-8")
    for name in stale:
        print(f"{'out of date' if '--check' in arguments else 'written'}: {name}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
