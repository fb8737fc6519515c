"""The server's log, `/healthz` and Prometheus' `/metrics`. None of them depends on private data.

The log has one JSON object per line, about who did what and how it ended. It never contains SQL, parameters or values.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dpsql.steward_log import places

log = logging.getLogger("dpsql.server")


def note(event: str, *, level: int = logging.INFO, **words: str | float | bool | None) -> None:
    """Write a line; words are names of the policy's and users' files, numbers, and codes of ours."""
    if log.isEnabledFor(level):
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        log.log(level, json.dumps({"at": at, "event": event, **words}, ensure_ascii=False))


def failed(failure: BaseException) -> None:
    """What nobody expected: its kind; where it was is told to those who debug."""
    note("failure", level=logging.ERROR, kind=type(failure).__name__)
    log.debug("at %s", places(failure))


# metrics -------------------------------------------------------------------------------------------------------------

COUNTED = (
    "dpsql_connections_total", "dpsql_queries_total", "dpsql_replays_total", "dpsql_refusals_total",
    "dpsql_calls_total", "dpsql_wrong_passwords_total", "dpsql_malformed_total", "dpsql_lost_total",
    "dpsql_abandoned_total", "dpsql_evicted_total",
)  # fmt: skip
"""They begin at zero, so that the first of each is seen as a change."""


@dataclass(slots=True)
class Metrics:
    """Counters, and gauges that are read when they are asked for."""

    gauges: Mapping[str, Callable[[], float]] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTED, 0)))
    started: float = field(default_factory=time.time)
    healthy: bool = True

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a counter."""
        self.counters[name] += amount  # type: ignore[assignment]

    def text(self) -> str:
        """All of them in Prometheus' form."""
        now = {name: read() for name, read in self.gauges.items()} | {"dpsql_start_time_seconds": self.started}
        lines = [f"# TYPE {name} counter\n{name} {value:g}" for name, value in sorted(self.counters.items())]
        lines += [f"# TYPE {name} gauge\n{name} {value:.0f}" for name, value in now.items()]
        return "\n".join(lines) + "\n"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        try:
            async with asyncio.timeout(5):
                line = (await reader.readline()).decode("latin-1").split(" ")
                while (await reader.readline()).strip():
                    pass
                writer.write(_page(*self._found(line[1] if len(line) > 1 and line[0] == "GET" else "")))
                await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            pass
        finally:
            writer.close()

    def _found(self, path: str) -> tuple[str, str]:
        if path == "/healthz":
            return ("200 OK", "ok\n") if self.healthy else ("503 Service Unavailable", "shutting down\n")
        return ("200 OK", self.text()) if path == "/metrics" else ("404 Not Found", "not found\n")


def _page(status: str, text: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
    return f"{head}Connection: close\r\n\r\n{text}".encode()
