"""The figures of one window of a run: what a verdict is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tokenyard.monitor.system.load import System
from tokenyard.stages import Stage, StageTime
from tokenyard.storage.cache.counts import Counts

#: Who makes batches: the training loop itself, threads, or worker processes.
Makers = Literal["loop", "threads", "workers"]


@dataclass(frozen=True, kw_only=True)
class Making:
    """What making batches took.

    Attributes:
        makers: who makes them.
        num_makers: how many threads or workers there are.
        prefetch_factor: batches that each is ahead.
        num_batches: made in the window.
        stages: what each stage took in all of them.
        queued_ns: how long the makers were ready to run and had no core, in all; None where the system doesn't tell.
        decoding_share: of batches that found not all their storage blocks in memory, and decoded some.
        more_may_help: whether more threads or workers are worth a try; not where they were tried.
    """

    makers: Makers
    num_makers: int
    prefetch_factor: int
    num_batches: int
    stages: dict[Stage, StageTime] = field(default_factory=dict)
    queued_ns: int | None = None
    decoding_share: float = 0.0
    more_may_help: bool = True

    @property
    def waited_ns(self) -> dict[Stage, int]:
        """What each stage took without the processor, in all batches; not waiting for another thread that decodes."""
        own = {stage: taken for stage, taken in self.stages.items() if stage != "shared"}
        return {stage: max(0, taken.wall - taken.cpu) for stage, taken in own.items()}

    @property
    def wall_ms(self) -> float:
        """What one batch took a thread or worker, with what it queued for a core before it could begin."""
        walls = sum(taken.wall for stage, taken in self.stages.items() if stage != "shared")
        queued_before = max(0, (self.queued_ns or 0) - sum(self.waited_ns.values()))
        return (walls + queued_before) / 1e6 / max(1, self.num_batches)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where tokens come from.

    Attributes:
        formats: of the corpora.
        file_system: its type, as `mount` names it; the scheme of a URL; empty where it isn't known.
        is_remote: whether reading waits for another machine.
    """

    formats: tuple[str, ...]
    file_system: str
    is_remote: bool


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """This rank's GPU.

    Attributes:
        utilisation: percent of the time in which a kernel ran, as `nvidia-smi` shows it; None where it isn't known.
        unknown: why it isn't.
        has_cuda: whether the loop computes on a CUDA device.
        batch_bytes: of the tensors of a batch.
        pins_memory: whether they lie in page-locked memory.
    """

    utilisation: float | None = None
    unknown: str = ""
    has_cuda: bool = False
    batch_bytes: int = 0
    pins_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One window of one rank.

    Attributes:
        rank: whose it is.
        world_size: of how many.
        step: the last one.
        seconds: that the window lasted.
        stepping_seconds: of these, what its steps waited and computed, without the first one of an iteration; less than
            `seconds` where the loop did something else, as building a model, evaluating, compiling in its first step.
        num_steps: in it.
        num_batches: micro-batches in it.
        num_tokens: in it, on this rank.
        wait_ms: of a step, on average; the first of an iteration is left out, and the longest too, unless one step of
            the window before also waited for long.
        median_wait_ms: of a step.
        compute_ms: of a step, the median.
        cache: what the loader's cache did in the window; None where no corpus is read through one.
    """

    rank: int
    world_size: int
    step: int
    seconds: float
    stepping_seconds: float
    num_steps: int
    num_batches: int
    num_tokens: int
    wait_ms: float
    median_wait_ms: float
    compute_ms: float
    making: Making
    source: Source
    system: System
    gpu: Gpu
    cache: Counts | None = None

    @property
    def fetched_mb_per_s(self) -> float | None:
        """What came into the cache from where the corpus lies; None where there is no cache."""
        return None if self.cache is None else self.cache.bytes_fetched / 1e6 / max(1e-9, self.seconds)

    @property
    def wait_share(self) -> float:
        """What a step waits for its data, as a share of it."""
        return self.wait_ms / max(1e-9, self.wait_ms + self.compute_ms)

    @property
    def batches_per_step(self) -> float:
        """Micro-batches of a step, on average."""
        return self.num_batches / max(1, self.num_steps)

    @property
    def compute_ms_per_batch(self) -> float:
        """What the loop does between two micro-batches."""
        return self.compute_ms * self.num_steps / max(1, self.num_batches)
