"""What the loaders of a node take of its memory, at most, beside the model."""

from __future__ import annotations

import torch

from tokenyard.bench.memory import resident_bytes
from tokenyard.datasets.loader import PREFETCH_FACTOR
from tokenyard.datasets.order.segment import ENDLESS
from tokenyard.display.quantities import with_unit
from tokenyard.permutation.table_cache import TABLES
from tokenyard.preflight.machine import available_bytes, memory_bytes
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.report import Line, Status, worst

#: Bytes of row indexes that a process keeps of each corpus.
_INDEX_BYTES = 64 << 20
#: Bytes of a decoded token, at most.
_DECODED_BYTES = 8
#: The share of memory that loaders may take before it is told: the rest is for the model, and for pages of files.
_MOST_SHARE = 0.5


def memory_line(planned: Planned, batch_bytes: int) -> Line:
    """Estimate the memory of all ranks of a node. ``batch_bytes``: of a micro-batch that was made."""
    loader = planned.settings.loader
    ahead = _batches_ahead(planned)
    parts = {
        f"decoded blocks ({max(1, loader.num_workers)} x loader.cache_bytes at most)": _decoded(planned),
        f"{ahead:,} batches{' (pinned)' * _pins(planned)}": ahead * batch_bytes,
        "row indexes": _indexes(planned),
        "order": TABLES.max_bytes,
        "the processes": _processes(planned),
    }
    per_rank = sum(parts.values())
    told = ", ".join(f"{name} {with_unit(size, 'bytes')}" for name, size in parts.items() if size)
    total, limit, free = per_rank * planned.ranks_per_node, memory_bytes(), available_bytes()
    problems: list[tuple[Status, str, str]] = []
    way_out = (
        "lower loader.cache_bytes, num_workers or prefetch_factor, or put fewer ranks on a node (--ranks-per-node)"
    )
    ranks = f"{planned.ranks_per_node} rank{'s' * (planned.ranks_per_node > 1)}"
    of_node = f"{with_unit(total, 'bytes')} for {ranks} of a node"
    if limit is not None and total > limit:
        problems.append(("fail", f"{of_node}, which has {with_unit(limit, 'bytes')} of memory", way_out))
    elif limit is not None and total > _MOST_SHARE * limit:
        told_limit = with_unit(limit, "bytes")
        problems.append(("warn", f"{of_node} is more than half of its {told_limit} of memory", way_out))
    elif free is not None and total > free:
        problems.append(("warn", f"{of_node}, and {with_unit(free, 'bytes')} are free now", "end what else runs here"))
    of_limit = f" of {with_unit(limit, 'bytes')}" if limit is not None else ""
    return worst("memory", problems, f"at most {with_unit(per_rank, 'bytes')} a rank ({told}), {of_node}{of_limit}")


def _batches_ahead(planned: Planned) -> int:
    """Micro-batches that are there at the same time: those read ahead, those being read, and the loop's."""
    loader, batches = planned.settings.loader, planned.batches
    factor = loader.prefetch_factor or PREFETCH_FACTOR
    # Each worker has one piece of shared memory more than it is ahead, whose batch is copied once.
    ahead = loader.num_workers * (factor + 1) if loader.num_workers else loader.num_threads * factor
    if not planned.is_large_budget:
        first, stop = batches.epoch_range(0)
        if stop < ENDLESS:
            ahead = min(ahead, batches.num_micro_batches(first, stop))
    return ahead + 2


def _decoded(planned: Planned) -> int:
    """Bytes of decoded blocks, of corpora that aren't read from maps: no more than there are."""
    corpora, loader = planned.dataset.corpora, planned.settings.loader
    share = loader.cache_bytes // len(corpora)
    sizes = [min(share, corpus.num_tokens * _DECODED_BYTES) for corpus in corpora if not corpus.grain().mapped]
    return sum(sizes) * max(1, loader.num_workers)


def _indexes(planned: Planned) -> int:
    sizes = [min(_INDEX_BYTES, 8 * len(corpus)) for corpus in planned.dataset.corpora]
    return sum(sizes) * max(1, planned.settings.loader.num_workers)


def _processes(planned: Planned) -> int:
    """What this process takes, which has all of it loaded, for the rank, and for workers that don't share its pages."""
    loader = planned.settings.loader
    shares_pages = loader.multiprocessing_context in (None, "fork")
    return (resident_bytes() or 0) * (1 if shares_pages else 1 + loader.num_workers)


def _pins(planned: Planned) -> bool:
    return planned.settings.loader.pin_memory is not False and torch.cuda.is_available()
