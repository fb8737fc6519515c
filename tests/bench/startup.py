"""What `import dpsql` adds to importing duckdb and sqlglot."""

from __future__ import annotations

import statistics
import subprocess
import sys

from measure import Row, progress

CODE = """
import time
import duckdb, sqlglot
begin = time.perf_counter()
import dpsql
middle = time.perf_counter()
dpsql.connect
print(middle - begin, time.perf_counter() - begin)
"""


def measure(times: int = 9) -> list[Row]:
    """The medians over fresh processes: the import by itself, and with all that `connect` loads."""
    imported, ready = (statistics.median(seconds) for seconds in zip(*(_once() for _ in range(times)), strict=True))
    progress(f"startup: {imported:.3f} s, ready to connect after {ready:.3f} s")
    measured = f"{imported:.2f} s (with what `connect` loads {ready:.2f} s)"
    return [Row("`import dpsql`, beyond duckdb and sqlglot", measured, "< 0.2 s", imported, 0.2)]


def _once() -> tuple[float, ...]:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()))
