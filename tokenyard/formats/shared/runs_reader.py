"""A reader for shards whose rows are runs of bytes in one file: MDS shards and tars, raw or decoded as a whole.

From the index it needs ``offsets`` and ``starts`` for the tokens, and for each extra field ``field:<name>:starts``, for
those with lengths ``field:<name>:offsets`` (in items), and ``field:<name>:null`` (the null rows) where there are any.
``dtypes`` in the index's meta names stored dtypes that are not the schema's.

Of a raw shard the ranges are read that hold the rows asked for. A decoded one lives as long as somebody uses it: the
corpus's cache, or the thread that reads its rows, which keeps the one it read last.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats.base import ShardReader, Span
from tokenyard.formats.extents import Extents, check_runs
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.runs import Bytes
from tokenyard.formats.shared.blocks import cut_ranges
from tokenyard.formats.shared.promises import check_fields, stored_dtypes
from tokenyard.rows import Array, Column, Offsets, RowBatch
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import RawFile

#: Decodes a shard, or checks a raw one before its first range is read.
Decode = Callable[[], Bytes]
Check = Callable[[RawFile], None]


class RunsReader(ShardReader):
    """See the module. A raw shard has a ``raw`` file, whose first ``check_bytes`` may be read for a ``check``.

    ``decode`` makes bytes of others, out of all of the ``packed`` file.
    """

    def __init__(
        self,
        where: str,
        index: ShardIndex,
        schema: Schema,
        *,
        raw: RawFile | None = None,
        check: Check | None = None,
        check_bytes: int = 0,
        packed: RawFile | None = None,
        decode: Decode | None = None,
    ) -> None:
        check_fields(index, schema, where, placed=True)
        in_ranges = raw is not None and not raw.mapped
        ranges = cut_ranges(index.arrays["starts"], raw.range_bytes) if raw is not None and in_ranges else None
        super().__init__(where, index, ranges)
        self.in_ranges = in_ranges
        self.mapped = raw is not None and raw.mapped
        self._fields = schema.fields
        self._raw = raw
        self._packed = packed
        self._check = check
        self._check_bytes = check_bytes
        self._decode_shard = decode
        self._decoded: weakref.ref[Bytes] | None = None
        # Of each block that somebody uses, the bytes with all that gathers ask for.
        self._ranges: weakref.WeakValueDictionary[int, Bytes] = weakref.WeakValueDictionary()
        self._gathered = ["tokens", *(n for n, t in schema.fields.items() if t.is_list)]
        self._dtypes = stored_dtypes(index, schema, where)

    def extents(self, block: int, field: str = "tokens") -> Extents:
        """One block: the whole shard, unless it is read by ranges."""
        start, stop = self.block_rows[block : block + 2].tolist()
        if self._raw is None:
            return self._table(ShardBytes(self._decode()), field, start, stop)
        low, high = self._span(self._raw, self._gathered, start, stop)
        if self._raw.mapped:  # the whole of it costs no more, and places of rows are those of the index
            low, high = 0, self._raw.num_bytes
        buffer = self._ranges.get(block)
        if buffer is None:
            buffer = self._ranges[block] = self._read(self._raw, low, high)
        return self._table(ShardBytes(buffer, low, mapped=self._raw.mapped), field, start, stop)

    def spans(self, first: int, last: int, fields: Sequence[str]) -> list[Span]:
        """One range of the file, with all that gathers may ask for."""
        del fields
        if self._raw is None:
            return [] if self._packed is None else [Span(self._packed, 0, self._packed.num_bytes)]
        begin, end = int(self.block_rows[first]), int(self.block_rows[last + 1])
        low, high = self._span(self._raw, self._gathered, begin, end)
        return [Span(self._raw, low, high)] if low < high else []

    def head_spans(self) -> list[Span]:
        """What the check reads."""
        if self._raw is None or not self._check_bytes:
            return []
        return [Span(self._raw, 0, min(self._check_bytes, self._raw.num_bytes))]

    def rows(self, start: int, stop: int) -> RowBatch:
        """Rows start .. stop; those of a mapped shard share its memory where they lie together."""
        if self._raw is None:
            shard = _keep(self, self._decode)
        else:
            low, high = self._span(self._raw, ["tokens", *self._fields], start, stop)
            shard = ShardBytes(self._read(self._raw, low, high), low, mapped=self._raw.mapped)
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
        items = self._table(shard, name, start, stop).items(0, stop - start)
        return items.astype(items.dtype.newbyteorder("="), copy=False)

    def _runs(self, name: str, start: int, stop: int) -> tuple[Offsets, Offsets]:
        """Where the items of rows start .. stop begin in the shard, and how many each row has."""
        arrays = self.index.arrays
        prefix = "" if name == "tokens" else f"field:{name}:"
        starts = arrays[f"{prefix}starts"][start:stop]
        offsets = arrays.get(f"{prefix}offsets")
        if offsets is not None:
            return starts, np.diff(offsets[start : stop + 1])
        valid = self.valid(name, start, stop)
        return starts, np.ones(stop - start, np.int64) if valid is None else valid.astype(np.int64)

    def _table(self, shard: ShardBytes, name: str, start: int, stop: int) -> Extents:
        """Rows start .. stop in the bytes that are there."""
        starts, lengths = self._runs(name, start, stop)
        dtype = self._dtypes[name]
        if self._raw is None:
            check_runs(starts, lengths, dtype, len(shard.buffer), self.where, start)
        elif shard.low or len(shard.buffer) < self._raw.num_bytes:
            # Checked before they were read; a row of no items may lie anywhere.
            starts = np.clip(starts - shard.low, 0, len(shard.buffer))
        return Extents(buffer=shard.buffer, starts=starts, lengths=lengths, dtype=dtype, mapped=shard.mapped)

    def _span(self, raw: RawFile, names: Iterable[str], start: int, stop: int) -> tuple[int, int]:
        """The range of the file that holds all items of some fields in rows start .. stop."""
        low, high = raw.num_bytes, 0
        for name in names:
            starts, lengths = self._runs(name, start, stop)
            dtype = self._dtypes[name]
            check_runs(starts, lengths, dtype, raw.num_bytes, self.where, start)
            if len(some := np.flatnonzero(lengths)):
                low = min(low, int(starts[some].min()))
                high = max(high, int((starts[some] + lengths[some] * dtype.itemsize).max()))
        return (low, high) if low < high else (0, 0)

    def _read(self, raw: RawFile, low: int, high: int) -> Bytes:
        if (check := self._check) is not None:
            check(raw)
            self._check = None
        return raw.read(low, high)

    def _decode(self) -> Bytes:
        """The decoded bytes; shared by whoever uses them at the time."""
        buffer = self._decoded() if self._decoded is not None else None
        if buffer is None:
            assert self._decode_shard is not None
            buffer = self._decode_shard()
            self._decoded = weakref.ref(buffer)
        return buffer


class ShardBytes:
    """Bytes of a shard from byte ``low`` on."""

    def __init__(self, buffer: Bytes, low: int = 0, *, mapped: bool = False) -> None:
        self.buffer = buffer
        self.low = low
        self.mapped = mapped


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
