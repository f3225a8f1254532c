"""The content digest, against the vectors of its definition and a slow implementation of it."""

import itertools
import random
import struct
from collections.abc import Callable
from typing import Any

import blake3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.digest import Digester, combine, digest_of
from tokenyard.errors import DataError
from tokenyard.rows import Column, RowBatch
from tokenyard.schema import FieldType, Schema
from tokenyard.testing.samples import FIELD_TYPES, documents, field_batch
from tokenyard.testing.strategies import corpora

BLOCK = 1024


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def slow_token_digest(rows: list[list[int]]) -> str:
    leaves = []
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        ids = [i for row in block for i in row]
        width = 2 if all(i < 65536 for i in ids) else 4
        text = b"tokenyard/tokens/1\0" + u64(len(block)) + u64(width)
        text += b"".join(u64(len(row)) for row in block)
        text += b"".join(struct.pack("<H" if width == 2 else "<I", i) for i in ids)
        leaves.append(blake3.blake3(text).digest())
    return "ty1:" + blake3.blake3(b"tokenyard/corpus/1\0" + u64(len(rows)) + b"".join(leaves)).hexdigest()


def slow_field_digest(name: str, type: FieldType, values: list[Any]) -> str:
    digest_type, encode = slow_encoding(type)
    leaves = []
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        text = b"tokenyard/field/1\0" + u64(len(name.encode())) + name.encode() + digest_type + b"\0" + u64(len(block))
        text += b"".join(b"\0" if v is None else b"\1" for v in block)
        items = [[] if v is None else encode(v) for v in block]
        text += b"".join(u64(sum(map(len, i)) if type.is_binary else len(i)) for i in items)
        text += b"".join(b"".join(i) for i in items)
        leaves.append(blake3.blake3(text).digest())
    return "ty1:" + blake3.blake3(b"tokenyard/field-root/1\0" + u64(len(values)) + b"".join(leaves)).hexdigest()


def slow_encoding(type: FieldType) -> tuple[bytes, Callable[[Any], list[bytes]]]:
    if type.name == "string":
        return b"string", lambda v: [v.encode()]
    if type.name == "bytes":
        return b"bytes", lambda v: [v]
    if type.name.startswith("float"):
        kind, one = b"float", lambda x: struct.pack("<Q", 0x7FF8000000000000) if x != x else struct.pack("<d", x)
    elif type.name.startswith("uint"):
        kind, one = b"uint", lambda x: struct.pack("<Q", x)
    else:
        kind, one = b"int", lambda x: struct.pack("<q", x)
    if type.is_list:
        return kind + b"[]", lambda v: [one(x) for x in np.asarray(v).tolist()]
    return kind, lambda v: [one(v)]


def slow_digests(schema: Schema, batch: RowBatch) -> tuple[str, dict[str, str]]:
    rows = [batch.row(i) for i in range(len(batch))]
    fields = {n: slow_field_digest(n, t, [row[n] for row in rows]) for n, t in schema.fields.items()}
    return slow_token_digest([row["tokens"].tolist() for row in rows]), fields


def tokens_only(rows: list[list[int]], token_dtype: str = "uint32") -> RowBatch:
    return RowBatch.from_rows(rows, Schema(token_dtype=token_dtype))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "6ad5897c57530f8f40cdc4435eaa6a99f1fbab9a2fdf3607147c7f1fc915997f"),
        ([[1, 2], [], [65535]], "f34a4ccec7e5e974c495ec4f433486c8a7974c1de635d70ddd55c3e337033a24"),
        ([[1, 2], [], [65535, 65536]], "d81855b66beb23a18d527eb42ff42481fc370d1139fa73a0c14690dbfbe62273"),
        ([[i] for i in range(1500)], "549294baffc9fa24e2b70aa2e6f28e48a35a42316b0a413c12ccb76f2bcb853f"),
    ],
    ids=["no rows", "ids of 16 bits", "ids of 32 bits", "two digest blocks"],
)
def test_the_vectors_of_the_definition(rows: list[list[int]], expected: str) -> None:
    assert digest_of([tokens_only(rows)]).tokens == "ty1:" + expected
    assert slow_token_digest(rows) == "ty1:" + expected


@given(corpora())
def test_digests_are_those_of_the_slow_implementation(corpus: tuple[Schema, RowBatch]) -> None:
    schema, batch = corpus
    found = digest_of([batch], schema.fields)
    assert (found.tokens, dict(found.fields)) == slow_digests(schema, batch)


