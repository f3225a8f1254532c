"""Writing a corpus: rows go in, shards roll over by size, and the manifest comes last."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from tokenyard.corpus.destination import destination, publish_manifest
from tokenyard.corpus.places import with_files
from tokenyard.digest import Digester, combine
from tokenyard.errors import ConfigError, SchemaError
from tokenyard.formats.base import Format, FormatOptions
from tokenyard.formats.index import most_even
from tokenyard.formats.registry import get_format
from tokenyard.formats.shared.blocks import BLOCK_ROWS
from tokenyard.manifest import HOME, Layout, Manifest, ShardInfo
from tokenyard.rows import Offsets, RowBatch, first_id_from
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import Folder
from tokenyard.values import token_array

#: What a row, and each of its values that has a length, costs beyond its items: offsets, headers.
_ROW_BYTES = 16
_VALUE_BYTES = 16


class ShardRoller:
    """Writes row batches as shards named ``<prefix><number>``, beginning a new one after ``options.shard_bytes``.

    A shard of ``BLOCK_ROWS`` rows or more ends at the last multiple of so many rows of the corpus, unless that leaves
    less than half of it. So storage blocks are those of the order, which then decodes, or fetches, one and not two.
    """

    def __init__(
        self,
        folder: Folder,
        format: Format,
        schema: Schema,
        options: FormatOptions,
        prefix: str = "shard-",
        first_row: int = 0,
    ) -> None:
        self._folder = folder
        self._format = format
        self._schema = schema
        self._options = options
        self._prefix = prefix
        self._pending: list[RowBatch] = []
        self._pending_bytes = 0
        self._num_rows = self._shard_first = first_row
        self.shards: list[ShardInfo] = []

    def add(self, batch: RowBatch) -> None:
        """Take the next rows, which keep to the schema. Raises SchemaError for a row that no file can hold."""
        ends = np.cumsum(_row_bytes(batch))
        start = done = 0
        while start < len(batch):
            stop, full = self._cut(ends, start, done)
            if stop > start:
                self._pending.append(batch.slice(start, stop))
                self._pending_bytes += int(ends[stop - 1]) - done
                start, done = stop, int(ends[stop - 1])
            if full:
                self._write_block(self._num_rows + stop)
        self._num_rows += len(batch)

    def close(self) -> tuple[ShardInfo, ...]:
        """Write what is left. Returns all shards."""
        if self._pending:
            self._write()
        return tuple(self.shards)

    def _cut(self, ends: Offsets, start: int, done: int) -> tuple[int, bool]:
        """How far the shard goes, and whether it ends there: with the row that fills it, before one it can't hold."""
        stop = int(np.searchsorted(ends, done + self._options.shard_bytes - self._pending_bytes)) + 1
        if self._format.max_file_bytes is not None:
            room = self._format.max_file_bytes - self._pending_bytes
            fitting = int(np.searchsorted(ends, done + room, side="right"))
            if fitting < min(stop, len(ends)):
                if not self._pending and fitting == start:
                    raise SchemaError(
                        f"row {self._num_rows + start}: {int(ends[start]) - done} bytes, but a file of format "
                        f"{self._format.name} holds {self._format.max_file_bytes}; cut the row, or choose another "
                        "format"
                    )
                return fitting, True
        return min(stop, len(ends)), stop <= len(ends)

    def _write_block(self, stop: int) -> None:
        """Write the shard that is full before row ``stop``, and keep what lies after its last block."""
        kept: list[RowBatch] = []
        num_rows = stop - self._shard_first
        in_blocks = num_rows - stop % BLOCK_ROWS
        if num_rows >= BLOCK_ROWS and in_blocks >= num_rows / 2:
            self._pending, kept = _split(self._pending, in_blocks)
        self._write()
        self._pending, self._pending_bytes = kept, sum(int(_row_bytes(batch).sum()) for batch in kept)
        if self._pending_bytes >= self._options.shard_bytes:
            self._write()

    def _write(self) -> None:
        stem = f"{self._prefix}{len(self.shards):05d}"
        rows = sum(len(b) for b in self._pending)
        tokens = sum(b.num_tokens for b in self._pending)
        with self._folder.synced_together():
            written = self._format.write_shard(self._folder, stem, self._pending, self._schema, self._options)
            index = written.index.with_cells(written.files)
            most = most_even(sum(f.bytes for f in written.files))
            index_file = self._folder.write(index_name(stem), index.to_bytes(most))
        files = tuple(replace(file, cells=None) for file in written.files)
        self.shards.append(
            ShardInfo(files=files, num_rows=rows, num_tokens=tokens, index=index_file, meta=written.meta)
        )
        self._shard_first += rows
        self._pending, self._pending_bytes = [], 0


