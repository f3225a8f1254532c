"""Hugging Face's Trainer: LoaderMixin gives it a loader in place of a dataset.

torchrun --nproc-per-node 2 examples/trainers/hf_trainer.py --config examples/trainers/train.yaml
"""

import argparse

import torch
from recipe import arguments, end_process_group, tiny_gpt2
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import tokenyard
from tokenyard.datasets.huggingface.trainer import LoaderMixin, arguments_for


class LoaderTrainer(LoaderMixin, Trainer):
    pass


def main() -> None:
    train(arguments(__doc__))
    end_process_group()


def train(args: argparse.Namespace) -> None:
    loader = tokenyard.build_dataloader(args.config)
    torch.manual_seed(0)
    trainer = LoaderTrainer(
        loader=loader,
        model=tiny_gpt2(loader),
        args=TrainingArguments(
            **arguments_for(loader),
            output_dir=str(args.checkpoint or "runs/hf"),
            use_cpu=not torch.cuda.is_available(),  # said, since Trainer trains each process on its own otherwise
            max_steps=args.steps,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            logging_steps=1,
            save_strategy="steps" if args.checkpoint else "no",
            save_steps=args.steps,
            report_to="none",
        ),
    )
    last = args.checkpoint and args.checkpoint.is_dir() and get_last_checkpoint(args.checkpoint)
    trainer.train(resume_from_checkpoint=last or None)


if __name__ == "__main__":
    main()
