"""Requests whose bytes are in the cache: threads fetch what comes next, as far ahead as the cache has room."""

import atexit
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from weakref import WeakSet

from tokenyard.datasets.daemons import Daemons
from tokenyard.datasets.sampler import Request
from tokenyard.datasets.streaming.tiles import FilePiece, Tiles
from tokenyard.storage.cache import NEVER

#: Order blocks that are fetched at the same time, each by one request.
_THREADS = 16
#: Tiles that were asked for last. They are looked at again, and fetched again where they were evicted.
_MAX_RECENT = 4096
#: Requests taken ahead at most, whatever they read.
_MAX_REQUESTS = 1 << 12
#: How often a request is waited for whose tiles others evict as soon as they come; then it is read without them.
_ATTEMPTS = 3
#: How long a wait goes on before it is looked whether there is still something to wait for.
_LOOK_SECONDS = 0.05
#: How long one for room goes on while the run is not where some would be free: others may have made room all the same.
_ROOM_SECONDS = 0.25
#: How long one goes on for another rank, which says nothing when it has its room.
_TURN_SECONDS = 0.01

#: Tells the step of the plan at which a step of the run begins.
PlanStep = Callable[[int], int]
#: Puts pieces into the cache before a step of the plan, or at once where that is None, and calls back when it has room
#: for them, before they come. Where there is no room it returns the step at which there may be some, else None.
Fetch = Callable[[Sequence[FilePiece], int | None, Callable[[], None]], int | None]


class _Call:
    """What `threading.Event` is, for one thread that waits. May also be set by a finalizer, wherever that runs."""

    def __init__(self) -> None:
        self._line: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self._line.put(None)

    def clear(self) -> None:
        with suppress(Empty):
            while True:
                self._line.get_nowait()

    def wait(self, seconds: float | None = None) -> None:
        with suppress(Empty):
            self._line.get(timeout=seconds)


class _Fetching:
    """A tile on its way into the cache. ``call`` wakes the thread that brings it, and no other one."""

    def __init__(self, tile: int, number: int, step: int, turn: int) -> None:
        self.tile = tile
        self.number = number
        self.step = step
        self.turn = turn
        self.call = _Call()
        self.future: Future[None]

    @property
    def has_failed(self) -> bool:
        return self.future.done() and self.future.exception() is not None


@dataclass
class _Coming:
    """A request, and the tiles that it needs, on their way."""

    request: Request
    tiles: list[_Fetching]
    num_bytes: int


