"""SQLAlchemy's own dialect suite, in a pytest process of its own: its plugin takes over options, fixtures and skips."""

from __future__ import annotations

import pytest
from sqlalchemy.dialects import registry

registry.register("dpsql.steward", "steward_dialect", "StewardDialect")
registry.register("dpsql", "dpsql.interfaces.sqlalchemy_dialect", "DpsqlDialect")
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403

pytest_plugins = ["excluded"]
