"""What holds a run back: a pure function of the figures of one window."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tokenyard.monitor.advice import with_makers, without_wait
from tokenyard.monitor.causes import (
    Cause,
    causes,
    computed_in_transform_ms,
    is_interpreter_held,
    main_cause,
    transform_waits,
)
from tokenyard.monitor.figures import Figures
from tokenyard.storage.cache.counts import Counts

Kind = Literal[
    "disk",
    "network",
    "decode",
    "python",
    "copy",
    "threads",
    "prefetch",
    "cpu",
    "straggler",
    "not the loader",
]

#: A step that waits for less than this share of it doesn't wait.
WAIT_SHARE = 0.10
#: Percent below which a GPU has too little to do, and from which on it never waits, whatever the loop does.
GPU_IDLE, GPU_BUSY = 80.0, 95.0
#: Share of their time below which those who make batches are idle.
_IDLE = 0.6
#: Share of a batch's time from which on it is told that its makers queue for a core.
_QUEUED = 0.25
#: Share of a time from which on it is mostly that.
_MOSTLY = 0.5
#: Share of a step from which on a transform's work in the interpreter is in the way of the step's own.
_IN_THE_WAY = 0.25
#: Share of time from which on a container that is stopped at its CPU limit has too few cores.
_THROTTLED = 0.2
#: What copies to a GPU reach at least from ordinary memory, which go through a buffer of the driver's.
_PAGEABLE_BYTES_PER_MS = 4e6
_COPY_SHARE = 0.05


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What holds a run back.

    Attributes:
        kind: what.
        evidence: the figures that say so.
        advice: the setting to change, and what that should bring.
    """

    kind: Kind
    evidence: str
    advice: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.evidence}; {self.advice}"


def judge(figures: Figures) -> Verdict | None:
    """Return what holds this rank back.

    None where its steps don't wait and its GPU is busy, or is not known and nothing here is in the way of the steps.
    """
    gpu = figures.gpu.utilisation
    if figures.wait_share >= WAIT_SHARE:
        return None if gpu is not None and gpu >= GPU_BUSY else _of_loader(figures)
    if gpu is not None and gpu >= GPU_IDLE:
        return None
    if (held := _of_lock(figures)) is not None or gpu is None:
        return held
    return _of_copy(figures) or Verdict(
        kind="not the loader",
        evidence=f"the GPU is {gpu:.0f}% busy, and {_waiting(figures)}",
        advice="look at the training step itself: small kernels, .item() and other synchronisation, logging, "
        "checkpoints, other ranks (torch.profiler shows them)",
    )


def _of_loader(figures: Figures) -> Verdict:
    making = figures.making
    found = causes(figures)
    cause = main_cause(figures, found)
    if (figures.system.throttled or 0.0) >= _THROTTLED:
        cause = "cores"
    elif _waits_for_cache(figures):
        return _of_cache(figures)
    elif _are_idle(figures, found["cores"]):
        return _of_prefetch(figures)
    evidence = f"{_waiting(figures)}; of the {_ms(making.wall_ms)} that a {_batch(figures)} takes to make, "
    if cause != "cores" and found["cores"] >= _QUEUED * making.wall_ms:
        evidence += f"{_ms(found['cores'])} are waiting for a core, and "
    evidence += f"{_ms(found[cause])} "
    return _BY_CAUSE[cause](figures, evidence)


def _are_idle(figures: Figures, queued_ms: float) -> bool:
    """Whether those who make batches rest for part of the time though steps wait.

    A single one that is waited for does not, whatever holds it up between two batches. Nor do those that mostly queue
    for a core, where that takes as long as steps wait: they need a core, not an earlier beginning.
    """
    making = figures.making
    room = 1e3 * making.num_makers * figures.stepping_seconds
    worked = making.num_batches * making.wall_ms
    if making.num_makers == 1:
        worked = max(worked, figures.wait_share * room)
    queued_a_step = queued_ms * figures.batches_per_step
    lacks_cores = queued_ms >= _MOSTLY * making.wall_ms and queued_a_step >= figures.wait_ms
    return worked < _IDLE * room and not lacks_cores


