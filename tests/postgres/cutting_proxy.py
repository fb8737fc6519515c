"""A TCP proxy before a PostgreSQL server that does something after the k-th message of a direction, once."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

ASKED, ANSWERED = "asked", "answered"


class Proxy:
    """Counts whole messages of the protocol in both directions; when the chosen one was passed on, it strikes."""

    def __init__(self, target: int) -> None:
        """It listens at once; `run` serves."""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._chosen: tuple[str, int] | None = None
        self._strike: Callable[[], None] | None = None
        self.seen: Counter[str] = Counter()
        self.struck = False

    def arm(self, direction: str, number: int, strike: Callable[[], None] | None = None) -> None:
        """From now on, after so many messages that way: cut the connection, or do what is given."""
        with self._lock:
            self.seen.clear()
            self._chosen, self._strike, self.struck = (direction, number), strike, False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve until the end of the block."""
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield
        finally:
            self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for direction, source, sink in ((ASKED, client, server), (ANSWERED, server, client)):
                    threading.Thread(target=self._pump, args=(direction, source, sink), daemon=True).start()

    def _pump(self, direction: str, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            if direction == ASKED:
                sink.sendall(_exactly(source, 4, prefix=True))
            while True:
                message = _exactly(source, 1) + _exactly(source, 4, prefix=True)
                chosen = self._chosen_is(direction)
                sink.sendall(message)
                if chosen and self._cuts():
                    break
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _chosen_is(self, direction: str) -> bool:
        """Count the message before it is passed on, as its receiver may be done before we go on."""
        with self._lock:
            self.seen[direction] += 1
            if self.struck or self._chosen != (direction, self.seen[direction]):
                return False
            self.struck = True
            return True

    def _cuts(self) -> bool:
        """Do what is given, if it is; else the connection is to be cut."""
        if self._strike is not None:
            self._strike()
        return self._strike is None


def _exactly(source: socket.socket, count: int, *, prefix: bool = False) -> bytes:
    """So many bytes; with `prefix` the length that they say, which counts itself, and all that it announces."""
    got = b""
    while len(got) < count:
        part = source.recv(count - len(got))
        if not part:
            raise OSError("the other side has gone")
        got += part
    return got + _exactly(source, int.from_bytes(got) - 4) if prefix else got
