"""The specification of the order read word by word, in Python integers and lists: what quick code is held against."""

from functools import cache

from blake3 import blake3

from tokenyard.datasets.order import Order

MASK = 2**64 - 1


def slow_hash(k: int, i: int) -> int:
    z = (k + (i + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@cache
def slow_table(n: int, k: int) -> list[int]:
    return sorted(range(n), key=lambda i: slow_hash(k, i))


def slow_perm(n: int, k: int, x: int, table_limit: int = 2**20) -> int:
    if n <= table_limit:
        return slow_table(n, k)[x]
    bits = (n - 1).bit_length()
    a = bits // 2
    c = bits - a
    while True:
        for r in range(6):
            left, right = x >> c, x % 2**c
            x = (right << a) | (left ^ (slow_hash(slow_hash(k, r), right) % 2**a))
            a, c = c, a
        if x < n:
            return x


def slow_key(seed: int, epoch: int, t: int, i: int) -> int:
    numbers = b"".join(number.to_bytes(8, "little") for number in (seed, epoch, t, i))
    return int.from_bytes(blake3(b"tokenyard/order/1\0" + numbers).digest()[:8], "little")


def slow_epoch(
    order: Order, num_samples: int, epoch: int, table_limit: int = 2**20, source: int | None = None
) -> list[int]:
    """All samples of an epoch: the order blocks laid out in their new order, then each window permuted."""
    samples = range(num_samples)
    t = 0 if source is None else 16 + 4 * source
    if order.shuffle == "none":
        return list(samples)
    if order.shuffle == "global":
        k = slow_key(order.seed, epoch, t + 2, 0)
        return [slow_perm(num_samples, k, x, table_limit) for x in samples]
    size = order.block_samples
    num_blocks = -(-num_samples // size)
    blocks_key = slow_key(order.seed, epoch, t, 0)
    sigma = [slow_perm(num_blocks, blocks_key, x, table_limit) for x in range(num_blocks)]
    laid_out = [sample for block in sigma for sample in samples[block * size : (block + 1) * size]]
    window_size = order.window_blocks * size
    out = []
    for w in range(-(-num_samples // window_size)):
        window = laid_out[w * window_size : (w + 1) * window_size]
        k = slow_key(order.seed, epoch, t + 1, w)
        out += [window[slow_perm(len(window), k, x, table_limit)] for x in range(len(window))]
    return out


def slow_walk(num_samples: int, global_batch_size: int, lanes: int, step: int) -> list[int]:
    """The positions of a global batch: from each lane the next few."""
    num_steps = num_samples // global_batch_size
    per_lane = global_batch_size // lanes
    lane_positions = num_steps * per_lane
    return [lane * lane_positions + step * per_lane + nth for lane in range(lanes) for nth in range(per_lane)]
