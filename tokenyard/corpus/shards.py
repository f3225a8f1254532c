"""The shards of a corpus and their storage blocks, opened as they are needed, refusing whatever doesn't fit together.

Gathers copy by memory address, so nothing that a file, an index or a format's code says is used before it was checked
here: a damaged shard is an error that names it, never other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenyard.corpus.cache import BoundedCache
from tokenyard.errors import DataError, SchemaError
from tokenyard.formats.base import Format, ShardReader
from tokenyard.formats.extents import Extents
from tokenyard.formats.index import ShardIndex, most_even
from tokenyard.manifest import FileInfo, Manifest, ShardInfo
from tokenyard.rows import Offsets, offsets_of
from tokenyard.schema import Schema
from tokenyard.stages import stage
from tokenyard.storage import Folder, ObjectPath, checksum
from tokenyard.storage.advice import tells_residency

#: Shards mapped or opened at once; a process has about 65,000 maps.
MAX_OPEN_SHARDS = 4096
#: Bytes of row indexes kept in memory, and of the places of rows in mapped shards.
_INDEX_BYTES = 64 << 20
#: Row indexes from this size on are mapped where shards are, so that processes share them and the system may drop them.
_MAPPED_INDEX_BYTES = 1 << 13


class OpenShards:
    """The readers and extent tables of a corpus: each opened once, the least used closed. Safe in several threads.

    ``row_starts`` and ``token_starts``: int64[shards + 1], where each shard begins in the corpus, and the end.
    """

    def __init__(
        self,
        folder: Folder,
        manifest: Manifest,
        format: Format,
        indexes: Sequence[ShardIndex] | None,
        cache_bytes: int,
    ) -> None:
        files = [file for shard in manifest.shards[:2] for file in shard.files]
        self.path: Path | ObjectPath = (
            folder.at(files[0].name) if indexes is not None and len(files) == 1 else folder.path
        )
        self.where = str(self.path)
        self.row_starts: Offsets = offsets_of(manifest.rows_of_shards)
        self.token_starts: Offsets = offsets_of(manifest.tokens_of_shards)
        self._folder = folder
        self._manifest = manifest
        self._format = format
        self._indexes = indexes
        self._readers: BoundedCache[ShardReader] = BoundedCache(_INDEX_BYTES, MAX_OPEN_SHARDS)
        self._mapped: BoundedCache[Extents] = BoundedCache(_INDEX_BYTES, MAX_OPEN_SHARDS)
        self._blocks: BoundedCache[Extents] = BoundedCache(cache_bytes, MAX_OPEN_SHARDS)
        lists = {name: type.dtype for name, type in manifest.schema.fields.items() if type.is_list}
        self._dtypes = {**lists, "tokens": np.dtype(manifest.schema.token_dtype)}

    @property
    def memory_bytes(self) -> int:
        """What the extent tables cost that are kept."""
        return self._blocks.cost + self._mapped.cost

    @property
    def residency_is_told(self) -> bool:
        """Whether the system tells this user which pages of the shards are in memory."""
        first = next((file for shard in self._manifest.shards for file in shard.files), None)
        return first is not None and self._folder.read_mode == "mmap" and tells_residency(self._folder.at(first.name))

    def dtype(self, field: str) -> np.dtype[Any]:
        """The dtype of the tokens, or of a list field of numbers. Raises SchemaError for other fields."""
        if field not in self._dtypes:
            lists = [n for n in self._dtypes if n != "tokens"]
            raise SchemaError(f"{self.where} has no list field {field!r}; it has {', '.join(lists) or 'none'}")
        return self._dtypes[field]

    def reader(self, shard: int) -> ShardReader:
        """The reader of one shard. Raises DataError, StorageError."""
        return self._readers.get(shard, lambda: self.open(shard), _index_bytes)

    def extents(self, shard: int, block: int, field: str) -> Extents:
        """The extent table of one storage block. Raises DataError, SchemaError, StorageError."""
        reader, dtype = self.reader(shard), self.dtype(field)

        def decode() -> Extents:
            with stage("read" if reader.mapped else "decode"):
                return read_extents(reader, block, field, dtype)

        cache = self._mapped if reader.mapped else self._blocks
        return cache.get((shard, block, field), decode, lambda e: e.memory_bytes)

    def has_extents(self, shard: int, block: int, field: str) -> bool:
        """Whether the extent table of a storage block is kept; it counts as used now."""
        key = (shard, block, field)
        return self._blocks.touch(key) or self._mapped.touch(key)

    def open(self, shard: int) -> ShardReader:
        """A new reader of one shard, which is not kept. Raises DataError, StorageError."""
        index = self._indexes[shard] if self._indexes is not None else None
        return open_shard(self._folder, self._format, self._manifest.shards[shard], self._manifest.schema, index)


def open_shard(
    folder: Folder, format: Format, shard: ShardInfo, schema: Schema, index: ShardIndex | None = None
) -> ShardReader:
    """A reader of a shard whose files and index (read, unless given) are as the manifest says. Raises DataError."""
    where = str(folder.at(shard.name))
    if index is None:
        if shard.index is None:
            raise DataError(f"{where}: the manifest names no row index; restore the manifest")
        index = read_index(folder, shard.index, shard.num_bytes)
    if (index.num_rows, index.num_tokens) != (shard.num_rows, shard.num_tokens):
        raise DataError(
            f"{where}: its index counts {index.num_rows} rows and {index.num_tokens} tokens, the manifest "
            f"{shard.num_rows} and {shard.num_tokens}; they don't belong together, restore the corpus"
        )
    if folder.asks_cheaply:  # else it is seen with the first bytes
        for file in shard.files:
            folder.check_size(file.name, file.bytes)
    _check_arrays(index, where)
    folder = folder.knowing({file.name: index.cells(i) for i, file in enumerate(shard.files)})
    try:
        reader = format.open_shard(folder, shard, index, schema)
    except KeyError as e:
        raise DataError(
            f"{where}: its row index has no {e}, which format {format.name} needs; rebuild it with 'tokenyard index'"
        ) from None
    blocks = reader.block_rows
    if blocks[0] != 0 or blocks[-1] != index.num_rows or (blocks[1:] < blocks[:-1]).any():
        raise DataError(f"{where}: its storage blocks don't cover its {index.num_rows} rows")
    return reader


def _check_arrays(index: ShardIndex, where: str) -> None:
    """Raise DataError unless what an index says of starts, blocks, fields' lengths and nulls can be true."""
    rows = index.num_rows
    for name, array in index.arrays.items():
        part = name.rpartition(":")[2] if name.startswith("field:") else name
        if part == "starts":
            sound = len(array) == rows and (not rows or int(array.min()) >= 0)
        elif part == "offsets":
            sound = len(array) == rows + 1 and int(array[0]) == 0 and not (array[1:] < array[:-1]).any()
        elif name == "block_rows":
            sound = len(array) > 0 and int(array[0]) == 0 and int(array[-1]) == rows
            sound = sound and not (array[1:] < array[:-1]).any()
        elif part == "null":
            inside = not len(array) or (int(array[0]) >= 0 and int(array[-1]) < rows)
            sound = inside and not (array[1:] <= array[:-1]).any()
        else:
            continue
        if not sound:
            raise DataError(
                f"{where}: {name!r} of its row index is not that of {rows} rows; the index is damaged, rebuild it with "
                "'tokenyard index'"
            )


