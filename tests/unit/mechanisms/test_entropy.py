"""Random bytes are never handed out twice: not between threads, not after a fork, not between requests."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from dpsql.mechanisms import sampler as entropy

pytestmark = pytest.mark.true_randomness


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace the operating system's bytes by a stream of distinct 64-bit words."""
    counter = itertools.count()
    lock = threading.Lock()

    def urandom(count: int) -> bytes:
        with lock:
            return b"".join(next(counter).to_bytes(8, "little") for _ in range(-(-count // 8)))[:count]

    monkeypatch.setattr(os, "urandom", urandom)
    entropy._buffer.clear()
    yield
    entropy._buffer.clear()


@pytest.mark.usefixtures("numbered")
def test_requests_never_overlap() -> None:
    sizes = [8, 800, 8, 4088, 4096, 8, 16, 40_000, 3200, 3200, 3200]
    words = np.concatenate([np.frombuffer(entropy.random_bytes(n), "<u8") for n in sizes])
    assert words.size == sum(sizes) // 8
    assert np.unique(words).size == words.size


@pytest.mark.usefixtures("numbered")
def test_threads_share_no_bytes() -> None:
    taken: list[list[bytes]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def draw(own: list[bytes]) -> None:
        start.wait()
        own.extend(entropy.random_bytes(8) for _ in range(3000))

    threads = [threading.Thread(target=draw, args=(own,)) for own in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = list(itertools.chain.from_iterable(taken))
    assert len(words) == 24_000
    assert len(set(words)) == len(words)


def test_a_thread_leaves_the_buffers_of_others_alone() -> None:
    entropy.random_bytes(1)
    own = entropy._buffer.unused
    other = threading.Thread(target=entropy.random_bytes, args=(100,))
    other.start()
    other.join()
    assert entropy._buffer.unused is own


def _bytes_of_a_child() -> bytes:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, entropy.random_bytes(64))
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read()


def test_a_child_process_does_not_repeat_its_parent() -> None:
    entropy.random_bytes(1)
    assert len(entropy._buffer.unused) > 128
    children = [_bytes_of_a_child(), _bytes_of_a_child()]
    everyone = [*children, entropy.random_bytes(64)]
    assert [len(some) for some in everyone] == [64, 64, 64]
    assert len(set(everyone)) == 3


def test_a_child_process_with_a_recycled_process_id_does_not_repeat_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    entropy._buffer.clear()
    entropy.random_bytes(1)
    assert len(entropy._buffer.unused) > 128
    assert _bytes_of_a_child() != entropy.random_bytes(64)


@pytest.mark.usefixtures("numbered")
def test_a_fork_that_python_did_not_see_is_noticed_by_the_process_id(monkeypatch: pytest.MonkeyPatch) -> None:
    entropy.random_bytes(8)
    inherited = {entropy._buffer.unused[i : i + 8] for i in range(0, len(entropy._buffer.unused), 8)}
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert len(inherited) == entropy.BUFFER // 8 - 1
    assert entropy.random_bytes(8) not in inherited


def test_consumed_bytes_leave_the_buffer() -> None:
    entropy._buffer.clear()
    taken = entropy.random_bytes(64)
    assert taken not in entropy._buffer.unused
    assert len(entropy._buffer.unused) == entropy.BUFFER - 64


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_words_are_uniform_in_every_bit(bits: int) -> None:
    words = entropy.random_words(20_000, bits)
    ones = np.unpackbits(words.view(np.uint8).reshape(-1, bits // 8), axis=1).sum(axis=0)
    assert np.all(stats.binomtest(int(ones.min()), 20_000).pvalue > 1e-13)
    assert np.all(stats.binomtest(int(ones.max()), 20_000).pvalue > 1e-13)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_coins_come_in_any_number(count: int) -> None:
    assert entropy.random_bits(count).shape == (count,)


def test_coins_are_fair() -> None:
    assert stats.binomtest(int(entropy.random_bits(100_001).sum()), 100_001).pvalue > 1e-12


def test_small_requests_share_a_page_and_large_ones_leave_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "urandom", lambda count: (asked.append(count), bytes(count))[1])
    entropy._buffer.clear()
    for count, pages in ((1, [4096]), (4095, []), (4095, [4096]), (4096, [4096]), (1, []), (1, [4096]), (5000, [5000])):
        asked.clear()
        assert len(entropy.random_bytes(count)) == count
        assert asked == pages
    entropy._buffer.clear()


@pytest.mark.parametrize("count", range(1, 41))
def test_each_coin_is_a_bit_of_its_own_and_no_byte_is_wasted(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda asked: b"\xff" * asked)
    entropy._buffer.clear()
    coins = entropy.random_bits(count)
    assert coins.dtype == np.bool_
    assert coins.tolist() == [True] * count
    assert entropy.BUFFER - len(entropy._buffer.unused) == (count + 7) // 8
    entropy._buffer.clear()


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_a_word_is_so_many_bits(bits: int) -> None:
    entropy._buffer.clear()
    words = entropy.random_words(3, bits)
    assert (words.dtype, words.shape) == (np.dtype(f"u{bits // 8}"), (3,))
    assert entropy.BUFFER - len(entropy._buffer.unused) == 3 * bits // 8
