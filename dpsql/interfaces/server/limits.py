"""What one server puts up with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Times are in seconds, sizes in bytes."""

    connections: int = 300
    """Clients that have logged in, of all accounts together."""
    strangers: int = 512
    strangers_of_address: int = 32
    """Clients that have not logged in yet, all together and from one address: slots of their own."""
    message: int = 2**20
    login: float = 10
    idle: float = 3600
    statement: float = 120
    write: float = 60
    failures: float = 0.3
    texts: int = 8 * 2**20
    """Prepared statements and the values bound to them, of one client."""
    answers: int = 512 * 2**20
    """Answers that clients have not read yet, together; one account may hold a quarter of it."""
