"""NPY: each shard one flat array of tokens that ``np.load(shard, mmap_mode="r")`` opens; row offsets lie in the index.

Extra fields are arrays beside it, ``<shard>.<field>.npy``: one item a row for scalars, all items flat for lists, raw
UTF-8 for text.

Other people's files: format versions 1 to 3, any integer dtype and byte order, C and Fortran order, and bare ids
without a header, in ``.npy`` or ``.bin``, where ``token_dtype`` names their type. A two-dimensional array is one row a
line; a one-dimensional one is one row, or is cut by ``split``. A ``.bin`` with Megatron's ``.idx`` beside it says both
itself: a document is a row. Files follow each other in natural order, ``tokens_2.npy`` before
``tokens_10.npy``. Objects are never unpickled. ``part1.extra.npy`` beside ``part1.npy`` could be a shard or an array
beside one, so it is refused until somebody says which; names of our own shards tell it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tokenyard.errors import ConfigError, DataError
from tokenyard.formats.base import (
    Discovered,
    Format,
    FormatOptions,
    ReadOptions,
    ShardReader,
    ShardSource,
    Span,
    Split,
    WrittenShard,
)
from tokenyard.formats.extents import Extents, check_runs
from tokenyard.formats.index import ShardIndex
from tokenyard.formats.npy.file import HEAD_BYTES, check_header, read_file_header
from tokenyard.formats.npy.header import FILE_HEADER_BYTES, write_header
from tokenyard.formats.npy.megatron import document_offsets, index_beside, token_dtype
from tokenyard.formats.shared.blocks import cut_ranges
from tokenyard.formats.shared.promises import check_fields
from tokenyard.formats.shared.runs_reader import check_text
from tokenyard.manifest import FileInfo, ShardInfo
from tokenyard.rows import Array, Column, Offsets, RowBatch
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import Folder, RawFile

#: A row of other people's tokens that has more bytes can be trained on, but not converted.
_MAX_ROW_BYTES = 1 << 31
_SCAN_TOKENS = 1 << 24
#: What may be a field's array, beside the shard that it belongs to; and the stems of our own shards.
_FIELD_FILE = re.compile(r"(.*[0-9])\.([A-Za-z_][A-Za-z0-9_-]*)\.npy")
_OWN_STEM = re.compile(r"(?:.*/)?shard-[0-9]{5,}(?:-[0-9]{5,})?")


class Npy(Format):
    """See the module."""

    name = "npy"
    suffix = ".npy"
    summary = "flat arrays; the fastest to read, by anything that has numpy"

    def write_shard(
        self, folder: Folder, stem: str, batches: Sequence[RowBatch], schema: Schema, options: FormatOptions
    ) -> WrittenShard:
        """One file of tokens, and one a field."""
        del options
        files = [_write(folder, stem + ".npy", [b.tokens for b in batches], np.dtype(schema.token_dtype))]
        arrays = {"offsets": np.cumsum(np.concatenate([[0], *[b.lengths for b in batches]]), dtype=np.int64)}
        for name in sorted(schema.fields):
            column = Column.concat([b.fields[name] for b in batches])
            files.append(_write(folder, f"{stem}.{name}.npy", [column.values], column.type.dtype))
            if column.offsets is not None:
                arrays[f"field:{name}:offsets"] = column.offsets
            if column.valid is not None and not column.valid.all():
                arrays[f"field:{name}:null"] = np.flatnonzero(~column.valid)
        return WrittenShard(files=tuple(files), index=ShardIndex(arrays=arrays))

    def open_shard(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> ShardReader:
        """Maps nothing yet."""
        return _Reader(folder, shard, index, schema)

    def discover(self, folder: Folder, names: Sequence[str], options: ReadOptions) -> Discovered | None:
        """Any .npy files, and .bin of known ids; each is a shard, unless it is a field's array beside one of ours."""
        present = {n for n in names if n.endswith(".npy")}
        indexed = _indexed_by_megatron(folder, names)
        bare = {n for n in names if n.endswith(".bin") and options.token_dtype}
        mine = [
            n
            for n in names
            if n in indexed or n in bare or (n in present and not _is_field_file(folder, n, present, options))
        ]
        if not mine:
            return None
        if options.tokens is not None or options.fields:
            raise ConfigError(f"{folder.path}: .npy files have no columns; leave out the options 'tokens' and 'fields'")
        raw = np.dtype(options.token_dtype) if options.token_dtype else None
        split = options.split.model_dump() if options.split else None
        shards = []
        for name in mine:
            header = read_file_header(folder, name, indexed.get(name, raw))
            if np.dtype(header["dtype"]).kind not in "iu":
                raise DataError(
                    f"{folder.at(name)}: holds {np.dtype(header['dtype'])}, but token ids are integers; convert it"
                )
            if split and len(header["shape"]) == 2:
                raise ConfigError(f"{folder.at(name)}: two-dimensional, so its lines are its rows; leave out 'split'")
            own = [name, index_beside(name)] if name in indexed else [name]
            if split and name in indexed:
                raise ConfigError(f"{folder.at(name)}: {own[1]} says where its documents begin; leave out 'split'")
            files = tuple(FileInfo(name=n, bytes=folder.size(n)) for n in own)
            shards.append(ShardSource(files=files, meta={**header, "split": split, "documents": own[1:]}))
        dtype = np.result_type(*[np.dtype(s.meta["dtype"]).newbyteorder("=") for s in shards])
        if dtype.kind not in "iu":  # int64 and uint64 together promote to float
            raise DataError(
                f"{folder.path}: .npy files of mixed dtypes that no integer type holds together; convert them apart"
            )
        return Discovered(schema=Schema(token_dtype=dtype.name), shards=tuple(shards))

    def scan(self, folder: Folder, shard: ShardSource, schema: Schema) -> ShardIndex:
        """Row offsets from the shape, or from ``split``."""
        del schema
        rows, columns = (1, *shard.meta["shape"])[-2:]
        if shard.meta["documents"]:
            offsets = document_offsets(folder, shard.meta["documents"][0], columns)
        elif shard.meta["split"]:
            offsets = _split(folder, shard, Split(**shard.meta["split"]))
        else:
            offsets = np.arange(rows + 1, dtype=np.int64) * columns
        return ShardIndex(arrays={"offsets": offsets}, meta=shard.meta)


