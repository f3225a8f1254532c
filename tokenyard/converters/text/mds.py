"""MDS as a text source: a folder whose `index.json` lists shards of samples with named columns.

A shard is u32 n, u32 offsets[n + 1] from the start of the file, then (after the columns' description) the samples;
a sample is a u32 size for each variable column, in the index's order, then the values in that order.
(mosaicml-streaming, `streaming/base/format/mds/writer.py`, version 2.)
"""

import struct
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from tokenyard.converters.text.compression import ByteStream, detect_compression, file_head, open_stream
from tokenyard.converters.text.document import BadRecord, Document, Place
from tokenyard.converters.text.mds_index import MdsShard, load_index, shard_file
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.records import RecordReader
from tokenyard.converters.text.split import SourceFile, Split, TextSource, group_sizes
from tokenyard.errors import DataError

_SCALARS = {
    "int": "<q",
    "int8": "<b",
    "int16": "<h",
    "int32": "<i",
    "int64": "<q",
    "uint8": "<B",
    "uint16": "<H",
    "uint32": "<I",
    "uint64": "<Q",
    "float16": "<e",
    "float32": "<f",
    "float64": "<d",
}


def plan(file: SourceFile, options: TextOptions) -> Iterator[Split]:
    """Plan splits of whole shards, neighbours joined up to `split_bytes`."""
    sizes = [shard.raw_bytes for shard in load_index(file.path)]
    for first, stop, num_bytes in group_sizes(sizes, options.split_bytes):
        yield file.part(first, stop, num_bytes)


def read(split: Split, options: TextOptions) -> Iterator[Document | BadRecord]:
    """Yield a document a sample; places name the shard, and count its samples from 0.

    DataError when a column is missing or of an encoding that is not read, and when a shard is not what the index says.
    """
    records = RecordReader(options)
    for shard in load_index(split.path)[split.start : split.stop]:
        columns = _find_columns(shard, records, split.path)
        path, num_bytes = shard_file(split.path, shard)
        compression = detect_compression(file_head(path), path) if shard.compressed(path) else "none"
        whole = SourceFile(path=path, kind="mds", compression=compression, num_bytes=num_bytes).whole()
        with open_stream(whole) as stream:
            for number, sample in enumerate(_samples(stream, shard, path, options.max_document_bytes)):
                place = Place(path=path, unit="sample", number=number)
                if isinstance(sample, int):
                    message = f"a sample of {sample} bytes, above max_document_bytes = {options.max_document_bytes}"
                    yield BadRecord(kind="too_long", place=place, message=message)
                else:
                    yield records.document(_decode(sample, shard, columns, place), place)


def _find_columns(shard: MdsShard, records: RecordReader, path: str) -> Mapping[str, str]:
    """Return name to encoding of the columns to decode."""
    encodings = dict(zip(shard.column_names, shard.column_encodings, strict=True))
    shown = ", ".join(f"{name!r} ({encoding})" for name, encoding in encodings.items())
    for name, kind in zip(records.names, records.kinds, strict=True):
        if name not in encodings and not kind.nullable:
            raise DataError(f"{path}: no column {name!r} in shard {shard.raw_name}; the columns are {shown}")
        encoding = encodings.get(name, "str")
        if encoding == "pkl":
            raise DataError(f"{path}: column {name!r} is pickled (pkl); unpickling runs code, and is refused")
        if encoding not in ("str", "bytes", *_SCALARS):
            raise DataError(f"{path}: column {name!r} has encoding {encoding!r}; read here are str, bytes and scalars")
    return {name: encodings[name] for name in records.names if name in encodings}


def _samples(stream: ByteStream, shard: MdsShard, path: str, limit: int) -> Iterator[memoryview | int]:
    """Yield the bytes of each sample, read in order; of one above `limit` only their number."""
    (found,) = struct.unpack("<I", _exactly(stream, 4, path, 0))
    if found != shard.samples:
        raise DataError(f"{path}: the index promises {shard.samples} samples, the shard holds {found}")
    table = 4 * (found + 1)
    offsets = struct.unpack(f"<{found + 1}I", _exactly(stream, table, path, 4))
    position = 4 + table
    if offsets[0] < position or any(begin > end for begin, end in pairwise(offsets)) or offsets[-1] != shard.raw_bytes:
        raise DataError(
            f"{path}: the table of offsets does not fit: expected rising numbers from {position} or more to "
            f"{shard.raw_bytes}, found {offsets[0]} to {offsets[-1]}"
        )
    _skip(stream, offsets[0] - position, path, position)
    for begin, end in pairwise(offsets):
        if end - begin > limit:
            _skip(stream, end - begin, path, begin)
            yield end - begin
        else:
            yield memoryview(_exactly(stream, end - begin, path, begin))


def _decode(sample: memoryview, shard: MdsShard, wanted: Mapping[str, str], place: Place) -> dict[str, Any]:
    position = 4 * shard.column_sizes.count(None)
    if position > len(sample):
        raise DataError(f"{place}: {len(sample)} bytes, too few for its own table of sizes")
    lengths = iter(struct.unpack_from(f"<{position // 4}I", sample))
    found: dict[str, Any] = {}
    for name, fixed in zip(shard.column_names, shard.column_sizes, strict=True):
        size = next(lengths) if fixed is None else fixed
        value, position = sample[position : position + size], position + size
        if name in wanted:
            found[name] = _value(bytes(value), wanted[name], size, place)
    if position != len(sample):
        raise DataError(f"{place}: expected {position} bytes by its sizes, found {len(sample)}")
    return found


def _value(data: bytes, encoding: str, size: int, place: Place) -> Any:
    """Return a scalar's number, or the bytes of str and bytes: text is checked where it is read."""
    if encoding not in _SCALARS:
        return data
    if len(data) != struct.calcsize(_SCALARS[encoding]) or len(data) != size:
        raise DataError(f"{place}: a value of encoding {encoding} has {len(data)} bytes")
    return struct.unpack(_SCALARS[encoding], data)[0]


def _exactly(stream: ByteStream, size: int, path: str, position: int) -> bytes:
    return b"".join(_pieces(stream, size, path, position))


def _skip(stream: ByteStream, size: int, path: str, position: int) -> None:
    for _ in _pieces(stream, size, path, position):
        pass


def _pieces(stream: ByteStream, size: int, path: str, position: int) -> Iterator[bytes]:
    missing = size
    while missing and (data := stream.read(min(missing, 1 << 20))):
        yield data
        missing -= len(data)
    if missing:
        raise DataError(f"{path}: cut off: expected {size} bytes at byte {position}, found {size - missing}")


MDS = TextSource(plan=plan, read=read)