class FetchAhead:
    """The requests of one epoch of a rank, each given out when all that it reads is in the cache.

    One thread takes requests from their iterator: the one that asks `run` for the next.

    Args:
        requests: in their order.
        tiles: what is fetched.
        fetch: see `Fetch`.
        plan_step: see `PlanStep`.
        wants: told the step of the plan before which room is wanted next; ``NEVER`` for none.
        is_next: says whether nothing on this node wants room for what is used before a step of the plan.
        max_bytes: how far to look ahead, in bytes of tiles: no further than the cache could hold.
        waited: told the nanoseconds that a request was waited for.
        note: gives what is noted at an error that a request meets.
    """

    def __init__(
        self,
        requests: Iterator[Request],
        tiles: Tiles,
        fetch: Fetch,
        plan_step: PlanStep,
        *,
        wants: Callable[[int], None],
        is_next: Callable[[int], bool],
        max_bytes: int,
        waited: Callable[[int], None],
        note: Callable[[Request], str],
    ) -> None:
        self._requests = requests
        self._tiles = tiles
        self._fetch = fetch
        self._plan_step = plan_step
        self._wants = wants
        self._is_next = is_next
        self._max_bytes = max_bytes
        self._waited = waited
        self._note = note
        self._coming: deque[_Coming] = deque()
        self._recent: OrderedDict[int, _Fetching] = OrderedDict()
        self._given, self._taken, self._bytes_ahead = 0, 0, 0
        # Tiles take room in the order in which they are asked for: a later one would have to go for an earlier one.
        # Below are those that have none yet, by their turns.
        self._turns = threading.RLock()  # a finalizer may leave while it is held
        self._asked, self._turn = 0, 0
        self._roomless: dict[int, _Fetching] = {}
        # How far the run is, and how far it must be before there is room for the one whose turn it is.
        self._step = self._room_at = -1
        # The step of the last request taken, and the one that was told.
        self._horizon = self._told = NEVER
        self._ends = False
        self._is_left = False
        self._pid = os.getpid()
        self._failure: Exception | None = None
        self._threads = Daemons(_THREADS, "tokenyard-fetch")
        _running.add(self)

    def run(self) -> Generator[Request]:
        """Yield the requests. What the iterator of requests raises comes in its turn; so do errors of fetching."""
        try:
            while not self._has_left() and (self._coming or self._take()):
                # Twice as quick as requests go, until it is far enough ahead.
                self._take()
                self._take()
                coming = self._coming.popleft()
                self._wait_for(coming)
                if self._has_left():
                    return
                self._bytes_ahead -= coming.num_bytes
                yield coming.request
            if self._failure is not None:
                raise self._failure
        finally:
            self.leave()
            self._threads.end()
            if isinstance(self._requests, Generator):
                self._requests.close()

    def leave(self) -> None:
        """Let nothing wait any more: neither threads for their turn or for room, nor `run`, which yields no more."""
        if self._pid != os.getpid():  # a fork has no threads that wait, and maybe the locks of those it had
            return
        self._is_left = True
        self._tell()
        with self._turns:
            waiting = list(self._roomless.values())
        for one in waiting:
            one.call.set()

    def _has_left(self) -> bool:
        return self._is_left

    def moved(self, step: int) -> None:
        """Say how far the run has gone on, in steps of the plan: there may be room again."""
        self._step = step
        if step >= self._room_at and (first := self._roomless.get(self._turn)) is not None:
            first.call.set()

    def _wait_for(self, coming: _Coming) -> None:
        self._given += 1
        begin = None
        # What went wrong long ago may go well now that it is needed.
        failed = [one for one in coming.tiles if one.has_failed]
        for _ in range(_ATTEMPTS):
            while not self._has_left() and (waiting := [one for one in coming.tiles if not one.future.done()]):
                begin = begin or time.monotonic_ns()
                for one in waiting:
                    one.call.set()
                if not self._take():
                    wait([one.future for one in waiting], _LOOK_SECONDS, FIRST_COMPLETED)
            try:
                if self._has_left():
                    return
                for one in coming.tiles:
                    if one not in failed:
                        one.future.result()
                # Others may have needed the room since a tile came.
                gone = [one for one in coming.tiles if not self._is_there(one.tile)]
                if not gone:
                    break
                begin = begin or time.monotonic_ns()
                # Here and now: all threads may wait for room that there will be when this request was given out.
                for one in gone:
                    self._bring(one)
            except Exception as e:
                e.add_note(self._note(coming.request))
                raise
        if begin is not None:
            self._waited(time.monotonic_ns() - begin)

    def _take(self) -> bool:
        """Take one more request, and ask for its tiles, unless it is far enough ahead. Returns whether one came."""
        is_far = self._bytes_ahead >= self._max_bytes or len(self._coming) >= _MAX_REQUESTS
        if self._ends or (is_far and self._coming):
            return False
        try:
            request = next(self._requests)
            ids = request.micro_batch.sample_ids
            tiles = self._tiles.of(ids, request.micro_batch.seq_len).tolist()
            step = self._plan_step(request.step)
        except StopIteration:
            self._ends = True
            self._tell()
            return False
        except Exception as e:  # noqa: BLE001  # raised below, after the requests before it
            self._failure, self._ends = e, True
            self._tell()
            return False
        number, num_bytes = self._taken, 0
        self._taken += 1
        fetching = []
        for tile in tiles:
            if tile not in self._recent:
                num_bytes += self._tiles.mean_bytes(tile)
            fetching.append(self._asked_for(tile, number, step))
        self._horizon = step
        self._tell()
        self._bytes_ahead += num_bytes
        self._coming.append(_Coming(request, fetching, num_bytes))
        return True

    def _asked_for(self, tile: int, number: int, step: int) -> _Fetching:
        """Return the fetching of a tile: the one begun, or one that looks again whether it is there."""
        one = self._recent.get(tile)
        if one is None or (one.future.done() and not self._is_there(tile)):
            with self._turns:
                one = self._recent[tile] = self._roomless[self._asked] = _Fetching(tile, number, step, self._asked)
                self._asked += 1
            one.future = self._threads.submit(partial(self._bring, one))
        self._recent.move_to_end(tile)
        if len(self._recent) > _MAX_RECENT:
            self._recent.popitem(last=False)
        return one

    def _is_there(self, tile: int) -> bool:
        return all(file.has(piece) for file, piece in self._tiles.pieces(tile))

    def _bring(self, one: _Fetching) -> None:
        """Fetch a tile that a request needs at a step, in its turn; or at once when the request is waited for."""
        try:
            pieces = self._tiles.pieces(one.tile)
            if sum(piece.num_bytes for _, piece in pieces) > self._max_bytes:
                return  # there will never be room, so it is read without the cache
            self._wait_for_turn(one)
            while not self._has_left():
                # Whatever calls from here on has seen less than the attempt sees.
                one.call.clear()
                # What the loop waits for is fetched whatever has to go for it.
                urgent = self._given > one.number
                room_at = self._fetch(pieces, None if urgent else one.step, partial(self._pass, one))
                if room_at is None:
                    return
                if urgent:
                    one.call.wait(_LOOK_SECONDS)
                    continue
                self._room_at = room_at
                one.call.wait(_LOOK_SECONDS if self._step >= room_at else _ROOM_SECONDS)
        finally:
            self._pass(one)

    def _wait_for_turn(self, one: _Fetching) -> None:
        """Wait until it is a tile's turn to take room, of the node's ranks the one that needs it first, or a call."""
        while True:
            one.call.clear()
            if self._given > one.number or self._has_left():
                return
            if self._turn < one.turn:
                one.call.wait()
            elif self._is_next(one.step):
                return
            else:
                one.call.wait(_TURN_SECONDS)

    def _pass(self, one: _Fetching) -> None:
        """Let the next one take room."""
        with self._turns:
            if self._roomless.pop(one.turn, None) is None:
                return
            while self._turn < self._asked and self._turn not in self._roomless:
                self._turn += 1
            first = self._roomless.get(self._turn)
            self._room_at = -1
        self._tell()
        if first is not None:
            first.call.set()

    def _tell(self) -> None:
        """Tell before which step room is wanted next: where all that was asked for has its room, it is yet to be."""
        with self._turns:
            first = self._roomless.get(self._turn)
            if self._has_left() or (first is None and self._ends):
                wanted = NEVER
            else:
                wanted = self._horizon if first is None else first.step
            if wanted != self._told:
                self._told = wanted
                self._wants(wanted)


_running: WeakSet[FetchAhead] = WeakSet()


@atexit.register
def _leave_all() -> None:
    """Let no thread wait for room or its turn any more, before those that end threads wait for them."""
    for ahead in list(_running):
        ahead.leave()
