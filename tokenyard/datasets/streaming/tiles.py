"""Corpora in tiles, the stretches that the order keeps together, and the bytes of files that each tile takes.

A tile is as many rows, or as many tokens of the stream, as an order block. It is what is fetched at once. Tiles are
numbered over all corpora of a dataset, those of its second one after those of its first.
"""

from collections import OrderedDict
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus import Corpus
from tokenyard.datasets.dataset import TokenDataset
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.samples import label_shift
from tokenyard.storage.cache import DiskCache, Piece
from tokenyard.storage.cache.cached_file import CachedFile

Int64Array = NDArray[np.int64]

#: Tiles whose bytes are remembered.
_MAX_KNOWN = 4096


class FilePiece(NamedTuple):
    """A piece, and the file that fetches it."""

    file: CachedFile
    piece: Piece


class Tiles:
    """The tiles of a dataset's corpora that are read through a cache.

    Args:
        dataset: whose corpora.
        size: of a tile, in rows or tokens, whichever positions are counted in.
    """

    def __init__(self, dataset: TokenDataset, size: int) -> None:
        self._dataset = dataset
        self.size = size
        self._unit = unit_of(dataset)
        self._past = 0 if dataset.mode == "rows" else label_shift(dataset.labels)
        lengths = [len(c) if dataset.mode == "rows" else c.num_tokens for c in dataset.corpora]
        self.first = np.array([0, *accumulate(-(-length // size) for length in lengths)], np.int64)
        self._lengths = lengths
        self._known: OrderedDict[int, list[FilePiece]] = OrderedDict()
        self._source_of: dict[str, int] | None = None

    def __len__(self) -> int:
        return int(self.first[-1])

    def of(self, sample_ids: Int64Array, seq_len: int | None) -> Int64Array:
        """Return the tiles that samples lie in, ascending, each once; those of corpora on a local disk left out.

        Args:
            sample_ids: numbers in the dataset, of any shape.
            seq_len: tokens of a sample where that is not the dataset's own.
        """
        sized = self._dataset if seq_len is None else self._dataset.with_seq_len(seq_len)
        sources, samples = sized.locate(sample_ids.reshape(-1))
        length = 1 if self._unit == "rows" else sized.seq_len or 1
        low = samples * length
        tiles = np.unique(np.concatenate([low, low + length - 1]) // self.size + np.tile(self.first[sources], 2))
        cached = np.array([corpus.folder.cache is not None for corpus in self._dataset.corpora])
        found: Int64Array = tiles[cached[np.searchsorted(self.first, tiles, side="right") - 1]]
        return found

    def pieces(self, tile: int) -> list[FilePiece]:
        """Return what is fetched for a tile. Opens its shards. Raises DataError, StorageError."""
        found = self._known.get(tile)
        if found is None:
            found = self._known[tile] = list(self._pieces(tile))
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
        return found

    def covered_by(self, piece: Piece) -> slice | None:
        """Return the tiles that a piece has bytes of; none for a row index, and None for a piece of other corpora."""
        if self._source_of is None:
            self._source_of = self._files()
        source = self._source_of.get(piece.file)
        if source is None:
            return None
        if piece.kept:
            return slice(0, 0)
        if (positions := _positions(piece.label, self._unit)) is None:
            return None
        base, (start, stop) = int(self.first[source]), positions
        return slice(base + start // self.size, base + -(-stop // self.size))

    def mean_bytes(self, tile: int) -> int:
        """Return about as many bytes as a tile takes."""
        source = int(np.searchsorted(self.first, tile, side="right")) - 1
        manifest = self._dataset.corpora[source].manifest
        total = int(manifest.tokens_of_shards.sum()) * np.dtype(manifest.schema.token_dtype).itemsize
        return max(1, total // max(1, int(self.first[source + 1] - self.first[source])))

    def _pieces(self, tile: int) -> list[FilePiece]:
        source = int(np.searchsorted(self.first, tile, side="right")) - 1
        corpus = self._dataset.corpora[source]
        start = (tile - int(self.first[source])) * self.size
        stop = min(start + self.size + self._past, self._lengths[source])
        found = []
        for span, low, high, kept in corpus.needed_for(start, stop, self._unit, self._fields(corpus)):
            if isinstance(span.file, CachedFile):
                label = "" if kept else f"{self._unit[0]}{low}-{max(high - self._past, low + 1)}"
                found.append(FilePiece(span.file, span.file.piece(span.start, span.stop, label, kept=kept)))
        return found

    def _fields(self, corpus: Corpus) -> list[str]:
        return ["tokens", *self._dataset.list_fields(corpus)]

    def _files(self) -> dict[str, int]:
        """The sources of all files of shards, and of their row indexes, as the cache knows them."""
        found = {}
        for source, corpus in enumerate(self._dataset.corpora):
            if (cache := corpus.folder.cache) is None:
                continue
            for shard in corpus.manifest.shards:
                for file in (*shard.files, *([shard.index] if shard.index else [])):
                    found[cache.key(file.name, file.bytes)] = source
        return found


def unit_of(dataset: TokenDataset) -> str:
    """What positions of a dataset's corpora are counted in, "rows" or "tokens" of the stream."""
    return "rows" if dataset.mode == "rows" else "tokens"


def tile_size(dataset: TokenDataset, plan: Plan) -> int:
    """Return how many rows, or tokens of the stream, an order block has: at the run's first length of samples."""
    segment = plan.segments[0]
    size = segment.order.block_samples * segment.samples_per_unit
    return size if dataset.mode == "rows" else size * (segment.seq_len or dataset.seq_len or 1)


def cache_of(dataset: TokenDataset) -> DiskCache | None:
    """Return the cache that a dataset's corpora are read through; None where all lie on local disks."""
    for corpus in dataset.corpora:
        if corpus.folder.cache is not None:
            return corpus.folder.cache.disk
    return None


def _positions(label: str, unit: str) -> tuple[int, int] | None:
    """The positions that a piece is labelled with, if they are counted in this unit."""
    if not label.startswith(unit[0]):
        return None
    start, _, stop = label[1:].partition("-")
    return (int(start), int(stop)) if start.isdigit() and stop.isdigit() else None
