"""One number for what a step, or a run, takes: equal in two runs when these take the same samples in the same slots.

A digest depends on the order alone: not on world size, micro-batches, workers, format or path. It says which samples,
by their numbers; what stands in them, the corpora's content digests say.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from blake3 import blake3
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tokenyard.datasets.batches import Batches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.planning import corpus_id
from tokenyard.datasets.receipt import GlobalBatch, global_batch
from tokenyard.errors import ConfigError

_STEP, _RUN = b"tokenyard/step/1\0", b"tokenyard/run/1\0"
#: What is hashed of a slot: 17 bytes.
_SLOT = np.dtype([("source", "<u8"), ("sample", "<u8"), ("is_padding", "u1")])
#: Steps that are asked for at a time, in slots.
_SLOTS_AT_ONCE = 1 << 16


def digest_of_slots(step: int, sources: ArrayLike, samples: ArrayLike, is_padding: ArrayLike) -> str:
    r"""Return the digest of a step, 64 hexadecimal digits.

    BLAKE3 over `"tokenyard/step/1\0" || step u64le || slots u64le`, and then for each slot of the global batch in turn
    `source u64le || sample u64le || is_padding u8`.

    Args:
        step: the step of the run, counted over all epochs.
        sources: [slots], the number of the source in the keys of the order, counted by first use in the run; 0 where a
            corpus is all there is.
        samples: [slots], the sample in its source.
        is_padding: [slots], 1 where the slot only fills the last global batch up.
    """
    slots = np.empty(np.shape(samples), _SLOT)
    slots["source"], slots["sample"], slots["is_padding"] = sources, samples, is_padding
    head = _STEP + step.to_bytes(8, "little") + slots.size.to_bytes(8, "little")
    return blake3(head).update(slots.tobytes()).hexdigest()


def run_digest(steps: Iterable[str]) -> str:
    r"""Return the digest of some steps in turn, from theirs: BLAKE3 over `"tokenyard/run/1\0"` and 32 bytes of each."""
    hasher = blake3(_RUN)
    for digest in steps:
        hasher.update(bytes.fromhex(digest))
    return hasher.hexdigest()


def step_digests(batches: Batches, dataset: TokenDataset, first: int, stop: int) -> Iterator[str]:
    """Yield the digest of each step from `first` to before `stop`.

    Args:
        batches: of any rank of a world of any size.
        dataset: where samples come from.
        first: the first step.
        stop: the step after the last.

    Raises:
        ConfigError: the run ends before one of the steps.
    """
    step, at_once = first, 1
    while step < stop:
        for of_step in batches.of_ranks(step, min(at_once, stop - step)):
            batch = global_batch(of_step, batches.world_size, dataset)
            yield _digest(step, batch)
            at_once = max(1, _SLOTS_AT_ONCE // max(1, len(batch.samples)))
            step += 1


def digest_of_batch(
    step: int,
    sample_ids: Tensor | ArrayLike,
    source_ids: Tensor | ArrayLike | None = None,
    sample_mask: Tensor | ArrayLike | None = None,
    *,
    numbers: Sequence[int] | None = None,
) -> str:
    """Return the digest of what a running job received at a step, to be compared with the one that was planned.

    Tensors of the micro-batches of all ranks, joined: rank 0's in turn, then rank 1's, and so on. Any device will do.

    Args:
        step: the step of the run, counted over all epochs.
        sample_ids: int64[slots], the `sample_ids` of batches.
        source_ids: int64[slots], their `source_ids`, where the dataset is a mixture. They count the sources of the
            dataset, which is how the order numbers them too, until a run goes on with other sources.
        sample_mask: bool[slots], their `sample_mask`, where they have one.
        numbers: the number of each of the dataset's sources in the keys of the order, which `source_numbers` gives;
            needed by a run that went on with other sources than it began with.

    Raises:
        ConfigError: shapes differ, or a source has no number.
    """
    samples = _array(sample_ids)
    sources = np.zeros(samples.shape, np.int64) if source_ids is None else _array(source_ids)
    is_padding = np.zeros(samples.shape, np.bool_) if sample_mask is None else ~_array(sample_mask).astype(np.bool_)
    if samples.ndim != 1 or not samples.shape == sources.shape == is_padding.shape:
        raise ConfigError(
            f"expected tensors of one dimension and of one length, found sample_ids of {samples.shape}, source_ids of "
            f"{sources.shape} and sample_mask of {is_padding.shape}; join those of all micro-batches and ranks"
        )
    if numbers is not None:
        known = np.asarray(numbers, np.int64)
        if sources.size and (sources.min() < 0 or sources.max() >= len(known) or (known[sources] < 0).any()):
            raise ConfigError(
                f"source_ids: found {np.unique(sources).tolist()}, but at step {step} the numbers of the dataset's "
                f"sources are {known.tolist()}, where -1 is not drawn from; ask source_numbers for those of this step"
            )
        sources = known[sources]
    return digest_of_slots(step, sources, samples, is_padding)


def source_numbers(plan: Plan, dataset: TokenDataset, step: int) -> list[int]:
    """Return the number that the order knows each of the dataset's sources by at a step; -1 where it isn't drawn from.

    Args:
        plan: of the run as it goes on: `loader.sampler.batches.plan`, after `load_state_dict`.
        dataset: whose sources, in the order of `source_ids`.
        step: the step of the run.
    """
    known = {source.id: source.number for source in plan.segment(step).sources}
    return [known.get(corpus_id(corpus), -1) for corpus in dataset.corpora]


def _digest(step: int, batch: GlobalBatch) -> str:
    return digest_of_slots(step, batch.numbers, batch.samples, batch.is_padding)


def _array(values: Tensor | ArrayLike) -> NDArray[Any]:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
