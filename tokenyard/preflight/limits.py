"""Whether the system lets a process open as many files, and make as many memory maps, as the corpora take."""

from __future__ import annotations

from collections.abc import Iterator

from tokenyard.corpus import Corpus
from tokenyard.corpus.shards import MAX_OPEN_SHARDS
from tokenyard.preflight.machine import most_maps, open_files
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.report import Line, Status, worst
from tokenyard.storage.open_files import MAX_OPEN

#: What Python, torch and its collectives have open beside: libraries, sockets, devices.
_OTHER_FILES = 128
#: Pipes and shared memory of a worker process.
_FILES_OF_WORKER = 16
#: Connections that a store's client keeps.
_CONNECTIONS = 64
#: Maps of libraries, stacks and large allocations, some of them of torch and CUDA.
_OTHER_MAPS = 8192


def limit_lines(planned: Planned) -> Iterator[Line]:
    """Compare what is needed with ``ulimit -n`` and ``vm.max_map_count``. Raises DataError, StorageError."""
    yield _files(planned)
    if (limit := most_maps()) is not None:
        yield _maps(planned, limit)


def _files(planned: Planned) -> Line:
    soft, hard = open_files()
    loader = planned.settings.loader
    read = [corpus for corpus in planned.dataset.corpora if not corpus.grain().mapped]
    of_shards = min(MAX_OPEN, sum(map(_num_files, (c for c in read if c.folder.asks_cheaply))))
    remote = _CONNECTIONS if any(not corpus.folder.asks_cheaply for corpus in read) else 0
    needed = _OTHER_FILES + of_shards + remote + loader.num_workers * _FILES_OF_WORKER
    problems: list[tuple[Status, str, str]] = []
    way_out = f"raise it before the run: ulimit -n {max(4096, 2 * needed)} (up to {hard:,} here, without root)"
    if needed > soft:
        problems.append(("fail", f"a rank needs about {needed:,} open files, and ulimit -n is {soft:,}", way_out))
    elif 2 * needed > soft:
        problems.append(("warn", f"ulimit -n is {soft:,}, little more than is needed", way_out))
    return worst("open files", problems, f"about {needed:,} are needed, {of_shards:,} of them shards; {soft:,} allowed")


def _maps(planned: Planned, limit: int) -> Line:
    needed = _OTHER_MAPS + sum(_num_maps(corpus) for corpus in planned.dataset.corpora)
    problems: list[tuple[Status, str, str]] = []
    way_out = "raise it as root, sysctl -w vm.max_map_count=262144, or read by ranges: data.read: pread"
    told = f"at most {needed:,} are needed, and vm.max_map_count is {limit:,}"
    if needed > limit:
        problems.append(("fail", "a rank may need more maps than a process may have", way_out))
    elif 2 * needed > limit:
        problems.append(("warn", "a rank may need more than half of the maps that a process may have", way_out))
    return worst("memory maps", problems, told)


def _num_files(corpus: Corpus) -> int:
    shards = corpus.manifest.shards
    return len(shards) * len(shards[0].files) if len(shards) else 0


def _num_maps(corpus: Corpus) -> int:
    """The maps of the shards that are open at the same time: their files, and their row indexes."""
    if not corpus.grain().mapped:
        return 0
    shards = corpus.manifest.shards
    return min(len(shards), MAX_OPEN_SHARDS) * (len(shards[0].files) + 1) if len(shards) else 0
