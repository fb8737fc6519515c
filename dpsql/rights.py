"""Rights of named modules: to make a reservation, to open exact values, to make a released table.

Python cannot restrict who makes or opens the values of a type. So a module that has such a right takes a token for it
when it is imported, and the type asks for the token. This guards against mistakes in dpsql's own code, such as a run
without a charge. It does not guard against malicious code, which analysts cannot run: their text never becomes Python.
"""

from __future__ import annotations

import sys

from dpsql.errors import InternalError


class Token:
    """A right that one module has taken. Tokens are compared by identity, so a copy is worth nothing."""

    __slots__ = ("holder", "what")

    def __init__(self, what: str, holder: str) -> None:
        self.what, self.holder = what, holder

    def __repr__(self) -> str:
        return f"Token({self.what}, {self.holder})"


class Right:
    """What only its holders may do. Each takes its token once, at the top of its own file: `_OPEN = OPEN.take()`.

    **Theorem.** `check` passes only for a token that `take` gave to code that runs in the module of a holder.
    **Proof.** `check` compares with the tokens given, by identity. `take` gives one only if the globals of its caller
    are those of the module that the interpreter imported under a holder's name.
    **Requires** that no module reads another's token, which `tests/unit/test_locks.py` looks for in the source, and
    code that is honest about its own name.
    **Checked by** `tests/unit/test_locks.py` and the planted bug "anybody may take a token".
    """

    def __init__(self, what: str, *holders: str) -> None:
        self.what, self.holders = what, frozenset(holders)
        self._given: dict[str, Token] = {}

    def take(self) -> Token:
        """The caller's token, if its module is a holder."""
        caller = sys._getframe(1).f_globals
        name = getattr(caller.get("__spec__"), "name", None)
        module = sys.modules.get(caller.get("__name__", ""))
        if name not in self.holders or module is None or vars(module) is not caller:
            raise InternalError(f"{name} may not {self.what}")
        return self._given.setdefault(name, Token(self.what, name))

    def check(self, token: object) -> None:
        """Raise if this is not a token of a holder."""
        if not any(token is given for given in self._given.values()):
            raise InternalError(f"no right to {self.what}")
