"""Transforms: what is done to one sample before its labels are made, such as fill-in-the-middle or masking.

A transform is a function of a sample and a random generator. The generator is that of the seed, the epoch and the
sample, so what is drawn is the same whatever reads the sample, when, and with how many threads or processes.
"""

import multiprocessing
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenyard.datasets.content import Content
from tokenyard.datasets.order import key
from tokenyard.datasets.transformed_samples import TransformedSamples
from tokenyard.errors import ConfigError

#: The `t` of `key` that transforms draw by; the order takes 0 to 2.
PURPOSE = 3

#: Ids that a corpus can hold when it doesn't say its vocabulary.
_ID_LIMIT = 1 << 32


class Transform(Protocol):
    """What a transform is: any callable of this form; for worker processes that are spawned, one that pickles.

    It is handed a dict of:

    - `tokens`: int64[w], the input, and with `shifted` labels of windows the one token past it. Padding is cut off.
    - `loss_mask`: bool[w], where the corpus has one and labels are made: the tokens that may be labels.
    - `document_starts`: bool[w], with `boundaries` or `mask_boundaries`: the first token of each document, and of the
      sample.
    - `input_width`: how many of the tokens are the input.
    - `sample_id`: the number of the sample in the corpus; in a mixture in its source, and which that is it isn't told.

    It returns a dict of `tokens`, as many as it was given; and, as they are to be from now on, `loss_mask` and
    `document_starts`, which stay as they were where they are left out. `labels`, int64[input_width], takes the place of
    the labels that would be made, with -100 where they are masked; neither `loss_mask` nor `mask_boundaries` masks
    them. `input_width` and `sample_id` may come back, and mean nothing.

    The arrays are the transform's to write to. The generator is its own during the call and no longer. It must neither
    keep a state nor draw from elsewhere: then batches depend on what was read before. A sample of no tokens is not
    handed to it.
    """

    def __call__(self, sample: dict[str, Any], rng: np.random.Generator, /) -> Mapping[str, Any]:
        """Return the sample, transformed."""


def purposes_of(sources: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the `t` of `key` that transforms draw by in a mixture, from the numbers of the samples' sources."""
    return 16 + 4 * sources + PURPOSE


def sample_keys(
    seed: int, epochs: NDArray[np.int64], purposes: int | NDArray[np.int64], sample_ids: NDArray[np.int64]
) -> list[int]:
    """Return the keys of samples' generators, n numbers below 2**64.

    Args:
        seed: of the order.
        epochs: int64[n], the epoch of each sample.
        purposes: `PURPOSE`, or in mixtures int64[n] of `purposes_of`.
        sample_ids: int64[n], counted in the dataset, in mixtures in the source.
    """
    ts = np.broadcast_to(purposes, sample_ids.shape)
    return [key(seed, *numbers) for numbers in zip(epochs.tolist(), ts.tolist(), sample_ids.tolist(), strict=True)]


def apply_transform(
    transform: Transform,
    content: Content,
    *,
    sample_ids: NDArray[np.int64],
    name_of: Callable[[int], str],
    keys: Sequence[int],
    input_width: int,
    vocab_size: int | None,
    makes_labels: bool,
) -> Content:
    """Return the content of n samples, each transformed.

    Args:
        transform: see `Transform`.
        content: what was read; it is left alone.
        sample_ids: int64[n].
        name_of: gives what messages call a sample, by its place among the n.
        keys: of each sample's generator, `Generator(Philox(key=key))`.
        input_width: columns of the input.
        vocab_size: ids that tokens and labels must be below, where it is known.
        makes_labels: whether the batch has labels.

    Raises:
        TransformError: the transform returned what can't be trained on. What it raises itself gets a note that names
            the sample.
    """
    written = TransformedSamples(content, sample_ids, name_of, input_width, makes_labels)
    bits = np.random.Philox(key=0)
    rng = np.random.Generator(bits)
    for line, sample_key in enumerate(keys):
        if not written.lengths[line]:
            continue
        # Costs a twentieth of a new generator, and gives the same numbers.
        bits.state = _philox_state(sample_key)
        try:
            result = transform(written.sample(line), rng)
        except Exception as e:
            e.add_note(f"while transforming {name_of(line)}")
            raise
        written.take(line, result)
    return written.content(_ID_LIMIT if vocab_size is None else vocab_size)


def check_sendable(transform: Transform, start_method: str | None) -> None:
    """Refuse a transform that can't be sent to worker processes. Raises ConfigError.

    Args:
        transform: what they are to run.
        start_method: how they are started; None for Python's way.
    """
    method = start_method or multiprocessing.get_start_method(allow_none=True)
    if (method or multiprocessing.get_all_start_methods()[0]) == "fork":  # the first is what Python does unless told
        return
    try:
        pickle.dumps(transform)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        raise ConfigError(
            f"transform: worker processes that are not forked need one that pickles, and this doesn't ({e}); define it "
            "at the top level of a module, or use loader.num_threads in place of num_workers"
        ) from e


def _philox_state(sample_key: int) -> Any:
    """Return the state in which `Philox(key=sample_key)` begins."""
    return {
        "bit_generator": "Philox",
        "state": {"counter": (0, 0, 0, 0), "key": (sample_key, 0)},
        "buffer": (0, 0, 0, 0),
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
