"""The order of samples: pure functions of numbers, never of files, processes or what was read before (`order/1`).

Two maps make it. `walk` says which *position* of the epoch a slot of a step takes; `place` says which *sample* stands
at a position. The global batch of a step is `place(walk(...))` on any number of ranks.

In block mode samples are cut into *order blocks* of `block_samples` neighbours, the order blocks are permuted, and
samples are permuted inside *windows* of `window_blocks` order blocks, so that storage sees few places at a time. The
walk runs in *lanes*, stretches of the epoch read side by side, so that a node reads only its lanes' order blocks.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.order.pages import Pages
from tokenyard.datasets.order.placement import BlockPlacement, KeyedPermutation, global_placement
from tokenyard.errors import ConfigError
from tokenyard.permutation.checks import check_choice, check_indices, check_int
from tokenyard.permutation.keyed import KEY_LIMIT
from tokenyard.permutation.table_cache import TABLES

Shuffle = Literal["none", "global", "block"]

# How many order blocks a global batch mixes when nobody says otherwise.
MIXED_BLOCKS = 64

# What a walk may keep in memory, however many lanes and however wide windows were asked for.
_MAX_WALK_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Order:
    """The parameters of an order, all resolved: with the number of samples and the epoch they decide every batch.

    Attributes:
        shuffle: `none`, `global` or `block`.
        seed: below 2**64.
        block_samples: samples in an order block, B in the specification.
        window_blocks: order blocks in a window, G.
        lanes: L; 1 unless shuffle is `block`.

    Raises:
        ConfigError: a parameter is out of its range.
    """

    shuffle: Shuffle
    seed: int
    block_samples: int
    window_blocks: int
    lanes: int

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        check_choice("shuffle", self.shuffle, get_args(Shuffle))
        check_int("seed", self.seed, at_least=0, below=KEY_LIMIT)
        check_int("block_samples", self.block_samples, at_least=1)
        check_int("window_blocks", self.window_blocks, at_least=1)
        check_int("lanes", self.lanes, at_least=1)
        if self.lanes > 1 and self.shuffle != "block":
            raise ConfigError(
                f"lanes: expected 1 with shuffle {self.shuffle!r}, found {self.lanes}; "
                "leave lanes out, or choose shuffle 'block'"
            )


def resolve(
    *,
    num_samples: int,
    global_batch_size: int,
    seed: int,
    shuffle: Shuffle = "block",
    block_samples: int = 1024,
    window_blocks: int | None = None,
    lanes: int | None = None,
    is_mixture: bool = False,
) -> Order:
    """Return the order with the parameters left at None chosen from the sizes of the run.

    Auto lanes are the largest power of two up to 64 that divides the global batch and leaves each lane an order block
    of positions, else 1. Auto windows make all lanes together mix about 64 order blocks.

    Args:
        num_samples: samples of an epoch; in a mixture, of its smallest source.
        global_batch_size: slots of a step.
        seed: of all keys.
        shuffle: which placement.
        block_samples: samples in an order block.
        window_blocks: order blocks in a window.
        lanes: stretches that are read side by side.
        is_mixture: whether lanes share all samples of a source, and not whole global batches.

    Raises:
        ConfigError: a parameter is out of its range, or `lanes` does not divide `global_batch_size`.
    """
    check_int("num_samples", num_samples, at_least=0)
    check_int("global_batch_size", global_batch_size, at_least=1)
    check_int("block_samples", block_samples, at_least=1)
    if lanes is None:
        walked = num_samples if is_mixture else num_samples - num_samples % global_batch_size
        lanes = _auto_lanes(walked, global_batch_size, block_samples) if shuffle == "block" else 1
    _lane_batch(global_batch_size, lanes)
    if window_blocks is None:
        window_blocks = max(1, MIXED_BLOCKS // lanes)
    return Order(shuffle=shuffle, seed=seed, block_samples=block_samples, window_blocks=window_blocks, lanes=lanes)


def place(
    order: Order, num_samples: int, epoch: int, positions: NDArray[np.int64], source: int | None = None
) -> NDArray[np.int64]:
    """Return the sample at each position of an epoch: a bijection of 0..num_samples-1.

    Positions may come in any order and any shape. Those of a walk are quick, because tables of the windows in use are
    kept; positions scattered over an epoch in block mode cost a whole window each.

    Args:
        order: parameters of the order; `lanes` changes no result.
        num_samples: samples in the epoch, below 2**62.
        epoch: below 2**64.
        positions: integers in [0, num_samples).
        source: the number of the source in a mixture; None where a corpus is all there is.

    Returns:
        int64 of the shape of `positions`, owned by the caller.

    Raises:
        ConfigError: a number or a position is out of its range.
    """
    check_int("num_samples", num_samples, at_least=0)
    check_int("epoch", epoch, at_least=0, below=KEY_LIMIT)
    indices = check_indices("positions", positions, below=num_samples)
    if order.shuffle == "none" or not indices.size:
        return indices.copy()
    pages = _placement(order, num_samples, epoch, first_purpose(source))
    return pages.samples(indices.reshape(-1)).reshape(indices.shape)


def find(
    order: Order, num_samples: int, epoch: int, samples: NDArray[np.int64], source: int | None = None
) -> NDArray[np.int64]:
    """Return the position at which each sample stands in an epoch: the inverse of `place`.

    In block mode it takes a table of each window that the samples stand in, one after another.

    Args:
        order: parameters of the order; `lanes` changes no result.
        num_samples: samples in the epoch, below 2**62.
        epoch: below 2**64.
        samples: int64[n] in [0, num_samples), in any order.
        source: the number of the source in a mixture; None where a corpus is all there is.

    Raises:
        ConfigError: a number is out of its range.
    """
    check_int("num_samples", num_samples, at_least=0)
    check_int("epoch", epoch, at_least=0, below=KEY_LIMIT)
    values = check_indices("samples", samples, below=num_samples)
    if order.shuffle == "none" or not values.size:
        return values.copy()
    return _permutation(order, num_samples, epoch, first_purpose(source)).positions(values)


def first_purpose(source: int | None) -> int:
    """Return the number `t` of the first of a source's keys; None is a corpus that is no part of a mixture."""
    return 0 if source is None else 16 + 4 * source


