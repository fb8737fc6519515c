"""A server from its first line on the terminal to its last: what it reads, and the signals that it follows."""

from __future__ import annotations

import asyncio
import signal
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import Error, InterfaceError
from dpsql.interfaces.server.certificate import own_certificate, tls_context
from dpsql.interfaces.server.journal import failed, note
from dpsql.interfaces.server.limits import Limits
from dpsql.interfaces.server.serve import Connect, Server, checked, folder_of
from dpsql.interfaces.server.users import User, read_users
from dpsql.interfaces.terminal import complain, problems, screen
from dpsql.policy import ledger_location, load_policy
from dpsql.session import connect

if TYPE_CHECKING:
    from dpsql.session import Connection


@dataclass(frozen=True, slots=True)
class Place:
    """The files of a server, and where it listens."""

    database: str | Path
    policy: Path
    ledger: str | None
    users: Path
    host: str
    port: int
    steward_port: int | None = None
    pem: tuple[Path, Path] | None = None
    isolate: bool = False

    def read(self, dataset: str | None = None) -> tuple[str, Connect, dict[str, User]]:
        """The dataset, the way to it, and who may go there: as the files are now, looked at as a whole."""
        policy, users = load_policy(self.policy), read_users(self.users)
        if dataset not in (None, policy.dataset):
            raise InterfaceError(f"the policy is another dataset's now: {policy.dataset}", hint="start the server anew")
        ledger = ledger_location(policy, self.policy, self.ledger)

        def way(analyst: str, purpose: str | None) -> Connection:
            return connect(
                self.database,
                policy=policy,
                ledger=ledger,
                analyst=analyst,
                purpose=purpose,
                dialect="postgres",
                isolate=self.isolate,
            )

        if self.isolate:  # as long as this way is used there is a connection, and so the process that has the data
            kept = connect(self.database, policy=policy, ledger=ledger, steward=True, isolate=True)
            weakref.finalize(way, kept.close)
        checked(users, way)
        return policy.dataset, way, users


async def serve_at(place: Place, limits: Limits) -> None:
    """Serve until SIGINT or SIGTERM; read policy and users anew on SIGHUP."""
    loop, ended, reloads = asyncio.get_running_loop(), asyncio.Event(), set[asyncio.Task[None]]()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)  # before anything is opened: what a start began, the end closes
    dataset, way, users = await asyncio.to_thread(place.read)
    certificate, key = place.pem or own_certificate(folder_of(place.users), place.host)
    tls = tls_context(certificate, key)
    server = Server(dataset, way, users, tls, limits, key.read_bytes())
    try:
        taken, health = await server.start(place.host, place.port, place.steward_port)
    except BaseException:
        await server.stop(0)
        raise

    def hang_up() -> None:
        task = loop.create_task(_reload(place, server))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, hang_up)
    if not ended.is_set():
        _welcome(place, server, list(users), taken, health)
    await ended.wait()
    screen().print("shutting down: waiting for queries under way")
    await server.stop()


def _welcome(place: Place, server: Server, users: list[str], taken: int, health: int | None) -> None:
    watch = "" if health is None else f"; /healthz and /metrics on the steward's port {health}"
    said = f"serving {server.dataset} on {place.host}:{taken} (TLS, SCRAM-SHA-256) for {', '.join(users)}{watch}"
    said += f"\n  psql 'host={place.host} port={taken} dbname={server.dataset} user={next(iter(users), 'NAME')}'"
    screen().print(said, soft_wrap=True, highlight=False)


async def _reload(place: Place, server: Server) -> None:
    """Take in the files as they are now; if they are not right, what is served stays as it was."""
    try:
        _, way, users = await asyncio.to_thread(place.read, server.dataset)
    except Error as error:
        note("not reloaded", kind=type(error).__name__)
        problems().print("not reloaded: what is served stays as it was")
        complain(error)
        return
    try:
        await server.reload(way, users)
    except Exception as failure:
        failed(failure)
        problems().print("reloaded only in part: start the server anew")
        return
    note("reloaded")
    screen().print("reloaded policy and users")
