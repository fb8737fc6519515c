"""Every interface as a door: opened on a folder, it sends the statements that it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

from attack.doors.sweep import ANALYST, Door, Opened, Send, entered
from dpsql.errors import Error, InterfaceError, OperationalError
from dpsql.interfaces.cli.audit_command import PASSWORD, served
from dpsql.interfaces.client.transport import LOST, ServerStream, _error
from dpsql.interfaces.server.statement_routing import StatementKind, TooManyStatements, split_statements
from dpsql.interfaces.server.wire import message, zero
from dpsql.session import Connection

# a session in this process ----------------------------------------------------------------------------------------------

AS_VALUE = "SELECT count(*) FROM people WHERE note = ?"
VALUE = "the statement is the value of a parameter, and the plan is that of any other value; nothing was run"


def _door(ask: Callable[[Connection], Send], harmless: str | None = None) -> Door:
    @contextmanager
    def opened(folder: Path) -> Iterator[Opened]:
        with entered(folder) as db:
            yield Opened(ask(db), lambda _: harmless)

    return opened


def _query(db: Connection) -> Send:
    return lambda sql: str(db.query(sql).fetchall())


def _explain(db: Connection) -> Send:
    return lambda sql: str(db.explain(sql))


def _describe(db: Connection) -> Send:
    return lambda sql: str(db.describe(sql))


def _prepare(db: Connection) -> Send:
    return lambda sql: str(db.prepare(sql).plan)


def _cursor(db: Connection) -> Send:
    return lambda sql: str(db.cursor().execute(sql).fetchall())


def _executemany(db: Connection) -> Send:
    return lambda sql: str(db.cursor().executemany(sql, [[1], ["x"]]).fetchall())


def _postgres(db: Connection) -> Send:
    return lambda sql: str(db.query(sql, dialect="postgres").fetchall())


def _value(db: Connection) -> Send:
    def send(sql: str) -> str:
        plan = db.prepare(AS_VALUE, parameters=[sql]).plan
        assert (len(plan.releases), len(plan.outputs), plan.public) == (1, 1, ()), plan
        return ""

    return send


SESSION_DOORS: dict[str, Door] = {
    "query": _door(_query), "explain": _door(_explain), "describe": _door(_describe), "prepare": _door(_prepare),
    "query in PostgreSQL's dialect": _door(_postgres), "cursor": _door(_cursor), "executemany": _door(_executemany),
    "value of a parameter": _door(_value, VALUE),
}  # fmt: skip


# other interfaces -------------------------------------------------------------------------------------------------------

TABLES = frozenset({"people", "orders", "visits", "stores"})
NOTHING = "nothing was asked"
KINDS = {
    StatementKind.SESSION: "a setting of the client, or a transaction command: nothing in the database changes",
    StatementKind.CATALOGUE: "answered by the catalogue, a PostgreSQL that has the tables' names and no row",
    StatementKind.EMPTY: NOTHING,
}


@contextmanager
def sqlalchemy(folder: Path) -> Iterator[Opened]:
    """`text()` on an engine; what SQLAlchemy itself refuses never reaches dpsql."""
    import sqlalchemy as sa

    engine = sa.create_engine(f"dpsql:///{folder}/canaries.duckdb?analyst={ANALYST}")

    def send(sql: str) -> str:
        try:
            with engine.connect() as connection:
                return str(connection.execute(sa.text(sql)).fetchall())
        except sa.exc.SQLAlchemyError as problem:
            origin = getattr(problem, "orig", None)
            own = origin if isinstance(origin, Error) else InterfaceError(f"SQLAlchemy: {type(problem).__name__}")
            raise own from None

    yield Opened(send)
    engine.dispose()


@contextmanager
def private_frame(folder: Path) -> Iterator[Opened]:
    """`people.sql(…)` of a private frame, which has an account of its own."""
    import duckdb

    from dpsql.interfaces.frame.protection import protect

    with duckdb.connect(str(folder / "canaries.duckdb"), read_only=True) as raw:
        frame = raw.execute("SELECT * EXCLUDE (secret) FROM people").df()
    people = protect(frame, unit="id", epsilon=5, bounds={"age": (18, 110)}, max_rows_per_unit=1, called="people")
    before = people.budget().dataset.spent

    def send(sql: str) -> str:
        said = str(people.sql(sql).fetchall())
        assert people.budget().dataset.spent == before, "it was charged"
        return said

    yield Opened(send)


@contextmanager
def magic(folder: Path) -> Iterator[Opened]:
    """A cell of `%%dpsql`."""
    from dpsql.interfaces.magic import Magic

    with entered(folder) as db:
        cells = Magic(SimpleNamespace(user_ns={"db": db}))
        cells("use db")
        yield Opened(lambda sql: str(cells("", sql).fetchall()))


@contextmanager
def command_line(folder: Path) -> Iterator[Opened]:
    """`dpsql query`, with the statement on its standard input."""
    from typer.testing import CliRunner

    from dpsql.interfaces.cli.main import app

    def send(sql: str) -> str:
        command = ["query", str(folder / "canaries.duckdb"), "-", "--analyst", ANALYST]
        done = CliRunner().invoke(app, command, input=sql.encode("utf-8", "surrogatepass"))
        if done.exit_code == 0:
            return done.output
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        raise OperationalError(done.output)

    yield Opened(send)


@contextmanager
def shell(folder: Path) -> Iterator[Opened]:
    """Lines of `dpsql shell`; it answers statements one by one, and says so when one is refused."""
    from dpsql.interfaces.cli.shell import Shell

    with entered(folder) as db:
        lines = Shell(db)

        def send(sql: str) -> str:
            said = StringIO()
            lines.failed = lines.done = False
            with redirect_stdout(said), redirect_stderr(said):
                for line in (*sql.split("\n"), ";"):
                    lines.feed(line)
                lines.drop()
            if lines.failed:
                raise OperationalError(said.getvalue())
            return said.getvalue()

        yield Opened(send, lambda sql: NOTHING if not re.sub(r"--[^\n]*|[;\s]", "", sql) else None)


# the server -----------------------------------------------------------------------------------------------------------


class _Client(ServerStream):
    """A client that shows everything it was sent."""

    def simple(self, sql: str) -> str:
        """One message; a transaction that it opened, and that failed, is ended."""
        try:
            return self._all(message(b"Q", zero(sql)))
        finally:
            self._all(message(b"Q", zero("ROLLBACK")))

    def extended(self, sql: str) -> str:
        """Parse, Bind, Describe, Execute, Sync."""
        steps = (
            message(b"P", b"\0", zero(sql), bytes(2)), message(b"B", bytes(8)), message(b"D", b"P\0"),
            message(b"E", bytes(5)), message(b"S"),
        )  # fmt: skip
        return self._all(b"".join(steps))

    def _all(self, sent: bytes) -> str:
        self._send(sent)
        said, refused = b"", None
        while True:
            kind, body = self._read()
            if kind == b"E":
                refused = refused or _error(body)
            elif kind == b"Z":
                break
            else:
                said += body.data
        if refused is not None:
            raise refused
        return said.decode("utf-8", "replace")


def _server(protocol: Callable[[_Client], Send]) -> Door:
    @contextmanager
    def opened(folder: Path) -> Iterator[Opened]:
        with served(folder, "canaries.duckdb", ANALYST) as (port, process):
            clients = [_client(port)]

            def send(sql: str) -> str:
                try:
                    return protocol(clients[0])(sql)
                except UnicodeEncodeError:
                    raise InterfaceError("this cannot be sent") from None
                except OperationalError as problem:
                    if problem.message == LOST:
                        clients[0] = _client(port)
                    raise

            yield Opened(send, _harmless, process)
            clients[0].close()

    return opened


def _client(port: int) -> _Client:
    return _Client("127.0.0.1", port, ANALYST, "canaries", PASSWORD, None)


def _harmless(sql: str) -> str | None:
    """The reason if dpsql is not asked at all: each statement goes to the session or to the empty catalogue."""
    try:
        kinds = {statement.kind for statement in split_statements(sql.replace("\0", ""), TABLES)}
    except (TooManyStatements, Error):
        return None
    return KINDS[min(kinds, key=list(KINDS).index)] if kinds <= set(KINDS) else None


@contextmanager
def remote(folder: Path) -> Iterator[Opened]:
    """`dpsql.connect("dpsql://…")`."""
    from dpsql.interfaces.client.connection import connect_to

    with (
        served(folder, "canaries.duckdb", ANALYST) as (port, process),
        connect_to(f"dpsql://{ANALYST}@127.0.0.1:{port}/canaries", password=PASSWORD) as db,
    ):
        yield Opened(lambda sql: str(db.query(sql).fetchall()), process=process)


INTERFACE_DOORS: dict[str, Door] = {
    "SQLAlchemy": sqlalchemy, "private frame": private_frame, "notebook cell": magic, "dpsql query": command_line,
    "dpsql shell": shell, "server, simple protocol": _server(lambda client: client.simple),
    "server, extended protocol": _server(lambda client: client.extended), "dpsql://": remote,
}  # fmt: skip
ALL_DOORS: dict[str, Door] = {**SESSION_DOORS, **INTERFACE_DOORS}
