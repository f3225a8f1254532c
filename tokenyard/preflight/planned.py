"""The run that is planned: its settings, its corpora, its ranks, and how far it goes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import gcd

from tokenyard.config import TrainConfig
from tokenyard.datasets.batches import Batches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order.segment import ENDLESS
from tokenyard.datasets.planning import make_batches
from tokenyard.datasets.run_report import ENDLESS_STEPS
from tokenyard.errors import ConfigError
from tokenyard.preflight.report import Line, passed, warned

#: GPUs of a common machine: ranks that are assumed where nothing says how many there are, or how many share a node.
_GPUS_OF_NODE = 8
#: Rows up to which an epoch whose steps depend on their lengths is gone through to count its steps.
_MOST_ROWS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A run that can be planned.

    Attributes:
        settings: of the run.
        dataset: its corpora.
        ranks: data-parallel ranks.
        ranks_per_node: of these, how many share a machine.
        batches: those of the first rank.
        steps: how far it goes.
        steps_are_given: whether somebody said so; else it is an epoch, or `ENDLESS_STEPS`.
    """

    settings: TrainConfig
    dataset: TokenDataset
    ranks: int
    ranks_per_node: int
    batches: Batches
    steps: int
    steps_are_given: bool

    @property
    def is_large_budget(self) -> bool:
        """Whether finding out the steps of an epoch means going through the lengths of very many rows."""
        return is_large_budget(self.batches, self.dataset)


def is_large_budget(batches: Batches, dataset: TokenDataset) -> bool:
    """See `Planned.is_large_budget`."""
    return batches.budget is not None and len(dataset) > _MOST_ROWS


def plan_run(
    settings: TrainConfig, dataset: TokenDataset, ranks: int, ranks_per_node: int | None, steps: int | None
) -> Planned:
    """Plan a run. Raises ConfigError where the ranks can't share its batches."""
    batches = make_batches(settings, dataset, 0, ranks)
    batches.check(0)
    return Planned(
        settings=settings,
        dataset=dataset,
        ranks=ranks,
        ranks_per_node=min(ranks, ranks_per_node or _local_ranks()),
        batches=batches,
        steps=steps or _steps_of_epoch(batches, dataset),
        steps_are_given=steps is not None,
    )


def ranks_of(settings: TrainConfig, given: int | None) -> tuple[int, bool]:
    """Return how many ranks to plan with, and whether somebody said so: the caller, or torchrun's WORLD_SIZE."""
    if given is not None:
        return given, True
    if (told := _number("WORLD_SIZE")) is not None:
        return told, True
    micro_batch_size = settings.loader.micro_batch_size
    size = _shared_size(settings)
    if micro_batch_size is not None and size % micro_batch_size == 0:
        return size // micro_batch_size, False
    return gcd(size, _GPUS_OF_NODE), False


def ranks_line(planned: Planned, are_given: bool) -> Line:
    """Say how the ranks share a step."""
    budget, settings = planned.batches.budget, planned.settings
    per_step = planned.batches.num_micro_batches(0, 1)
    nodes = f"{planned.ranks_per_node} a node"
    if budget is not None:
        shared = f"{budget.micro_batches} micro-batches a step, {per_step} on each of {planned.ranks} ranks, {nodes}"
    else:
        sizes = sorted({segment.global_batch_size for segment in planned.batches.plan.segments})
        told = " and ".join(map(str, sizes))
        micro = settings.loader.micro_batch_size or sizes[0] // planned.ranks
        shared = (
            f"global batches of {told} samples, {per_step} micro-batch{'es' * (per_step > 1)} of {micro} "
            f"on each of {planned.ranks} ranks at the first step, {nodes}"
        )
    if are_given:
        return passed("ranks", shared)
    return warned(
        "ranks",
        f"nobody said how many there will be; assumed: {shared}",
        f"say it by --ranks; {_possible(settings)}",
    )


def _possible(settings: TrainConfig) -> str:
    size = _shared_size(settings)
    fitting = [n for n in range(1, min(size, 1 << 16) + 1) if size % n == 0]
    micro = settings.loader.micro_batch_size
    fitting = [n for n in fitting if micro is None or size // n % micro == 0]
    shown = ", ".join(map(str, fitting[:12])) + (" ..." if len(fitting) > 12 else "")
    return f"the settings allow {shown or 'none'}"


def _shared_size(settings: TrainConfig) -> int:
    """What the number of ranks must divide: every global batch of the run, or the micro-batches of a budget."""
    order = settings.order
    if order.token_budget is not None:
        return order.token_budget.micro_batches
    sizes = [order.global_batch_size, *(segment.global_batch_size for segment in order.segments)]
    return gcd(*(size for size in sizes if size is not None))


def _steps_of_epoch(batches: Batches, dataset: TokenDataset) -> int:
    if is_large_budget(batches, dataset):
        return ENDLESS_STEPS
    first, stop = batches.epoch_range(0)
    return ENDLESS_STEPS if stop >= ENDLESS else stop - first


def _local_ranks() -> int:
    return _number("LOCAL_WORLD_SIZE") or _GPUS_OF_NODE


def _number(name: str) -> int | None:
    """A number of ranks from the environment. Raises ConfigError."""
    text = os.environ.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ConfigError(f"environment variable {name}: expected a whole number from 1 on, found {text!r}")
    return int(text)
