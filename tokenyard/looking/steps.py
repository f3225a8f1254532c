"""What a training run takes at a step, slot by slot, as the model gets it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tokenyard.config import TrainConfig, load_config
from tokenyard.corpus import Corpus
from tokenyard.errors import ConfigError
from tokenyard.looking.decoding import Decoder
from tokenyard.looking.rows import marks
from tokenyard.looking.shown import ShownRow, Stretch, show

if TYPE_CHECKING:  # they import torch
    from tokenyard.datasets.dataset import TokenDataset
    from tokenyard.datasets.receipt import Receipt, Slot

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
    from tokenyard.datasets.opening import open_dataset
    from tokenyard.datasets.planning import make_batches
    from tokenyard.datasets.receipt import receipt

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
    from tokenyard.datasets.pieces import row_ranges

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
