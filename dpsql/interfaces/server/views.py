"""The catalogue of each account: an empty database of its own, which nobody else asks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from dpsql.interfaces.server.desk import Desk
from dpsql.interfaces.server.relay import Relay
from dpsql.interfaces.server.shadow import Described, Shadow, Shadows
from dpsql.interfaces.server.users import User
from dpsql.interfaces.server.values import NAMES, oid_of
from dpsql.interfaces.tables import TableInfo, visible_tables


class View(NamedTuple):
    """The tables that exist for an analyst, and the empty database that describes them."""

    tables: frozenset[str]
    described: tuple[Described, ...]
    relay: Relay
    shadow: Shadow


class Views:
    """They are made when their analyst first logs in, and anew after a change of the policy."""

    def __init__(self, dataset: str, desk: Desk) -> None:
        self._dataset, self._desk = dataset, desk
        self._shadows: Shadows | None = None
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._views: dict[str, View] = {}

    async def open(self) -> None:
        """Make what all of them are copied from."""
        self._shadows = await asyncio.to_thread(Shadows, self._dataset)

    async def of(self, user: User) -> View:
        """What a user sees."""
        async with self._turns[user.analyst]:
            if user.analyst not in self._views:
                self._views[user.analyst] = await self._made(user, None)
            return self._views[user.analyst]

    async def _made(self, user: User, old: View | None) -> View:
        assert self._shadows is not None
        listed = await self._desk.work(user, visible_tables)
        described = tuple(_described(table) for table in listed if table.columns)
        tables = frozenset(table.name.lower() for table in listed)
        if old is not None and old.described == described:
            return old._replace(tables=tables)
        shadow = await asyncio.to_thread(self._shadows.make, described)
        return View(tables, described, Relay(shadow.socket, shadow.database), shadow)

    async def renew(self, users: Collection[User]) -> None:
        """Look at the policy again, for these users; catalogues that nobody sees any more are gone."""
        fresh = {user.analyst: user for user in users}
        for analyst in list(self._views):
            async with self._turns[analyst]:
                old = self._views[analyst]
                if analyst not in fresh:
                    del self._views[analyst]
                else:
                    self._views[analyst] = await self._made(fresh[analyst], old)
                if analyst not in fresh or self._views[analyst].shadow is not old.shadow:
                    await self._end(old)

    async def _end(self, view: View) -> None:
        assert self._shadows is not None
        await view.relay.close()
        await asyncio.to_thread(self._shadows.end, view.shadow)

    async def close(self) -> None:
        """Stop all of them."""
        for view in self._views.values():
            await view.relay.close()
        self._views.clear()
        if self._shadows is not None:
            await asyncio.to_thread(self._shadows.close)


def _described(table: TableInfo) -> Described:
    columns = tuple((c.name, NAMES[oid_of(c.type.upper())], c.note) for c in table.columns)
    return Described(table.name, columns, table.owner)
