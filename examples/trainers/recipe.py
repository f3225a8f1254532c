"""What the recipes share: their arguments, and a model that is there without a download."""

import argparse
import gc
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from tokenyard.datasets.loader import TokenLoader


def arguments(docstring: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="settings as in configs/train-*.yaml")
    parser.add_argument("--steps", type=int, default=20, help="optimizer steps of the whole run")
    parser.add_argument("--checkpoint", type=Path, help="a folder: saved in at the end, gone on from if it is there")
    return parser.parse_args()


def vocab_size(loader: TokenLoader) -> int:
    sizes = [corpus.schema.vocab_size for corpus in loader.dataset.corpora]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        raise SystemExit("the recipes need corpora that say their vocab_size")
    return max(known)


def label_weight(micro_batches: list[dict[str, Tensor]], device: torch.device | str) -> Tensor:
    """What sums of losses are multiplied by, where the gradients of all processes are averaged.

    Each label of the global batch then counts alike, wherever it is; a rank may have none. Processes that share a model
    have the same labels and count them as often as they are counted among the processes.
    """
    num_labels = torch.stack([(batch["labels"] != -100).sum() for batch in micro_batches]).sum().to(device)
    dist.all_reduce(num_labels)
    return dist.get_world_size() / num_labels.clamp(1)


def check_micro_batches(loader: TokenLoader, num_steps: int) -> None:
    """For trainers that take equally many micro-batches at each step, and all of them to be of one weight."""
    batches = loader.sampler.batches
    if batches.pads:
        raise SystemExit(
            "order.last_batch: pad makes micro-batches of padding alone, whose mean loss this trainer finds to be NaN; "
            "set it to drop, or weigh by labels, as ddp.py does"
        )
    if len({batches.num_micro_batches(step, step + 1) for step in range(num_steps)}) > 1:
        raise SystemExit(
            "order.segments: they change the micro-batches of a step, but this trainer takes equally many at each; "
            "leave global_batch_size as it is, or take whole steps, as ddp.py does"
        )


def tiny_gpt2(loader: TokenLoader) -> GPT2LMHeadModel:
    """GPT-2, with few weights, random ones. It shifts labels itself, so the settings say `labels: same`."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocab_size(loader),
            n_positions=loader.dataset.seq_len or 1024,
            n_embd=32,
            n_layer=1,
            n_head=2,
            embd_pdrop=0,
            attn_pdrop=0,
            resid_pdrop=0,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def end_process_group() -> None:
    """For trainers that leave it to the end of the process, called when nobody holds the trainer any more.

    Gloo's thread may let go of its last tensor only after Python has ended, which aborts the process. The model goes
    first (it is in cycles with the trainer), since gloo and the last one that holds the group can wait for each other.
    """
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()
