"""The life of a server process: its files, its certificate and the signals that it handles.

SIGINT and SIGTERM end it after the queries under way; SIGHUP reloads the policy and the users.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import ssl
import weakref
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import Error, InterfaceError
from dpsql.interfaces.cli.terminal import complain, problems, screen
from dpsql.interfaces.server.listener import Connect, Server, checked, folder_of
from dpsql.interfaces.server.monitoring import failed, note
from dpsql.interfaces.server.server_limits import ServerLimits
from dpsql.interfaces.server.users import User, read_users
from dpsql.policy import ledger_location, load_policy
from dpsql.session import connect

if TYPE_CHECKING:
    from dpsql.session import Connection


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError):
        raise InterfaceError(
            f"{certificate} and {key} are not a certificate and its key", hint="give both as PEM files"
        ) from None
    return context


def own_certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """The certificate and key in a folder; made there if there are none, the key for its owner only."""
    certificate, key = folder / "server.crt", folder / "server.key"
    if not (certificate.exists() and key.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        made, secret = _make(host)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret)
        certificate.write_bytes(made)
    return certificate, key


def _named(host: str) -> tuple[str, ...]:
    """The host, if it is a name: an address to listen on is none."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return (host,)
    return ()


def _make(host: str) -> tuple[bytes, bytes]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError:
        raise InterfaceError(
            "the server needs the packages of dpsql[server]", hint="pip install 'dpsql[server]'"
        ) from None
    secret = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName(each) for each in dict.fromkeys((*_named(host), socket.gethostname(), "localhost"))]
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "::1")]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0].value[:64])])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5)).not_valid_after(now + timedelta(days=825))
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(secret, hashes.SHA256())
    )  # fmt: skip
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    return (
        made.public_bytes(serialization.Encoding.PEM),
        secret.private_bytes(serialization.Encoding.PEM, form, plain),
    )


# the process ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of a server, and where it listens."""

    database: str | Path
    policy: Path
    ledger: str | None
    users: Path
    host: str
    port: int
    steward_port: int | None = None
    pem: tuple[Path, Path] | None = None
    isolate: bool = False

    def read(self, dataset: str | None = None) -> tuple[str, Connect, dict[str, User]]:
        """The dataset, the way to it, and who may go there: as the files are now, looked at as a whole."""
        policy, users = load_policy(self.policy), read_users(self.users)
        if dataset not in (None, policy.dataset):
            raise InterfaceError(f"the policy is another dataset's now: {policy.dataset}", hint="restart the server")
        ledger = ledger_location(policy, self.policy, self.ledger)

        def way(analyst: str, purpose: str | None) -> Connection:
            return connect(
                self.database,
                policy=policy,
                ledger=ledger,
                analyst=analyst,
                purpose=purpose,
                dialect="postgres",
                isolate=self.isolate,
            )

        if self.isolate:  # as long as this way is used there is a connection, and so the process that has the data
            kept = connect(self.database, policy=policy, ledger=ledger, steward=True, isolate=True)
            weakref.finalize(way, kept.close)
        checked(users, way)
        return policy.dataset, way, users


async def serve_at(place: ServerFiles, limits: ServerLimits) -> None:
    """Serve until SIGINT or SIGTERM; read policy and users anew on SIGHUP."""
    loop, ended, reloads = asyncio.get_running_loop(), asyncio.Event(), set[asyncio.Task[None]]()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)  # before anything is opened: what a start began, the end closes
    dataset, way, users = await asyncio.to_thread(place.read)
    certificate, key = place.pem or own_certificate(folder_of(place.users), place.host)
    tls = tls_context(certificate, key)
    server = Server(dataset, way, users, tls, limits, key.read_bytes())
    try:
        taken, health = await server.start(place.host, place.port, place.steward_port)
    except BaseException:
        await server.stop(0)
        raise

    def hang_up() -> None:
        task = loop.create_task(_reload(place, server))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, hang_up)
    if not ended.is_set():
        _welcome(place, server, list(users), taken, health)
    await ended.wait()
    screen().print("shutting down: waiting for running queries")
    await server.stop()


def _welcome(place: ServerFiles, server: Server, users: list[str], taken: int, health: int | None) -> None:
    watch = "" if health is None else f"; /healthz and /metrics on the steward's port {health}"
    said = f"serving {server.dataset} on {place.host}:{taken} (TLS, SCRAM-SHA-256) for {', '.join(users)}{watch}"
    said += f"\n  psql 'host={place.host} port={taken} dbname={server.dataset} user={next(iter(users), 'NAME')}'"
    screen().print(said, soft_wrap=True, highlight=False)


async def _reload(place: ServerFiles, server: Server) -> None:
    """Take in the files as they are now; if they are not right, what is served stays as it was."""
    try:
        _, way, users = await asyncio.to_thread(place.read, server.dataset)
    except Error as error:
        note("not reloaded", kind=type(error).__name__)
        problems().print("not reloaded: the previous policy and users stay in effect")
        complain(error)
        return
    try:
        await server.reload(way, users)
    except Exception as failure:
        failed(failure)
        problems().print("reloaded only in part: restart the server")
        return
    note("reloaded")
    screen().print("reloaded policy and users")
