"""The smallest cache that a run can work with: what its nodes have in use at once, computed from its plan."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.datasets.batches import Batches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order.segment import Segment, Source
from tokenyard.datasets.streaming.tiles import tile_size, unit_of
from tokenyard.datasets.streaming.uses import NodeRank
from tokenyard.errors import ConfigError
from tokenyard.storage.cache.cached_file import RANGE_BYTES
from tokenyard.storage.cells import CELL_BYTES

Int64Array = NDArray[np.int64]


def check_cache(
    max_bytes: int, dataset: TokenDataset, batches: Batches, ranks: Sequence[NodeRank], steps_ahead: int
) -> None:
    """Raise ConfigError, with the figure, where a cache is too small for the ranks of a node."""
    needed = smallest_cache(dataset, batches, ranks, steps_ahead)
    if max_bytes < needed:
        kinds = {segment.order.shuffle for segment in batches.plan.segments}
        why = (
            "order.shuffle: global draws each sample from anywhere, so all of it must be held; with shuffle: block a "
            "part will do"
            if "global" in kinds
            else "that is what is in use at once; fewer order.block_samples, or smaller shards of compressed formats, "
            "need less"
        )
        raise ConfigError(
            f"loader.cache.bytes: {max_bytes} bytes are too few for {len(ranks)} rank{'s' * (len(ranks) > 1)} of this "
            f"node: the smallest cache that this run works with has {needed} bytes ({why})"
        )


def smallest_cache(dataset: TokenDataset, batches: Batches, ranks: Sequence[NodeRank], steps_ahead: int) -> int:
    """Return the bytes that hold what the ranks of a node use within any ``steps_ahead`` steps, and row indexes.

    No less will do, and it is a bound from above: for the largest order blocks there are, in the steps in which the
    most are begun.
    """
    size = tile_size(dataset, batches.plan)
    needed = 0
    for segment in batches.plan.segments:
        total = 0
        for source in segment.sources:
            corpus = next(c for c in dataset.corpora if source.id in (c.digest, c.structural_id))
            if corpus.folder.cache is not None:
                total += _of_source(corpus, segment, source, dataset, batches, ranks, steps_ahead, size)
        needed = max(needed, total)
    return needed


def _of_source(
    corpus: Corpus,
    segment: Segment,
    source: Source,
    dataset: TokenDataset,
    batches: Batches,
    ranks: Sequence[NodeRank],
    steps_ahead: int,
    size: int,
) -> int:
    whole = sum(shard.num_bytes for shard in corpus.manifest.shards)
    indexes = sum(shard.index.bytes for shard in corpus.manifest.shards if shard.index is not None)
    if segment.order.shuffle == "global":
        return whole + indexes
    everywhere = batches.budget is not None or batches.plan.has_groups
    blocks = open_blocks(segment, source, None if everywhere else ranks, steps_ahead * max(1, segment.group_steps))
    return min(whole, _bytes_of(corpus, dataset, size, blocks)) + indexes


def open_blocks(segment: Segment, source: Source, ranks: Sequence[NodeRank] | None, steps_ahead: int) -> int:
    """Return how many order blocks of a source are in use within any ``steps_ahead`` steps, at most.

    Args:
        segment: whose order.
        source: of which.
        ranks: those that count; None for all there may be.
        steps_ahead: from the first step in which a block is used, as one that is read ahead is needed before it.
    """
    order, size = segment.order, segment.global_batch_size
    lane_slots = size // order.lanes
    lanes = set(range(order.lanes))
    if ranks is not None:
        per_rank = [size // rank.world_size for rank in ranks]
        lanes = {
            lane
            for rank, count in zip(ranks, per_rank, strict=True)
            for lane in range(rank.rank * count // lane_slots, -(-(rank.rank + 1) * count // lane_slots))
        }
    samples = source.num_samples // segment.samples_per_unit
    lane_samples = samples // order.lanes if segment.is_mixture else samples // size * lane_slots
    window = order.block_samples * (1 if order.shuffle == "none" else order.window_blocks)
    # What one step takes of a lane: in a mixture all of it may come from one source, when the schedule says so.
    begun = _begun_at(sorted(lanes), lane_samples, window, lane_slots)
    if segment.is_mixture:  # a source begins again while others go on
        again = np.full(len(lanes), lane_samples // lane_slots)
        begun = np.sort(np.concatenate([begun, again]))
    together = np.searchsorted(begun, begun + steps_ahead, side="right") - np.arange(len(begun))
    windows = len(lanes) + int(together.max(initial=0))
    blocks = -(-samples // order.block_samples)
    return min(blocks, windows * (window // order.block_samples) + 1)


def _begun_at(lanes: list[int], lane_samples: int, window: int, lane_slots: int) -> Int64Array:
    """The steps, ascending, in which lanes come to a window that is not their first."""
    begun = [np.empty(0, np.int64)]
    for lane in lanes:
        first, last = lane * lane_samples, (lane + 1) * lane_samples
        edges = np.arange(-(-(first + 1) // window) * window, last, window, dtype=np.int64)
        begun.append((edges - first) // lane_slots)
    return np.sort(np.concatenate(begun))


def _bytes_of(corpus: Corpus, dataset: TokenDataset, size: int, blocks: int) -> int:
    """The bytes of as many order blocks, of the largest there may be; of shards that are fetched whole, of these.

    What is read at both ends of an order block that it doesn't need counts too.
    """
    shards = corpus.manifest.shards
    positions = np.diff(corpus.shard_row_starts if dataset.mode == "rows" else corpus.shard_token_starts)
    sizes = np.array([shard.num_bytes for shard in shards], np.int64)
    grain = corpus.grain()
    if grain.num_blocks == 1 and not grain.in_ranges:
        starts = corpus.shard_row_starts if dataset.mode == "rows" else corpus.shard_token_starts
        tiles = np.arange(0, int(starts[-1]), size)
        touched = np.searchsorted(starts, tiles + size, side="left") - np.searchsorted(starts, tiles, side="right") + 1
        count = min(len(shards), blocks * int(touched.max(initial=1)))
        return int(np.sort(sizes)[::-1][:count].sum())
    # Bytes a position takes, in the shard where it takes most.
    density = float((sizes / np.maximum(positions, 1)).max(initial=0))
    if not grain.in_ranges:
        if corpus.is_cut_every(size, unit_of(dataset)):
            return int(blocks * (density * size + RANGE_BYTES))  # and what tells where blocks lie
        block_bytes = -(-int(sizes.max(initial=0)) // grain.num_blocks)
        return blocks * block_bytes * (1 + -(-int(density * size) // block_bytes))
    files = len(shards[0].files)
    return int(blocks * (density * size + 2 * files * (RANGE_BYTES + CELL_BYTES)))
