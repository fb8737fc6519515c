"""A client that sends any bytes it likes: the protocol by hand, with TLS and SCRAM."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from dataclasses import dataclass, field

from served import PASSWORD, Served


def frame(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def startup(**words: str) -> bytes:
    body = struct.pack("!i", 196608) + b"".join(w.encode() + b"\0" for pair in words.items() for w in pair) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def query(sql: str) -> bytes:
    return frame(b"Q", sql.encode() + b"\0")


def parse(sql: str, name: str = "") -> bytes:
    return frame(b"P", name.encode() + b"\0" + sql.encode() + b"\0" + struct.pack("!h", 0))


def bind(portal: str = "", name: str = "", values: tuple[bytes | None, ...] = ()) -> bytes:
    listed = b"".join(struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values)
    return frame(
        b"B", portal.encode() + b"\0" + name.encode() + b"\0\0\0" + struct.pack("!h", len(values)) + listed + b"\0\0"
    )


def describe(what: str = "P", name: str = "") -> bytes:
    return frame(b"D", what.encode() + name.encode() + b"\0")


def execute(limit: int = 0, portal: str = "") -> bytes:
    return frame(b"E", portal.encode() + b"\0" + struct.pack("!i", limit))


SYNC = frame(b"S")


@dataclass
class Raw:
    """A connection, open before it is anybody's."""

    served: Served
    tls: bool = True
    socket: socket.socket = field(init=False)
    key: bytes = b""

    def __post_init__(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.served.port), timeout=30)
        if self.tls:
            self.socket.sendall(struct.pack("!ii", 8, 80877103))
            assert self.socket.recv(1) == b"S"
            context = ssl.create_default_context(cafile=str(self.served.folder / "server.crt"))
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def message(self) -> tuple[bytes, bytes] | None:
        head = self._exactly(5)
        if head is None:
            return None
        return head[:1], self._exactly(struct.unpack("!i", head[1:])[0] - 4) or b""

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except (ConnectionError, ssl.SSLError):
                return None
            if not part:
                return None
            data += part
        return data

    def until_ready(self) -> list[tuple[bytes, bytes]]:
        """All messages up to ReadyForQuery, or to the end of the connection."""
        seen = []
        while (got := self.message()) is not None:
            seen.append(got)
            if got[0] == b"Z":
                break
        return seen

    def login(self, user: str = "ana", password: str = PASSWORD, database: str = "shop") -> list[tuple[bytes, bytes]]:
        self.send(startup(user=user, database=database))
        assert self.message() == (b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0")
        nonce = base64.b64encode(secrets.token_bytes(18)).decode()
        first = f"n=,r={nonce}"
        said = f"n,,{first}".encode()
        self.send(frame(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(said)) + said))
        got = self.message()
        assert got is not None and got[0] == b"R"
        challenge = got[1][4:].decode()
        fields = dict(part.split("=", 1) for part in challenge.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        client = hmac.digest(salted, b"Client Key", "sha256")
        bare = f"c=biws,r={fields['r']}"
        signature = hmac.digest(hashlib.sha256(client).digest(), f"{first},{challenge},{bare}".encode(), "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client, signature, strict=True))).decode()
        self.send(frame(b"p", f"{bare},p={proof}".encode()))
        seen = self.until_ready()
        self.key = next((body for kind, body in seen if kind == b"K"), b"")
        return seen

    def ask(self, *parts: bytes) -> list[tuple[bytes, bytes]]:
        self.send(b"".join(parts))
        return self.until_ready()

    def close(self) -> None:
        self.socket.close()


def kinds(seen: list[tuple[bytes, bytes]]) -> str:
    return b"".join(kind for kind, _ in seen).decode()


def faults(seen: list[tuple[bytes, bytes]]) -> list[str]:
    """The SQLSTATEs of all errors."""
    return [part[1:].decode() for kind, body in seen if kind == b"E" for part in body.split(b"\0") if part[:1] == b"C"]
