"""What the suite may ask of tables that a steward makes; the cases that do not apply are in `excluded`."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements


class Requirements(SuiteRequirements):  # type: ignore[misc]
    """The defaults, without schemas, temporary tables and views, which do not exist for analysts."""

    @property
    def schemas(self) -> Any:
        return exclusions.closed()

    temporary_tables = temp_table_reflection = temp_table_names = temporary_views = schemas
    views = view_column_reflection = schemas
