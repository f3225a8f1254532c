"""MDS as a text source: a folder whose `index.json` lists shards of samples with named columns.

Index, layout and compression are read by what reads corpora in MDS (``formats/mds``). A shard is mapped; a compressed
one is decompressed into a temporary file first, one of br or snappy into memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenyard.converters.text.compression import open_seekable
from tokenyard.converters.text.document import BadRecord, Document, Place
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.records import RecordReader
from tokenyard.converters.text.split import Compression, SourceFile, Split, TextSource, group_sizes
from tokenyard.errors import DataError, StorageError
from tokenyard.formats.mds.columns import MdsColumn
from tokenyard.formats.mds.decode import column_runs, sample_bounds
from tokenyard.formats.mds.index import MdsShard, from_json
from tokenyard.formats.runs import Bytes
from tokenyard.formats.shared.compression import decompress
from tokenyard.storage import Folder, open_regular
from tokenyard.storage.maps import map_file

# What can be decompressed piece by piece, by MDS's names.
_STREAMED: dict[str | None, Compression] = {"gz": "gzip", "zstd": "zstd", "bz2": "bz2"}
_TEXT_ENCODINGS = ("str", "bytes")


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
        with _open_shard(split.path, shard) as (buffer, path):
            yield from _documents(buffer, shard, columns, path, options, records)


def load_index(path: str) -> list[MdsShard]:
    """Read an index; DataError lists the shards that don't describe themselves as MDS version 2 does."""
    try:
        shards = from_json(_read(path), path)
    except OSError as error:
        raise StorageError(f"{path}: can't be read: {error.strerror}") from error
    if shards is None:
        raise DataError(f"{path}: not an MDS index: expected a JSON object with 'version' and a list 'shards'")
    return shards


def _read(path: str) -> bytes:
    with open_regular(path) as file:
        return file.read()


def _find_columns(shard: MdsShard, records: RecordReader, path: str) -> list[MdsColumn]:
    """Return the columns to decode."""
    columns = {column.name: column for column in shard.columns}
    for name, kind in zip(records.names, records.kinds, strict=True):
        if name not in columns and not kind.nullable:
            shown = ", ".join(f"{column.name!r} ({column.encoding})" for column in shard.columns)
            raise DataError(f"{path}: no column {name!r} in shard {shard.raw_name}; the columns are {shown}")
    found = [columns[name] for name in records.names if name in columns]
    for column in found:
        problem = column.problem
        if problem is None and column.is_array:
            problem = f"the encoding {column.encoding}; arrays are not copied from texts"
        if problem is None and column.name == records.names[0] and column.encoding not in _TEXT_ENCODINGS:
            problem = f"the encoding {column.encoding}; a text is {' or '.join(_TEXT_ENCODINGS)}"
        if problem is not None:
            raise DataError(f"{path}: column {column.name!r} of shard {shard.raw_name}: {problem}")
    return found


@contextmanager
def _open_shard(index: str, shard: MdsShard) -> Iterator[tuple[Bytes, str]]:
    """A shard's bytes and the file that they come from: the raw one where it is there, else the compressed one.

    DataError when their number is not the index's, StorageError when neither file is there.
    """
    folder = Folder(Path(index).parent)
    if folder.exists(shard.raw_name):
        yield folder.map(shard.raw_name, shard.raw_bytes), str(folder.at(shard.raw_name))
        return
    if shard.zip_name is None or shard.compression is None or not folder.exists(shard.zip_name):
        names = " nor ".join(filter(None, (shard.raw_name, shard.zip_name)))
        raise StorageError(f"{folder.path}: a shard of the index is missing: neither {names} is there")
    path = str(folder.at(shard.zip_name))
    if shard.compression not in _STREAMED:
        yield decompress(folder.map(shard.zip_name), shard.compression, shard.raw_bytes, path), path
        return
    compression, num_bytes = _STREAMED[shard.compression], folder.size(shard.zip_name)
    whole = SourceFile(path=path, kind="mds", compression=compression, num_bytes=num_bytes).whole()
    with open_seekable(whole, shard.raw_bytes) as copy:
        yield map_file(copy.fileno(), shard.raw_bytes), path


def _documents(
    buffer: Bytes, shard: MdsShard, columns: list[MdsColumn], path: str, options: TextOptions, records: RecordReader
) -> Iterator[Document | BadRecord]:
    bounds = sample_bounds(buffer, shard.samples, path)
    places = column_runs(buffer, bounds, shard.columns, path)
    limit = options.max_document_bytes
    for number in range(shard.samples):
        place = Place(path=path, unit="sample", number=number)
        found: dict[str, Any] = {}
        for column in columns:
            starts, sizes = places[column.name]
            start, size = int(starts[number]), int(sizes[number])
            if size > limit:
                message = f"{column.name!r} of {size} bytes, above max_document_bytes = {limit}"
                yield BadRecord(kind="too_long", place=place, message=message)
                break
            found[column.name] = _value(buffer[start : start + size], column)
        else:
            yield records.document(found, place)


def _value(data: Bytes, column: MdsColumn) -> Any:
    """Return a number, or the bytes of str and bytes: text is checked where it is read."""
    return data.tobytes() if column.dtype is None else data.view(column.dtype)[0].item()


MDS = TextSource(plan=plan, read=read)
