"""The first micro-batch of the first rank, as the model would get it."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tokenyard.datasets.samples import IGNORED
from tokenyard.display.quantities import percent, with_unit
from tokenyard.preflight.model import ModelFacts
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.report import Line, Status, worst

Batch = Mapping[str, Tensor]

#: Of labels: more than a loss mask of instructions commonly takes is worth a look.
_MASKED_SHARE = 0.4


def first_batch(planned: Planned) -> Batch:
    """Read it. Raises DataError, StorageError."""
    (micro_batches,) = planned.batches.of_steps(0, 1)[:1]
    return planned.dataset.micro_batch(micro_batches[0], with_mask=planned.batches.pads)


def num_bytes(batch: Batch) -> int:
    """The bytes of its tensors."""
    return sum(tensor.nbytes for tensor in batch.values())


def batch_line(batch: Batch, facts: ModelFacts) -> Line:
    """Say what is in it, and whether it is longer than the model's sequences."""
    inputs = batch["input_ids"]
    problems: list[tuple[Status, str, str]] = []
    if facts.max_positions is not None and inputs.shape[1] > facts.max_positions:
        problems.append(
            (
                "warn",
                f"samples have {inputs.shape[1]:,} tokens, the model was made for {facts.max_positions:,} positions",
                "lower data.sample.seq_len, or give the model more positions",
            )
        )
    labels = batch.get("labels")
    masked = float((labels == IGNORED).double().mean()) if labels is not None and labels.numel() else 0.0
    if masked > _MASKED_SHARE:
        problems.append(
            (
                "warn",
                f"{percent(masked)} of its labels are masked: padding of rows shorter than seq_len, or a loss mask",
                "where no loss mask is meant, lower data.sample.seq_len to the length of rows, use sample.mode concat, "
                "or pack the corpus: tokenyard pack",
            )
        )
    if not inputs.numel():
        problems.append(("fail", "it has no token", "leave out rows without tokens: tokenyard filter --min-tokens 1"))
    told = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in batch.items())
    return worst("first batch", problems, f"{told}; {with_unit(num_bytes(batch), 'bytes')}")
