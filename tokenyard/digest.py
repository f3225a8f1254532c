"""The content digest ``ty1``: equal for equal rows, whatever the format, the dtype's width or the shard cuts.

Rows are cut into digest blocks of 1,024 by their position in the corpus; each block gives one BLAKE3 leaf, and the
leaves give the root. A Digester takes batches of any size, so pieces of a corpus can be digested in parallel as long
as every piece but the last holds a multiple of 1,024 rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import blake3
import numpy as np

from tokenyard.errors import DataError
from tokenyard.rows import Array, Column, RowBatch
from tokenyard.schema import FieldType

DIGEST_BLOCK_ROWS = 1024
_CANONICAL_NAN = 0x7FF8000000000000


@dataclass(frozen=True, kw_only=True)
class Digests:
    """The digests of a corpus: of its tokens (``ty1:<64 hex>``), and of each extra field by name."""

    tokens: str
    fields: Mapping[str, str]

    def differences(self, other: Digests) -> list[str]:
        """What differs from ``other``, in words; empty when the two corpora are equal."""
        found = [] if self.tokens == other.tokens else [f"tokens: {self.tokens} here, {other.tokens} there"]
        for name in sorted({*self.fields, *other.fields}):
            mine, theirs = self.fields.get(name, "absent"), other.fields.get(name, "absent")
            if mine != theirs:
                found.append(f"field {name!r}: {mine} here, {theirs} there")
        return found


@dataclass(frozen=True, kw_only=True)
class Leaves:
    """The leaves of a run of rows that begins at a multiple of 1,024."""

    num_rows: int
    tokens: tuple[bytes, ...]
    fields: Mapping[str, tuple[bytes, ...]]


class Digester:
    """Digests rows as they come, holding no more than one digest block."""

    def __init__(self, fields: Mapping[str, FieldType] | None = None) -> None:
        self._num_rows = 0
        self._pending: list[RowBatch] = []
        self._pending_rows = 0
        self._tokens: list[bytes] = []
        self._fields: dict[str, list[bytes]] = {name: [] for name in fields or {}}

    def update(self, batch: RowBatch) -> None:
        """Take the next rows. Raises DataError for ids outside 0 .. 2^32 - 1."""
        start = 0
        while start < len(batch):
            stop = min(len(batch), start + DIGEST_BLOCK_ROWS - self._pending_rows)
            self._pending.append(batch if stop - start == len(batch) else batch.slice(start, stop))
            self._pending_rows += stop - start
            start = stop
            if self._pending_rows == DIGEST_BLOCK_ROWS:
                self._close_block()

    def finish(self) -> Leaves:
        """The leaves of all rows taken."""
        if self._pending_rows:
            self._close_block()
        return Leaves(
            num_rows=self._num_rows,
            tokens=tuple(self._tokens),
            fields={name: tuple(leaves) for name, leaves in self._fields.items()},
        )

    def _close_block(self) -> None:
        try:
            self._tokens.append(tokens_leaf(self._pending))
        except DataError as e:
            raise DataError(f"rows {self._num_rows} .. {self._num_rows + self._pending_rows - 1}: {e}") from None
        for name, leaves in self._fields.items():
            leaves.append(field_leaf(name, Column.concat([b.fields[name] for b in self._pending])))
        self._num_rows += self._pending_rows
        self._pending, self._pending_rows = [], 0


def tokens_leaf(parts: Sequence[RowBatch]) -> bytes:
    """The leaf of one digest block, whose rows come in parts."""
    width = 2 if max(largest_id(p.tokens) for p in parts) < 2**16 else 4
    leaf = blake3.blake3(b"tokenyard/tokens/1\0" + _u64(sum(len(p) for p in parts)) + _u64(width))
    for part in parts:
        leaf.update(part.lengths.astype("<u8").tobytes())
    for part in parts:
        if len(part.tokens):
            leaf.update(np.ascontiguousarray(part.tokens, dtype=f"<u{width}").view(np.uint8).data)
    return leaf.digest()


def largest_id(tokens: Array) -> int:
    """The largest id, or one as good to tell the width by. Raises DataError for ids outside 0 .. 2^32 - 1."""
    if not len(tokens) or (tokens.dtype.kind == "u" and tokens.itemsize <= 2):
        return 0
    low, high = 0 if tokens.dtype.kind == "u" else int(tokens.min()), int(tokens.max())
    if low < 0 or high >= 2**32:
        raise DataError(f"token id {low if low < 0 else high} is outside 0 .. 4294967295")
    return high


def field_leaf(name: str, column: Column) -> bytes:
    """The leaf of one extra field of one digest block."""
    k = len(column)
    valid = np.ones(k, bool) if column.valid is None else column.valid
    lengths = np.ones(k, np.int64) if column.offsets is None else np.diff(column.offsets)
    values = column.values
    if column.valid is not None and not valid.all():
        # A null counts nothing, whatever a format keeps in its place.
        values = values[valid] if column.offsets is None else values[np.repeat(valid, lengths)]
        lengths = np.where(valid, lengths, 0)
    encoded = name.encode()
    head = b"tokenyard/field/1\0" + _u64(len(encoded)) + encoded + digest_type(column.type).encode() + b"\0" + _u64(k)
    leaf = blake3.blake3(head)
    for part in (valid.astype(np.uint8), lengths.astype("<u8"), canonical_items(values, column.type)):
        leaf.update(np.ascontiguousarray(part).tobytes())
    return leaf.digest()


def combine(pieces: Iterable[Leaves]) -> Digests:
    """The digests of a corpus from the leaves of its consecutive pieces. Raises ValueError for a cut in mid-block."""
    given = list(pieces)
    pieces = [p for p in given if p.num_rows] or given[:1]
    for piece in pieces[:-1]:
        if piece.num_rows % DIGEST_BLOCK_ROWS:
            raise ValueError(
                f"a piece of {piece.num_rows} rows is not a multiple of {DIGEST_BLOCK_ROWS} and not the last"
            )
    rows = sum(p.num_rows for p in pieces)
    names = sorted(pieces[0].fields) if pieces else []
    return Digests(
        tokens=_root(b"tokenyard/corpus/1\0", rows, [leaf for p in pieces for leaf in p.tokens]),
        fields={
            n: _root(b"tokenyard/field-root/1\0", rows, [leaf for p in pieces for leaf in p.fields[n]]) for n in names
        },
    )


def digest_of(batches: Iterable[RowBatch], fields: Mapping[str, FieldType] | None = None) -> Digests:
    """The digests of rows given as batches."""
    digester = Digester(fields)
    for batch in batches:
        digester.update(batch)
    return combine([digester.finish()])


def _root(tag: bytes, rows: int, leaves: Sequence[bytes]) -> str:
    return "ty1:" + blake3.blake3(tag + _u64(rows) + b"".join(leaves)).hexdigest()


def digest_type(type: FieldType) -> str:
    """What a field's digest calls its type: the width of numbers doesn't matter."""
    kind = {"u": "uint", "i": "int", "b": "int", "f": "float"}[type.dtype.kind]
    return type.name if type.is_binary else kind + "[]" * type.is_list


def canonical_items(values: Array, type: FieldType) -> Array:
    """The values of a field as its digest takes them: 8 bytes a number, bytes as they are."""
    if type.is_binary:
        return values
    kind = type.dtype.kind
    if kind != "f":
        return values.astype("<u8" if kind == "u" else "<i8")
    floats = values.astype("<f8")
    floats.view("<u8")[np.isnan(floats)] = _CANONICAL_NAN
    return floats


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")
