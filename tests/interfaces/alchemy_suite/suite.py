"""The suite; what does not apply is taken out in `steward_requirements`, each with a reason."""

from sqlalchemy.testing.suite import *  # noqa: F403