def _waits_for_cache(figures: Figures) -> bool:
    """Whether steps mostly wait since the loader's cache doesn't have yet what comes next; its readers then rest."""
    waited_ms = 0.0 if figures.cache is None else figures.cache.wait_ns / 1e6
    return waited_ms > 0 and waited_ms >= _MOSTLY * figures.wait_ms * figures.num_steps


def _of_cache(figures: Figures) -> Verdict:
    cache = figures.cache or Counts()
    late = f", {cache.evicted_late} of them evicted before they were read" if cache.evicted_late else ""
    return Verdict(
        kind="network",
        evidence=f"{_waiting(figures)}; {cache.waits} ranges were not in the cache when they were due{late}, and "
        f"were waited for {_ms(cache.wait_ns / 1e6)} in all; {figures.fetched_mb_per_s:.1f} MB/s come in from "
        f"{figures.source.file_system or 'where the corpus lies'}",
        advice="give loader.cache.bytes more, so that more is fetched ahead and kept for the next epoch, or keep the "
        f"corpus nearer or smaller (tokenyard convert --to parquet); {without_wait(figures)}",
    )


def _of_storage(figures: Figures, evidence: str) -> Verdict:
    disk, source = figures.system.disk, figures.source
    if source.is_remote:
        received = figures.system.received_mb_per_s
        rate = "" if received is None else f", {received:.0f} MB/s come in over the network"
        return Verdict(
            kind="network",
            evidence=f"{evidence}are waiting for {source.file_system or 'a network file system'}{rate}",
            advice=with_makers(figures, waits=True)
            or "copy the corpus to a local disk, or store it smaller (tokenyard convert --to parquet)",
        )
    if disk is None:
        load = figures.system.disk_unknown or "no disk is known"
    else:
        load = (
            f"{disk.name}: {disk.utilisation:.0f}% util, {disk.read_mb_per_s:.0f} MB/s, {disk.reads_per_s:.0f} reads/s "
            f"of {disk.read_ms:.1f} ms, queue {disk.queue:.1f}"
        )
    is_full = disk is not None and disk.utilisation >= GPU_BUSY and disk.queue > 4
    return Verdict(
        kind="disk",
        evidence=f"{evidence}are waiting for the disk ({load})",
        advice=("" if is_full else with_makers(figures, waits=True))
        or f"the disk gives no more: put the corpus on a faster one, or store it smaller; {without_wait(figures)}",
    )


def _of_decoding(figures: Figures, evidence: str) -> Verdict:
    formats = ", ".join(figures.source.formats)
    return Verdict(
        kind="decode",
        evidence=f"{evidence}are decoding {formats} ({figures.making.decoding_share:.0%} of batches decode a block)",
        advice=f"convert to npy or raw mds, whose maps need no decoding (tokenyard convert SRC DST --to npy; "
        f"{without_wait(figures)}){_or(with_makers(figures, waits=False))}",
    )


def _of_python(figures: Figures, evidence: str) -> Verdict:
    if transform_waits(figures):
        return Verdict(
            kind="python",
            evidence=f"{evidence}are a transform that waits rather than computes",
            advice=with_makers(figures, waits=True, only="threads")
            or f"let the transform wait less, or do what it does once before; {without_wait(figures)}",
        )
    late = figures.system.interpreter_late_ms
    held = f", and threads wait {late:.1f} ms for Python's lock" if late >= 1 else ""
    return Verdict(
        kind="python",
        evidence=f"{evidence}are a transform or other work in Python{held}",
        advice=with_makers(figures, waits=False, only="workers")
        or f"make the transform cheaper (numpy on whole arrays), or do it once before; {without_wait(figures)}",
    )


