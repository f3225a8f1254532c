"""Keyed permutations of 0..n-1 that can be asked at any place, for any n (`order/1`).

A permutation is two numbers, n and a key. Up to `TABLE_LIMIT` it is a sort of hashes, which mixes best; above, where
a table would cost memory and time to start, it is a Feistel network, computed at the places asked for and nowhere else.
"""

import struct
from collections.abc import Callable

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from tokenyard.errors import ConfigError
from tokenyard.permutation.checks import check_indices, check_int
from tokenyard.permutation.table_cache import TABLES

TABLE_LIMIT = 1 << 20
KEY_LIMIT = 1 << 64

_PREFIX = b"tokenyard/order/1\0"
_GOLDEN = 0x9E3779B97F4A7C15
_NUM_ROUNDS = 6
# Elements worked on at once: many enough to hide the cost of a call, few enough for their scratch to stay in cache.
_CHUNK = 1 << 16
# Below this many values, each is looked for by itself.
_FEW = 8

_Rounds = Callable[[int, int, NDArray[np.uint64]], NDArray[np.uint64]]


def key(seed: int, epoch: int, t: int, i: int) -> int:
    """Return the 64-bit key of purpose `t` and number `i` in an epoch. Raises `ConfigError` outside [0, 2**64)."""
    try:
        numbers = struct.pack("<4Q", seed, epoch, t, i)
    except struct.error:
        raise ConfigError(
            f"key: expected four ints from 0 to {KEY_LIMIT - 1}, found seed {seed!r}, epoch {epoch!r}, t {t!r}, i {i!r}"
        ) from None
    return int.from_bytes(blake3(_PREFIX + numbers).digest(8), "little")


def splitmix(k: int, i: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return `h(k, i)` for each i: the i-th output of the SplitMix64 generator begun at state `k`.

    For one `k` different i give different values: adding, multiplying by an odd number and xoring a shift all have
    an inverse modulo 2**64. (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.)
    """
    z = i * np.uint64(_GOLDEN)
    z += np.uint64((k + _GOLDEN) % KEY_LIMIT)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def perm(n: int, k: int, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the permutation of 0..n-1 with key `k` sends each `x`.

    Args:
        n: size, below 2**62.
        k: key, below 2**64.
        x: integers in [0, n), of any shape and in any order.

    Returns:
        int64 of x's shape. Up to `TABLE_LIMIT` the table is kept for the next call; above, memory beyond the result
        is constant.

    Raises:
        ConfigError: a number is out of its range.
    """
    check_int("n", n, at_least=0)
    check_int("k", k, at_least=0, below=KEY_LIMIT)
    places = check_indices("x", x, below=n)
    if not places.size:
        return places.copy()
    if n > TABLE_LIMIT:
        return _feistel(n, k, places, _rounds)
    table: NDArray[np.int64] = TABLES.get(sorted_table, n, k)[places]
    return table


def perm_inverse(n: int, k: int, y: int) -> int:
    """Return the x that `perm(n, k, ...)` sends to `y`. Raises `ConfigError` if a number is out of its range."""
    check_int("n", n, at_least=0)
    check_int("y", y, at_least=0, below=n)
    return int(perm_inverses(n, k, np.array([y]))[0])


def perm_inverses(n: int, k: int, y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the x that `perm(n, k, ...)` sends to each `y`, int64 of its shape. Raises as `perm` does."""
    check_int("n", n, at_least=0)
    check_int("k", k, at_least=0, below=KEY_LIMIT)
    values = check_indices("y", y, below=n)
    if n > TABLE_LIMIT:
        return _feistel(n, k, values, _rounds_back)
    if values.size < _FEW:  # a count for each costs less than a sort
        hashes = splitmix(k, np.arange(n, dtype=np.uint64))
        counts = [np.count_nonzero(hashes < hashes[value]) for value in values.reshape(-1).tolist()]
        return np.array(counts, np.int64).reshape(values.shape)
    inverse = np.empty(n, np.int64)
    inverse[TABLES.get(sorted_table, n, k)] = np.arange(n)
    return inverse[values]


def sorted_table(n: int, k: int) -> NDArray[np.int64]:
    """Return int64[n], the indices 0..n-1 in the order of their hashes."""
    # No two hashes are equal, so the quick unstable sort gives the one stable order.
    return np.argsort(splitmix(k, np.arange(n, dtype=np.uint64)))


def _feistel(n: int, k: int, places: NDArray[np.int64], rounds: _Rounds) -> NDArray[np.int64]:
    flat = places.reshape(-1)
    out = np.empty(flat.size, np.int64)
    for start in range(0, flat.size, _CHUNK):
        stop = start + _CHUNK
        y = rounds(n, k, flat[start:stop].astype(np.uint64))
        # The network permutes 0..2**bits-1. Following it until it is back below n permutes 0..n-1; as 2**bits < 2n,
        # two turns do on average.
        outside = np.flatnonzero(y >= n)
        while outside.size:
            y[outside] = rounds(n, k, y[outside])
            outside = outside[y[outside] >= n]
        out[start:stop] = y
    return out.reshape(places.shape)


def _rounds(n: int, k: int, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for round_key, high, low in _schedule(n, k):
        right = x & np.uint64((1 << low) - 1)
        mixed = splitmix(round_key, right)
        mixed ^= x >> np.uint64(low)
        mixed &= np.uint64((1 << high) - 1)
        right <<= np.uint64(high)
        right |= mixed
        x = right
    return x


def _rounds_back(n: int, k: int, y: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for round_key, high, low in reversed(_schedule(n, k)):
        right = y >> np.uint64(high)
        mixed = splitmix(round_key, right)
        mixed ^= y
        mixed &= np.uint64((1 << high) - 1)
        mixed <<= np.uint64(low)
        mixed |= right
        y = mixed
    return y


def _schedule(n: int, k: int) -> list[tuple[int, int, int]]:
    """Return for each round its key, and how many bits are high and low."""
    bits = (n - 1).bit_length()
    halves = (bits // 2, bits - bits // 2)
    round_keys = splitmix(k, np.arange(_NUM_ROUNDS, dtype=np.uint64)).tolist()
    return [(round_key, halves[r % 2], halves[1 - r % 2]) for r, round_key in enumerate(round_keys)]