def index_name(stem: str) -> str:
    """Where the row index of a shard lies; that of one which is under ``HOME`` itself lies beside it."""
    return f"{stem}.idx" if stem.startswith(f"{HOME}/") else f"{HOME}/index/{stem}.idx"


class CorpusWriter:
    """Writes a corpus row by row, in order.

    For example::

        with tokenyard.CorpusWriter("corpus", format="mds", schema=schema) as w:
            w.write([1, 2, 3], source="a")

    ``options`` are the format's own (``shard_bytes``, ``compression`` ...). Nothing opens at ``path`` before ``close``;
    an error inside the ``with`` block leaves nothing behind, and ends the writer: rows that it held are lost, so it
    takes no more. Raises DestinationExistsError, SchemaError, StorageError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str,
        schema: Schema,
        layout: Layout | None = None,
        overwrite: bool = False,
        provenance: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._format = get_format(format)
        self._options = self._format.options(options)
        schema.check_writable()
        self._schema = schema
        self._layout = layout or Layout()
        self._layout.check(schema)
        self._provenance = dict(provenance or {"job": "write"})
        _check_json(self._provenance)
        self._stack = ExitStack()
        job = with_files({"job": "write"}, self._format)
        self._folder = self._stack.enter_context(destination(path, job, overwrite=overwrite))
        self._roller = ShardRoller(self._folder, self._format, schema, self._options)
        self._digester = Digester(schema.fields)
        self._tokens: list[Any] = []
        self._values: dict[str, list[Any]] = {name: [] for name in schema.fields}
        self._num_rows = 0
        self._closed = self._failed = False
        self.manifest: Manifest | None = None

    def write(self, tokens: Any, /, **fields: Any) -> None:
        """Add a row: ``tokens`` one-dimensional (list, numpy array, tensor), and a value for each field.

        A nullable field may be left out. Raises SchemaError that names the row and the field; ids (against the dtype
        and the vocabulary) and values are checked some rows later, all at once.
        """
        self._check_open()
        row = self._num_rows + len(self._tokens)
        if fields.keys() != self._values.keys():
            self._check_fields(row, fields)
        array = token_array(tokens, row).copy()
        values = {name: _snapshot(name, fields.get(name), row) for name in self._values}
        self._tokens.append(array)
        for name, value in values.items():
            self._values[name].append(value)
        if len(self._tokens) == BLOCK_ROWS:
            self._flush()

    def write_batch(self, batch: RowBatch) -> None:
        """Add many rows at once; the batch's columns must be the schema's. Raises SchemaError.

        The batch is held, not copied, until its shard is written: don't change its arrays.
        """
        self._check_open()
        if _types(batch) != dict(self._schema.fields):
            raise SchemaError(
                f"the batch has fields {_shown(_types(batch))}, the schema declares {_shown(self._schema.fields)}"
            )
        batch.check()
        self._flush()
        with self._ends_on_error():
            self._add(batch)

    def close(self) -> Manifest:
        """Write the rest and the manifest; from here on the corpus opens. Returns the manifest."""
        if self.manifest is not None:
            return self.manifest
        self._check_open()
        with self._ends_on_error():
            self._flush()
            manifest = Manifest(
                format=self._format.name,
                schema=self._schema,
                layout=self._layout,
                shards=self._roller.close(),
                digests=combine([self._digester.finish()]),
                provenance=self._provenance,
            )
            manifest = publish_manifest(self._folder, self._format, manifest)
            self._stack.close()
        self._closed = True
        self.manifest = manifest
        return manifest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif not self._closed:
            self._closed = True
            self._stack.__exit__(kind, error, trace)

    def _check_open(self) -> None:
        if self._failed:
            raise ValueError("this CorpusWriter failed and removed what it had written; make a new one")
        if self._closed:
            raise ValueError("this CorpusWriter is closed")

    @contextmanager
    def _ends_on_error(self) -> Iterator[None]:
        """Clean up at once: rows were lost with the error, so nothing after it may make a corpus."""
        try:
            yield
        except BaseException:
            self._failed = self._closed = True
            self._stack.__exit__(*sys.exc_info())
            raise

    def _check_fields(self, row: int, fields: Mapping[str, Any]) -> None:
        declared = self._schema.fields
        if unknown := sorted(set(fields) - set(declared)):
            raise SchemaError(
                f"row {row}: field {unknown[0]!r} is not declared; add it to Schema.fields, which has "
                f"{', '.join(sorted(declared)) or 'none'}"
            )
        for name in sorted(set(declared) - set(fields)):
            if not declared[name].nullable:
                raise SchemaError(f"row {row}: field {name!r} is missing; pass it, or declare it '{declared[name]}?'")

    def _flush(self) -> None:
        if not self._tokens:
            return
        tokens, values = self._tokens, self._values
        self._tokens, self._values = [], {name: [] for name in values}
        with self._ends_on_error():
            self._add(RowBatch.from_rows(tokens, self._schema, values, self._num_rows))

    def _add(self, batch: RowBatch) -> None:
        batch = batch.cast(self._schema.token_dtype, self._num_rows)
        vocab_size = self._schema.vocab_size
        if vocab_size is not None and (past := first_id_from(vocab_size, batch)) is not None:
            raise SchemaError(
                f"row {self._num_rows + past[0]}: token id {past[1]} is not below vocab_size {vocab_size}: it is "
                "another tokenizer's, or the schema is wrong (vocab_size is the largest id there may be, and one more)"
            )
        self._digester.update(batch)
        self._roller.add(batch)
        self._num_rows += len(batch)


def _snapshot(name: str, value: Any, row: int) -> Any:
    """A field's value that stays as it is when the caller goes on to use the same list, buffer or array."""
    if value is None or isinstance(value, str | bytes | bool | int | float | np.generic):
        return value
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    try:
        array = np.asarray(value).copy()
    except (TypeError, ValueError, RuntimeError) as e:
        raise SchemaError(f"row {row}: field {name!r}: {value!r:.80} can't be copied ({e})") from None
    if array.dtype.hasobject:
        raise SchemaError(
            f"row {row}: field {name!r}: {value!r:.80} is neither a number, text, bytes nor a list of numbers"
        )
    return array


