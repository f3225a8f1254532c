"""Parquet: a document a row, a split some row groups.

Only the columns that are asked for are read, a few rows at a time, with page checksums verified. Metadata of single
column chunks is never touched: with hostile files pyarrow aborts the process there.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tokenyard.converters.text.compression import open_seekable
from tokenyard.converters.text.document import BadRecord, Document, Place
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.records import RecordReader
from tokenyard.converters.text.split import SourceFile, Split, TextSource, group_sizes
from tokenyard.errors import DataError, TokenyardError
from tokenyard.storage import ObjectFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# Rows decoded at once. Dictionary pages can blow kilobytes up to gigabytes; a batch must stay small.
_BATCH_ROWS = 64


def plan(file: SourceFile, options: TextOptions) -> Iterator[Split]:
    """Plan splits of whole row groups, neighbours joined up to `split_bytes`; one for a file compressed as a whole."""
    whole = file.whole()
    with open_seekable(whole) as raw:
        metadata = _open(raw, file.path).metadata
        sizes = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
    limit = options.split_bytes if file.compression == "none" else sum(sizes)
    for first, stop, num_bytes in group_sizes(sizes, limit):
        yield file.part(first, stop, num_bytes)


def read(split: Split, options: TextOptions) -> Iterator[Document | BadRecord]:
    """Yield a document a row; places count rows of the file from 0.

    DataError when a column is missing, a page is damaged, or a row group holds fewer rows than it says.
    """
    import pyarrow as pa

    from tokenyard.formats.parquet.reader import Footer

    records = RecordReader(options)
    with open_seekable(split) as raw:
        file = _open(raw, split.path)
        columns = _find_columns(file, records, split.path)
        row = sum(file.metadata.row_group(at).num_rows for at in range(split.start))
        footer = Footer()
        for group in range(split.start, split.stop):
            if split.compression == "none":  # else its bytes have no path
                footer.check(split.path, group, columns, raw if isinstance(raw, ObjectFile) else None)
            end = row + file.metadata.row_group(group).num_rows
            try:
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False):
                    for record in _records(batch):
                        yield records.document(record, Place(path=split.path, unit="row", number=row))
                        row += 1
            except TokenyardError:
                raise
            except (pa.ArrowException, OSError, ValueError, LookupError) as error:
                raise DataError(f"{split.path}, row group {group}, near row {row}: damaged: {error}") from error
            if row != end:
                raise DataError(f"{split.path}, row group {group}: expected rows up to {end}, found {row}")


def _open(raw: Any, path: str) -> "pq.ParquetFile":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(raw, page_checksum_verification=True)
    except TokenyardError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # names that are not UTF-8 too
        raise DataError(f"{path}: not a whole Parquet file: {error}") from error


def _find_columns(file: "pq.ParquetFile", records: RecordReader, path: str) -> list[str]:
    schema = file.schema_arrow
    for name, kind in zip(records.names, records.kinds, strict=True):
        count = schema.names.count(name)
        if count > 1 or (count == 0 and not kind.nullable):
            shown = ", ".join(map(repr, schema.names))
            raise DataError(f"{path}: expected one column {name!r}, found {count}; the columns are {shown}")
    found = [name for name in records.names if name in schema.names]
    for name in found:
        _check_type(schema.field(name).type, name, name == records.names[0], path)
    return found


def _check_type(kind: "pa.DataType", name: str, is_text: bool, path: str) -> None:
    """Refuse nested columns, and text that is none, before a page of them is decoded."""
    import pyarrow as pa

    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_string = any(
        test(values)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_null,
        )
    )
    if pa.types.is_nested(values) or (is_text and not is_string):
        expected = "a string" if is_text else "a scalar"
        raise DataError(f"{path}: column {name!r} has type {kind}; expected {expected}")


def _records(batch: "pa.RecordBatch") -> Iterator[dict[str, object]]:
    columns = {name: _values(batch.column(name)) for name in batch.schema.names}
    for row in range(batch.num_rows):
        yield {name: values[row] for name, values in columns.items()}


def _values(column: "pa.Array") -> list[Any]:
    """Return Python values; where a string column holds bytes that are not UTF-8, its values as bytes."""
    import pyarrow as pa

    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        binary = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
        values = column.cast(binary).to_pylist()
    return values


PARQUET = TextSource(plan=plan, read=read)
