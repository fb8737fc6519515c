"""Doors for the audit that live among the interfaces: a world, opened for an analyst, SQL in and rows out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.audit.settings import Ask
    from dpsql.audit.world import World


@contextmanager
def dbapi(world: World) -> Iterator[Ask]:
    """PEP 249: a new cursor for each question."""
    from dpsql.audit.blackbox.observe import opened, remember_integers

    with opened(world) as db:
        remember_integers(db)

        def ask(sql: str) -> list[tuple[Any, ...]]:
            with db.cursor() as cursor:
                return cursor.execute(sql).fetchall()

        yield ask
