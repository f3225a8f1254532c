"""The leaves of the digest blocks of a run of rows, of which some may be unreadable."""

from __future__ import annotations

from collections.abc import Mapping

from tokenyard.digest import DIGEST_BLOCK_ROWS, Digester, Leaves
from tokenyard.rows import RowBatch
from tokenyard.schema import FieldType

#: By column, the leaf of each digest block; None for a block with rows that can't be read.
Blocks = Mapping[str, list[bytes | None]]


class BlockLeaves:
    """Takes the rows of a run in order; ``lost`` says of some that they can't be had."""

    def __init__(self, fields: Mapping[str, FieldType], start: int, stop: int) -> None:
        self._fields = fields
        self._start, self._stop = start, stop
        self._from = start  # where the blocks begin that are being digested
        self._digester = Digester(fields)
        self._blocks: dict[str, list[bytes | None]] = {name: [] for name in ("tokens", *fields)}

    def add(self, batch: RowBatch, row: int) -> None:
        """Take rows from ``row`` on."""
        skipped = min(max(self._from - row, 0), len(batch))  # the rest of a block that is lost
        self._digester.update(batch.slice(skipped, len(batch)) if skipped else batch)

    def lost(self, start: int, stop: int) -> None:
        """Give up the blocks of rows ``start`` .. ``stop``, which come next."""
        whole = max(start - self._from, 0) // DIGEST_BLOCK_ROWS
        self._close(whole)
        ends = -(-(stop - self._start) // DIGEST_BLOCK_ROWS)
        for leaves in self._blocks.values():
            leaves += [None] * (ends - len(leaves))
        self._from = self._start + ends * DIGEST_BLOCK_ROWS
        self._digester = Digester(self._fields)

    def finish(self) -> tuple[Blocks, Leaves | None]:
        """All blocks; and the leaves of the run where none is lost."""
        self._close(None)
        is_whole = None not in self._blocks["tokens"]
        if not is_whole:
            return self._blocks, None
        found = {name: tuple(leaf for leaf in leaves if leaf is not None) for name, leaves in self._blocks.items()}
        tokens = found.pop("tokens")
        return self._blocks, Leaves(num_rows=self._stop - self._start, tokens=tokens, fields=found)

    def _close(self, count: int | None) -> None:
        """Keep the first ``count`` blocks that were digested, or all."""
        leaves = self._digester.finish()
        self._blocks["tokens"] += leaves.tokens[:count]
        for name in self._fields:
            self._blocks[name] += leaves.fields[name][:count]