def _types(batch: RowBatch) -> dict[str, FieldType]:
    return {name: column.type for name, column in batch.fields.items()}


def _shown(types: Mapping[str, FieldType]) -> str:
    return ", ".join(f"{name}: {types[name]}" for name in sorted(types)) or "none"


def _check_json(provenance: Mapping[str, Any]) -> None:
    try:
        json.dumps(provenance)
    except (TypeError, ValueError) as e:
        raise ConfigError(f"provenance goes into the manifest, so it must be JSON: {e}") from None


def _split(batches: list[RowBatch], num_rows: int) -> tuple[list[RowBatch], list[RowBatch]]:
    first, rest = [], []
    for batch in batches:
        in_first = min(len(batch), num_rows)
        num_rows -= in_first
        if in_first:
            first.append(batch.slice(0, in_first))
        if in_first < len(batch):
            rest.append(batch.slice(in_first, len(batch)))
    return first, rest


def _row_bytes(batch: RowBatch) -> Offsets:
    sizes = batch.lengths * batch.tokens.itemsize + _ROW_BYTES
    for column in batch.fields.values():
        if column.offsets is None:
            sizes += column.values.itemsize
        else:
            sizes += np.diff(column.offsets) * column.values.itemsize + _VALUE_BYTES
    return sizes