def read_index(folder: Folder, file: FileInfo, shard_bytes: int) -> ShardIndex:
    """The row index of a shard of ``shard_bytes``, as the manifest names it.

    Raises DataError when it is another, StorageError when it is missing.
    """
    where = str(folder.at(file.name))
    data: bytes | NDArray[np.uint8]
    if folder.read_mode == "mmap" and file.bytes >= _MAPPED_INDEX_BYTES:
        data = folder.map(file.name)
    else:
        data = folder.read_listed(file)
    if len(data) != file.bytes or (file.checksum is not None and checksum(data) != file.checksum):
        raise DataError(f"{where}: not the row index that the manifest names; rebuild it with 'tokenyard index'")
    return ShardIndex.from_bytes(data, where, most_even(shard_bytes))


def read_extents(reader: ShardReader, block: int, field: str, dtype: np.dtype[Any]) -> Extents:
    """The extent table of one storage block, whose items fit ``dtype`` and whose rows are those of the index."""
    extents = reader.extents(block, field).check(reader.where)
    first, last = reader.block_rows[block : block + 2].tolist()
    if not len(extents.starts) == len(extents.lengths) == last - first:
        raise DataError(
            f"{reader.where}: storage block {block} holds {len(extents.starts)} rows, its index says {last - first}; "
            "the shard or its index is damaged"
        )
    promised = np.diff(reader.index.offsets[first : last + 1])
    if field == "tokens" and not np.array_equal(extents.lengths, promised):
        row = int(np.argmax(extents.lengths != promised))
        raise DataError(
            f"{reader.where}: row {first + row} holds {int(extents.lengths[row])} tokens, its index says "
            f"{int(promised[row])}; the shard or its index is damaged"
        )
    if not np.can_cast(extents.dtype, dtype):
        raise DataError(f"{reader.where}: {field} of type {extents.dtype} may not fit the schema's {dtype}")
    return extents


def _index_bytes(reader: ShardReader) -> int:
    return reader.index.memory_bytes
