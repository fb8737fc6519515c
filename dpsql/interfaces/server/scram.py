"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: a password is never stored and never sent.

Own code, because the server of the library scramp refuses the empty user name that PostgreSQL's clients send in the
exchange, and passwords that are not valid SASLprep, which PostgreSQL takes as bytes.

An unknown user gets a salt that is made from the name and a secret of the server, the same at every try, and fails at
the same step as a wrong password: who has an account cannot be found out.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

ITERATIONS = 4096
_NONCE = re.compile(r"[\x21-\x2b\x2d-\x7e]{8,200}")


class ScramError(Exception):
    """The password is wrong, or the exchange is not what it should be: the client learns only that it failed."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """What the server stores of a password: enough to verify it, not enough to log in with."""

    iterations: int
    salt: bytes
    stored: bytes
    server: bytes

    def __str__(self) -> str:
        salt, stored, server = (base64.b64encode(part).decode() for part in (self.salt, self.stored, self.server))
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """Parse PostgreSQL's own text form, which `str` writes; raise ValueError for anything else."""
        found = re.fullmatch(r"SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)", text)
        if found is None or int(found[1]) < ITERATIONS:
            raise ValueError("not a SCRAM-SHA-256 verifier")
        salt, stored, server = (base64.b64decode(found[i], validate=True) for i in (2, 3, 4))
        if len(stored) != 32 or len(server) != 32:
            raise ValueError("not a SCRAM-SHA-256 verifier")
        return cls(int(found[1]), salt, stored, server)

    @classmethod
    def of(cls, password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
        """The verifier of a password."""
        salt = secrets.token_bytes(16) if salt is None else salt
        salted = hashlib.pbkdf2_hmac("sha256", saslprep(password), salt, iterations)
        client = _hmac(salted, b"Client Key")
        return cls(iterations, salt, hashlib.sha256(client).digest(), _hmac(salted, b"Server Key"))


def saslprep(password: str) -> bytes:
    """Apply SASLprep where it is valid; otherwise return the bytes as they are, as PostgreSQL's own clients do."""
    import stringprep
    import unicodedata

    mapped = "".join(" " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c))
    normal = unicodedata.normalize("NFKC", mapped)
    forbidden = (stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
                 stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
                 stringprep.in_table_c9, stringprep.in_table_a1)  # fmt: skip
    if not normal or any(test(c) for c in normal for test in forbidden):
        return password.encode()
    right, left = any(map(stringprep.in_table_d1, normal)), any(map(stringprep.in_table_d2, normal))
    if right and (left or not (stringprep.in_table_d1(normal[0]) and stringprep.in_table_d1(normal[-1]))):
        return password.encode()
    return normal.encode()


def unknown_user_verifier(name: str, secret: bytes) -> Verifier:
    """Return a verifier that no password matches, always the same for the same name."""
    salt = hmac.digest(secret, b"salt" + name.encode(), "sha256")[:16]
    return Verifier(ITERATIONS, salt, hmac.digest(secret, b"stored" + name.encode(), "sha256"), bytes(32))


@dataclass(slots=True)
class ScramExchange:
    """One login attempt: two messages from the client, two to it."""

    verifier: Verifier
    known: bool
    _first: str = ""
    _challenge: str = ""
    _header: str = ""

    def challenge(self, first: bytes) -> bytes:
        """The answer to the client's first message: nonce, salt and iterations."""
        text = _ascii(first)
        found = re.fullmatch(r"(([yn]),(?:a=[^,]*)?,)(n=[^,]*,r=([^,]+))", text)
        if found is None or not _NONCE.fullmatch(found[4]):
            raise ScramError("the first message is not SCRAM, or asks for channel binding")
        self._header, self._first = found[1], found[3]
        salt = base64.b64encode(self.verifier.salt).decode()
        nonce = found[4] + base64.b64encode(secrets.token_bytes(18)).decode()
        self._challenge = f"r={nonce},s={salt},i={self.verifier.iterations}"
        return self._challenge.encode()

    def verify(self, last: bytes) -> bytes:
        """The server's proof, if the client's is right."""
        text = _ascii(last)
        found = re.fullmatch(r"(c=([^,]+),r=([^,]+)),p=([A-Za-z0-9+/=]+)", text)
        if found is None or not self._challenge:
            raise ScramError("the last message is not SCRAM")
        nonce = self._challenge.partition(",")[0].removeprefix("r=")
        header = base64.b64encode(self._header.encode()).decode()
        signed = f"{self._first},{self._challenge},{found[1]}".encode()
        try:
            proof = base64.b64decode(found[4], validate=True)
        except ValueError:
            raise ScramError("the proof is not base64") from None
        signature = _hmac(self.verifier.stored, signed)
        client = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        right = hmac.compare_digest(hashlib.sha256(client).digest(), self.verifier.stored)
        same = hmac.compare_digest(found[3], nonce) and hmac.compare_digest(found[2], header)
        if not (right and same and self.known and len(proof) == 32):
            raise ScramError("the password is wrong")
        return b"v=" + base64.b64encode(_hmac(self.verifier.server, signed))


@dataclass(slots=True)
class ScramClient:
    """The client's side: it proves that it knows the password, and verifies that the server does."""

    password: str
    nonce: str = field(default_factory=lambda: base64.b64encode(secrets.token_bytes(18)).decode())
    _server: bytes = b""

    @property
    def first(self) -> bytes:
        """The client's first message."""
        return f"n,,n=,r={self.nonce}".encode()

    def last(self, challenge: bytes) -> bytes:
        """The proof, for the server's challenge."""
        text = _ascii(challenge)
        found = re.fullmatch(r"r=([^,]+),s=([A-Za-z0-9+/=]+),i=(\d{1,7})", text)
        if found is None or not found[1].startswith(self.nonce) or len(found[1]) <= len(self.nonce):
            raise ScramError("the server's challenge is not SCRAM")
        if int(found[3]) < ITERATIONS:
            raise ScramError("the server asks for too few iterations")
        salted = hashlib.pbkdf2_hmac("sha256", saslprep(self.password), base64.b64decode(found[2]), int(found[3]))
        client, bare = _hmac(salted, b"Client Key"), f"c=biws,r={found[1]}"
        signed = f"n=,r={self.nonce},{text},{bare}".encode()
        signature = _hmac(hashlib.sha256(client).digest(), signed)
        self._server = _hmac(_hmac(salted, b"Server Key"), signed)
        proof = bytes(a ^ b for a, b in zip(client, signature, strict=True))
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def check(self, final: bytes) -> None:
        """Verify that the server knows the password too."""
        said = final.partition(b"v=")[2]
        if not self._server or not hmac.compare_digest(said, base64.b64encode(self._server)):
            raise ScramError("the server does not know the password")


def _ascii(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise ScramError("SCRAM is ASCII here") from None


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")
