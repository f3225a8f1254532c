"""What the ranks of a job tell each other, and which one holds the others up.

It goes through the store by which torch.distributed began: a rank leaves its last window there, and rank 0 reads what
is there. No collective, so nothing can hang, and who is late or gone is left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch.distributed as dist

from tokenyard.monitor.verdict import WAIT_SHARE, Verdict

_KEY = "tokenyard/monitor/"
#: How much longer than the others' median a rank may compute, and by how many ms.
_SLOWER, _SLOWER_MS = 1.25, 1.0
#: How often a window may be read before its rank counts as late or gone: ranks report at moments of their own.
_MOST_READS = 3


@dataclass(frozen=True, kw_only=True)
class RankWindow:
    """What a rank tells of its last window.

    Attributes:
        rank: whose it is, among all processes.
        step: the last one.
        wait_ms: of a step.
        compute_ms: of a step.
        verdict: its own, in words; empty where there is none.
    """

    rank: int
    step: int
    wait_ms: float
    compute_ms: float
    verdict: str = ""

    @property
    def wait_share(self) -> float:
        """What a step waits for its data, as a share of it."""
        return self.wait_ms / max(1e-9, self.wait_ms + self.compute_ms)


def process_rank(rank: int) -> int:
    """Return the rank among all processes, several of which may share a data-parallel `rank`; that one where alone."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else rank


class RankBoard:
    """Where ranks leave their windows. Errors of the store, whose process may have ended, end the exchange.

    Args:
        name: of what is watched, the same on all ranks; a loop that trains and one that evaluates don't mix.

    Attributes:
        unknown: why other ranks aren't seen; empty while they are.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._store: Any = None
        self._reads: dict[str, tuple[bytes, int]] = {}
        self.unknown = "torch.distributed is not initialized"

    def exchange(self, mine: RankWindow) -> list[RankWindow]:
        """Leave a window, and return those of all ranks, in their order; on other ranks than 0, this one alone."""
        try:
            store = self._connected()
            if store is None:
                return [mine]
            store.set(self._key(mine.rank), json.dumps(asdict(mine)))
            if mine.rank:
                return [mine]
            keys = [self._key(rank) for rank in range(1, dist.get_world_size())]
            there = [key for key in keys if store.check([key])]  # without that, reading would wait for it
            told = [text for key in there if (text := self._news(key, store.get(key))) is not None]
            return [mine, *(RankWindow(**json.loads(text)) for text in told)]
        except (RuntimeError, ValueError) as e:  # what the store raises is of the first kind
            self._store, self.unknown = None, f"the store of torch.distributed failed: {e}"
            return [mine]

    def _key(self, rank: int) -> str:
        return f"{_KEY}{self._name}/{rank}"

    def _news(self, key: str, text: bytes) -> bytes | None:
        """What a rank left; None once it was read too often to be its last window."""
        before, reads = self._reads.get(key, (b"", 0))
        reads = reads + 1 if text == before else 1
        self._reads[key] = text, reads
        return text if reads <= _MOST_READS else None

    def _connected(self) -> Any:
        if (
            self._store is None
            and self.unknown.endswith("not initialized")
            and dist.is_available()
            and dist.is_initialized()
        ):
            store = dist.distributed_c10d._get_default_store()
            # A connection of its own, where torch can: a collective that begins would hold the other one.
            self._store = store.clone() if hasattr(store, "clone") else store
            self.unknown = ""
        return self._store


def straggler(windows: Sequence[RankWindow]) -> Verdict | None:
    """Return the verdict on the rank that holds the others up; None where none does.

    A rank that waits for its data lets all others wait in their next collective. One that computes longer is seen only
    where ranks don't wait for one another: behind a collective, all steps take equally long.
    """
    if len(windows) < 2:
        return None
    worst = max(windows, key=lambda w: w.wait_share)
    others = median(w.wait_share for w in windows if w is not worst)
    if worst.wait_share >= WAIT_SHARE and others < WAIT_SHARE and worst.wait_share >= 2 * others:
        return Verdict(
            kind="straggler",
            evidence=f"rank {worst.rank} waits {worst.wait_ms:.0f} ms of a step for its data, {worst.wait_share:.0%} "
            f"of it, the other ranks {others:.0%}, and they wait for it at each collective",
            advice=f"see to rank {worst.rank}: {worst.verdict or 'its own log tells why'}",
        )
    slowest = max(windows, key=lambda w: w.compute_ms)
    usual = median(w.compute_ms for w in windows if w is not slowest)
    is_slower = slowest.compute_ms > max(_SLOWER * usual, usual + _SLOWER_MS)
    if is_slower and slowest.wait_share < WAIT_SHARE:
        return Verdict(
            kind="straggler",
            evidence=f"rank {slowest.rank} computes {slowest.compute_ms:.0f} ms in a step, the other ranks {usual:.0f}",
            advice=f"look at the machine of rank {slowest.rank}: a GPU that is hot or shared, other work on its cores; "
            "its data come in time",
        )
    return None
