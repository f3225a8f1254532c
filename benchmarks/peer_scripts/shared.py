"""What peers share: how their samples become batches, and what a batch must hold."""

import shutil

import numpy as np
import torch
from torch.utils.data import DataLoader

IGNORED = -100


def collate(samples):
    """From (number, tokens) of each sample: inputs, labels and numbers in int64, as fast as numpy makes them."""
    tokens = np.stack([tokens for _, tokens in samples])
    labels = np.empty(tokens.shape, np.int64)
    labels[:, :-1] = tokens[:, 1:]
    labels[:, -1] = IGNORED
    return {
        "input_ids": torch.from_numpy(tokens.astype(np.int64)),
        "labels": torch.from_numpy(labels),
        "sample_ids": torch.tensor([number for number, _ in samples]),
    }


def loader(dataset, *, batch_size, num_workers, **options):
    """Torch's own, workers kept from epoch to epoch, the last batch left out where it is smaller."""
    options = {"collate_fn": collate, **options}
    return DataLoader(
        dataset,
        batch_size=batch_size,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        drop_last=True,
        **options,
    )


def checked(rows):
    """Refuses a batch that holds other tokens than its rows."""

    def check(batch):
        wanted = rows[batch["sample_ids"].numpy()].astype(np.int64)
        assert np.array_equal(batch["input_ids"].numpy(), wanted), "other tokens"
        assert np.array_equal(batch["labels"].numpy()[:, :-1], wanted[:, 1:]), "other labels"
        assert (batch["labels"].numpy()[:, -1] == IGNORED).all(), "a label past the row"

    return check


def written(folder, write):
    """The folder, filled by ``write(folder)`` unless an earlier process did."""
    if not folder.exists():
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write(partial)
        partial.rename(folder)
    return folder
