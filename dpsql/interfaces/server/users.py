"""The users: a file of names with SCRAM verifiers, written by `dpsql user add`, readable by the steward only.

```yaml
users:
  ana: {password: "SCRAM-SHA-256$4096:…"}            # the analyst ana of the policy
  superset: {password: "SCRAM-SHA-256$…", analyst: ana, purpose: dashboards}
```
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import yaml

from dpsql.errors import InterfaceError, PolicyError
from dpsql.interfaces.server.scram import Verifier


@dataclass(frozen=True, slots=True)
class User:
    """A user who may connect, and the account that is charged."""

    name: str
    verifier: Verifier
    analyst: str
    purpose: str | None = None


def read_users(path: Path) -> dict[str, User]:
    """Read all users. A file that other users may read, or with unknown keys, is refused."""
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except OSError:
        raise InterfaceError(
            f"there is no file of users {path}", hint=f"make one: dpsql user add NAME --users {path}"
        ) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InterfaceError(
            f"other users may read {path}, which contains password verifiers", hint=f"chmod 600 {path}"
        )
    try:
        found = yaml.safe_load(text) or {}
    except yaml.YAMLError:
        raise PolicyError(f"{path} is not YAML", hint="make a new one with `dpsql user add`") from None
    users = found.get("users") if isinstance(found, dict) and set(found) <= {"users"} else None
    if not isinstance(users, dict):
        raise PolicyError(f"{path} has no users", hint="users: {name: {password: …}}, as `dpsql user add` writes it")
    return {str(name): _user(path, str(name), spec) for name, spec in users.items()}


def _user(path: Path, name: str, spec: object) -> User:
    if not isinstance(spec, dict) or not set(spec) <= {"password", "analyst", "purpose"} or "password" not in spec:
        raise PolicyError(f"{path}: {name} has unknown keys", hint="password, analyst, purpose")
    try:
        verifier = Verifier.parse(str(spec["password"]))
    except ValueError:
        raise PolicyError(
            f"{path}: the password of {name} is not a SCRAM-SHA-256 verifier",
            hint=f"dpsql user add {name} --users {path}",
        ) from None
    purpose = spec.get("purpose")
    return User(name, verifier, str(spec.get("analyst", name)), None if purpose is None else str(purpose))


def add_user(path: Path, user: User) -> bool:
    """Write a user into the file, which only its owner may read. Return whether the name is new."""
    users = read_users(path) if path.exists() else {}
    new = user.name not in users
    users[user.name] = user
    listed = {
        each.name: {
            "password": str(each.verifier),
            **({} if each.analyst == each.name else {"analyst": each.analyst}),
            **({} if each.purpose is None else {"purpose": each.purpose}),
        }
        for each in users.values()
    }
    _replace(path, yaml.safe_dump({"users": listed}, sort_keys=False, allow_unicode=True))
    return new


def remove_user(path: Path, name: str) -> None:
    """Remove a user from the file."""
    users = read_users(path)
    if name not in users:
        raise InterfaceError(f"{path} has no user {name}", hint=f"users: {', '.join(users) or 'none'}")
    kept = {k: v for k, v in (yaml.safe_load(path.read_text(encoding="utf-8"))["users"]).items() if str(k) != name}
    _replace(path, yaml.safe_dump({"users": kept}, sort_keys=False, allow_unicode=True))


def _replace(path: Path, text: str) -> None:
    """Replace the whole file atomically, with mode 0600 from the first byte."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
