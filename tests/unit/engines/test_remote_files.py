"""Files on another machine: read where DuckDB has its extension for them, and refused with a way out where it has not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.engines.base import Resources
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.errors import InterfaceError

POLICY: dict[str, Any] = {
    "dataset": "d", "search": False, "budget": {"epsilon": 100}, "replay": False,
    "tables": {"t": {"unit": "u", "max_rows_per_unit": 3, "columns": {"x": {"min": 0, "max": 9}}}},
}  # fmt: skip


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, whole or (as DuckDB asks for the end of a Parquet file first) in part."""

    def send_head(self) -> Any:
        path, wanted = Path(self.translate_path(self.path)), self.headers.get("Range", "")
        if not path.is_file() or not wanted.startswith("bytes="):
            return super().send_head()
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        size = path.stat().st_size
        begin, end = (int(first), min(int(last or size), size - 1)) if first else (size - int(last), size - 1)
        self.send_response(206)
        for name, value in {"Content-Range": f"bytes {begin}-{end}/{size}", "Content-Length": end - begin + 1}.items():
            self.send_header(name, str(value))
        self.end_headers()
        file = path.open("rb")
        file.seek(begin)
        return file

    def copyfile(self, source: Any, outputfile: Any) -> None:
        length = next((int(h.split(b":")[1]) for h in self._sent if h.startswith(b"Content-Length")), None)
        outputfile.write(source.read(length))

    def end_headers(self) -> None:
        self._sent = list(self._headers_buffer)
        super().end_headers()

    def log_message(self, *told: object) -> None:
        """Nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    duckdb.execute(f"COPY (SELECT i // 4 AS u, i % 10 AS x FROM range(40) r(i)) TO '{tmp_path / 't.parquet'}'")
    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/t.parquet"
    server.shutdown()
    thread.join()
    server.server_close()


def has_extension() -> bool:
    try:
        duckdb.connect(":memory:").execute("LOAD httpfs")
    except duckdb.Error:
        return False
    return True


def test_a_file_of_another_machine_is_a_table(served: str, tmp_path: Path) -> None:
    """Also for the connection that is locked, which may open nothing else."""
    if not has_extension():
        pytest.skip("DuckDB's extension httpfs is not installed here")
    read = []
    for place in (served, tmp_path / "t.parquet"):
        engine = DuckDBEngine({"t": place}, Resources(10**9))
        with engine._running() as cursor:
            read.append(
                (engine.schema(), cursor.execute("SELECT sum(x), count(*), count(DISTINCT u) FROM t").fetchall())
            )
        engine.close()
    assert read[0] == read[1]


def test_without_the_extension_the_steward_is_told_what_to_do(served: str) -> None:
    if has_extension():
        pytest.skip("DuckDB's extension httpfs is installed here")
    with pytest.raises(InterfaceError, match="INSTALL httpfs"):
        dpsql.connect({"t": served}, policy=POLICY, ledger=":memory:")
