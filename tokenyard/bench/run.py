"""A run of the benchmark: the sample, the rounds, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tokenyard.bench.choices import choose
from tokenyard.bench.grades import grade_all
from tokenyard.bench.machine import describe_machine
from tokenyard.bench.metrics import Figure, figures_of
from tokenyard.bench.page_cache import MAX_COLD_SHARE
from tokenyard.bench.peers import PeerRun, check_python
from tokenyard.bench.results import BenchReport, PeerResult, VariantResult
from tokenyard.bench.rounds import SAMPLE, Found, Rounds
from tokenyard.bench.sample import Sample, take_sample
from tokenyard.bench.settings import BenchSettings
from tokenyard.bench.steps import OnStep
from tokenyard.bench.variants import Variant
from tokenyard.bench.workplace import workplace
from tokenyard.errors import ConfigError


def run_bench(settings: BenchSettings, *, command: str, on_step: OnStep | None = None) -> BenchReport:
    """Measure, and return all that was found.

    Args:
        settings: what to measure, and where.
        command: what repeats the run, for the report.
        on_step: told of each step before it begins.

    Raises ConfigError, DestinationExistsError, StorageError; VerificationError when the source is not what its manifest
    promises; BenchmarkError when a measurement fails or takes too long, or a format reads back other rows than were
    written. Nothing but what ``settings.keep`` names stays.
    """
    if settings.peers is not None:
        check_python(settings.peers.python)
    begun = datetime.now(UTC).isoformat(timespec="minutes")
    with workplace(settings) as (folder, notes):
        sample = take_sample(settings, folder / SAMPLE)
        _check_batches(settings, sample)
        rounds = Rounds(settings, sample, folder, on_step)
        rounds.run()
        machine = describe_machine(folder)
    return _report(settings, command, begun, sample, rounds, machine, notes)


def _check_batches(settings: BenchSettings, sample: Sample) -> None:
    num_samples = sample.num_rows if sample.mode == "rows" else (sample.num_tokens - 1) // settings.seq_len
    if num_samples < settings.batch_size:
        what = "rows" if sample.mode == "rows" else f"windows of {settings.seq_len} tokens"
        raise ConfigError(
            f"batch_size: there are {num_samples} {what}, fewer than a batch of {settings.batch_size}; give a smaller "
            "--batch-size or --seq-len, or measure more"
        )


def _report(
    settings: BenchSettings,
    command: str,
    begun: str,
    sample: Sample,
    rounds: Rounds,
    machine: Mapping[str, Any],
    notes: list[str],
) -> BenchReport:
    results = tuple(_variant_result(variant, rounds.found[variant.spec], sample) for variant in settings.variants)
    figures = {result.variant.spec: result.figures for result in results}
    memory: Any = machine["memory_bytes"]
    choices = choose(
        figures,
        titles={result.variant.spec: result.variant.title for result in results},
        formats={result.variant.spec: result.variant.format for result in results},
        is_large=bool(memory) and sample.of_bytes > memory / 2,
    )
    first = next(iter(rounds.found.values())).reading[0]
    return BenchReport(
        command=command,
        begun=begun,
        sample=sample,
        settings={
            "rounds": settings.rounds,
            "seconds": settings.seconds,
            "batch_size": settings.batch_size,
            "shard_bytes": rounds.shard_bytes,
            "sample_bytes": settings.sample_bytes,
            "seed": settings.seed,
            "cold": settings.cold,
        },
        machine=machine,
        disk=Figure(values=tuple(rounds.disk)) if rounds.disk else None,
        tokens_per_sample=first["tokens_per_sample"],
        variants=results,
        peers=tuple(_peer_result(run, rounds) for run in rounds.peer_runs),
        grades=grade_all(figures),
        choices=choices,
        notes=(*_notes(settings, sample, rounds), *notes),
    )


def _variant_result(variant: Variant, found: Found, sample: Sample) -> VariantResult:
    figures = figures_of([w["figures"] | r["figures"] for w, r in zip(found.writing, found.reading, strict=True)])
    sizes = figures["size"].values
    figures["ratio"] = Figure(values=tuple(sample.raw_bytes / size for size in sizes))
    return VariantResult(
        variant=variant,
        figures=figures,
        num_shards=found.writing[0]["shards"],
        digest=found.writing[0]["digest"],
        commands=found.commands,
    )


def _peer_result(run: PeerRun, rounds: Rounds) -> PeerResult:
    found = rounds.peers[run.key]
    told = [{k: v for k, v in one.items() if k in ("loader", "sequential", "first_batch")} for one in found]
    return PeerResult(
        name=run.peer.name,
        package=run.peer.package,
        work=run.peer.work,
        variant=run.variant.spec,
        command=rounds.command_of_peer(run),
        version=found[0]["version"] if found else None,
        figures=figures_of(told),
        problem=rounds.peer_problems.get(run.key),
    )


def _notes(settings: BenchSettings, sample: Sample, rounds: Rounds) -> Iterator[str]:
    """What to know of the figures, above all what they don't say."""
    if not sample.is_whole:
        yield (
            f"Measured on a sample: {sample.num_tokens:,} of {sample.of_tokens:,} tokens, in stretches of rows spread "
            "evenly over the corpus. --sample-bytes takes more."
        )
    reading = [found for of_variant in rounds.found.values() for found in of_variant.reading]
    if not all(found["with_loader"] for found in reading):
        yield "There is no torch here, so training batches were not measured: pip install 'tokenyard[torch]'."
    if not settings.cold:
        yield "A cold page cache was not asked for."
    elif any(not any(key.endswith("_cold") for key in found["figures"]) for found in reading):
        shares = [found["resident_share"] for found in reading if found["resident_share"] is not None]
        seen = f"{max(shares):.0%} of a corpus stayed in it" if shares else "it can't be looked into"
        yield (
            f"Where a cold figure is missing, the page cache could not be seen to be cold: {seen}. Files in memory "
            "(tmpfs) always stay; other systems than Linux have no call for it."
        )
    else:
        yield (
            f"Cold means that before each measurement the files were dropped from this system's page cache, and that "
            f"less than {MAX_COLD_SHARE:.0%} of them was seen to be in it. What the disk, or a host below a virtual "
            "machine, keeps in memories of its own can't be seen."
        )
