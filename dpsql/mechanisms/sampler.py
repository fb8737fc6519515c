"""Exact vectorised draws: uniform integers, Bernoulli(p), Bernoulli(exp(-x)), and the geometric law of 1/e.

Integers only: a probability is a ratio of two integers or a power of 1/e, and every decision is a comparison
of integers, so no rounding can bend a law (Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for
Differential Privacy").

Own code: OpenDP's samplers draw one number at a time, and a release may need a million of them. It is the outside
comparison in the tests.
"""

from __future__ import annotations

import os
import threading
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import InternalError

# random bytes ---------------------------------------------------------------------------------------------------------
# Random bytes from the operating system, buffered; no bit is handed out twice.


BUFFER = 4096
"""Requests of at least this many bytes go to the operating system directly."""


class _Buffer(threading.local):
    """Unused random bytes of one thread in one process.

    A thread sees no other thread's buffer, so there is nothing to lock. A child process starts with its
    parent's bytes in memory: the fork hook below throws them away, and the process id catches a fork
    that Python did not see.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.owner = os.getpid()
        self.unused = b""

    def take(self, count: int) -> bytes:
        if self.owner != os.getpid():
            self.clear()
        if len(self.unused) < count:
            self.unused = os.urandom(BUFFER)
        taken, self.unused = self.unused[:count], self.unused[count:]
        return taken


_buffer = _Buffer()
os.register_at_fork(after_in_child=_buffer.clear)


def random_bytes(count: int) -> bytes:
    """Fresh bytes from the operating system's generator."""
    return os.urandom(count) if count >= BUFFER else _buffer.take(count)


