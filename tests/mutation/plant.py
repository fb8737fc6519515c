"""Planting a mutant: into the functions that live in this process, or into a copy of the package on disk.

A function is changed by giving it other code, so that everybody who imported it has the mutant. What runs when a module
is imported (constants, defaults, class bodies) cannot be changed so: a fresh process imports it from the copy.
"""

from __future__ import annotations

import functools
import gc
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from modules import ROOT

Pair = tuple[CodeType, CodeType]
_AT_ONCE = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
"""In a module or class these have run when it is imported, and no function lives on."""


def changed_functions(before: CodeType, after: CodeType) -> list[Pair] | None:
    """The functions of a module whose code differs; None if what runs at its import does."""
    pairs: list[Pair] = []
    return pairs if _collect(before, after, pairs, importing=True) else None


def _collect(before: CodeType, after: CodeType, pairs: list[Pair], *, importing: bool) -> bool:
    olds, news = _inner(before), _inner(after)
    if importing and (_own(before) != _own(after) or len(olds) != len(news)):
        return False
    for old, new in zip(olds, news, strict=False):
        if old == new:
            continue
        if importing and old.co_name in _AT_ONCE:
            return False
        if importing and _is_class(before, old):
            if not _collect(old, new, pairs, importing=True):
                return False
            continue
        pairs.append((old, new))
        _collect(old, new, pairs, importing=False)
    return True


def _inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _own(code: CodeType) -> tuple[object, ...]:
    constants = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_code, constants, code.co_names


def _is_class(_outer: CodeType, code: CodeType) -> bool:
    return "__qualname__" in code.co_names and "__module__" in code.co_names


class Alive:
    """The functions of the package that exist in this process, by their code, and what they remember."""

    def __init__(self, package: str) -> None:
        self.functions: dict[CodeType, list[FunctionType]] = {}
        self.caches: list[Any] = []
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(package):
                self.functions.setdefault(each.__code__, []).append(each)
            elif isinstance(each, functools._lru_cache_wrapper) and (each.__module__ or "").startswith("dpsql"):
                self.caches.append(each)

    def plant(self, path: str, pairs: Sequence[Pair]) -> bool:
        """Give the living functions their new code; false where one of them cannot have it, or none lives."""
        found = [(f, new) for old, new in pairs for f in self.functions.get(old, ()) if f.__code__.co_filename == path]
        if not found or any(f.__code__.co_freevars != new.co_freevars for f, new in found):
            return False
        for function, new in found:
            function.__code__ = new
        for cache in self.caches:
            cache.cache_clear()
        return True


def copy_package(target: Path, module: str, source: str) -> Path:
    """A repository of links in which one module is another; what was compiled before is shared, and not written."""
    for directory, names, files in os.walk(ROOT / "dpsql"):
        names[:] = [name for name in names if name != "__pycache__"]
        here = target / Path(directory).relative_to(ROOT)
        here.mkdir(parents=True)
        for name in (*files, "__pycache__"):
            (here / name).symlink_to(Path(directory) / name)
    for other in _others():
        (target / other.name).symlink_to(other)
    (target / module).unlink()
    (target / module).write_text(source)
    return target


def _others() -> Iterator[Path]:
    return (path for path in ROOT.iterdir() if path.name != "dpsql")


def remove_copy(target: Path) -> None:
    """Links go, not what they point to."""
    shutil.rmtree(target, ignore_errors=True)
