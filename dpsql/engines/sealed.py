"""Exact integers, sealed: engines make them, and only the noise stage and the steward's trace can open them.

**Theorem.** Between an engine and the noise, no code can read exact values: not to show, compare, store or send them.
**Proof.** The integers are held by a function that gives them to whoever has a token to open them, and by nothing else:
`Exact` has no attribute, equality, order, length, text or pickle that depends on them, and does not exist without a
warrant. Tokens are given to the modules named in `OPEN` only. Of these the noise stage makes released tables of what it
opens, the trace is the steward's own and cannot make a released table, and an isolated engine's process hands them to
the engine on the other side of its pipe, which seals them again.
**Requires** rights that only their holders have (`dpsql.rights`), and engines that seal what they computed and keep
nothing (`dpsql.engines.sql.release_statements`).
**Checked by** `tests/unit/test_locks.py`, and the planted bugs "anybody opens exact values", "exact values have a text"
and "exact values are made without a warrant".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, final

import numpy as np
from numpy.typing import NDArray

from dpsql.budget.ledger.reservation import TracePermit, Warrant, made_by_a_holder
from dpsql.errors import InternalError
from dpsql.expressions.expression import Value
from dpsql.rights import Right, Token

OPEN = Right("open exact values", "dpsql.answers.noise_stage", "dpsql.audit.traces", "dpsql.engines.isolated.worker")


@dataclass(frozen=True, slots=True)
class Weights:
    """An exact histogram: the weight of each cell that has any, by the number of its group, in ascending order."""

    groups: NDArray[np.int64]
    cells: NDArray[np.int64]
    weights: NDArray[np.int64]

    def of(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cells of one group that have weight, and their weights."""
        start, stop = np.searchsorted(self.groups, [group, group + 1])
        return self.cells[start:stop], self.weights[start:stop]


@dataclass(frozen=True, slots=True)
class Integers:
    """What an engine computed: the content of an `Exact`, in which it leaves the engine.

    `keys` holds one tuple per row; `values` one array per statistic, already floored to its noise grid; `selection`
    the total weight of each private key; `histograms` what the choices are made from.
    """

    keys: tuple[tuple[Value, ...], ...]
    values: tuple[NDArray[np.int64], ...]
    selection: NDArray[np.int64] | None
    histograms: tuple[Weights, ...] = ()


@final
class Exact:
    """The integers of one release before noise, sealed; `traced` if the steward read them, without a charge."""

    __slots__ = ("_opened", "traced")

    traced: bool
    _opened: Callable[[Token], Integers]

    def __init__(self, content: Integers, warrant: Warrant) -> None:
        if not made_by_a_holder(warrant):
            raise InternalError("no exact values without a reservation")

        def opened(token: Token) -> Integers:
            OPEN.check(token)
            return content

        object.__setattr__(self, "_opened", opened)
        object.__setattr__(self, "traced", type(warrant) is TracePermit)

    def open(self, token: Token) -> Integers:
        """The integers, for a module that has the right to read them."""
        return self._opened(token)

    def __repr__(self) -> str:
        return "Exact(sealed)"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise InternalError("exact values do not change")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise InternalError("exact values are neither copied nor stored")