def random_words(count: int, bits: int) -> NDArray[np.unsignedinteger]:
    """Independent uniform words of 8, 16, 32 or 64 bits."""
    return np.frombuffer(random_bytes(count * bits // 8), dtype=f"u{bits // 8}")


def random_bits(count: int) -> NDArray[np.bool_]:
    """Independent fair coins."""
    return np.unpackbits(random_words(-(-count // 8), 8), count=count).view(np.bool_)


Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

LIMIT = 2**62
"""Uniform draws are below this."""

MAX_GEOMETRIC = 2**22
"""Geometric draws are below this, so that products with them fit in 64 bits."""

_CELL_BITS = 16
_GUARD_BITS = 32
_UNDECIDED = -1


def uniform(n: int | Integers, size: int) -> Integers:
    """Independent uniform integers in [0, n) for 1 <= n <= 2**62; n is one bound or one per draw.

    **Theorem.** All values are equally likely.
    **Proof.** With b = ⌊(2^w − 1)/n⌋, each value v is hit by exactly the b words in
    [bv, bv + b); words from bn on are drawn again. bn < 2^w, so nothing overflows.
    **Requires** words that are uniform, independent and used once (`dpsql.mechanisms.sampler`).
    **Checked by** `tests/unit/mechanisms/test_sampler_words.py`, and the planted bug "a uniform draw by remainder".
    """
    _require(n, 1, LIMIT)
    words, block = _accepted_words(n, size)
    return (words // block).astype(np.int64)


def bernoulli(num: int | Integers, den: int | Integers, size: int) -> Booleans:
    """Independent draws that are true with probability num/den, for 0 <= num <= den <= 2**62.

    **Theorem.** The probability is exact. **Proof.** As in `uniform`, ⌊word/b⌋ is uniform in [0, den), and it is below
    num exactly when the word is below b·num <= b·den < 2^w.
    **Requires** uniform words (`dpsql.mechanisms.sampler`). **Checked by**
    `tests/unit/mechanisms/test_sampler_words.py`.
    """
    _require(den, 1, LIMIT)
    _require(num, 0, den)
    words, block = _accepted_words(den, size)
    below: Booleans = words < block * np.asarray(num).astype(words.dtype)
    return below


def bernoulli_exp(num: int | Integers, den: int | Integers, size: int) -> Booleans:
    """Independent draws that are true with probability exp(-num/den), for num >= 0 and 1 <= den <= 2**62.

    **Theorem.** The probability is exact. **Proof.** With num = q·den + r, exp(-num/den) = exp(-q)·exp(-r/den): a
    geometric draw reaches q with probability exp(-q), and the fraction r/den < 1 goes to the alternating series.
    **Requires** independent draws of both (below). **Checked by** `tests/unit/mechanisms/test_sampler.py`.
    """
    _require(den, 1, LIMIT)
    _require(num, 0, np.iinfo(np.int64).max)
    whole, rest = np.divmod(np.broadcast_to(np.asarray(num, np.int64), size), np.asarray(den, np.int64))
    if not whole.any():
        return bernoulli_exp_fraction(rest, den)
    accepted = geometric(size) >= whole
    kept = np.flatnonzero(accepted)
    accepted[kept] = bernoulli_exp_fraction(rest[kept], _pick(den, kept))
    return accepted


def bernoulli_exp_fraction(num: Integers, den: int | Integers) -> Booleans:
    """Independent draws that are true with probability exp(-num/den), for 0 <= num <= den <= 2**62.

    **Theorem.** With x = num/den, let K be the first k >= 1 at which a coin of probability x/k fails; then
    P[K is odd] = exp(-x).
    **Proof.** P[K > k] = x^k/k!, so P[K odd] = Σ (P[K > k − 1] − P[K > k]) over odd k = Σ (−x)^k/k!. A coin of
    probability x/k is a coin 1/k and a coin num/den together, so that den·k is never formed.
    **Requires** coins of exactly these probabilities (`bernoulli`). **Checked by**
    `tests/unit/mechanisms/test_sampler.py`, and the planted bug "the alternating series stops early".
    """
    odd = np.ones(num.shape, np.bool_)
    alive = np.flatnonzero(bernoulli(num, den, num.size))
    k = 1
    while alive.size:
        odd[alive] ^= True
        k += 1
        alive = alive[bernoulli(1, k, alive.size)]
        alive = alive[bernoulli(num[alive], _pick(den, alive), alive.size)]
    return odd


def geometric(size: int) -> Integers:
    """Independent draws V with P[V >= v] = exp(-v) for v = 0, 1, 2, …

    **Theorem.** The law is exact.
    **Proof.** For u uniform in [0, 1), V = max {v : u < e^(-v)} has this law. The first 16 bits of u name a cell;
    where no e^(-v) lies inside the cell, V is a constant of the cell, else more bits of u are drawn until the
    rational bounds of `exp_bounds` decide.
    A draw that 2**22 bits do not decide is refused with an error, whatever the data are; its probability is
    below 2^(-4·10^6). So V < 2**22: `v` is decided by b bits only if 2^b·e^(-v) >= 1.
    **Requires** uniform bits (`dpsql.mechanisms.sampler`), and bounds that enclose e^(-v) (`exp_bounds`).
    **Checked by** `tests/unit/mechanisms/test_sampler.py`, and the planted bug "cells of the geometric law are decided
    at their edge".
    """
    cells = random_words(size, _CELL_BITS)
    drawn = _cell_table().take(cells).astype(np.int64)
    for i in np.flatnonzero(drawn == _UNDECIDED):
        drawn[i] = _refine(int(cells[i]), _CELL_BITS)
    return drawn


@cache
def exp_bounds(v: int, bits: int) -> tuple[int, int]:
    """Integers (lower, upper) with lower <= 2^bits·e^(-v) <= upper, and upper − lower = 1 but for chance.

    **Theorem.** The bounds enclose it. **Proof.** D_n = n·D_(n-1) + (−1)^n counts derangements, and |D_n − n!/e| < 1;
    powers of the bounds on 1/e are taken with 32 further bits, rounded down and up.
    **Requires** nothing else: all of it is arithmetic of whole numbers.
    **Checked by** `tests/unit/mechanisms/test_sampler.py`.
    """
    precision = bits + _GUARD_BITS
    low, high = _inverse_e(precision)
    lower = upper = 1 << precision
    for _ in range(v):
        lower = lower * low >> precision
        upper = -(-upper * high >> precision)
    return lower >> _GUARD_BITS, -(-upper >> _GUARD_BITS)


@cache
def _inverse_e(precision: int) -> tuple[int, int]:
    """Integers around 2^precision/e; n = precision + 4 makes n! exceed 2^precision."""
    derangements = factorial = 1
    for n in range(1, precision + 5):
        derangements = n * derangements + (-1) ** n
        factorial *= n
    return (derangements - 1 << precision) // factorial, -((-derangements - 1 << precision) // factorial)


def _decide(prefix: int, bits: int) -> int:
    """V for every u whose first bits are `prefix`, or undecided."""
    v = 0
    while True:
        lower, upper = exp_bounds(v + 1, bits)
        if prefix >= upper:
            return v
        if prefix >= lower:
            return _UNDECIDED
        v += 1


def _refine(prefix: int, bits: int) -> int:
    """Draw further bits of u until V is decided."""
    v = _UNDECIDED
    while v == _UNDECIDED:
        prefix, bits = prefix << 64 | int(random_words(1, 64)[0]), bits + 64
        if bits >= MAX_GEOMETRIC:
            raise InternalError("a noise draw left the range of 64-bit integers")
        v = _decide(prefix, bits)
    return v


@cache
def _cell_table() -> NDArray[np.int8]:
    """`_decide` of each 16-bit cell."""
    table = np.zeros(1 << _CELL_BITS, np.int8)
    for v in range(1, _CELL_BITS):
        lower, upper = exp_bounds(v, _CELL_BITS)
        table[:lower], table[lower:upper] = v, _UNDECIDED
    return table


def _accepted_words(n: int | Integers, size: int) -> tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]]:
    """Uniform words below block·n, and block: how many words stand for each integer in [0, n)."""
    bits = _word_bits(int(np.max(n, initial=1)))
    bound = np.asarray(n).astype(f"u{bits // 8}")
    block = np.iinfo(bound.dtype).max // bound
    end = block * bound
    words = random_words(size, bits)
    rejected = np.flatnonzero(words >= end)
    if rejected.size:
        words = words.copy()
    while rejected.size:
        words[rejected] = random_words(rejected.size, bits)
        rejected = rejected[words[rejected] >= (end if end.ndim == 0 else end[rejected])]
    return words, block


def _word_bits(n: int) -> int:
    """The shortest word that is drawn again at most once in 16 times (64 bits: once in four)."""
    return 16 if n <= 2**12 else 32 if n <= 2**28 else 64


def _pick(values: int | Integers, index: NDArray[np.intp]) -> int | Integers:
    return values[index] if isinstance(values, np.ndarray) and values.ndim else values


def _require(value: int | Integers, low: int, high: int | Integers) -> None:
    if np.any(np.less(value, low)) or np.any(np.greater(value, high)):
        raise InternalError("a sampler was called outside its range")
