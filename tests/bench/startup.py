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
print(time.perf_counter() - begin)
"""


def measure(times: int = 9) -> list[Row]:
    """The median over fresh processes."""
    seconds = statistics.median(_once() for _ in range(times))
    progress(f"startup: {seconds:.3f} s")
    return [Row("`import dpsql`, beyond duckdb and sqlglot", f"{seconds:.2f} s", "< 0.2 s", seconds, 0.2)]


def _once() -> float:
    return float(subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout)