FORMAT = Npy()


class _Reader(ShardReader):
    """``index.meta`` is the header of a file that others made, and empty for ours."""

    def __init__(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> None:
        where = str(folder.at(shard.name))
        check_fields(index, schema, where, placed=False)
        if index.meta:
            check_header(index.meta, index.offsets, np.dtype(schema.token_dtype), where)
        # Columns of a Fortran array hold tokens of every row, so it is read as a whole.
        in_ranges = folder.read_mode == "pread" and not index.meta.get("fortran_order")
        size = np.dtype(index.meta.get("dtype", schema.token_dtype)).itemsize
        ranges = cut_ranges(index.offsets[:-1] * size, folder.range_bytes) if in_ranges else None
        super().__init__(where, index, ranges)
        self.in_ranges = in_ranges
        if len(shard.files) != 1 + len(schema.fields) + bool(index.meta.get("documents")):
            raise DataError(f"{self.where}: {len(shard.files)} files for tokens and {len(schema.fields)} fields")
        self.mapped = folder.read_mode == "mmap" and not index.meta.get("fortran_order")
        self._folder = folder
        self._schema = schema
        self._file_of = dict(zip(["tokens", *sorted(schema.fields)], shard.files, strict=False))
        self._files: dict[str, tuple[RawFile, int, np.dtype[Any]]] = {}

    def extents(self, block: int, field: str = "tokens") -> Extents:
        first, last = self.block_rows[block : block + 2].tolist()
        offsets = self._array("offsets" if field == "tokens" else f"field:{field}:offsets")[first : last + 1]
        lengths = np.diff(offsets)
        if field == "tokens" and self.index.meta.get("fortran_order"):
            tokens = self._lines(0, self.index.num_rows)
            starts = offsets[:-1] * tokens.itemsize
            buffer = tokens.view(np.uint8)
            return Extents(buffer=buffer, starts=starts, lengths=lengths, dtype=tokens.dtype, mapped=False)
        file, data_start, dtype = self._open(field)
        starts = data_start + offsets[:-1] * dtype.itemsize
        check_runs(starts, lengths, dtype, file.num_bytes, self.where, first)
        low, high = data_start + int(offsets[0]) * dtype.itemsize, data_start + int(offsets[-1]) * dtype.itemsize
        buffer = file.read(low, high)
        return Extents(buffer=buffer, starts=starts - low, lengths=lengths, dtype=dtype, mapped=file.mapped)

    def spans(self, first: int, last: int, fields: Sequence[str]) -> list[Span]:
        begin, end = int(self.block_rows[first]), int(self.block_rows[last + 1])
        found = []
        for field in fields:
            file, meta = self._raw(field), self.index.meta if field == "tokens" else {}
            # As the header will say, or the file is refused.
            dtype = np.dtype(self._schema.token_dtype) if field == "tokens" else self._schema.fields[field].dtype
            size = np.dtype(meta.get("dtype", dtype)).itemsize
            if meta.get("fortran_order"):
                found.append(Span(file, 0, file.num_bytes))
                continue
            offsets = self._array("offsets" if field == "tokens" else f"field:{field}:offsets")
            data_start = int(meta.get("data_start", FILE_HEADER_BYTES))
            low, high = (data_start + int(offsets[row]) * size for row in (begin, end))
            found.append(Span(file, min(low, file.num_bytes), min(high, file.num_bytes)))
        return [span for span in found if span.start < span.stop]

    def head_spans(self) -> list[Span]:
        """The header, where it has to be read."""
        if self.index.meta:
            return []
        file = self._raw("tokens")
        return [Span(file, 0, min(HEAD_BYTES, file.num_bytes))]

    def rows(self, start: int, stop: int) -> RowBatch:
        offsets = self.index.offsets[start : stop + 1]
        if self.index.meta:
            self._check_row_bytes(np.diff(offsets))
        if self.index.meta.get("fortran_order"):
            lines = self._lines(start, stop)
            tokens = lines.astype(lines.dtype.newbyteorder("="), copy=False)
        else:
            tokens = self._items("tokens", int(offsets[0]), int(offsets[-1]))
        fields = {n: self._column(n, t, start, stop) for n, t in self._schema.fields.items()}
        return RowBatch(tokens=tokens, offsets=offsets - offsets[0], fields=fields)

    def _check_row_bytes(self, lengths: Offsets) -> None:
        size = np.dtype(self.index.meta["dtype"]).itemsize
        longest = int(lengths.max()) if len(lengths) else 0
        if longest * size > _MAX_ROW_BYTES:
            raise DataError(
                f"{self.where}: a row of {longest} tokens is more than {_MAX_ROW_BYTES} bytes. A one-dimensional array "
                "is one row unless it is cut on reading: split={'length': N}, or split={'eos': ID} after each document"
            )

    def _lines(self, start: int, stop: int) -> Array:
        """Rows of a two-dimensional array in Fortran order, one after another."""
        file, data_start, dtype = self._open("tokens")
        rows, columns = self.index.meta["shape"]
        data = file.read(data_start, data_start + rows * columns * dtype.itemsize)
        by_column = data.view(dtype).reshape(columns, rows)
        return np.ascontiguousarray(by_column[:, start:stop].T).reshape(-1)

    def _column(self, name: str, type: FieldType, start: int, stop: int) -> Column:
        null = self.index.arrays.get(f"field:{name}:null")
        valid = None
        if null is not None:
            valid = np.ones(stop - start, bool)
            valid[null[(null >= start) & (null < stop)] - start] = False
        if not type.has_offsets:
            return Column(type=type, values=self._items(name, start, stop), valid=valid)
        offsets = self._array(f"field:{name}:offsets")[start : stop + 1]
        values = self._items(name, int(offsets[0]), int(offsets[-1]))
        offsets = offsets - offsets[0]
        if type.name == "string":
            check_text(values, offsets, f"{self.where}: field {name!r}", start)
        return Column(type=type, values=values, offsets=offsets, valid=valid)

    def _array(self, name: str) -> Offsets:
        if name not in self.index.arrays:
            raise DataError(f"{self.where}: its row index has no {name!r}; restore the corpus")
        return self.index.arrays[name]

    def _items(self, field: str, start: int, stop: int) -> Array:
        file, data_start, dtype = self._open(field)
        low, high = data_start + start * dtype.itemsize, data_start + stop * dtype.itemsize
        if not 0 <= start <= stop or high > file.num_bytes:
            raise DataError(f"{self.where}: no items {start} .. {stop} of {field}; the shard or its index is damaged")
        return file.read(low, high).view(dtype).astype(dtype.newbyteorder("="), copy=False)

    def _open(self, field: str) -> tuple[RawFile, int, np.dtype[Any]]:
        if field not in self._files:
            file, raw = self._file_of[field], self._raw(field)
            header = self.index.meta if self.index.meta and field == "tokens" else self._own_header(field, file)
            self._files[field] = (raw, int(header["data_start"]), np.dtype(header["dtype"]))
        return self._files[field]

    def _raw(self, field: str) -> RawFile:
        file = self._file_of[field]
        return self._folder.raw(file.name, file.bytes)

    def _own_header(self, field: str, file: FileInfo) -> Mapping[str, Any]:
        """The header of a file that we wrote, which must be as the manifest and the index promise."""
        header = read_file_header(self._folder, file.name)
        type = self._schema.fields.get(field)
        dtype = np.dtype(self._schema.token_dtype) if type is None else type.dtype
        count = self.index.num_tokens if type is None else self.index.num_rows
        if type is not None and type.has_offsets:
            count = int(self._array(f"field:{field}:offsets")[-1])
        found = (np.dtype(header["dtype"]), header["shape"])
        if found != (dtype, [count]):
            raise DataError(
                f"{self._folder.at(file.name)}: holds {found[0]} of shape {tuple(found[1])}, the manifest says {dtype} "
                f"of shape ({count},); restore the file"
            )
        return header


def _indexed_by_megatron(folder: Folder, names: Sequence[str]) -> dict[str, np.dtype[Any]]:
    """The .bin files that have an .idx of Megatron's beside them, with the dtype of their ids."""
    present = set(names)
    found = {
        name: token_dtype(folder, index)
        for name in names
        if name.endswith(".bin") and ((index := index_beside(name)) in present or folder.exists(index))
    }
    return {name: dtype for name, dtype in found.items() if dtype is not None}


def _is_field_file(folder: Folder, name: str, present: set[str], options: ReadOptions) -> bool:
    """Whether a file lies beside its shard. Raises DataError when nothing says so."""
    found = _FIELD_FILE.fullmatch(name)
    if found is None or found[1] + ".npy" not in present:
        return False
    if options.fields is None and not _OWN_STEM.fullmatch(found[1]):
        raise DataError(
            f"{folder.at(name)}: a shard of its own, or something that belongs to {found[1]}.npy? If it holds tokens, "
            f"rename it, say to {found[1]}_{found[2]}.npy; if not, move it away, or leave such files out: fields=[]"
        )
    return True


def _split(folder: Folder, shard: ShardSource, split: Split) -> Offsets:
    count = shard.meta["shape"][0]
    if split.length:
        return np.append(np.arange(0, count, split.length, dtype=np.int64), count)
    file, start = shard.files[0], shard.meta["data_start"]
    tokens = folder.map(file.name, file.bytes)[start:].view(np.dtype(shard.meta["dtype"]))
    ends = [
        np.flatnonzero(tokens[i : i + _SCAN_TOKENS] == split.eos).astype(np.int64) + (i + 1)
        for i in range(0, count, _SCAN_TOKENS)
    ]
    return np.unique(np.concatenate([[0], *ends, [count]]).astype(np.int64))


def _write(folder: Folder, name: str, parts: Sequence[Array], dtype: np.dtype[Any]) -> FileInfo:
    dtype = dtype.newbyteorder("<")
    with folder.publish(name) as file:
        file.write(write_header(dtype, (sum(map(len, parts)),), FILE_HEADER_BYTES))
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype))
    return file.info
