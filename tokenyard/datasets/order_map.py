"""Which sample goes to which step and rank: the first steps of a run as a map, without running it."""

from dataclasses import dataclass

import numpy as np

from tokenyard.config import TrainConfig
from tokenyard.datasets.batches import Batches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.opening import open_dataset
from tokenyard.datasets.planning import make_batches
from tokenyard.datasets.receipt import global_batch, token_ranges


@dataclass(frozen=True, kw_only=True)
class MapCell:
    """What a rank takes at a step.

    Attributes:
        samples: their numbers, each in its source.
        sources: the source of each.
        places: where each begins in its corpus, from 0 to 1.
        is_padding: whether each only fills the batch up.
    """

    samples: tuple[int, ...]
    sources: tuple[str, ...]
    places: tuple[float, ...]
    is_padding: tuple[bool, ...]


@dataclass(frozen=True, kw_only=True)
class OrderMap:
    """Which sample goes to which rank at the first steps of a run: ``cells[step][rank]``.

    ``command`` tells more of it; ``about`` says which run it is.
    """

    about: str
    command: str
    cells: tuple[tuple[MapCell, ...], ...]


def order_map(settings: TrainConfig, *, steps: int, world_size: int, about: str, command: str) -> OrderMap:
    """The map of a run's first steps, fewer where it ends before. Raises ConfigError where they don't fit the run."""
    dataset = open_dataset(settings)
    batches = make_batches(settings, dataset, 0, world_size)
    first, stop = batches.epoch_range(0)
    cells = [_cells(batches, dataset, step, world_size) for step in range(first, min(stop, first + steps))]
    return OrderMap(about=about, command=command, cells=tuple(cells))


def _cells(batches: Batches, dataset: TokenDataset, step: int, world_size: int) -> tuple[MapCell, ...]:
    batch = global_batch(batches.of_ranks(step, 1)[0], world_size, dataset)
    places = np.zeros(len(batch.samples))
    for k in np.unique(batch.corpora).tolist():
        here = np.flatnonzero(batch.corpora == k)
        starts, _ = token_ranges(dataset.corpora[k], batch.samples[here], batch.seq_len)
        places[here] = starts / max(1, dataset.corpora[k].num_tokens)
    found = []
    for rank in range(world_size):
        of_rank = np.flatnonzero(batch.ranks == rank)
        found.append(
            MapCell(
                samples=tuple(batch.samples[of_rank].tolist()),
                sources=tuple(dataset.source_names[k] for k in batch.corpora[of_rank].tolist()),
                places=tuple(places[of_rank].tolist()),
                is_padding=tuple(batch.is_padding[of_rank].tolist()),
            )
        )
    return tuple(found)
