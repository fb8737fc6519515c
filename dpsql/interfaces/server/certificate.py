"""TLS for the server: the steward's own certificate, or one that signs itself, made on the first start."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpsql.errors import InterfaceError


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