@pytest.mark.parametrize("field_type", FIELD_TYPES)
def test_field_digests_are_those_of_the_slow_implementation(field_type: str) -> None:
    schema, batch = field_batch(field_type)
    found = digest_of([batch], schema.fields)
    assert dict(found.fields) == slow_digests(schema, batch)[1]


def test_digests_over_several_blocks_are_those_of_the_slow_implementation() -> None:
    schema, batch = documents(2500, longest=3)
    found = digest_of([batch], schema.fields)
    assert (found.tokens, dict(found.fields)) == slow_digests(schema, batch)


@pytest.mark.parametrize("token_dtype", ["uint8", "int8", "uint16", "int16", "int32", "int64", "uint64", ">u4", ">i8"])
def test_the_dtype_that_tokens_are_stored_in_does_not_matter(token_dtype: str) -> None:
    expected = digest_of([tokens_only([[1, 2], [], [100]])])
    batch = tokens_only([[1, 2], [], [100]])
    stored = RowBatch(tokens=batch.tokens.astype(token_dtype), offsets=batch.offsets)
    assert digest_of([stored]) == expected


@pytest.mark.parametrize("field_type", ["int", "uint", "float"])
def test_the_width_that_numbers_are_stored_in_does_not_matter(field_type: str) -> None:
    widths = {"int": ("int8", "int16", "int32", "int64"), "uint": ("uint8", "uint64"), "float": ("float16", "float64")}
    found = set()
    for width in widths[field_type]:
        schema = Schema(fields={"x": width})
        found.add(digest_of([RowBatch.from_rows([[1]] * 3, schema, {"x": [0, 1, 100]})], schema.fields).fields["x"])
    assert len(found) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("int64", [1]), ("uint64", [1])),
        (("int64", [1]), ("float64", [1.0])),
        (("int64", [1]), ("int64[]", [[1]])),
        (("string", ["a"]), ("bytes", [b"a"])),
        (("float64", [0.0]), ("float64", [-0.0])),
        (("string?", [None]), ("string?", [""])),
        (("int64?", [None]), ("int64?", [0])),
        (("int64[]?", [None]), ("int64[]?", [[]])),
        (("int64[]", [[1], [2, 3]]), ("int64[]", [[1, 2], [3]])),
    ],
    ids=lambda case: f"{case[0]} {case[1]}",
)
def test_different_fields_have_different_digests(one: tuple[str, list[Any]], other: tuple[str, list[Any]]) -> None:
    found = set()
    for field_type, values in (one, other):
        schema = Schema(fields={"x": field_type})
        batch = RowBatch.from_rows([[1]] * len(values), schema, {"x": values})
        found.add(digest_of([batch], schema.fields).fields["x"])
    assert len(found) == 2


def test_every_nan_is_the_same_nan() -> None:
    schema = Schema(fields={"x": "float64"})
    bits = np.array([0x7FF8000000000000, 0x7FF8DEADBEEF0001, 0xFFF0000000000001, 0x7FF0000000000001], np.uint64)
    found = set()
    for value in bits.view(np.float64):
        column = Column(type=schema.fields["x"], values=np.array([value]))
        batch = RowBatch(tokens=np.array([1]), offsets=np.array([0, 1]), fields={"x": column})
        found.add(digest_of([batch], schema.fields).fields["x"])
    assert len(found) == 1


def test_what_lies_in_place_of_a_null_does_not_matter() -> None:
    type = FieldType.parse("int64[]?")
    valid = np.array([True, False, True])
    clean = Column(type=type, values=np.array([1, 2, 3]), offsets=np.array([0, 2, 2, 3]), valid=valid)
    dirty = Column(type=type, values=np.array([1, 2, 9, 9, 3]), offsets=np.array([0, 2, 4, 5]), valid=valid)
    scalar = FieldType.parse("int64?")
    zero = Column(type=scalar, values=np.array([1, 0, 3]), valid=valid)
    other = Column(type=scalar, values=np.array([1, 77, 3]), valid=valid)
    found = []
    for lists, numbers in ((clean, zero), (dirty, other)):
        batch = RowBatch(
            tokens=np.empty(0, np.uint16), offsets=np.zeros(4, np.int64), fields={"a": lists, "b": numbers}
        )
        found.append(digest_of([batch], {"a": type, "b": scalar}))
    assert found[0] == found[1]


