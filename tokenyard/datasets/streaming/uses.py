"""When each tile is used next on a node: the order of a run, looked at ahead.

Time is counted in steps of the plan. Some steps are looked at together, fewer than order blocks are open for; a use
counts as at the first of them. Needs no torch.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.batches import Batches, numbers_in_dataset
from tokenyard.datasets.order.partition import Partition
from tokenyard.datasets.order.segment import ENDLESS
from tokenyard.datasets.rank_context import FirstId
from tokenyard.datasets.streaming.tiles import Tiles
from tokenyard.storage.cache import NEVER

Int64Array = NDArray[np.int64]

#: Of the samples that are mixed with each other, the share that is looked at together, and how many at most.
_PIECE_SHARE, _MAX_PIECE_SAMPLES = 16, 1 << 13
#: Samples that are looked at ahead, at most: what comes later counts as never, all alike.
_HORIZON_SAMPLES = 1 << 26


@dataclass(frozen=True, order=True)
class NodeRank:
    """A rank on this node."""

    rank: int
    world_size: int


@dataclass(frozen=True)
class _Piece:
    """Some steps, the samples and the tiles that the node uses in them."""

    start: int
    stop: int
    num_samples: int
    tiles: Int64Array


class TileUses:
    """The uses of tiles from some step on, to the end of the epoch after it.

    Args:
        batches: the run.
        tiles: what is used.
        first_id: see `RankContext`.
    """

    def __init__(self, batches: Batches, tiles: Tiles, first_id: FirstId) -> None:
        self._plan = batches.plan
        self._shares_lanes = batches.budget is None and not batches.plan.has_groups
        self._tiles = tiles
        self._first_id = first_id
        order = self._plan.segments[0].order
        mixed = order.block_samples * order.window_blocks * order.lanes * self._plan.segments[0].samples_per_unit
        self._piece_samples = min(max(1, mixed // _PIECE_SHARE), _MAX_PIECE_SAMPLES)
        self._ranks: tuple[NodeRank, ...] = ()
        self._pieces: deque[_Piece] = deque()
        self._samples_ahead = 0

    def look_ahead(self, ranks: tuple[NodeRank, ...], step: int) -> None:
        """Look at what these ranks use from a step of the plan on; only at what was not looked at before."""
        if ranks != self._ranks or (self._pieces and step < self._pieces[0].start):
            self._ranks = ranks
            self._pieces.clear()
            self._samples_ahead = 0
        while self._pieces and self._pieces[0].stop <= step:
            self._samples_ahead -= self._pieces.popleft().num_samples
        at = self._pieces[-1].stop if self._pieces else step
        end = self._end(step)
        while at < end and self._samples_ahead < _HORIZON_SAMPLES:
            size = self._num_samples(at)
            count = min(self._plan.stretch(at), max(1, self._piece_samples // size), end - at)
            self._pieces.append(_Piece(at, at + count, count * size, self._used(at, count)))
            at += count
            self._samples_ahead += count * size

    def of_all(self, since: int = 0) -> Int64Array:
        """Return the next use of each tile, at a step or after it, as far as was looked ahead."""
        uses = np.full(len(self._tiles), NEVER)
        for piece in reversed(self._pieces):
            if piece.stop > since:
                uses[piece.tiles] = piece.start
        return uses

    def last_of_all(self, before: int) -> Int64Array:
        """Return the step up to which each tile is used, of all that is over before a step; -1 for none."""
        uses = np.full(len(self._tiles), -1)
        for piece in self._pieces:
            if piece.stop <= before:
                uses[piece.tiles] = piece.stop
        return uses

    def steps_of_window(self) -> int:
        """Return in how many steps the node uses as many samples as are mixed with each other in one lane."""
        step = self._pieces[0].start if self._pieces else 0
        segment = self._plan.segment(step)
        samples = segment.order.block_samples * segment.order.window_blocks * segment.samples_per_unit
        return -(-samples // self._num_samples(step))

    def _end(self, step: int) -> int:
        """The step up to which there is something to look at: the end of the next epoch, or of the run."""
        plan = self._plan
        end = plan.epoch_range(plan.epoch_of(step))[1]
        if end < ENDLESS and (plan.end is None or end < plan.end):
            end = plan.epoch_range(plan.epoch_of(end))[1]
        return end

    def _num_samples(self, step: int) -> int:
        return max(1, self._slots(step).size)

    def _slots(self, step: int) -> Int64Array:
        """The slots of a step that the node takes; all where any rank may get any sample."""
        size = self._plan.segment(step).global_batch_size
        if not self._shares_lanes:
            return np.arange(size)
        return np.unique(
            np.concatenate(
                [
                    Partition(
                        rank=rank.rank,
                        world_size=rank.world_size,
                        global_batch_size=size,
                        micro_batch_size=size // rank.world_size,
                    ).slots.reshape(-1)
                    for rank in self._ranks
                ]
                or [np.empty(0, np.int64)]
            )
        )

    def _used(self, step: int, count: int) -> Int64Array:
        segment = self._plan.segment(step)
        draws = self._plan.draws(step, count, self._slots(step))
        return self._tiles.of(numbers_in_dataset(segment, draws, self._first_id), segment.seq_len)
