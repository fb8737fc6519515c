"""The connection to a dpsql server: PostgreSQL's protocol over TLS with SCRAM, simple queries only."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from pathlib import Path

from dpsql import errors
from dpsql.errors import Error, InterfaceError, OperationalError, Span
from dpsql.interfaces.server import wire
from dpsql.interfaces.server.scram import ScramClient, ScramError
from dpsql.interfaces.server.wire import MessageReader, message, zero

LOCAL = ("localhost", "127.0.0.1", "::1")
LOST = "the server ended the connection"
AGAIN = "connect again; what was asked before is replayed"


class ServerStream:
    """One connection, which runs a statement at a time."""

    def __init__(self, host: str, port: int, user: str, dataset: str, password: str, certificate: Path | None) -> None:
        try:
            plain = socket.create_connection((host, port), timeout=30)
        except OSError as problem:
            raise OperationalError(
                f"there is no server at {host}:{port}: {problem}",
                hint="is `dpsql serve` running there? Its first line names host and port",
            ) from None
        self._socket: socket.socket = plain
        try:
            self._socket = _secured(plain, host, certificate)
            self._login(user, dataset, password)
        except BaseException:
            self.close()
            raise
        self._socket.settimeout(None)

    def ask(self, statement: str) -> bytes:
        """The first value of the answer; an error of the server's is raised as the one that it was there."""
        self._send(message(b"Q", zero(statement)))
        value, refused = b"", None
        while True:
            kind, body = self._read()
            if kind == b"D":
                body.int16()
                value = body.take(body.int32())
            elif kind == b"E":
                refused = _error(body)
            elif kind == b"Z":
                break
        if refused is not None:
            raise refused
        return value

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._socket.sendall(message(b"X"))
        self._socket.close()

    def _login(self, user: str, dataset: str, password: str) -> None:
        words = b"".join(map(zero, ("user", user, "database", dataset, "application_name", "dpsql"))) + b"\0"
        self._send(struct.pack("!ii", len(words) + 8, wire.PROTOCOL) + words)
        proof = ScramClient(password)
        while True:
            kind, body = self._read()
            if kind == b"E":
                raise _error(body)
            if kind == b"Z":
                return
            if kind == b"R":
                try:
                    self._prove(body.int32(), body, proof)
                except ScramError as problem:
                    raise OperationalError(f"not logged in: {problem}", hint="is this the right server?") from None

    def _prove(self, code: int, body: MessageReader, proof: ScramClient) -> None:
        rest = body.data[body.at :]
        if code == 10:
            self._send(message(b"p", zero("SCRAM-SHA-256"), len(proof.first).to_bytes(4), proof.first))
        elif code == 11:
            self._send(message(b"p", proof.last(rest)))
        elif code == 12:
            proof.check(rest)
            self._proved = True
        elif code != 0 or not getattr(self, "_proved", False):
            raise ScramError("the server asks for a password in another way")

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            raise OperationalError(LOST, hint=AGAIN) from None

    def _read(self) -> tuple[bytes, MessageReader]:
        head = self._exactly(5)
        return head[:1], MessageReader(self._exactly(int.from_bytes(head[1:]) - 4))

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                part = self._socket.recv(min(count - len(data), 2**20))
            except OSError:
                part = b""
            if not part:
                raise OperationalError(LOST, hint=AGAIN)
            data += part
        return bytes(data)


def _secured(plain: socket.socket, host: str, certificate: Path | None) -> ssl.SSLSocket:
    """TLS. The server is known by its certificate, or by one that the machine trusts; on this machine, by its place."""
    plain.sendall(struct.pack("!ii", 8, wire.SSL_REQUEST))
    if plain.recv(1) != b"S":
        raise OperationalError("the server does not offer TLS", hint="is this a dpsql server?")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = certificate is None and host not in LOCAL
        if certificate is not None:
            context.load_verify_locations(certificate)
        elif host in LOCAL:
            context.verify_mode = ssl.CERT_NONE
        else:
            context.load_default_certs()
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError:
        raise OperationalError(
            f"the certificate of {host} is not known here",
            hint="ask the steward for the file server.crt, and give certificate='server.crt'",
        ) from None
    except (OSError, ssl.SSLError) as problem:
        raise InterfaceError(f"no TLS with {host}: {problem}", hint="look at the certificate's file") from None


def _error(body: MessageReader) -> Error:
    """The error that the server raised, by its name; anything else is an operation that failed."""
    fields: dict[str, str] = {}
    while (key := body.take(1)) != b"\0":
        fields[key.decode()] = body.text()
    kind = getattr(errors, fields.get("R", ""), OperationalError)
    if not (isinstance(kind, type) and issubclass(kind, Error)):
        kind = OperationalError
    made: Error = kind.__new__(kind)
    at = None if "P" not in fields else int(fields["P"]) - 1
    Error.__init__(made, fields.get("M", ""), hint=fields.get("H"), span=None if at is None else Span(at, at + 1))
    return made
