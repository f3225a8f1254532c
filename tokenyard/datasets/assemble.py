"""From the numbers of samples to the tensors that a training step receives; the same in threads and in processes."""

import torch
from torch import Tensor

from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.sampler import MicroBatch
from tokenyard.datasets.samples import IGNORED


def assemble(
    dataset: TokenDataset, micro_batch: MicroBatch, *, with_mask: bool, pin_memory: bool = False
) -> dict[str, Tensor]:
    """Return a micro-batch as tensors.

    Args:
        dataset: where samples come from.
        micro_batch: which ones.
        with_mask: whether to add `sample_mask`, bool[micro_batch_size], false at samples that only fill the last global
            batch up; their labels are masked.
        pin_memory: whether tensors are page-locked; needs CUDA.
    """
    batch = dataset.batch(micro_batch.sample_ids, pin_memory=pin_memory)
    if with_mask:
        is_padding = torch.from_numpy(micro_batch.is_padding.copy())
        batch["sample_mask"] = ~is_padding
        if "labels" in batch:
            batch["labels"][is_padding] = IGNORED
    if pin_memory:
        return {name: tensor if tensor.is_pinned() else tensor.pin_memory() for name, tensor in batch.items()}
    return batch
