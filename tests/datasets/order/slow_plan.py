"""Runs read out of the specification step by step, in Python lists: what plans, which only calculate, are held against.

A step is the list of its slots, and a slot is (source, epoch of the source, sample, whether it is padding). A single
corpus is source None.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

from tests.datasets.order.slow_order import slow_epoch
from tokenyard.datasets.order import Order
from tokenyard.datasets.order.segment import Segment, Source

Slot = tuple[int | None, int, int, bool]
Step = list[Slot]
PERIOD = 65_536


@cache
def _epoch(order: Order, num_units: int, epoch: int, source: int | None) -> list[int]:
    return slow_epoch(order, num_units, epoch, source=source)


def _sample(segment: Segment, source: Source, epoch: int, position: int) -> int:
    """Units of neighbouring samples are placed as one."""
    size = segment.samples_per_unit
    number = source.number if segment.is_mixture else None
    units = _epoch(segment.order, source.num_samples // size, epoch, number)
    return units[position // size] * size + position % size


def _recut(positions: list[int], old: int | None, new: int | None) -> list[int]:
    """Positions of samples of another length: those whose tokens are all left."""
    if old == new:
        return positions
    assert old is not None
    assert new is not None
    tokens = {token for p in positions for token in range(p * old, p * old + old)}
    ends = range(max(tokens, default=0) // new + 1)
    return [p for p in ends if all(token in tokens for token in range(p * new, p * new + new))]


def slow_run(segments: list[Segment], num_steps: int) -> list[tuple[int, Step]]:
    """The epoch and the slots of each of the first steps of a run."""
    return (_mixture if segments[0].is_mixture else _single)(segments, num_steps)


def _stops(segments: list[Segment], num_steps: int) -> Iterator[tuple[Segment, int]]:
    for i, segment in enumerate(segments):
        stop = segments[i + 1].first_step if i + 1 < len(segments) else num_steps
        yield segment, min(stop, num_steps) - segment.first_step


def _single(segments: list[Segment], num_steps: int) -> list[tuple[int, Step]]:
    run: list[tuple[int, Step]] = []
    epoch, left, seq_len, is_new = 0, [0], segments[0].seq_len, True
    for segment, steps in _stops(segments, num_steps):
        source = segment.sources[0]
        whole = list(range(source.num_samples))
        left = whole if is_new else _recut(left, seq_len, segment.seq_len)
        seq_len = segment.seq_len
        batches = _walk(segment, left)
        for _ in range(steps):
            while not batches:  # what was left fills no global batch
                epoch, left = epoch + 1, whole
                batches = _walk(segment, left)
            batch = batches.pop(0)
            run.append((epoch, [(None, epoch, _sample(segment, source, epoch, p), pad) for p, pad in batch]))
            gone = {p for p, _ in batch}
            left = [p for p in left if p not in gone]
            is_new = not batches
            if is_new:
                epoch, left = epoch + 1, whole
                batches = _walk(segment, left)
    return run


def _walk(segment: Segment, positions: list[int]) -> list[list[tuple[int, bool]]]:
    """The global batches of positions: from each lane the next few, then the tail."""
    size, lanes = segment.global_batch_size, segment.order.lanes
    steps, g = len(positions) // size, size // lanes
    batches = [[(positions[s // g * steps * g + t * g + s % g], False) for s in range(size)] for t in range(steps)]
    tail = positions[steps * size :]
    if tail and segment.last_batch == "pad":
        batches.append([(tail[s % len(tail)], s >= len(tail)) for s in range(size)])
    return batches


@cache
def slow_schedule(quotas: tuple[int, ...]) -> list[int]:
    """The source of each draw of a period."""
    pairs = [(Fraction(2 * j + 1, 2 * c), k) for k, c in enumerate(quotas) for j in range(c)]
    return [k for _, k in sorted(pairs)]


@cache
def slow_quotas(weights: tuple[float, ...]) -> tuple[int, ...]:
    """Largest remainder in exact fractions, ties to the lower source."""
    total = sum(map(Fraction, weights))
    exact = [Fraction(weight) / total * PERIOD for weight in weights]
    counts = [int(share) for share in exact]
    for k in sorted(range(len(exact)), key=lambda k: (counts[k] - exact[k], k))[: PERIOD - sum(counts)]:
        counts[k] += 1
    return tuple(counts)


class _Stock:
    """What is left of each epoch of a source that was begun; epochs from `fresh` on are whole."""

    def __init__(self) -> None:
        self.begun: dict[int, list[int]] = {}
        self.fresh = 0


def _mixture(segments: list[Segment], num_steps: int) -> list[tuple[int, Step]]:
    run: list[tuple[int, Step]] = []
    stocks: dict[int, _Stock] = {}
    epoch, left_of_epoch, seq_len, is_new = 0, segments[0].epoch_samples, segments[0].seq_len, True
    for segment, steps in _stops(segments, num_steps):
        if is_new:  # an epoch of which nothing was drawn is a whole one of the segment that draws first
            left_of_epoch = segment.epoch_samples
        elif left_of_epoch is not None and segment.epoch_samples is not None and seq_len != segment.seq_len:
            assert seq_len is not None
            assert segment.seq_len is not None
            left_of_epoch = left_of_epoch * seq_len // segment.seq_len
        if seq_len != segment.seq_len:
            for stock in stocks.values():
                stock.begun = {e: _recut(p, seq_len, segment.seq_len) for e, p in stock.begun.items()}
            seq_len = segment.seq_len
        lanes, g = segment.order.lanes, segment.global_batch_size // segment.order.lanes
        period = slow_schedule(slow_quotas(tuple(source.weight for source in segment.sources)))
        for source in segment.sources:
            stocks.setdefault(source.number, _Stock())
        supplies = [[_lane(segment, source, stocks[source.number], lane) for source in segment.sources]
                    for lane in range(lanes)]  # fmt: skip
        taken: dict[int, dict[int, set[int]]] = {source.number: {} for source in segment.sources}
        at = [lane * PERIOD // lanes for lane in range(lanes)]
        for _ in range(steps):
            while left_of_epoch is not None and left_of_epoch < segment.global_batch_size:
                epoch, left_of_epoch = epoch + 1, segment.epoch_samples
            step: Step = []
            for lane in range(lanes):
                for _ in range(g):
                    k = period[at[lane] % PERIOD]
                    at[lane] += 1
                    source = segment.sources[k]
                    e, position = next(supplies[lane][k])
                    taken[source.number].setdefault(e, set()).add(position)
                    step.append((source.number, e, _sample(segment, source, e, position), False))
            run.append((epoch, step))
            is_new = False
            if left_of_epoch is not None:
                left_of_epoch -= segment.global_batch_size
                if left_of_epoch < segment.global_batch_size:
                    epoch, left_of_epoch, is_new = epoch + 1, segment.epoch_samples, True
        for source in segment.sources:
            _settle(stocks[source.number], taken[source.number], source.num_samples, lanes)
    return run


def _lane(segment: Segment, source: Source, stock: _Stock, lane: int) -> Iterator[tuple[int, int]]:
    """(epoch, position) of a lane's draws: its stretch of each unfinished epoch, then of every whole one."""
    unfinished, fresh = [(e, list(p)) for e, p in sorted(stock.begun.items())], stock.fresh
    for e, positions in unfinished:
        size = len(positions) // segment.order.lanes
        yield from ((e, p) for p in positions[lane * size : (lane + 1) * size])
    size = source.num_samples // segment.order.lanes
    while True:
        yield from ((fresh, lane * size + n) for n in range(size))
        fresh += 1


def _settle(stock: _Stock, taken: dict[int, set[int]], num_samples: int, lanes: int) -> None:
    """Take out what was drawn. An epoch is finished when each lane has drawn all of its stretch."""
    while taken and max(taken) >= stock.fresh:
        stock.begun[stock.fresh] = list(range(num_samples))
        stock.fresh += 1
    for e, positions in list(stock.begun.items()):
        gone = taken.get(e, set())
        if len(gone) == len(positions) // lanes * lanes:
            del stock.begun[e]
        else:
            stock.begun[e] = [p for p in positions if p not in gone]
