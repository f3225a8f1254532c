"""Run under torchrun: what happens to a RankSampler, and to a loader, in libraries that deal batches to ranks.

Prints a JSON object a rank: the samples of an epoch that came through, or the error.
"""

import json
import os
import sys

import lightning
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import tokenyard
from tokenyard.errors import ConfigError

config = sys.argv[1]


def samples(batches):
    return [batch["sample_ids"].tolist() for batch in batches]


class Seen(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.samples = {}

    def training_step(self, batch, index):
        self.samples.setdefault(self.current_epoch, []).append(batch["sample_ids"].tolist())
        return self.layer(torch.ones(1)).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def fit(batches, **options):
    module = Seen()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", **quiet, **options
    )
    trainer.fit(module, batches)
    return module.samples


def torch_loader(kind):
    loader = tokenyard.build_dataloader(config)
    return kind(loader.dataset, batch_sampler=loader.sampler)


def outcome(attempt):
    try:
        return attempt()
    except (ConfigError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def main():
    accelerator = Accelerator(cpu=True)
    attempts = {
        "loader, prepared by Accelerate": lambda: samples(accelerator.prepare(tokenyard.build_dataloader(config))),
        "loader, by Lightning": lambda: fit(tokenyard.build_dataloader(config)),
        "DataLoader, prepared by Accelerate": lambda: samples(accelerator.prepare(torch_loader(DataLoader))),
        "DataLoader, left alone": lambda: samples(torch_loader(DataLoader)),
        "DataLoader, by Lightning": lambda: fit(torch_loader(DataLoader)),
        "DataLoader, by Lightning as told": lambda: fit(torch_loader(DataLoader), use_distributed_sampler=False),
        "StatefulDataLoader, by Lightning": lambda: fit(torch_loader(StatefulDataLoader)),
    }
    found = {name: outcome(attempt) for name, attempt in attempts.items()}
    with open(f"{sys.argv[2]}/rank-{accelerator.process_index}.json", "w") as file:
        json.dump({"processes": accelerator.num_processes, **found}, file)


if __name__ == "__main__":
    main()
