"""Loads a policy file, or raises one error that lists every mistake."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from dpsql.errors import PolicyError
from dpsql.policy.consistency import policy_mistakes, same_names
from dpsql.policy.identifiers import nearest
from dpsql.policy.model import (
    AnalystBudget,
    Budget,
    DeclaredColumn,
    DeclaredTable,
    DeclaredView,
    Defaults,
    Policy,
    PurposeBudget,
    QueryLimits,
    Replay,
)
from dpsql.policy.policy_values import LARGEST_DELTA, SERVER_ADDRESS, Mistake, Mistakes, show
from dpsql.policy.policy_values import Path as KeyPath
from dpsql.policy.yaml_document import Document

if TYPE_CHECKING:
    from dpsql.policy.model import Policy

ModelT = TypeVar("ModelT", bound=BaseModel)

_SECTIONS: dict[tuple[str, ...], type[BaseModel]] = {
    (): Policy,
    ("budget",): Budget,
    ("budget", "analysts", "*"): AnalystBudget,
    ("budget", "analysts", "*", "purposes", "*"): PurposeBudget,
    ("limits",): QueryLimits,
    ("replay",): Replay,
    ("defaults",): Defaults,
    ("tables", "*"): DeclaredTable,
    ("tables", "*", "columns", "*"): DeclaredColumn,
    ("views", "*"): DeclaredView,
}
_MISSING = {
    "dataset": "add `dataset: <name>`: the account in the ledger, the same for every version of the data",
    "budget": "add `budget: {epsilon: 3, delta: 1e-6}`",
    "epsilon": "add `epsilon`, such as `epsilon: 3`",
    "tables": "add `tables:` with one entry for each table that analysts may use",
}


def load_policy(source: str | Path | Mapping[str, Any] | Policy) -> Policy:
    """The policy in a file (a path), in a mapping, or as it is; PolicyError lists all mistakes at once."""
    if isinstance(source, Policy):
        return source
    if isinstance(source, Mapping):
        return _validate(Document(data=source), "the policy")
    return parse_policy(_read(Path(source)), name=str(source))


def parse_policy(text: str, name: str = "the policy") -> Policy:
    """The policy that a YAML text describes; `name` is what errors call it."""
    from dpsql.policy.yaml_document import read_document

    return _validate(read_document(text), name)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = "check the path, or let `dpsql init <database>` draft a policy"
        raise PolicyError(f"there is no policy file {path}", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        hint = "name a readable YAML file in UTF-8"
        raise PolicyError(f"the policy file {path} cannot be read: {reason}", hint=hint) from error


def _validate(document: Document, name: str) -> Policy:
    mistakes = list(document.mistakes)
    data = document.data
    if not isinstance(data, Mapping):
        if not mistakes:
            fix = "begin with `dataset: <name>`, then `budget:` and `tables:`"
            mistakes.append(Mistake((), "a policy must be a mapping of keys", fix))
        raise _error(mistakes, document, name)
    try:
        policy = Policy.model_validate(data)
    except ValidationError as error:
        mistakes += _flatten(error)
        mistakes += [each for each in _across(data) if each not in mistakes]
        raise _error(mistakes, document, name) from None
    if mistakes:
        raise _error(mistakes, document, name)
    return policy


def _across(data: Mapping[str, Any]) -> Iterator[Mistake]:
    """Contradictions between parts, as far as those parts can be read."""
    tables = _mapping(data.get("tables"))
    for name, spec in tables.items():
        columns = _mapping(_mapping(spec).get("columns"))
        yield from (each.under(("tables", name, "columns")) for each in same_names(map(str, columns)))
    yield from (each.under(("tables",)) for each in same_names(map(str, tables)))
    yield from policy_mistakes(
        _attempt(Budget, data.get("budget")) or _attempt(Budget, _grants(data.get("budget"))),
        _attempt(QueryLimits, data.get("limits") or {}),
        _attempt(Defaults, data.get("defaults") or {}),
        {str(k): _attempt(DeclaredTable, _outline(v)) for k, v in tables.items()} if "tables" in data else None,
    )


def _grants(budget: object) -> dict[str, Any]:
    """Who may see what, under caps that contradict nothing: for a budget whose own numbers are wrong."""
    analysts = _mapping(_mapping(budget).get("analysts"))
    tables = {name: {"tables": _mapping(spec).get("tables")} for name, spec in analysts.items()}
    return {"epsilon": "1e300", "delta": LARGEST_DELTA, "analysts": tables}


def _outline(table: object) -> dict[str, Any]:
    """The owner and the column names of a table, whatever is wrong in the rest of it."""
    spec = _mapping(table)
    return {
        "unit": spec.get("unit"),
        "public": spec.get("public", False),
        "columns": dict.fromkeys(_mapping(spec.get("columns"))),
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _attempt(model: type[ModelT], data: object) -> ModelT | None:
    try:
        return model.model_validate(data)
    except ValidationError:
        return None


def _flatten(error: ValidationError) -> list[Mistake]:
    mistakes: list[Mistake] = []
    for detail in error.errors(include_url=False):
        path = tuple(step for step in detail["loc"] if not str(step).startswith("["))
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, Mistakes):
            mistakes += [each.under(path) for each in cause.mistakes]
        elif isinstance(cause, ValidationError):
            mistakes += [each.under(path) for each in _flatten(cause)]
        else:
            mistakes.append(_explain(detail["type"], path, detail["input"], detail["msg"]))
    return mistakes


def _explain(kind: str, path: KeyPath, value: object, message: str) -> Mistake:
    """Pydantic's own errors in the steward's words."""
    if kind == "missing":
        name = str(path[-1])
        return Mistake(path, "is missing", _MISSING.get(name, f"add `{name}`"))
    if kind == "extra_forbidden":
        return _unknown(path)
    if kind in {"model_type", "mapping_type", "dict_type"}:
        return Mistake(path, f"must be a mapping of keys, not {show(value)}", "write `key: value` below it")
    if kind == "string_type":
        return Mistake(path, f"{show(value)} is not a name", "put the name in quotes")
    return Mistake(path, message, "see docs/reference/policy.md, or draft a policy with `dpsql init`")


def _unknown(path: KeyPath) -> Mistake:
    *above, name = path
    allowed = [key for key, field in _section(above).model_fields.items() if not field.exclude]
    guess = nearest(str(name), allowed)
    fix = f"did you mean `{guess}`?" if guess else f"delete it; known here: {', '.join(allowed)}"
    return Mistake(path, "unknown key", fix)


def _section(path: list[str | int]) -> type[BaseModel]:
    """The model whose keys stand at this path."""
    wild = {1: ("tables", "views"), 2: ("analysts",), 3: ("columns",), 4: ("purposes",)}
    pattern = tuple(
        "*" if index and path[index - 1] in wild.get(index, ()) else str(step) for index, step in enumerate(path)
    )
    return _SECTIONS.get(pattern, Policy)


def _error(mistakes: list[Mistake], document: Document, name: str) -> PolicyError:
    ordered = sorted(mistakes, key=lambda each: document.line(each.path) or 0)
    reasons = [f"{_place(each, document)}: {each.reason}" for each in ordered]
    if len(ordered) == 1:
        return PolicyError(f"{name}: {reasons[0]}", hint=ordered[0].fix)
    fixes = _numbered([each.fix for each in ordered])
    return PolicyError(f"{name}: {len(ordered)} mistakes{_numbered(reasons)}", hint=fixes)


def _numbered(lines: list[str]) -> str:
    return "".join(f"\n  {number}. {line}" for number, line in enumerate(lines, 1))


def _place(mistake: Mistake, document: Document) -> str:
    line = document.line(mistake.path)
    key = mistake.key or "the policy"
    return key if line is None else f"line {line}: {key}"


# where the ledger of a policy is


def ledger_location(
    policy: Policy, file: str | os.PathLike[str] | None, named: str | os.PathLike[str] | None = None
) -> str | Path | None:
    """The one that was named; else the policy's own, which is beside its file unless it is an address; else
    `<dataset>.ledger` there; None where the policy is no file and names none.
    """
    if named is not None:
        return named if isinstance(named, str) else Path(named)
    own = policy.ledger
    if own is not None and (SERVER_ADDRESS.match(own) or own == ":memory:"):
        return own
    if file is None:
        return own
    return Path(file).parent / (f"{policy.dataset}.ledger" if own is None else own)