@given(corpora(max_rows=40), st.lists(st.integers(0, 40), max_size=5))
def test_batches_may_be_cut_anywhere(corpus: tuple[Schema, RowBatch], cuts: list[int]) -> None:
    schema, batch = corpus
    edges = [0, *sorted(min(c, len(batch)) for c in cuts), len(batch)]
    parts = [batch.slice(a, b) for a, b in itertools.pairwise(edges)]
    assert digest_of(parts, schema.fields) == digest_of([batch], schema.fields)


@pytest.mark.parametrize("largest", [9, 65535, 65536, 2**32 - 1])
def test_parts_of_one_block_may_come_in_any_dtypes(largest: int) -> None:
    rows = [[1, 2], [largest], [], [3]]
    parts = []
    for row, dtype in zip(rows, ("uint8", "uint64", "int64", "uint16"), strict=True):
        tokens = np.array(row, dtype)
        parts.append(RowBatch(tokens=tokens, offsets=np.array([0, len(row)]), fields={}))
    assert digest_of(parts).tokens == slow_token_digest(rows)


@pytest.mark.parametrize("as_iterator", [False, True])
def test_pieces_cut_at_digest_blocks_combine_to_the_digest_of_the_whole(as_iterator: bool) -> None:
    schema, batch = documents(5000, longest=3)
    edges = [0, 1024, 1024, 3072, 5000, 5000]
    pieces = []
    for start, stop in itertools.pairwise(edges):
        digester = Digester(schema.fields)
        for part in range(start, stop, 300):
            digester.update(batch.slice(part, min(part + 300, stop)))
        pieces.append(digester.finish())
    assert combine(iter(pieces) if as_iterator else pieces) == digest_of([batch], schema.fields)


@pytest.mark.parametrize("as_iterator", [False, True])
def test_pieces_without_rows_combine_to_the_digest_of_no_rows(as_iterator: bool) -> None:
    schema, _ = documents(1)
    pieces = [Digester(schema.fields).finish() for _ in range(3)]
    found = combine(iter(pieces) if as_iterator else pieces)
    assert found == digest_of([RowBatch.empty(schema)], schema.fields)
    assert found.fields.keys() == schema.fields.keys()


def test_a_piece_cut_inside_a_digest_block_is_refused() -> None:
    pieces = []
    for count in (1000, 24):
        digester = Digester()
        digester.update(tokens_only([[1]] * count))
        pieces.append(digester.finish())
    with pytest.raises(ValueError, match="a piece of 1000 rows is not a multiple of 1024 and not the last"):
        combine(pieces)


@pytest.mark.parametrize("token", [-1, 2**32, 2**63 - 1, -(2**63)])
def test_ids_outside_32_bits_are_an_error_that_names_their_rows(token: int) -> None:
    tokens = np.zeros(3000, np.int64)
    tokens[1500] = token
    batch = RowBatch(tokens=tokens, offsets=np.arange(3001))
    with pytest.raises(DataError, match=f"rows 1024 .. 2047: token id {token} is outside 0 .. 4294967295"):
        digest_of([batch])


def test_what_differs_is_said_in_words() -> None:
    schema, batch = documents(10)
    whole = digest_of([batch], schema.fields)
    changed = {**batch.fields, "doc_id": Column(type=schema.fields["doc_id"], values=np.arange(10))}
    other = digest_of([RowBatch(tokens=batch.tokens, offsets=batch.offsets, fields=changed)], schema.fields)
    assert whole.differences(whole) == []
    assert whole.differences(other) == [
        f"field 'doc_id': {whole.fields['doc_id']} here, {other.fields['doc_id']} there"
    ]
    bare = digest_of([tokens_only([[1]])])
    assert whole.differences(bare)[0] == f"tokens: {whole.tokens} here, {bare.tokens} there"
    assert f"field 'mask': {whole.fields['mask']} here, absent there" in whole.differences(bare)


def test_large_random_blocks_are_those_of_the_slow_implementation() -> None:
    random.seed(0)
    rows = [[random.choice([5, 65535, 65536, 2**32 - 1]) for _ in range(random.randrange(4))] for _ in range(1030)]
    assert digest_of([tokens_only(rows)]).tokens == slow_token_digest(rows)
