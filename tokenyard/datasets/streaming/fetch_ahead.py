"""Requests whose bytes are in the cache: threads fetch what comes next, as far ahead as the cache has room."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial

from tokenyard.datasets.sampler import Request
from tokenyard.datasets.streaming.daemons import Daemons
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
#: How long one goes on for another rank, which says nothing when it has its room.
_TURN_SECONDS = 0.01

#: Tells the step of the plan at which a step of the run begins.
PlanStep = Callable[[int], int]
#: Puts pieces into the cache before a step of the plan, or at once where that is None, and calls back when it has room
#: for them, before they come; False where there is no room.
Fetch = Callable[[Sequence[FilePiece], int | None, Callable[[], None]], bool]


@dataclass
class _Coming:
    """A request, and the tiles that it needs, on their way."""

    request: Request
    tiles: dict[int, Future[None]]
    num_bytes: int


class FetchAhead:
    """The requests of one epoch of a rank, each given out when all that it reads is in the cache.

    Requests are taken from their iterator by whoever asks for the next one, as all that knows the order may not be
    asked by several threads.

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
        self._recent: OrderedDict[int, Future[None]] = OrderedDict()
        self._moved = threading.Condition()
        self._given, self._taken, self._bytes_ahead = 0, 0, 0
        # Tiles take room in the order in which they are asked for: a later one would have to go for an earlier one.
        self._asked, self._turn = 0, 0
        self._passed: set[int] = set()
        # The steps before which tiles want room, by their turns; that of the last request taken; and what was told.
        self._steps: dict[int, int] = {}
        self._horizon = self._told = NEVER
        self._ends = self._closed = False
        self._failure: Exception | None = None
        self._threads = Daemons(_THREADS, "tokenyard-fetch")

    def run(self) -> Generator[Request]:
        """Yield the requests. What the iterator of requests raises comes in its turn; so do errors of fetching."""
        try:
            while self._coming or self._take():
                # Twice as quick as requests go, until it is far enough ahead.
                self._take()
                self._take()
                coming = self._coming.popleft()
                self._wait_for(coming)
                self._bytes_ahead -= coming.num_bytes
                yield coming.request
            if self._failure is not None:
                raise self._failure
        finally:
            self._close()

    def moved(self) -> None:
        """Say that the run has gone on, so that there may be room again."""
        with self._moved:
            self._moved.notify_all()

    def _wait_for(self, coming: _Coming) -> None:
        self._given += 1
        self.moved()
        begin = None
        # What went wrong long ago may go well now that it is needed.
        failed = {tile for tile, future in coming.tiles.items() if future.done() and future.exception() is not None}
        for _ in range(_ATTEMPTS):
            while waiting := [future for future in coming.tiles.values() if not future.done()]:
                begin = begin or time.monotonic_ns()
                if not self._take():
                    wait(waiting, _LOOK_SECONDS, FIRST_COMPLETED)
            try:
                for tile, future in coming.tiles.items():
                    if tile not in failed:
                        future.result()
                # Others may have needed the room since a tile came.
                gone = [tile for tile in coming.tiles if not self._is_there(tile)]
                if not gone:
                    break
                begin = begin or time.monotonic_ns()
                # Here and now: all threads may wait for room that there will be when this request was given out.
                for tile in gone:
                    self._bring(tile, -1, 0, -1)
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
        futures = {}
        for tile in tiles:
            if tile not in self._recent:
                num_bytes += self._tiles.mean_bytes(tile)
            futures[tile] = self._asked_for(tile, number, step)
        self._horizon = step
        self._tell()
        self._bytes_ahead += num_bytes
        self._coming.append(_Coming(request, futures, num_bytes))
        return True

    def _asked_for(self, tile: int, number: int, step: int) -> Future[None]:
        """Return the fetching of a tile: the one begun, or one that looks again whether it is there."""
        future = self._recent.get(tile)
        if future is None or (future.done() and not self._is_there(tile)):
            with self._moved:
                turn, self._asked = self._asked, self._asked + 1
                self._steps[turn] = step
            future = self._recent[tile] = self._threads.submit(partial(self._bring, tile, number, step, turn))
        self._recent.move_to_end(tile)
        if len(self._recent) > _MAX_RECENT:
            self._recent.popitem(last=False)
        return future

    def _is_there(self, tile: int) -> bool:
        return all(file.has(piece) for file, piece in self._tiles.pieces(tile))

    def _bring(self, tile: int, number: int, step: int, turn: int) -> None:
        """Fetch a tile that a request needs at a step, in its turn; or at once when the request is waited for."""
        try:
            pieces = self._tiles.pieces(tile)
            if sum(piece.num_bytes for _, piece in pieces) > self._max_bytes:
                return  # there will never be room, so it is read without the cache
            while self._given <= number and not self._closed and not self._is_turn(turn, step):
                pass
            # What the loop waits for is fetched whatever has to go for it.
            while not self._fetch(pieces, None if self._given > number else step, lambda: self._pass(turn)):
                with self._moved:
                    if self._closed:
                        return
                    self._moved.wait(_LOOK_SECONDS)
        finally:
            self._pass(turn)

    def _is_turn(self, turn: int, step: int) -> bool:
        """Wait a little, if it is another one's turn to take room; of the node's ranks, the one that needs it first."""
        if self._turn < turn:
            with self._moved:
                if self._turn < turn:
                    self._moved.wait(_LOOK_SECONDS)
        elif self._is_next(step):
            return True
        else:
            with self._moved:
                self._moved.wait(_TURN_SECONDS)
        return False

    def _pass(self, turn: int) -> None:
        """Let the next one take room."""
        with self._moved:
            if turn < self._turn:
                return
            self._passed.add(turn)
            while self._turn in self._passed:
                self._passed.remove(self._turn)
                del self._steps[self._turn]
                self._turn += 1
            self._tell()
            self._moved.notify_all()

    def _tell(self) -> None:
        """Tell before which step room is wanted next: where all that was asked for has its room, it is yet to be."""
        with self._moved:
            later = NEVER if self._ends else self._horizon
            wanted = NEVER if self._closed else self._steps.get(self._turn, later)
            if wanted != self._told:
                self._told = wanted
                self._wants(wanted)

    def _close(self) -> None:
        """Take no more, and wait for what is under way."""
        self._closed = True
        self._tell()
        self.moved()
        self._threads.end()
