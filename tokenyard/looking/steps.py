"""What a training run takes at a step, slot by slot, as the model gets it; and which sample goes where in its first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenyard.config import TrainConfig, load_config
from tokenyard.corpus import Corpus
from tokenyard.datasets.batches import Batches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.opening import open_dataset
from tokenyard.datasets.pieces import row_ranges
from tokenyard.datasets.planning import make_batches
from tokenyard.datasets.receipt import Receipt, Slot, global_batch, receipt, token_ranges
from tokenyard.errors import ConfigError
from tokenyard.looking.decoding import Decoder
from tokenyard.looking.rows import marks
from tokenyard.looking.shown import ShownRow, Stretch, show

_IGNORED = -100


def train_settings(config: Path, path: str | None, read: Mapping[str, object]) -> TrainConfig:
    """The settings of a run; ``path``, where given, in place of theirs, for a corpus that lies elsewhere here.

    Raises ConfigError: the settings are wrong, or are of a mixture, which has no one path.
    """
    settings = load_config(config)
    if path is None:
        return settings
    if settings.data.sources is not None:
        raise ConfigError(f"{config}: its data are a mixture of several corpora; leave the path {path} out")
    data = settings.data.model_copy(update={"path": path, "format": "auto", **read})
    return settings.model_copy(update={"data": data})


def show_step(
    settings: TrainConfig, step: int, rank: int | None, world_size: int, *, max_tokens: int, decoder: Decoder | None
) -> tuple[Receipt, list[ShownRow]]:
    """What is in a step, and its slots as a model gets them: input ids, dimmed where a label is masked.

    Args:
        settings: of the run.
        step: counted over all epochs.
        rank: whose slots; None for those of all.
        world_size: ranks that share the step.
        max_tokens: shown of each slot.
        decoder: gives text; None shows ids.

    Raises:
        ConfigError: there is no such rank or step.
    """
    dataset = open_dataset(settings)
    batches = make_batches(settings, dataset, 0, world_size)
    found = receipt(batches, dataset, step, rank)
    taken = batches.of_ranks(step, 1)[0]
    per_rank = len(taken) // world_size
    shown = []
    places = [(number, place) for number, batch in enumerate(taken) for place in range(len(batch.sample_ids))]
    tensors = {}
    for slot in found.slots:
        number, place = places[slot.slot]
        if number not in tensors:
            tensors = {number: dataset.micro_batch(taken[number], with_mask=True)}
        shown.append(_slot(dataset, slot, tensors[number], place, number % per_rank, max_tokens, decoder))
    return found, shown


def _slot(
    dataset: TokenDataset,
    slot: Slot,
    batch: Mapping[str, object],
    place: int,
    micro_batch: int,
    max_tokens: int,
    decoder: Decoder | None,
) -> ShownRow:
    arrays = {name: np.asarray(batch[name])[place] for name in ("input_ids", "labels") if name in batch}
    tokens = arrays["input_ids"]
    corpus = dataset.corpora[dataset.source_names.index(slot.source)]
    mask = ("labels", arrays["labels"] != _IGNORED) if "labels" in arrays else None
    where = f"slot {slot.slot}, rank {slot.rank}, micro-batch {micro_batch}: sample {slot.sample} of {slot.source}"
    return show(
        where + (", only fills the batch" if slot.is_padding else ""),
        tokens,
        _stretches(corpus, slot, len(tokens)),
        window=(0, max_tokens),
        decoder=decoder,
        special=marks(corpus, decoder),
        mask=mask if mask is not None and not mask[1].all() else None,
    )


def _stretches(corpus: Corpus, slot: Slot, num_tokens: int) -> list[Stretch]:
    """The pieces of a slot, each where its tokens are; what lies between them, and after the last, is padding."""
    rows, _ = row_ranges(corpus, np.array([piece.row for piece in slot.pieces], np.int64))
    found, at = [], 0
    for piece, row in zip(slot.pieces, rows.tolist(), strict=True):
        start = min(row + piece.start - slot.start, num_tokens)
        stop = min(row + piece.stop - slot.start, num_tokens)
        document = f", document {piece.document}" if piece.document else ""
        title = f"row {piece.row}{document}: tokens {piece.start} .. {piece.stop - 1}, {piece.shard}"
        found += [_padding(at, start), Stretch(title=title, start=start, stop=stop)]
        at = stop
    return [*found, _padding(at, num_tokens)]


def _padding(start: int, stop: int) -> Stretch:
    return Stretch(title=f"padding: {stop - start:,} tokens", start=start, stop=stop)


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
