"""What a node's ranks make of the pieces in their cache: when each is used."""

from collections.abc import Sequence

import numpy as np

from tokenyard.datasets.streaming.tiles import Tiles
from tokenyard.datasets.streaming.uses import TileUses
from tokenyard.storage.cache import NEVER, Outlook, Piece


def outlook(pieces: Sequence[Piece], tiles: Tiles, uses: TileUses, before: int) -> Outlook:
    """Return the outlook on pieces for a tile that is used at a step of the plan, ``before``.

    A piece is done with early where half a window of samples is used between its last use and that step: enough for a
    store that gives twice what the run needs to fetch all tiles that a lane begins at once. Row indexes are always in
    use; pieces of other corpora, and of what nobody knows, never are.
    """
    now, then, last = uses.of_all(), uses.of_all(before), uses.last_of_all(before)
    soon, later = np.full(len(pieces), NEVER), np.full(len(pieces), NEVER)
    done = np.full(len(pieces), -1)
    for i, piece in enumerate(pieces):
        if (covered := tiles.covered_by(piece)) is None:
            continue
        if piece.kept:
            soon[i] = later[i] = 0
            continue
        soon[i], later[i] = now[covered].min(initial=NEVER), then[covered].min(initial=NEVER)
        done[i] = last[covered].max(initial=-1)
    return Outlook(next=soon, later=later, done=done, early=before - uses.steps_of_window() // 2)
