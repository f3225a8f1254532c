"""Which pieces go for what is to come: those used last, seen from when it is used, and none earlier than need be.

This is Belady's choice, made ahead of time as "conservative prefetching" makes it (Cao, Felten, Karlin and Li, A study
of integrated prefetching and caching strategies, 1995): where the piece that should go is still in use, and will be
done with early enough, what is to come waits for it. To let another one go, only because it is free now, would mean
fetching that one twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenyard.storage.cache.names import NEVER, Piece

#: Of all pieces, the share that is evicted at once, where one would do: finding what to evict means listing all.
_SLACK_SHARE = 64


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """When n pieces are used, in any unit of time, as far as one knows; ``NEVER`` where they are not.

    Attributes:
        next: int64[n], the next use of each from now on.
        later: int64[n], its next use from the time on at which what is to come is used.
        done: int64[n], when it is done with of all uses before that time; -1 where there are none.
        early: when a piece must be done with at the latest, for what is to come to wait for it.
    """

    next: NDArray[np.int64]
    later: NDArray[np.int64]
    done: NDArray[np.int64]
    early: int

    @classmethod
    def of(cls, uses: NDArray[np.int64]) -> Outlook:
        """One that knows no more than the next uses."""
        return cls(next=uses, later=uses, done=np.full(len(uses), -1), early=-1)

    def leaving(self, before: int) -> NDArray[np.bool_]:
        """bool[n]: whether a piece is used now, no more when what is to come is, and done with early enough for it."""
        return (self.later > before) & (self.done <= self.early)

    def first_done(self, before: int) -> int:
        """The first time at which one of the pieces that are used before then is done with; ``NEVER`` for none."""
        return int(self.done[(self.next <= before) & (self.done >= 0)].min(initial=NEVER))


#: Gives the outlook on pieces for what is to come, and used, at a time.
LookAhead = Callable[[Sequence[Piece], int], Outlook]


def to_evict(pieces: Sequence[Piece], outlook: Outlook, num_bytes: int, before: int) -> list[Piece]:
    """Return the pieces that go for ``num_bytes`` used at ``before``; none where these have to wait.

    What is used by then stays. Row indexes and their like go after all others.
    """
    kept = np.array([piece.kept for piece in pieces], np.bool_)
    leaving = outlook.leaving(before)
    free: list[Piece] = []
    for i in np.lexsort((-outlook.later, kept)).tolist():
        if outlook.next[i] > before:
            free.append(pieces[i])
        elif leaving[i]:
            break
    room = np.cumsum([piece.num_bytes for piece in free])
    if not free or room[-1] < num_bytes:
        return []
    count = int(np.searchsorted(room, num_bytes)) + 1
    return free[: count + len(pieces) // _SLACK_SHARE]
