"""An address that is shown can be given again, without its password."""

from __future__ import annotations

import pytest

from dpsql.engines.open_engine import is_address, shown

pytest.importorskip("psycopg")


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("postgresql://ana:secret@db.internal:5433/shop", "postgresql://ana@db.internal:5433/shop"),
        ("postgresql://ana:secret@/shop?host=/run/pg", "postgresql://ana@/shop?host=/run/pg"),
        ("postgres:///shop?host=/run/pg&port=5433", "postgresql:///shop?host=/run/pg&port=5433"),
        ("shop.duckdb", "shop.duckdb"),
    ],
)
def test_what_is_shown_can_be_given_again(given: str, written: str) -> None:
    assert shown(given) == written
    assert shown(written) == written
    assert is_address(given) == given.startswith("postgres")
