"""Lightning: it uses the loader as it is, and keeps the loader's state in its checkpoints by itself.

    torchrun --nproc-per-node 2 examples/trainers/lightning_.py --config examples/trainers/train.yaml

Started by torchrun, which tells each process its rank before Lightning does.
"""

import argparse
import os

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from recipe import arguments, check_micro_batches, end_process_group, tiny_gpt2
from torch import Tensor

import tokenyard
from tokenyard.datasets.huggingface import inputs_for
from tokenyard.datasets.loader import TokenLoader


class LanguageModel(lightning.LightningModule):
    def __init__(self, loader: TokenLoader) -> None:
        super().__init__()
        self.model = tiny_gpt2(loader)
        self.inputs = inputs_for(self.model, loader)  # refuses labels that the model would shift once more

    def training_step(self, batch: dict[str, Tensor], index: int) -> Tensor:
        return self.model(**self.inputs(batch)).loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main() -> None:
    train(arguments(__doc__))
    end_process_group()


def train(args: argparse.Namespace) -> None:
    loader = tokenyard.build_dataloader(args.config)
    check_micro_batches(loader, args.steps)
    torch.manual_seed(0)
    # Saved with the batch, not after `fit`: where max_steps ends a run in mid-epoch, Lightning then counts the epoch as
    # done, and goes on with the next one.
    save = ModelCheckpoint(args.checkpoint, "last", every_n_train_steps=args.steps, enable_version_counter=False)
    trainer = lightning.Trainer(
        max_steps=args.steps,
        accumulate_grad_batches=loader.micro_batches_per_step,
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)),
        strategy="ddp",
        callbacks=[save] if args.checkpoint else [],
        enable_checkpointing=args.checkpoint is not None,
        logger=False,
        enable_progress_bar=False,
    )
    last = args.checkpoint and args.checkpoint / "last.ckpt"
    trainer.fit(LanguageModel(loader), loader, ckpt_path=last if last and last.exists() else None)


if __name__ == "__main__":
    main()
