"""Randomized response: everyone answers for themselves, sometimes untruly, and no one needs to be trusted.

**Theorem (privacy; Warner 1965).** Tell the truth with probability p = e^ε/(e^ε + k − 1), else one of the k − 1 other
values, each with probability q = 1/(e^ε + k − 1). The answer of each person is ε-DP, whoever else answers: for any
two truths the probability of any answer changes by a factor of at most p/q = e^ε. With two values p = e^ε/(1 + e^ε).
The *coin* version tells the truth on heads, and on tails any value, each as likely: p/q = k + 1, which is 3 for yes
and no: ln 3-DP.
**Requires** that who answers is public: neighbours replace a person's answer, they do not add or remove a person.
**Proof.** An answer depends on one person, so two neighbouring inputs differ in one factor of the product, p or q
over p or q.
**Theorem (accuracy).** Let s be the share of answers v among n. Then (s − q)/(p − q) is an unbiased estimate of the
share of people whose truth is v, and is off by more than √(ln(2/β)/2n)/(p − q) with probability at most β. The same
holds for the share in the population, where the n people are a random sample of it.
**Proof.** A person answers v with probability p if it is true, else q, so the mean of s is q + (p − q)·share. The
answers are independent, each in [0, 1]: Hoeffding's inequality gives P[|s − mean| ≥ λ] ≤ 2e^(−2λ²n). In a random
sample each answer is v with probability q + (p − q)·share of the population, independently: the same inequality. For
two values 1/(p − q) = (1+e^ε)/(e^ε−1) and q = 1/(1+e^ε).
**Checked by** `tests/unit/mechanisms/test_textbook.py` and `test_randomized_response.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ProgrammingError
from dpsql.mechanisms.divergence import FiniteLaw
from dpsql.mechanisms.exact_numbers import Number, positive, probability
from dpsql.mechanisms.sampler import bernoulli_exp, random_bits, uniform

FINEST = 2**40
"""An ε with more binary digits than this is rounded down: a little more noise."""


@dataclass(frozen=True, slots=True)
class Share:
    """An estimated share of people, and the interval that holds it with the confidence asked for."""

    share: float
    low: float
    high: float


class Response(ABC):
    """What both versions share: the answer is the truth with probability `truth`, each other value with `lie`."""

    __slots__ = ()

    values: Sequence[Hashable]

    @property
    @abstractmethod
    def truth(self) -> float:
        """P[the answer is the truth]."""

    @property
    @abstractmethod
    def lie(self) -> float:
        """P[the answer is v] for each v that is not the truth."""

    @abstractmethod
    def answers(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """An answer to each truth, both as places in `values`, drawn exactly."""

    @property
    def factor(self) -> float:
        """1/(p − q): how much the noise of a share grows when it is made unbiased."""
        return 1 / (self.truth - self.lie)

    def release(self, truth: Hashable) -> Hashable:
        """One person's answer."""
        return self.values[int(self.answers(np.array([self.place(truth)]))[0])]

    def release_all(self, truths: Iterable[Hashable]) -> list[Hashable]:
        """Everyone's answers; each is drawn independently."""
        places = self.answers(np.array([self.place(truth) for truth in truths], dtype=np.int64))
        return [self.values[place] for place in places.tolist()]

    def law(self, truth: Hashable) -> FiniteLaw:
        """The probability of each answer."""
        place = self.place(truth)
        return FiniteLaw({v: self.truth if i == place else self.lie for i, v in enumerate(self.values)})

    def estimate(self, answers: Iterable[Hashable], beta: float = 0.05) -> dict[Hashable, Share]:
        """The share of people for each value, each interval missing with probability at most β."""
        counts = Counter(answers)
        n = sum(counts[value] for value in self.values)
        if n == 0 or n != sum(counts.values()):
            raise ProgrammingError("there are no answers, or some that are not among the values")
        wide = self.accuracy(beta, n)
        shares = {value: (counts[value] / n - self.lie) * self.factor for value in self.values}
        return {value: Share(share, share - wide, share + wide) for value, share in shares.items()}

    def accuracy(self, beta: float, n: int) -> float:
        """The α with P[an estimated share of n people is off by more than α] ≤ β."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ProgrammingError(f"n is a number of answers, at least 1, not {n!r}")
        return self.factor * math.sqrt(math.log(2 / float(probability(beta, "beta"))) / (2 * n))

    def people_for(self, alpha: Number, beta: float) -> int:
        """How many people must answer for that accuracy: the inverse in n."""
        wanted = float(positive(alpha, "alpha"))
        return math.ceil(math.log(2 / float(probability(beta, "beta"))) / 2 * (self.factor / wanted) ** 2)

    def place(self, truth: Hashable) -> int:
        """The place of a truth among the values."""
        try:
            return self.values.index(truth)
        except (ValueError, TypeError):  # a missing value of pandas cannot even be compared
            raise ProgrammingError(
                "an answer is not among the values", hint="give all possible answers: values=[…]"
            ) from None


@dataclass(frozen=True, slots=True)
class RandomizedResponse(Response):
    """Randomized response with a chosen ε, over two or more values."""

    epsilon: Number
    values: Sequence[Hashable] = (False, True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", checked_values(self.values))
        if not 0 < self.rate <= 500:
            raise ProgrammingError(f"epsilon lies above 0 and at most at 500, not at {self.epsilon!r}")

    @property
    def rate(self) -> Fraction:
        """The ε that is sampled: the one asked for, rounded down to 40 binary places if it has more."""
        asked = positive(self.epsilon, "epsilon")
        return asked if asked.denominator <= FINEST else Fraction(math.floor(asked * FINEST), FINEST)

    @property
    def truth(self) -> float:
        """e^ε/(e^ε + k − 1)."""
        return 1 / (1 + (len(self.values) - 1) * math.exp(-self.rate))

    @property
    def lie(self) -> float:
        """1/(e^ε + k − 1)."""
        return math.exp(-self.rate) * self.truth

    def answers(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """An answer to each truth.

        **Theorem.** The truth has probability p, each other value q, exactly. **Proof.** A move by j, uniform in [0,
        k), is kept if j = 0, and else with probability e^(−ε), which `bernoulli_exp` draws exactly; what is not kept
        is drawn again. So the truth has weight 1 and each other value e^(−ε).
        **Requires** a list of values that is public and holds the truth, and uniform bits (`dpsql.mechanisms.sampler`).
        **Checked by** `tests/unit/mechanisms/test_randomized_answers.py`.
        """
        moves = np.zeros(codes.size, dtype=np.int64)
        open_ = np.arange(codes.size)
        while open_.size:
            moves[open_] = uniform(len(self.values), open_.size)
            kept = bernoulli_exp(self.rate.numerator, self.rate.denominator, open_.size)
            open_ = open_[(moves[open_] != 0) & ~kept]
        moved: NDArray[np.int64] = (codes + moves) % len(self.values)
        return moved

    def epsilon_for(self, alpha: Number, beta: float, n: int) -> float:
        """The ε at which n answers have that accuracy: the inverse in ε."""
        factor = float(positive(alpha, "alpha")) / (self.accuracy(beta, n) / self.factor)
        if factor <= 1:
            raise ProgrammingError(
                f"{n} answers do not reach that, even if all are true", hint="ask more people, or allow a larger error"
            )
        return math.log((factor + len(self.values) - 1) / (factor - 1))


@dataclass(frozen=True, slots=True)
class CoinResponse(Response):
    """Warner's coins: on heads the truth, on tails a random value. For two values this is ln 3-DP."""

    values: Sequence[Hashable] = (False, True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", checked_values(self.values))

    @property
    def epsilon(self) -> float:
        """ln(k + 1)."""
        return math.log(len(self.values) + 1)

    @property
    def truth(self) -> float:
        """½ + 1/2k: 3/4 for two values."""
        return 0.5 + self.lie

    @property
    def lie(self) -> float:
        """1/2k: 1/4 for two values."""
        return 0.5 / len(self.values)

    def answers(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """One coin for each, and on tails a uniform value."""
        chosen: NDArray[np.int64] = np.where(random_bits(codes.size), codes, uniform(len(self.values), codes.size))
        return chosen


def checked_values(values: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Two or more different values."""
    listed = tuple(values)
    if isinstance(values, str) or len(listed) < 2 or len(set(listed)) != len(listed):
        raise ProgrammingError("randomized response needs two or more different values", hint='values=["yes", "no"]')
    return listed
