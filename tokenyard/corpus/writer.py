"""Writing a corpus: rows go in, shards roll over by size, and the manifest comes last."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np

from tokenyard.corpus.destination import destination, publish_manifest
from tokenyard.digest import Digester, combine
from tokenyard.errors import SchemaError
from tokenyard.formats.base import Format, FormatOptions
from tokenyard.formats.registry import get_format
from tokenyard.manifest import HOME, Layout, Manifest, ShardInfo
from tokenyard.rows import Offsets, RowBatch, token_array
from tokenyard.schema import Schema
from tokenyard.storage import Folder

#: What a row costs beyond its items, when shards are rolled by size: offsets, headers.
_ROW_BYTES = 16
#: What a row and each of its fields may cost beyond that in a format whose files have a largest size.
_HEADER_BYTES = 16
_WRITE_ROWS = 1024


class ShardRoller:
    """Writes row batches as shards named ``<prefix><number>``.

    A new one begins after ``options.shard_bytes``, and before a file would pass the format's ``max_file_bytes``.
    """

    def __init__(
        self, folder: Folder, format: Format, schema: Schema, options: FormatOptions, prefix: str = "shard-"
    ) -> None:
        self._folder = folder
        self._format = format
        self._schema = schema
        self._options = options
        self._prefix = prefix
        self._pending: list[RowBatch] = []
        self._pending_bytes = 0
        self._pending_rows = 0
        self._num_rows = 0
        self.shards: list[ShardInfo] = []

    def add(self, batch: RowBatch) -> None:
        """Take the next rows, which keep to the schema. Raises SchemaError for a row that no file can hold."""
        sizes = np.concatenate([[0], np.cumsum(_row_bytes(batch))])
        headers = _HEADER_BYTES * (1 + len(batch.fields))
        self._check_rows(np.diff(sizes) + headers)
        start = 0
        while start < len(batch):
            room = self._options.shard_bytes - self._pending_bytes
            stop = int(np.searchsorted(sizes, sizes[start] + room))  # the row that fills the shard is its last
            if self._format.max_file_bytes is not None:
                used = self._pending_bytes + self._pending_rows * headers
                left = self._format.max_file_bytes - used + int(sizes[start]) + start * headers
                fitting = int(np.searchsorted(sizes + headers * np.arange(len(sizes)), left, side="right")) - 1
                stop = min(stop, fitting) if fitting < len(batch) else stop
            full = stop <= len(batch)
            stop = min(stop, len(batch))
            if stop > start:
                part = batch if stop - start == len(batch) else batch.slice(start, stop)
                self._pending.append(part)
                self._pending_bytes += int(sizes[stop] - sizes[start])
                self._pending_rows += stop - start
            if full:
                self._write()
            start = stop
        self._num_rows += len(batch)

    def close(self) -> tuple[ShardInfo, ...]:
        """Write what is left. Returns all shards."""
        if self._pending:
            self._write()
        return tuple(self.shards)

    def _check_rows(self, sizes: Offsets) -> None:
        limit = self._format.max_file_bytes
        if limit is not None and len(sizes) and int(sizes.max()) > limit:
            row = int(np.argmax(sizes > limit))
            raise SchemaError(
                f"row {self._num_rows + row}: {sizes[row]} bytes, but a file of format {self._format.name} holds {limit}; "
                "cut the row, or choose another format"
            )

    def _write(self) -> None:
        stem = f"{self._prefix}{len(self.shards):05d}"
        rows = self._pending_rows
        tokens = sum(b.num_tokens for b in self._pending)
        written = self._format.write_shard(self._folder, stem, self._pending, self._schema, self._options)
        index = self._folder.write(f"{HOME}/index/{stem}.idx", written.index.to_bytes())
        self.shards.append(
            ShardInfo(files=written.files, num_rows=rows, num_tokens=tokens, index=index, meta=written.meta)
        )
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0


class CorpusWriter:
    """Writes a corpus row by row, in order::

        with tokenyard.CorpusWriter("corpus", format="mds", schema=schema) as w:
            w.write([1, 2, 3], source="a")

    ``options`` are the format's own (``shard_bytes``, ``compression`` ...). Nothing opens at ``path`` before ``close``; an
    error inside the ``with`` block leaves nothing behind. Raises DestinationExistsError, SchemaError, StorageError.
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
        self._provenance = dict(provenance or {"job": "write"})
        self._stack = ExitStack()
        self._folder = self._stack.enter_context(destination(path, {"job": "write"}, overwrite=overwrite))
        self._roller = ShardRoller(self._folder, self._format, schema, self._options)
        self._digester = Digester(schema.fields)
        self._tokens: list[Any] = []
        self._values: dict[str, list[Any]] = {name: [] for name in schema.fields}
        self._num_rows = 0
        self._closed = False
        self.manifest: Manifest | None = None

    def write(self, tokens: Any, /, **fields: Any) -> None:
        """Add a row: ``tokens`` one-dimensional (list, numpy array, tensor), and a value for each field.

        A nullable field may be left out. Raises SchemaError that names the row and the field.
        """
        self._check_open()
        row = self._num_rows + len(self._tokens)
        if fields.keys() != self._values.keys():
            self._check_fields(row, fields)
        self._tokens.append(token_array(tokens, row).copy())
        for name, values in self._values.items():
            values.append(fields.get(name))
        if len(self._tokens) == _WRITE_ROWS:
            self._flush()

    def write_batch(self, batch: RowBatch) -> None:
        """Add many rows at once; the batch's columns must be the schema's."""
        self._check_open()
        self._flush()
        if {n: c.type for n, c in batch.fields.items()} != dict(self._schema.fields):
            raise SchemaError(
                f"the batch has fields {sorted(batch.fields)}, the schema declares {sorted(self._schema.fields)}"
            )
        self._add(batch)

    def close(self) -> Manifest:
        """Write the rest and the manifest; from here on the corpus opens. Returns the manifest."""
        if self.manifest is not None:
            return self.manifest
        self._check_open()
        self._closed = True
        with self._stack:
            self._flush()
            manifest = Manifest(
                format=self._format.name,
                schema=self._schema,
                layout=self._layout,
                shards=self._roller.close(),
                digests=combine([self._digester.finish()]),
                provenance=self._provenance,
            )
            publish_manifest(self._folder, self._format, manifest)
        self.manifest = manifest
        return manifest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if not self._closed:
                self.close()
        elif not self._closed:
            self._closed = True
            self._stack.__exit__(kind, error, trace)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("this CorpusWriter is closed")

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
        try:
            batch = RowBatch.from_rows(tokens, self._schema, values)
        except SchemaError as e:
            raise SchemaError(f"among rows {self._num_rows} .. {self._num_rows + len(tokens) - 1}: {e}") from None
        self._add(batch)

    def _add(self, batch: RowBatch) -> None:
        batch = batch.cast(self._schema.token_dtype, self._num_rows)
        self._digester.update(batch)
        self._roller.add(batch)
        self._num_rows += len(batch)


def _row_bytes(batch: RowBatch) -> Offsets:
    sizes = batch.lengths * batch.tokens.itemsize + _ROW_BYTES
    for column in batch.fields.values():
        if column.offsets is None:
            sizes += column.values.itemsize
        else:
            sizes += (column.offsets[1:] - column.offsets[:-1]) * column.values.itemsize
    return sizes