def _of_lock(figures: Figures) -> Verdict | None:
    """What threads compute in Python that the steps don't wait for, but while which they can't go on themselves."""
    making = figures.making
    computed = computed_in_transform_ms(figures)
    step_share = computed / max(1e-9, figures.compute_ms_per_batch)
    if making.makers != "threads" or not is_interpreter_held(figures) or step_share < _IN_THE_WAY:
        return None
    workers = min(figures.system.cores, math.ceil(making.wall_ms / max(1e-9, figures.compute_ms_per_batch)))
    return Verdict(
        kind="python",
        evidence=f"{_waiting(figures)}, but for each {_batch(figures)} a transform computes {_ms(computed)} in threads "
        f"of this process, and whatever else it does waits {figures.system.interpreter_late_ms:.1f} ms for Python's "
        "lock each time, the step too",
        advice=f"loader.num_workers 0 -> {max(1, workers)}: the transform then has locks of its own, and the "
        f"{_ms(figures.compute_ms)} of a step become shorter",
    )


def _of_copying(figures: Figures, evidence: str) -> Verdict:
    return Verdict(
        kind="threads",
        evidence=f"{evidence}are finding, copying and making tensors",
        advice=with_makers(figures, waits=False) or _more_cores(figures),
    )


def _of_cores(figures: Figures, evidence: str) -> Verdict:
    system = figures.system
    told = [f"{system.cores} cores"]
    if system.idle_cores is not None:
        told.append(f"{system.idle_cores:.1f} idle")
    if system.throttled:
        told.append(f"stopped at the container's CPU limit {system.throttled:.0%} of the time")
    return Verdict(
        kind="cpu",
        evidence=f"{evidence}are waiting for a core ({', '.join(told)})",
        advice=_more_cores(figures),
    )


def _of_prefetch(figures: Figures) -> Verdict:
    making = figures.making
    factor = making.prefetch_factor
    return Verdict(
        kind="prefetch",
        evidence=f"{_waiting(figures)}, though "
        f"{making.num_makers} {making.makers} are idle for part of the time: some batches take far longer than the "
        f"{_ms(making.wall_ms)} that one takes on average",
        advice=f"loader.prefetch_factor {factor} -> {4 * factor}, so that slow batches are begun earlier; "
        f"{without_wait(figures)}",
    )


def _of_copy(figures: Figures) -> Verdict | None:
    gpu = figures.gpu
    copying = gpu.batch_bytes / _PAGEABLE_BYTES_PER_MS
    share = copying / max(1e-9, figures.compute_ms_per_batch)
    if not gpu.has_cuda or gpu.pins_memory or share < _COPY_SHARE:
        return None
    return Verdict(
        kind="copy",
        evidence=f"the GPU is {gpu.utilisation:.0f}% busy, and batches of {gpu.batch_bytes / 1e6:.1f} MB go to it from "
        f"memory that is not page-locked, which takes about {_ms(copying)} of {_ms(figures.compute_ms_per_batch)}",
        advice="loader.pin_memory: auto, and batch.to(device, non_blocking=True), so that copies overlap: up to "
        f"{1 / max(1e-9, 1 - min(share, 0.9)):.2f} times the steps",
    )


def _more_cores(figures: Figures) -> str:
    needed = math.ceil(figures.making.wall_ms / max(1e-9, figures.compute_ms_per_batch))
    return (
        f"give this rank more cores (SLURM: --cpus-per-task, Kubernetes: limits.cpu), or end what else runs here: "
        f"{min(needed, 999)} busy cores would make batches as fast as they are taken; {without_wait(figures)}"
    )


def _waiting(figures: Figures) -> str:
    step = f"a step of {figures.batches_per_step:.3g} micro-batches" if _has_several(figures) else "a step"
    return f"{step} waits {_ms(figures.wait_ms)} for its data, {figures.wait_share:.0%} of it"


def _batch(figures: Figures) -> str:
    return "micro-batch" if _has_several(figures) else "batch"


def _has_several(figures: Figures) -> bool:
    return figures.num_batches > figures.num_steps


def _or(other: str) -> str:
    return f"; or {other}" if other else ""


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.3g} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"


_BY_CAUSE: dict[Cause, Callable[[Figures, str], Verdict]] = {
    "storage": _of_storage,
    "decode": _of_decoding,
    "python": _of_python,
    "copying": _of_copying,
    "cores": _of_cores,
}
