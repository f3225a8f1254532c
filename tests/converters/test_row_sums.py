"""The digest of rows in any order."""

from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import random_rows, write_corpus
from tokenyard.converters.row_sums import RowSum, row_digests, sum_of, sum_of_corpus
from tokenyard.converters.workers import Workers
from tokenyard.errors import DataError
from tokenyard.rows import RowBatch
from tokenyard.schema import Schema

FIELDS = {"mask": "int8[]", "name": "string?", "score": "float32?", "ok": "bool"}
rows = st.lists(
    st.tuples(
        st.lists(st.sampled_from([0, 1, 65535, 65536, 2**32 - 1]), max_size=4),
        st.lists(st.integers(-128, 127), max_size=3),
        st.none() | st.text(max_size=3),
        st.none() | st.floats(width=32),
        st.booleans(),
    ),
    max_size=8,
)


def batch_of(given: list[tuple], token_dtype: str = "uint32") -> RowBatch:
    columns = list(zip(*given, strict=True)) or [[]] * 5
    return RowBatch.from_rows(
        columns[0], Schema(token_dtype=token_dtype, fields=FIELDS), dict(zip(FIELDS, columns[1:], strict=True))
    )


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def slow_digest(row: tuple) -> bytes:
    """Row by row, from docs/specification.md."""
    tokens, mask, name, score, ok = row
    head = b"tokenyard/row/1\0"
    for field, type in (("mask", "int[]"), ("name", "string"), ("ok", "int"), ("score", "float")):
        head += u64(len(field)) + field.encode() + type.encode() + b"\0"
    width = 4 if any(t >= 65536 for t in tokens) else 2
    said = blake3(head).digest() + bytes([width]) + u64(len(tokens))
    said += b"".join(t.to_bytes(width, "little") for t in tokens)
    said += b"\1" + u64(len(mask)) + np.array(mask, "<i8").tobytes()
    said += b"\0" if name is None else b"\1" + u64(len(name.encode())) + name.encode()
    said += b"\1" + u64(1) + u64(int(ok))
    if score is None:
        return blake3(said + b"\0").digest()
    number = np.array([score], "<f8")
    number.view("<u8")[np.isnan(number)] = 0x7FF8000000000000
    return blake3(said + b"\1" + u64(1) + number.tobytes()).digest()


@given(rows)
def test_the_digest_of_a_row_is_the_one_that_the_specification_says(given: list[tuple]) -> None:
    digests = row_digests(batch_of(given))
    assert digests == [slow_digest(row) for row in given]
    total = sum(int.from_bytes(d, "little") for d in digests) % (1 << 256)
    assert sum_of([batch_of(given)]) == RowSum(num_rows=len(given), total=total)


def test_vectors_stay_as_they_are() -> None:
    batch = RowBatch.from_rows([[1, 2], [], [65535], [65536]], Schema(token_dtype="uint32"))
    begin = [digest.hex()[:16] for digest in row_digests(batch)]
    assert begin == ["b3c9858dd994b4c0", "c127fefd0b5cdde6", "d951aa039183f76d", "d80cb04ed4069284"]
    assert str(sum_of([batch])) == "rows1:0a48ecfaf9a8760b228b3b45e8c3acc34de8a481ecd64b359a1b7b4addde5025"


@given(rows=rows, seed=st.integers(0, 99), cut=st.integers(0, 8))
def test_it_depends_neither_on_the_order_nor_on_batches_nor_on_the_width_of_tokens(
    rows: list[tuple], seed: int, cut: int
) -> None:
    mixed = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
    parts = [batch_of(mixed[:cut], "int64"), batch_of(mixed[cut:])]
    assert sum_of(parts) == sum_of([batch_of(rows)])
    assert sum_of(parts) == sum_of(parts[:1]) + sum_of(parts[1:])


@pytest.mark.parametrize("changed", [[[1], [2], [2]], [[1], [1], [2]], [[1, 2]], [[1]], [[1], [2], []], [[1], [3]]])
def test_rows_that_are_others_or_come_more_often_are_told(changed: list[list[int]]) -> None:
    schema = Schema(token_dtype="uint16")
    assert sum_of([RowBatch.from_rows([[1], [2]], schema)]) != sum_of([RowBatch.from_rows(changed, schema)])


def test_a_corpus_is_summed_the_same_by_any_number_of_workers(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c", random_rows(seed=1, num_rows=3000, longest=5), shard_bytes=5000)
    one, two = (sum_of_corpus(corpus, Workers(num_workers=number)) for number in (1, 2))
    assert one == two == sum_of(corpus.batches())


@pytest.mark.parametrize("id", [-1, 2**32])
def test_ids_that_have_no_digest_are_refused(id: int) -> None:
    tokens = np.array([7, id])
    with pytest.raises(DataError, match=f"token id {id} is outside 0 .. 4294967295"):
        row_digests(RowBatch(tokens=tokens, offsets=np.array([0, 2])))
