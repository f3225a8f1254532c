"""NPY: each shard one flat array of tokens that ``np.load(shard, mmap_mode="r")`` opens; row offsets lie in the index.

Extra fields are arrays beside it, ``<shard>.<field>.npy``: one item a row for scalars, all items flat for lists, raw UTF-8
for text. Layout of the header: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.

Other people's files: format versions 1 to 3, any integer dtype and byte order, C and Fortran order. A two-dimensional
array is one row a line; a one-dimensional one is one row, or is cut by ``split``. Objects are never unpickled.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from tokenyard.errors import DataError
from tokenyard.formats.base import (
    Discovered,
    Format,
    FormatOptions,
    ReadOptions,
    ShardReader,
    ShardSource,
    Split,
    WrittenShard,
)
from tokenyard.formats.extents import Extents
from tokenyard.formats.index import ShardIndex
from tokenyard.manifest import FileInfo, ShardInfo
from tokenyard.rows import Array, Column, RowBatch
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import Folder

_MAGIC = b"\x93NUMPY"
_MAX_HEADER = 1 << 16


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
        arrays = {"offsets": np.cumsum([0, *np.concatenate([b.lengths for b in batches]).tolist()], dtype=np.int64)}
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
        """Any .npy files; each is a shard."""
        mine = [n for n in names if n.endswith(".npy")]
        if not mine:
            return None
        raw = options.token_dtype and np.dtype(options.token_dtype)
        headers = [_header(folder, n, raw or None) for n in mine]
        for name, header in zip(mine, headers, strict=True):
            if np.dtype(header["dtype"]).kind not in "iu":
                raise DataError(
                    f"{folder.at(name)}: holds {np.dtype(header['dtype'])}, but token ids are integers; convert it first"
                )
        dtype = np.result_type(*[np.dtype(h["dtype"]).newbyteorder("=") for h in headers])
        if dtype.kind not in "iu":  # int64 and uint64 together promote to float
            raise DataError(
                f"{folder.path}: .npy files of mixed dtypes that no integer type holds together; convert them apart"
            )
        split = options.split.model_dump() if options.split else None
        shards = tuple(
            ShardSource(files=(FileInfo(name=n, bytes=folder.size(n)),), meta={**h, "split": split})
            for n, h in zip(mine, headers, strict=True)
        )
        return Discovered(schema=Schema(token_dtype=dtype.name), shards=shards)

    def scan(self, folder: Folder, shard: ShardSource, schema: Schema) -> ShardIndex:
        """Row offsets from the shape, or from ``split``."""
        del schema
        rows, columns = (
            (shard.meta["shape"] + [0])[:2] if len(shard.meta["shape"]) == 2 else (1, shard.meta["shape"][0])
        )
        count = rows * columns
        offsets = np.arange(rows + 1, dtype=np.int64) * columns
        if shard.meta["split"] and len(shard.meta["shape"]) == 1:
            split = Split(**shard.meta["split"])
            if split.length:
                offsets = np.append(np.arange(0, count, split.length, dtype=np.int64), count)
            else:
                tokens = _map_tokens(folder, shard.files[0], shard.meta)
                ends = np.flatnonzero(tokens == split.eos).astype(np.int64) + 1
                offsets = np.unique(np.concatenate([[0], ends, [count]]))
        return ShardIndex(arrays={"offsets": offsets}, meta=shard.meta)


FORMAT = Npy()


class _Reader(ShardReader):
    def __init__(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> None:
        super().__init__(str(folder.at(shard.name)), index)
        self._folder = folder
        self._files = shard.files
        self._schema = schema
        names = ["tokens", *sorted(schema.fields)]
        self._file_of = dict(zip(names, shard.files, strict=False))
        self._maps: dict[str, tuple[NDArray[np.uint8], int, np.dtype[Any]]] = {}

    def extents(self, block: int, field: str = "tokens") -> Extents:
        offsets = self.index.arrays["offsets" if field == "tokens" else f"field:{field}:offsets"]
        buffer, data_start, dtype = self._open(field)
        starts = data_start + offsets[:-1] * dtype.itemsize
        return Extents(buffer=buffer, starts=starts, lengths=np.diff(offsets), dtype=dtype, mapped=True).check(
            self.where
        )

    def rows(self, start: int, stop: int) -> RowBatch:
        offsets = self.index.offsets[start : stop + 1]
        tokens = self._items("tokens", int(offsets[0]), int(offsets[-1]))
        fields = {n: self._column(n, t, start, stop) for n, t in self._schema.fields.items()}
        return RowBatch(tokens=tokens, offsets=offsets - offsets[0], fields=fields)

    def _column(self, name: str, type: FieldType, start: int, stop: int) -> Column:
        null = self.index.arrays.get(f"field:{name}:null")
        valid = None
        if null is not None:
            valid = np.ones(stop - start, bool)
            valid[null[(null >= start) & (null < stop)] - start] = False
        if not type.has_offsets:
            return Column(type=type, values=self._items(name, start, stop), valid=valid)
        offsets = self.index.arrays[f"field:{name}:offsets"][start : stop + 1]
        values = self._items(name, int(offsets[0]), int(offsets[-1]))
        return Column(type=type, values=values, offsets=offsets - offsets[0], valid=valid)

    def _items(self, field: str, start: int, stop: int) -> Array:
        buffer, data_start, dtype = self._open(field)
        data = buffer[data_start + start * dtype.itemsize : data_start + stop * dtype.itemsize]
        if len(data) != (stop - start) * dtype.itemsize:
            raise DataError(f"{self.where}: ends before item {stop} of {field}; the shard was cut, restore it")
        return data.view(dtype).astype(dtype.newbyteorder("="), copy=False)

    def _open(self, field: str) -> tuple[NDArray[np.uint8], int, np.dtype[Any]]:
        if field not in self._maps:
            file = self._file_of[field]
            meta = self.index.meta if field == "tokens" and self.index.meta else None
            header = meta or _header(self._folder, file.name, None)
            expected = self._schema.fields[field].dtype if field != "tokens" else None
            dtype = np.dtype(header["dtype"])
            if expected is not None and dtype != expected:
                raise DataError(
                    f"{self._folder.at(file.name)}: holds {dtype}, the manifest says {expected}; restore the file"
                )
            buffer = self._folder.map(file.name, file.bytes)
            data_start = int(header["data_start"])
            if header["fortran_order"]:
                rows, columns = header["shape"]
                flat = buffer[data_start:].view(dtype)[: rows * columns]
                buffer, data_start = np.ascontiguousarray(flat.reshape(columns, rows).T).reshape(-1).view(np.uint8), 0
            self._maps[field] = (buffer, data_start, dtype)
        return self._maps[field]


def _write(folder: Folder, name: str, parts: Sequence[Array], dtype: np.dtype[Any]) -> FileInfo:
    dtype = dtype.newbyteorder("<")
    with folder.publish(name) as file:
        header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": (sum(map(len, parts)),)}
        npy_format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype))
    return file.info


def _map_tokens(folder: Folder, file: FileInfo, meta: Any) -> Array:
    data: Array = folder.map(file.name, file.bytes)[meta["data_start"] :].view(np.dtype(meta["dtype"]))
    return data


def _header(folder: Folder, name: str, raw: np.dtype[Any] | None) -> dict[str, Any]:
    """Shape, dtype and where the data begin, checked against the file's size; ``raw``: the dtype of a headerless file."""
    path, size = folder.at(name), folder.size(name)
    with open(path, "rb") as f:
        head = f.read(_MAX_HEADER + 16)
    if not head.startswith(_MAGIC):
        if raw is None:
            raise DataError(
                f"{path}: no .npy header. If it holds bare token ids, as memmap-based trainers write them, name their dtype: "
                "token_dtype=uint16 (or uint32, int32 ...); np.save writes files with a header"
            )
        if size % raw.itemsize:
            raise DataError(
                f"{path}: {size} bytes are no whole number of {raw} ids; token_dtype is another, or the file was cut"
            )
        return _layout(path, [size // raw.itemsize], raw, False, 0, size)
    stream = io.BytesIO(head)
    try:
        version = npy_format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy_format.read_array_header_1_0(stream, max_header_size=_MAX_HEADER)
        elif version in ((2, 0), (3, 0)):
            # Version 3 differs from 2 only in UTF-8 field names, which integer arrays don't have.
            shape, fortran, dtype = npy_format.read_array_header_2_0(stream, max_header_size=_MAX_HEADER)
        else:
            raise ValueError(f"format version {version[0]}.{version[1]}")
    except ValueError as e:
        raise DataError(f"{path}: unreadable .npy header ({e}); write the array again with np.save") from None
    if dtype.hasobject:
        raise DataError(
            f"{path}: an array of Python objects (pickled); tokenyard never unpickles, save integers instead"
        )
    return _layout(path, list(shape), dtype, bool(fortran), stream.tell(), size)


def _layout(path: Any, shape: list[int], dtype: np.dtype[Any], fortran: bool, start: int, size: int) -> dict[str, Any]:
    if dtype.kind not in "iufb" or dtype.subdtype is not None:
        raise DataError(f"{path}: dtype {dtype}; tokens are integers")
    if len(shape) not in (1, 2):
        raise DataError(
            f"{path}: an array of {len(shape)} dimensions; tokens are one array (a row) or two-dimensional (rows)"
        )
    expected = start + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if size != expected:
        raise DataError(f"{path}: {size} bytes, but its header promises {expected}; the file was cut or never finished")
    return {"shape": shape, "dtype": dtype.str, "fortran_order": fortran and len(shape) == 2, "data_start": start}
