"""Whether the streaming cache is large enough for the run, and the disk for the cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tokenyard.corpus.locating import is_remote
from tokenyard.datasets.loader import steps_ahead
from tokenyard.datasets.streaming.smallest import check_cache, smallest_cache
from tokenyard.datasets.streaming.tiles import cache_of
from tokenyard.datasets.streaming.uses import NodeRank
from tokenyard.display.quantities import with_unit
from tokenyard.errors import ConfigError
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.report import Line, Status, failed, passed, warned, worst
from tokenyard.storage import storage_error


def cache_line(planned: Planned) -> Line:
    """Compare the cache with the smallest one that the run works with. Raises DataError, StorageError."""
    disk, dataset = cache_of(planned.dataset), planned.dataset
    if disk is None:
        if not any(is_remote(str(corpus.path)) for corpus in dataset.corpora):
            return passed("cache", "none is needed: all files are on disks of this machine")
        return warned(
            "cache",
            "there is none, so that each range is fetched anew whenever it is read",
            "set loader.cache: {bytes: ..., path: ...} to a folder on a local disk",
        )
    ranks = [NodeRank(rank, planned.ranks) for rank in range(planned.ranks_per_node)]
    ahead = steps_ahead(planned.settings.loader, planned.batches)
    needed = smallest_cache(dataset, planned.batches, ranks, ahead)
    try:
        check_cache(disk.max_bytes, dataset, planned.batches, ranks, ahead)
    except ConfigError as e:
        return failed("cache", str(e), f"set loader.cache.bytes to {needed} or more")
    whole = sum(corpus.manifest.num_bytes for corpus in dataset.corpora if corpus.folder.cache is not None)
    free, held = _room(disk.home)
    most = min(disk.max_bytes, max(needed, whole))
    problems: list[tuple[Status, str, str]] = []
    if free + held < most:
        status: Status = "fail" if free + held < needed else "warn"
        told = (
            f"{disk.home} has {with_unit(free + held, 'bytes')} for it, {with_unit(held, 'bytes')} of which it holds, "
            f"but it may grow to {with_unit(most, 'bytes')}"
        )
        problems.append((status, told, "make room there, lower loader.cache.bytes, or name another disk by its path"))
    otherwise = (
        f"{with_unit(disk.max_bytes, 'bytes')}, of which {with_unit(needed, 'bytes')} are needed by "
        f"{planned.ranks_per_node} rank{'s' * (len(ranks) > 1)} of a node, for corpora of {with_unit(whole, 'bytes')}"
    )
    return worst("cache", problems, otherwise)


def _room(home: Path) -> tuple[int, int]:
    """Return the bytes that are free on the disk of a cache, and those that the cache holds. Raises StorageError."""
    try:
        free = shutil.disk_usage(home).free
    except OSError as e:
        raise storage_error(e, f"can't tell the free space at {home}") from e
    held = 0
    for folder, _, names in os.walk(home):
        for name in names:
            try:
                held += os.stat(os.path.join(folder, name)).st_size
            except (FileNotFoundError, PermissionError):  # evicted meanwhile, or of a user who lets nobody see it
                continue
    return free, held
