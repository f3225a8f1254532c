"""A reader for shards whose rows are runs of bytes in one buffer: MDS shards and tars, raw or decoded as a whole.

From the index it needs ``offsets`` and ``starts`` for the tokens, and for each extra field ``field:<name>:starts``, for
those with lengths ``field:<name>:offsets`` (in items), and ``field:<name>:null`` (the null rows) where there are any.
``dtypes`` in the index's meta names stored dtypes that are not the schema's.

A raw shard is mapped. A decoded one lives as long as somebody uses it: the corpus's cache, or the thread that reads its
rows, which keeps the one it read last.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats.base import ShardReader
from tokenyard.formats.extents import Extents
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.runs import Bytes
from tokenyard.rows import Array, Column, Offsets, RowBatch
from tokenyard.schema import FieldType, Schema


class RunsReader(ShardReader):
    """See the module. ``load`` maps or decodes the shard; ``mapped`` says which."""

    def __init__(
        self, where: str, index: ShardIndex, schema: Schema, load: Callable[[], Bytes], *, mapped: bool
    ) -> None:
        super().__init__(where, index)
        self._fields = schema.fields
        self._load = load
        self._mapped = mapped
        self._map: ShardBytes | None = None
        self._decoded: weakref.ref[Bytes] | None = None
        self._dtypes = {"tokens": np.dtype(schema.token_dtype).newbyteorder("<")}
        self._dtypes |= {name: type.dtype.newbyteorder("<") for name, type in schema.fields.items()}
        self._dtypes |= {name: np.dtype(text) for name, text in index.meta.get("dtypes", {}).items()}

    def extents(self, block: int, field: str = "tokens") -> Extents:
        """The whole shard, which is one block."""
        if self._mapped:
            return self._table(self._mapped_shard(), field)
        return self._table(ShardBytes(self._decode()), field)

    def rows(self, start: int, stop: int) -> RowBatch:
        """Rows start .. stop; those of a mapped shard share its memory where they lie together."""
        shard = self._mapped_shard() if self._mapped else _keep(self, self._decode)
        offsets = self.index.offsets[start : stop + 1]
        return RowBatch(
            tokens=self.items(shard, "tokens", start, stop),
            offsets=offsets - offsets[0],
            fields={name: self.column(shard, name, type, start, stop) for name, type in self._fields.items()},
        )

    def column(self, shard: ShardBytes, name: str, type: FieldType, start: int, stop: int) -> Column:
        """One field of rows start .. stop."""
        valid = self.valid(name, start, stop)
        values = self.items(shard, name, start, stop)
        if type.has_offsets:
            offsets = self.index.arrays[f"field:{name}:offsets"][start : stop + 1]
            offsets = offsets - offsets[0]
            if type.name == "string":
                check_text(values, offsets, f"{self.where}: field {name!r}", start)
            return Column(type=type, values=values, offsets=offsets, valid=valid)
        if type.name == "bool":
            values = values.astype(bool)
        if valid is not None:
            values, known = np.zeros(stop - start, values.dtype), values
            values[valid] = known
        return Column(type=type, values=values, valid=valid)

    def valid(self, name: str, start: int, stop: int) -> Array | None:
        """Which of rows start .. stop are not null; None when all are."""
        null = self.index.arrays.get(f"field:{name}:null")
        if null is None:
            return None
        valid = np.ones(stop - start, bool)
        valid[null[(null >= start) & (null < stop)] - start] = False
        return valid

    def items(self, shard: ShardBytes, name: str, start: int, stop: int) -> Array:
        """The items of the tokens or of a field in rows start .. stop, flat."""
        items = self._table(shard, name).items(start, stop)
        return items.astype(items.dtype.newbyteorder("="), copy=False)

    def _table(self, shard: ShardBytes, name: str) -> Extents:
        if name not in shard.tables:
            arrays = self.index.arrays
            prefix = "" if name == "tokens" else f"field:{name}:"
            offsets = arrays.get(f"{prefix}offsets")
            lengths = np.diff(offsets) if offsets is not None else self._one_item_a_row(name)
            table = Extents(
                buffer=shard.buffer,
                starts=arrays[f"{prefix}starts"],
                lengths=lengths,
                dtype=self._dtypes[name],
                mapped=self._mapped,
            )
            shard.tables[name] = table.check(self.where)
        return shard.tables[name]

    def _one_item_a_row(self, name: str) -> Offsets:
        lengths = np.ones(self.index.num_rows, np.int64)
        null = self.index.arrays.get(f"field:{name}:null")
        if null is not None:
            lengths[null] = 0
        return lengths

    def _mapped_shard(self) -> ShardBytes:
        if self._map is None:
            self._map = ShardBytes(self._load())
        return self._map

    def _decode(self) -> Bytes:
        """The decoded bytes; shared by whoever uses them at the time."""
        buffer = self._decoded() if self._decoded is not None else None
        if buffer is None:
            buffer = self._load()
            self._decoded = weakref.ref(buffer)
        return buffer


class ShardBytes:
    """The bytes of a shard, and the extent tables made of them so far."""

    def __init__(self, buffer: Bytes) -> None:
        self.buffer = buffer
        self.tables: dict[str, Extents] = {}


class _Kept:
    """What a thread decoded last, for as long as its reader lives."""

    def __init__(self, reader: RunsReader, shard: ShardBytes) -> None:
        self.reader = weakref.ref(reader, self._forget)
        self.shard: ShardBytes | None = shard

    def _forget(self, _: weakref.ref[RunsReader]) -> None:
        self.shard = None


class _Thread(threading.local):
    kept: _Kept | None = None


_thread = _Thread()


def _keep(reader: RunsReader, decode: Callable[[], Bytes]) -> ShardBytes:
    kept = _thread.kept
    if kept is not None and kept.reader() is reader and kept.shard is not None:
        return kept.shard
    _thread.kept = None
    shard = ShardBytes(decode())
    _thread.kept = _Kept(reader, shard)
    return shard


def field_arrays(name: str, starts: Offsets, lengths: Offsets | None, valid: Array | None) -> dict[str, Offsets]:
    """The index arrays of one extra field; ``lengths`` (in items) is None for scalars. Null rows take no bytes."""
    arrays = {f"field:{name}:starts": starts}
    if lengths is not None:
        arrays[f"field:{name}:offsets"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if valid is not None and not valid.all():
        arrays[f"field:{name}:null"] = np.flatnonzero(~valid)
    return arrays


def check_text(values: Array, offsets: Offsets, where: str, first_row: int = 0) -> None:
    """Raise DataError that names the row unless each row of raw bytes is UTF-8."""
    data = values.tobytes()
    begins = offsets[:-1][np.diff(offsets) > 0]
    try:
        data.decode()
        if not (values[begins] & 0xC0 == 0x80).any():  # no row begins inside a character
            return
    except UnicodeDecodeError:
        pass
    for row, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        try:
            data[a:b].decode()
        except UnicodeDecodeError as e:
            raise DataError(
                f"{where}, row {first_row + row}: not UTF-8 ({e.reason} at byte {e.start}); leave the field out with "
                "fields=[...], or repair the text"
            ) from None