def walk(
    num_samples: int, global_batch_size: int, lanes: int, step: int, slots: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the position that each slot of a global batch takes at a step.

    Args:
        num_samples: samples in the epoch.
        global_batch_size: slots in a step.
        lanes: must divide `global_batch_size`.
        step: below `num_samples // global_batch_size`; what is left over is in `tail_positions`.
        slots: integers in [0, global_batch_size), of any shape.

    Returns:
        int64 of the shape of `slots`. Over all steps and slots each position below the tail occurs once.

    Raises:
        ConfigError: a number or a slot is out of its range, or `lanes` does not divide `global_batch_size`.
    """
    check_int("num_samples", num_samples, at_least=0)
    check_int("global_batch_size", global_batch_size, at_least=1)
    lane_batch = _lane_batch(global_batch_size, lanes)
    num_steps = num_samples // global_batch_size
    check_int("step", step, at_least=0)
    if step >= num_steps:
        raise ConfigError(
            f"step: expected less than the {num_steps} whole steps of {num_samples} samples in global batches of "
            f"{global_batch_size}, found {step}; begin the next epoch"
        )
    indices = check_indices("slots", slots, below=global_batch_size)
    lane = indices // lane_batch
    return lane * (num_steps * lane_batch - lane_batch) + indices + step * lane_batch


def tail_positions(num_samples: int, global_batch_size: int) -> NDArray[np.int64]:
    """Return the positions that fill no whole global batch, fewer than `global_batch_size`, ascending."""
    check_int("num_samples", num_samples, at_least=0)
    check_int("global_batch_size", global_batch_size, at_least=1)
    return np.arange(num_samples - num_samples % global_batch_size, num_samples)


def _auto_lanes(walked: int, global_batch_size: int, block_samples: int) -> int:
    lanes = MIXED_BLOCKS
    while lanes > 1 and (global_batch_size % lanes or walked // lanes < block_samples):
        lanes //= 2
    return lanes


def _lane_batch(global_batch_size: int, lanes: int) -> int:
    check_int("lanes", lanes, at_least=1)
    if global_batch_size % lanes:
        raise ConfigError(
            f"lanes: expected a divisor of global_batch_size {global_batch_size}, found {lanes}; "
            "leave lanes out to have them chosen"
        )
    return global_batch_size // lanes


@lru_cache(maxsize=256)
def _permutation(order: Order, num_samples: int, epoch: int, purpose: int) -> KeyedPermutation | BlockPlacement:
    if order.shuffle == "global":
        return global_placement(num_samples, order.seed, epoch, purpose)
    return BlockPlacement(
        num_samples=num_samples,
        seed=order.seed,
        epoch=epoch,
        block_samples=order.block_samples,
        window_blocks=order.window_blocks,
        purpose=purpose,
    )


@lru_cache(maxsize=256)
def _placement(order: Order, num_samples: int, epoch: int, purpose: int) -> Pages:
    permutation = _permutation(order, num_samples, epoch, purpose)
    if order.shuffle == "global":
        return Pages(permutation, at_once=2)
    # A step needs a page in each lane, and two where a lane goes from one to the next.
    pages = Pages(permutation, at_once=2 * order.lanes)
    TABLES.make_room(min(pages.at_once * pages.page_size * 8, _MAX_WALK_BYTES))
    return pages
