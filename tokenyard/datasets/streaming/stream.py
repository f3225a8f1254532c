"""One rank that trains through a cache: what it fetches ahead, and what it may evict for it."""

import json
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tokenyard.datasets.batches import Batches
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order.state import to_json
from tokenyard.datasets.sampler import EpochRun, RankSampler, Request
from tokenyard.datasets.streaming.fetch_ahead import FetchAhead
from tokenyard.datasets.streaming.outlook import outlook
from tokenyard.datasets.streaming.tiles import FilePiece, Tiles, tile_size
from tokenyard.datasets.streaming.uses import NodeRank, TileUses
from tokenyard.storage import checksum
from tokenyard.storage.cache import NEVER, Counters, Counts, DiskCache, Outlook, Piece, Rank, Ranks

#: Ranks of a training run go in step; one that is so far behind takes no part, or is held, and nobody waits for it.
_LAG_STEPS = 16


class Stream:
    """What a loader needs to read through a cache. One for each rank; workers read what it has fetched.

    Args:
        dataset: some or all of whose corpora are read through the cache.
        sampler: the order.
        cache: shared with the other ranks of the node.
    """

    def __init__(self, dataset: TokenDataset, sampler: RankSampler, cache: DiskCache) -> None:
        self._sampler = sampler
        self._cache = cache
        self._tiles = Tiles(dataset, tile_size(dataset, sampler.batches.plan))
        self._uses: TileUses | None = None
        self._looking = threading.Lock()
        # What an epoch fetches ahead knows this; the other way round too, a loader that is dropped would stay a rank.
        self._running: Callable[[], FetchAhead | None] = lambda: None
        self._begun = 0
        self._told_steps = deque[int](maxlen=_LAG_STEPS)
        self._ranks = Ranks(cache.home)
        self._told = {
            "run": checksum(json.dumps(to_json(sampler.batches.plan, 0), sort_keys=True).encode()),
            "rank": sampler.batches.rank,
            "world_size": sampler.batches.world_size,
        }
        self._step = _plan_step(sampler.batches, sampler.step)
        self._ranks.join(self._told, self._step)
        weakref.finalize(self, self._ranks.leave)
        cache.counters = Counters(self._ranks.counts_path)

    @property
    def counts(self) -> Counts:
        """What was fetched, read and waited for since the loader was made, by this rank and its workers."""
        return self._cache.counters.sums()

    def fetched(self, run: EpochRun, requests: Iterator[Request]) -> FetchAhead:
        """Return what yields the requests of an epoch, each when what it reads is there."""
        batches = run.batches
        self._told_steps.clear()
        self._tell(run.first_step)  # where a state was loaded, or an epoch chosen
        self._uses = TileUses(batches, self._tiles, batches.first_id)

        self._begun += 1
        number = self._begun

        def want(step: int) -> None:
            if self._begun == number:  # and not one of an epoch that was left, whose iterator is still held
                self._ranks.want(step)

        self._ranks.want(NEVER)  # what an epoch that was left wanted, whose iterator may still be held
        ahead = FetchAhead(
            requests,
            self._tiles,
            self._fetch,
            partial(_plan_step, batches),
            wants=want,
            is_next=self._is_next,
            max_bytes=self._cache.max_bytes,
            waited=lambda ns: self._cache.counters.add(waits=1, wait_ns=ns),
            note=lambda request: request.note(run),
        )
        self._running = weakref.ref(ahead)
        return ahead

    def given_out(self) -> None:
        """Tell the others how far this rank is."""
        self._tell(self._sampler.step)
        if (ahead := self._running()) is not None:
            ahead.moved(self._step)

    def _tell(self, step: int) -> None:
        self._step = _plan_step(self._sampler.batches, step)
        self._told_steps.append(self._step)
        self._ranks.tell(self._step)

    def _fetch(self, wanted: Sequence[FilePiece], step: int | None, has_room: Callable[[], None]) -> int | None:
        room_at = 0

        def look_ahead(pieces: Sequence[Piece], before: int) -> Outlook:
            nonlocal room_at
            found = self._outlook(pieces, before)
            room_at = found.first_done(before)
            return found

        has_come = self._cache.fill_all(
            [(piece, partial(file.fetch, piece)) for file, piece in wanted],
            before=-1 if step is None else step,
            look_ahead=look_ahead,
            has_room=has_room,
        )
        return None if has_come else room_at

    def _outlook(self, pieces: Sequence[Piece], before: int) -> Outlook:
        """When pieces are used on this node, by what its ranks tell of themselves."""
        assert self._uses is not None
        mine = self._mine()
        ranks = tuple(sorted({NodeRank(rank.told["rank"], rank.told["world_size"]) for rank in mine}))
        with self._looking:
            self._uses.look_ahead(ranks, min(rank.step for rank in mine))
            return outlook(pieces, self._tiles, self._uses, before)

    def _is_next(self, step: int) -> bool:
        """Whether no other rank of this node wants room for what is used earlier; those that lag behind left out."""
        mine = self._mine()
        foremost = max((rank.step for rank in mine), default=0)
        # Of a token budget a step is many of the plan's.
        told = list(self._told_steps)  # at once, since another epoch may begin meanwhile
        lag = max([_LAG_STEPS, *(told[-1] - first for first in told[:1])])
        return not any(rank.wants < step and rank.step >= foremost - lag and rank.told != self._told for rank in mine)

    def _mine(self) -> list[Rank]:
        """The ranks of this run, on this node; this one too, where somebody has removed its file."""
        mine = [rank for rank in self._ranks.living() if rank.told.get("run") == self._told["run"]]
        return mine or [Rank(self._told, self._step)]


def _plan_step(batches: Batches, step: int) -> int:
    return step if batches.budget is None else batches.progress(step).plan_steps
