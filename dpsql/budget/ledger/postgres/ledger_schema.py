"""The tables of a ledger in PostgreSQL, and the guards that keep them a chain whoever writes.

**Theorem.** In these tables an account is at any time one unbroken chain, whatever its clients do, and no entry of it
is ever changed. **Proof.** The trigger `follows` takes a row only if it is the next of its account and its hash follows
from the last one; two rows of one number are excluded by the primary key, so of two writers who follow the same entry
one fails. The trigger `append_only` refuses every other statement. Both fire always, also for replication roles.
**Requires** an owner who leaves the guards in place (`check_schema` looks at every opening) and clients that are not
the owner: they need INSERT and SELECT only. **Checked by** `tests/postgres/test_ledger_guards.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Ask = Callable[[str], list[tuple[Any, ...]]]

VERSION = "dpsql ledger 2"
"""As in the root of the chain: the same entries, so that a ledger can move between a file and a server."""

_FOLLOWS = """
DECLARE last record;
BEGIN
  SELECT number, hash INTO last FROM dpsql_ledger.entry WHERE account = NEW.account ORDER BY number DESC LIMIT 1;
  IF NEW.number IS DISTINCT FROM coalesce(last.number, 0) + 1 OR NEW.hash IS DISTINCT FROM sha256(
    coalesce(last.hash, sha256('dpsql ledger 2'::bytea))
    || convert_to(NEW.number || ' ' || NEW.kind || ' ' || NEW.gist || E'\\n' || NEW.body, 'UTF8')
  ) THEN
    RAISE EXCEPTION 'entry % does not follow the last one', NEW.number USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END
"""
_APPEND_ONLY = """
BEGIN
  RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
END
"""
TRIGGERS = {
    ("entry", "follows"): _FOLLOWS,
    ("entry", "append_only"): _APPEND_ONLY,
    ("payload", "append_only"): _APPEND_ONLY,
}
_KEPT = {
    ("entry", "PRIMARY KEY (account, number)"),
    ("entry", "UNIQUE (account, id)"),
    ("payload", "PRIMARY KEY (account, number)"),
    ("payload", "FOREIGN KEY (account, number) REFERENCES dpsql_ledger.entry(account, number) ON UPDATE CASCADE"),
}
CREATE = (
    "CREATE SCHEMA IF NOT EXISTS dpsql_ledger",
    "CREATE TABLE dpsql_ledger.entry (account text NOT NULL, number bigint NOT NULL, kind text NOT NULL,"
    " gist text NOT NULL, body text NOT NULL, hash bytea NOT NULL, id uuid NOT NULL,"
    " PRIMARY KEY (account, number), UNIQUE (account, id))",
    "CREATE TABLE dpsql_ledger.payload (account text NOT NULL, number bigint NOT NULL, bytes bytea NOT NULL,"
    " PRIMARY KEY (account, number),"
    " FOREIGN KEY (account, number) REFERENCES dpsql_ledger.entry (account, number) ON UPDATE CASCADE)",
    *(
        f"CREATE FUNCTION dpsql_ledger.{name}() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog"
        f" AS $body${source}$body$"
        for name, source in (("follows", _FOLLOWS), ("append_only", _APPEND_ONLY))
    ),
    "CREATE TRIGGER follows BEFORE INSERT ON dpsql_ledger.entry FOR EACH ROW EXECUTE FUNCTION dpsql_ledger.follows()",
    *(
        f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON dpsql_ledger.{table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION dpsql_ledger.append_only()"
        for table in ("entry", "payload")
    ),
    *(f"ALTER TABLE dpsql_ledger.{table} ENABLE ALWAYS TRIGGER {name}" for table, name in TRIGGERS),
    f"COMMENT ON SCHEMA dpsql_ledger IS '{VERSION}'",
)
DISABLE = tuple(f"ALTER TABLE dpsql_ledger.{table} DISABLE TRIGGER USER" for table in ("entry", "payload"))
ENABLE = tuple(f"ALTER TABLE dpsql_ledger.{table} ENABLE ALWAYS TRIGGER {name}" for table, name in TRIGGERS)
"""Around the steward's restore, in its transaction, by the owner of the tables."""

_TABLES = (
    "SELECT relname, relkind = 'r' AND relpersistence = 'p' AND NOT relrowsecurity AND NOT relhasrules"
    " FROM pg_catalog.pg_class WHERE relnamespace = 'dpsql_ledger'::regnamespace AND relname IN ('entry', 'payload')"
)
_FOUND = (
    "SELECT c.relname, t.tgname, CASE t.tgenabled WHEN 'A' THEN p.prosrc END FROM pg_catalog.pg_trigger t"
    " JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid"
    " WHERE c.relnamespace = 'dpsql_ledger'::regnamespace AND NOT t.tgisinternal"
)
_KEYS = (
    "SELECT c.relname, pg_catalog.pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k"
    " JOIN pg_catalog.pg_class c ON c.oid = k.conrelid WHERE c.relnamespace = 'dpsql_ledger'::regnamespace"
    " AND k.contype IN ('p', 'u', 'f') AND k.convalidated"
)


def version(ask: Ask) -> str | None:
    """What the schema says it is; None where there is none."""
    rows = ask(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_catalog.pg_namespace WHERE nspname = 'dpsql_ledger'"
    )
    return str(rows[0][0]) if rows else None


def is_intact(ask: Ask) -> bool:
    """Whether tables, keys and guards are those that were made, logged, and hide no row."""
    triggers = {(table, name): source for table, name, source in ask(_FOUND)}
    return dict(ask(_TABLES)) == {"entry": True, "payload": True} and triggers == TRIGGERS and set(ask(_KEYS)) == _KEPT
