"""What could be read in two ways is refused before it reaches a database, however it goes on."""

from __future__ import annotations

import pytest

from dpsql.interfaces.server.catalogue_allowlist import _tokens, check
from dpsql.interfaces.server.sqlstates import StatementError

PLAIN = "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r'"


@pytest.mark.parametrize("unclear", ['U&"x"', "u&'x'", "/* a /* b */ c */", "'open", '"open', "$a$ open", "\\", "\x00"])
def test_text_that_cannot_be_cut_in_one_way_is_refused(unclear: str) -> None:
    with pytest.raises(StatementError):
        list(_tokens(f"SELECT {unclear}"))


def test_plain_text_is_cut_into_names_strings_and_signs() -> None:
    check(PLAIN)
    assert [(t.kind, t.text) for t in _tokens('SELECT "a""b", $1 -- x')] == [
        ("name", "select"), ("quoted", 'a"b'), ("sign", ","), ("value", "$1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "called", ["pg_read_file('x')", "lo_import('x')", "pg_sleep(1)", "query_to_xml('x', true, true, '')"]
)
def test_functions_that_are_not_listed_are_refused(called: str) -> None:
    with pytest.raises(StatementError):
        check(f"SELECT {called} FROM pg_class")
