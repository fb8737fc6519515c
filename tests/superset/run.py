"""Superset against `dpsql serve`, seen in a browser: `python tests/superset/run.py`.

Superset is installed once (some minutes) into a folder that --environment or DPSQL_SUPERSET names. --pictures keeps what
was on the screen.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from browser import opened
from installation import ADMIN, default_folder, install, running
from shop import serving
from tour import Tour, whole


def main() -> None:
    """Install, start both servers, and go round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, default=default_folder(), help="where Superset is installed")
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures; default: none are kept")
    asked = parser.parse_args()
    begun = time.monotonic()
    install(asked.environment)
    installed = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpsql-superset-") as name:
        folder = Path(name)
        with serving(folder / "shop") as shop, running(asked.environment, folder / "home") as address:
            print(f"dpsql serves on 127.0.0.1:{shop.served.port}, Superset on {address}", flush=True)
            with opened(address, folder / "profile", *ADMIN) as page:
                whole(Tour(page, shop, asked.pictures or folder / "pictures"))
    print(f"all steps passed in {time.monotonic() - installed:.0f} s (installation: {installed - begun:.0f} s)")


if __name__ == "__main__":
    main()
