"""Runs for tests of plans: small ones by hand, and any that Hypothesis thinks of."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.datasets.order.slow_plan import Step
from tokenyard.datasets.order import resolve
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.segment import Segment, Source

#: Tokens of a unit, in runs whose sequence length changes.
UNIT = 4


def segment(
    *sources: Source | int,
    size: int = 8,
    first_step: int = 0,
    last_batch: Any = "drop",
    is_mixture: bool = False,
    epoch_samples: int | None = None,
    seq_len: int | None = None,
    unit: int | None = None,
    **order: Any,
) -> Segment:
    """A segment; a number is a corpus of so many samples."""
    made = tuple(Source(id=f"corpus {s}", num_samples=s) if isinstance(s, int) else s for s in sources)
    order = {"seed": 42, "block_samples": 4, "window_blocks": 2, "lanes": 1, **order}
    return Segment(
        first_step=first_step,
        order=resolve(num_samples=made[0].num_samples, global_batch_size=size, **order),
        global_batch_size=size,
        last_batch=last_batch,
        sources=made,
        is_mixture=is_mixture,
        epoch_samples=epoch_samples,
        seq_len=seq_len,
        samples_per_unit=1 if unit is None or seq_len is None else unit // seq_len,
    )


def source(number: int, num_samples: int, weight: float = 1.0, **options: Any) -> Source:
    return Source(id=f"corpus {number}", number=number, num_samples=num_samples, weight=weight, **options)


def mixture(*sources: Source, **options: Any) -> Segment:
    return segment(*sources, is_mixture=True, **options)


def step_of(plan: Plan, step: int) -> Step:
    """The slots of a step, as the slow reading tells them."""
    slots = np.arange(plan.segment(step).global_batch_size)
    draws = plan.draws(step, 1, slots)
    sources = [None] * slots.size if draws.sources is None else draws.sources[0].tolist()
    padding = [False] * slots.size if draws.is_padding is None else draws.is_padding[0].tolist()
    return list(zip(sources, draws.epochs[0].tolist(), draws.sample_ids[0].tolist(), padding, strict=True))


def steps_of(plan: Plan, start: int, stop: int) -> list[tuple[int, Step]]:
    """The epoch and the slots of steps."""
    return [(plan.epoch_of(step), step_of(plan, step)) for step in range(start, stop)]


@st.composite
def single_runs(draw: st.DrawFn, *, changes: int = 4, last_batch: str | None = None) -> list[Segment]:
    """Runs over one corpus whose global batch, and where there are units also whose sequence length, changes."""
    shuffle = draw(st.sampled_from(["none", "global", "block", "block"]))
    has_units = draw(st.booleans())
    units = draw(st.integers(6, 40))
    order = {
        "shuffle": shuffle,
        "seed": draw(st.integers(0, 99)),
        "block_samples": draw(st.integers(1, 9)),
        "window_blocks": draw(st.integers(1, 4)),
    }
    padded = last_batch or draw(st.sampled_from(["drop", "pad"]))
    segments, step = [], 0
    for _ in range(draw(st.integers(1, changes + 1))):
        seq_len = draw(st.sampled_from([1, 2, 4])) if has_units else None
        num_samples = units if seq_len is None else units * UNIT // seq_len
        per_lane = draw(st.integers(1, 4))
        lanes = draw(st.sampled_from([1, 2, 3, 4])) if shuffle == "block" else 1
        size = per_lane * lanes
        if padded == "drop" and size > num_samples:
            size = lanes = 1
        corpus = Source(id="corpus", num_samples=num_samples)
        options: dict[str, Any] = {"size": size, "lanes": lanes, "first_step": step, "last_batch": padded}
        segments.append(segment(corpus, seq_len=seq_len, unit=UNIT, **options, **order))
        step += draw(st.integers(1, 12))
    return segments


@st.composite
def mixed_runs(draw: st.DrawFn, *, changes: int = 3) -> list[Segment]:
    """Runs over several corpora, whose weights, sources, global batch and sequence length change."""
    shuffle = draw(st.sampled_from(["none", "global", "block", "block"]))
    has_units = draw(st.booleans())
    units = draw(st.lists(st.integers(4, 25), min_size=1, max_size=4))
    epoch_tokens = draw(st.none() | st.integers(12 * UNIT, 60 * UNIT))
    order = {
        "shuffle": shuffle,
        "seed": draw(st.integers(0, 99)),
        "block_samples": draw(st.integers(1, 9)),
        "window_blocks": draw(st.integers(1, 4)),
    }
    segments, step = [], 0
    for _ in range(draw(st.integers(1, changes + 1))):
        seq_len = draw(st.sampled_from([1, 2, 4])) if has_units else None
        lanes = draw(st.sampled_from([1, 2, 3, 4])) if shuffle == "block" else 1
        numbers = sorted(draw(st.sets(st.integers(0, len(units) - 1), min_size=1)))
        sources = [
            source(
                k, units[k] if seq_len is None else units[k] * UNIT // seq_len, draw(st.sampled_from([1, 2, 5, 0.3]))
            )
            for k in numbers
        ]
        segments.append(
            mixture(
                *sources,
                size=draw(st.integers(1, 3)) * lanes,
                lanes=lanes,
                first_step=step,
                epoch_samples=epoch_tokens if epoch_tokens is None else epoch_tokens // (seq_len or UNIT),
                seq_len=seq_len,
                unit=UNIT,
                **order,
            )
        )
        step += draw(st.integers(1, 14))
    return segments
