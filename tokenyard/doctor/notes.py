"""What to know of the figures, above all what they don't say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tokenyard.bench.page_cache import MAX_COLD_SHARE
from tokenyard.display.quantities import with_unit
from tokenyard.doctor.check import Check
from tokenyard.doctor.page_cache import is_cold
from tokenyard.doctor.settings import DoctorSettings
from tokenyard.doctor.source import Source
from tokenyard.doctor.trial import Trial


def notes(
    settings: DoctorSettings,
    source: Source,
    tried: Sequence[Trial],
    check: Check,
    ceiling: Trial,
    warm: Trial | None,
    *,
    is_whole: bool,
) -> Iterator[str]:
    """Yield them, one for each thing to know. `is_whole`: whether all settings were tried that were worth it."""
    if settings.step_ms is None:
        yield (
            "What the limit is, and what to change, is told with --step-ms alone: both depend on what a step computes."
        )
    alike = [trial for trial in [*tried, warm, *check.fast] if trial is not None and trial.loader == ceiling.loader]
    if any(trial.steps_per_second > ceiling.steps_per_second for trial in alike):
        yield (
            "The ceiling came out lower than what the same setting gave with real batches, which can't be: other work "
            "on this machine, or chance, disturbed it. Take both for about equal, or measure for longer (--seconds)."
        )
    if not is_whole:
        yield "The time was over before all settings were tried that may have brought more; --seconds gives more of it."
    if source.files:
        yield _of_page_cache(settings, source, [*tried, *check.fast, *check.paced])
    cache = settings.config.loader.cache
    if cache is not None:
        yield (
            "Each trial fetched through a cache of its own, empty at first, on the disk of loader.cache, which is gone "
            "now. The job's own cache was left as it is; what it holds already will not be fetched again."
        )
    if len(check.fast) < settings.gpus:
        yield (
            f"{len(check.fast)} of the {settings.gpus} ranks ran at once, as this machine has few cores: what they "
            "gave together is taken to be all that there is for the others too; what steps waited is of these alone."
        )
    if not check.waits:
        yield (
            "No step was long enough over in the check that its waiting could be seen, so what was given as fast as it "
            "came decides alone; --seconds gives steps more time."
        )
    if settings.config.order.segments:
        first = settings.config.order.segments[0].from_step
        yield (
            f"Measured was the beginning of the run; order.segments change it from step {first} on. Larger global "
            "batches need more."
        )
    yield (
        "The settings in the table were tried by one rank, taking batches as fast as they came; what steps would wait "
        "is reckoned from that. The check is of all ranks, at the step time."
    )


def _of_page_cache(settings: DoctorSettings, source: Source, trials: Sequence[Trial]) -> str:
    size = with_unit(source.num_bytes, "bytes")
    if settings.warm:
        return "The page cache was left as it was (--warm): what it held was not read from the disk."
    if all(map(is_cold, trials)):
        fits = ""
        if source.memory_bytes is not None:
            fits = (
                f"; the corpus's {size} fit into the memory of {with_unit(source.memory_bytes, 'bytes')}, so later "
                "epochs may come out of it, as where it says warm"
                if source.num_bytes < source.memory_bytes / 2
                else f"; the corpus's {size} don't fit into the memory of {with_unit(source.memory_bytes, 'bytes')} "
                "with much else, so every epoch is like that"
            )
        return (
            "Cold: the corpus's files were dropped from this system's page cache before each trial, as a first epoch "
            f"finds them{fits}. What the disk, or a host below a virtual machine, keeps in memories of its own can't "
            "be seen."
        )
    shares = [trial.resident_share for trial in trials if trial.resident_share is not None]
    if not shares:
        return (
            "The corpus's files were dropped from this system's page cache before each trial, as a first epoch finds "
            "them; but what stayed can't be told: the system tells it only to whoever may write to the files."
        )
    return (
        f"The corpus could not be dropped from the page cache: up to {max(shares):.0%} of its files stayed in memory "
        f"(cold is below {MAX_COLD_SHARE:.0%}). Files that another process has mapped stay, and file systems in memory "
        "(tmpfs); a first epoch may be slower."
    )
