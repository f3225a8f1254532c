"""What many write themselves: a memory map, a DistributedSampler and a DataLoader.

As it is usually written, each sample becomes tensors of its own, and torch's `default_collate` joins them; or with the
`collate` that the other peers have here, which casts a batch at once.
"""

import numpy as np
import torch
from shared import IGNORED, checked, loader
from torch.utils.data import Dataset, DistributedSampler, default_collate


class MMapDataset(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        tokens = torch.from_numpy(self.rows[number].astype(np.int64))
        return {
            "input_ids": tokens,
            "labels": torch.cat([tokens[1:], torch.tensor([IGNORED])]),
            "sample_ids": number,
        }


class Rows(MMapDataset):
    def __getitem__(self, number):
        return number, self.rows[number]


def opened(dataset_of, rows, options):
    rows = np.load(rows, mmap_mode="r")
    dataset = dataset_of(rows)
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0, shuffle=True, seed=1)
    return loader(dataset, sampler=sampler, **options), checked(rows)


def distributed(rows, folder, **options):
    del folder
    return opened(MMapDataset, rows, {"collate_fn": default_collate, **options})


def collated(rows, folder, **options):
    del folder
    return opened(Rows, rows, options)
