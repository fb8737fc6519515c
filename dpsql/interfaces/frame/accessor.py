"""`df.dp`: registered with pandas when pandas is there, or as soon as it is imported; never imported for it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


class Accessor:
    """`df.dp.protect(…)` makes a private frame of a data frame; `df.dp.randomize(…)` randomises answers."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def protect(self, **declared: Any) -> Any:
        """A private frame over this one: see `dpsql.protect`."""
        from dpsql.interfaces.frame.protection import protect

        return protect(self._frame, **declared)

    def randomize(self, column: str, **how: Any) -> Any:
        """Each person's answer, randomised at the source: see `dpsql.local`."""
        from dpsql.interfaces.frame.randomize import randomize

        return randomize(self._frame, column, **how)

    def __repr__(self) -> str:
        return 'df.dp.protect(unit="user_id", epsilon=3, bounds={"age": (18, 110)}) makes a private frame'


def register() -> None:
    """Give pandas' frames their `.dp`, now or when pandas comes."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and hasattr(pandas, "api"):
        _attach(pandas)
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())


def _attach(pandas: Any) -> None:
    if not hasattr(pandas.DataFrame, "dp"):
        pandas.api.extensions.register_dataframe_accessor("dp")(Accessor)


class _WhenImported(importlib.abc.MetaPathFinder):
    """Waits for `import pandas`, lets it happen as it would, and registers the accessor behind it.

    It may be asked where pandas is without an import (`importlib.util.find_spec`), so it goes only with the import.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "pandas":
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path)
        if found is None or found.loader is None:
            return None
        found.loader = _Behind(found.loader)
        return found


class _Behind(importlib.abc.Loader):
    """The module's own loader, and then the accessor."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _WhenImported)]
        _attach(module)
