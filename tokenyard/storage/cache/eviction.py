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

from tokenyard.storage.cache.names import Piece

#: Of all pieces, the share that is evicted at once, where one would do: finding what to evict means listing all.
_SLACK_SHARE = 64


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """When n pieces are used, in any unit of time, as far as one knows; ``NEVER`` where they are not.

    Attributes:
        next: int64[n], the next use of each from now on.
        later: int64[n], its next use from the time on at which what is to come is used.
        leaving: bool[n], whether it is used before that time, and no more early enough for what is to come.
    """

    next: NDArray[np.int64]
    later: NDArray[np.int64]
    leaving: NDArray[np.bool_]

    @classmethod
    def of(cls, uses: NDArray[np.int64]) -> Outlook:
        """One that knows no more than the next uses."""
        return cls(next=uses, later=uses, leaving=np.zeros(len(uses), np.bool_))


#: Gives the outlook on pieces for what is to come, and used, at a time.
LookAhead = Callable[[Sequence[Piece], int], Outlook]


def to_evict(pieces: Sequence[Piece], outlook: Outlook, num_bytes: int, before: int) -> list[Piece]:
    """Return the pieces that go for ``num_bytes`` used at ``before``; none where these have to wait.

    What is used by then stays. Row indexes and their like go after all others.
    """
    kept = np.array([piece.kept for piece in pieces], np.bool_)
    free: list[Piece] = []
    for i in np.lexsort((-outlook.later, kept)).tolist():
        if outlook.next[i] > before:
            free.append(pieces[i])
        elif outlook.leaving[i]:
            break
    room = np.cumsum([piece.num_bytes for piece in free])
    if not free or room[-1] < num_bytes:
        return []
    count = int(np.searchsorted(room, num_bytes)) + 1
    return free[: count + len(pieces) // _SLACK_SHARE]
