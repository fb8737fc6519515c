"""`df.dp`, registered with pandas' own extension API."""

from __future__ import annotations

import sys
from typing import Any


class Accessor:
    """`df.dp.protect(…)` makes a private frame of a data frame; `df.dp.randomize(…)` randomises answers."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def protect(self, **declared: Any) -> Any:
        """Return a private frame over this one: see `dpsql.protect`."""
        from dpsql.interfaces.frame.protection import protect

        return protect(self._frame, **declared)

    def randomize(self, column: str, **how: Any) -> Any:
        """Return each person's answer, randomised at the source: see `dpsql.local`."""
        from dpsql.interfaces.frame.randomize import randomize

        return randomize(self._frame, column, **how)

    def __repr__(self) -> str:
        return 'df.dp.protect(unit="user_id", epsilon=3, bounds={"age": (18, 110)}) makes a private frame'


def register() -> None:
    """Register `.dp` if pandas is imported already; `import dpsql` alone never imports pandas.

    pandas has no entry points for accessors, and a hook that waits for its import would change how Python imports.
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and hasattr(pandas, "api") and not hasattr(pandas.DataFrame, "dp"):
        pandas.api.extensions.register_dataframe_accessor("dp")(Accessor)
