"""How exact an answer should be: what an analyst writes as `accuracy=`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpsql.errors import InterfaceError
from dpsql.options import Accuracy, Target, Within
from dpsql.plan.plan import Output, Plan
from dpsql.policy.names import fold


@dataclass(frozen=True, slots=True)
class Goal:
    """A target for one column of the answer."""

    column: int
    name: str
    within: Within

    def __str__(self) -> str:
        return f"{self.name} {self.within}"


def reachable(plan: Plan) -> tuple[Output, ...]:
    """The columns of a query whose error hangs on its price alone: not on what it releases first, and then reads."""
    if plan.nested:
        raise InterfaceError(
            "accuracy= cannot be given for a query that reads results of its own below an aggregate",
            hint="give epsilon=; or ask the inner query by itself, with accuracy=, and write its answer as a constant",
        )
    return plan.outputs


def read_goals(accuracy: Accuracy, outputs: Sequence[Output]) -> tuple[Goal, ...]:
    """The goals of a query; a name that is no column with noise is refused, never passed over.

    One target for all columns is about those that have an error bar: not about chosen values.
    """
    noisy = [(i, output.name) for i, output in enumerate(outputs) if output.noisy and not output.chosen]
    chosen = [output.name for output in outputs if output.chosen]
    if not noisy and chosen:
        raise InterfaceError(
            f"a chosen value such as {chosen[0]} is off in its rank, not by ±", hint="leave accuracy out, give epsilon="
        )
    if not noisy:
        raise InterfaceError("no column of this query carries noise", hint="leave accuracy out")
    if not isinstance(accuracy, Mapping):
        within = _within(accuracy)
        return tuple(Goal(i, name, within) for i, name in noisy)
    wanted = {fold(str(name)): _within(target) for name, target in accuracy.items()}
    unknown = wanted.keys() - {fold(name) for _, name in noisy}
    if unknown or not wanted:
        named = f"there is no column {min(unknown)} with noise" if unknown else "no column is named"
        raise InterfaceError(f"accuracy: {named}", hint=f"columns with noise: {', '.join(name for _, name in noisy)}")
    return tuple(Goal(i, name, wanted[fold(name)]) for i, name in noisy if fold(name) in wanted)


def _within(target: Target) -> Within:
    return target if isinstance(target, Within) else Within(target)
