"""How exact an answer should be: what an analyst writes as `accuracy=`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from dpsql.errors import InterfaceError
from dpsql.plan.plan import Output, Plan
from dpsql.policy.identifiers import fold


@dataclass(frozen=True, slots=True)
class Within:
    """An error of at most `amount`, either way, in at least `confidence` of all cases, for each row by itself.

    `Within(100)` is absolute, `Within("2%")` relative to the value without noise. It is about the noise, as error bars
    are: what clamping and the bounds per unit cut off is not covered.
    """

    amount: float | Decimal | str
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not isinstance(self.confidence, float) or not 0.5 <= self.confidence <= 0.9999:
            raise InterfaceError(
                f"a confidence lies between 0.5 and 0.9999, not at {self.confidence!r}", hint="write confidence=0.95"
            )
        if not 0 < self.size < float("inf"):
            raise InterfaceError(
                f"{self.amount!r} is not an accuracy", hint='write a number above 0, as in Within(100) or Within("2%")'
            )

    @property
    def relative(self) -> bool:
        """Is it a percentage of the value?"""
        return isinstance(self.amount, str) and self.amount.strip().endswith("%")

    @property
    def size(self) -> float:
        """The amount as a number; NaN if it is none. A percentage is a fraction: 2% is 0.02."""
        text = str(self.amount).strip()
        try:
            number = Decimal("NaN") if isinstance(self.amount, bool) else Decimal(text.removesuffix("%"))
        except InvalidOperation:
            return float("nan")
        return float(number) / 100 if self.relative else float(number)

    def __str__(self) -> str:
        shown = f"{self.size:.4%}".rstrip("0%").rstrip(".") + "%" if self.relative else f"{self.size:.6g}"
        return f"± {shown} ({self.confidence * 100:g}%)"


Target = Within | float | Decimal | str
Accuracy = Target | Mapping[str, Target]
"""One target for all columns with noise, or one for each column that is named."""


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
