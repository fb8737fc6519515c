"""The catalogue of each account: those who see the same tables share one empty database."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import NamedTuple

from dpsql.interfaces.server.desk import Desk
from dpsql.interfaces.server.relay import Relay
from dpsql.interfaces.server.shadow import Described, Shadow, view_of
from dpsql.interfaces.server.users import User
from dpsql.interfaces.server.values import NAMES, oid_of
from dpsql.interfaces.tables import TableInfo, visible_tables


class View(NamedTuple):
    """The tables that exist for a user, and the empty database that describes them."""

    tables: frozenset[str]
    relay: Relay
    shadow: Shadow


class Views:
    """They are made when they are first needed, and anew after a change of the policy."""

    def __init__(self, dataset: str, desk: Desk) -> None:
        self._dataset, self._desk, self._turn = dataset, desk, asyncio.Lock()
        self._shadows: dict[str, tuple[Shadow, Relay]] = {}
        self._views: dict[str, tuple[str, View]] = {}

    async def of(self, user: User) -> View:
        """What a user sees."""
        async with self._turn:
            if user.analyst not in self._views:
                self._views[user.analyst] = await self._made(user)
            return self._views[user.analyst][1]

    async def _made(self, user: User) -> tuple[str, View]:
        listed = await self._desk.work(user, visible_tables)
        described = [_described(table) for table in listed if table.columns]
        name = view_of(described)
        if name not in self._shadows:
            shadow = await asyncio.to_thread(Shadow, self._dataset, described)
            self._shadows[name] = (shadow, Relay(shadow.socket, shadow.database))
        shadow, relay = self._shadows[name]
        return name, View(frozenset(table.name.lower() for table in listed), relay, shadow)

    async def renew(self, users: Collection[User]) -> None:
        """Look at the policy again, for these users; catalogues that nobody sees any more are gone."""
        async with self._turn:
            fresh = {user.analyst: user for user in users}
            self._views = {analyst: await self._made(user) for analyst, user in fresh.items()}
            used = {name for name, _ in self._views.values()}
            for name in [each for each in self._shadows if each not in used]:
                await self._drop(name)

    async def close(self) -> None:
        """Stop all of them."""
        for name in list(self._shadows):
            await self._drop(name)

    async def _drop(self, name: str) -> None:
        shadow, relay = self._shadows.pop(name)
        await relay.close()
        await asyncio.to_thread(shadow.close)


def _described(table: TableInfo) -> Described:
    columns = tuple((c.name, NAMES[oid_of(c.type.upper())], c.note) for c in table.columns)
    return Described(table.name, columns, table.owner)
