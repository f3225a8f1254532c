"""The row index on disk: small where rows are even, and any damage refused."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.errors import DataError
from tokenyard.formats.index import ShardIndex

INT64 = st.integers(-(2**63), 2**63 - 1)
ARRAYS = st.one_of(
    st.lists(INT64, max_size=8).map(lambda v: np.array(v, np.int64)),
    st.builds(
        lambda first, step, count: first + step * np.arange(count),
        st.integers(-9, 9),
        st.integers(-9, 9),
        st.integers(0, 9),
    ),
)


def index(offsets: Any = (0, 3, 3, 10), **arrays: Any) -> ShardIndex:
    named = {name: np.asarray(a, np.int64) for name, a in {"offsets": offsets, **arrays}.items()}
    return ShardIndex(arrays=named, meta={"kind": "x", "list": [1, None]})


def test_it_counts_rows_and_tokens() -> None:
    assert (index().num_rows, index().num_tokens) == (3, 10)
    assert (index([0]).num_rows, index([0]).num_tokens) == (0, 0)


@given(st.lists(st.integers(0, 2**40), max_size=9), st.dictionaries(st.text(max_size=5), ARRAYS, max_size=4))
def test_it_is_read_as_it_was_written(lengths: list[int], arrays: dict[str, np.ndarray]) -> None:
    written = index(np.cumsum([0, *lengths]), **{f"a{name}": a for name, a in arrays.items()})
    found = ShardIndex.from_bytes(written.to_bytes(), "here")
    assert found.meta == written.meta
    assert {n: a.tolist() for n, a in found.arrays.items()} == {n: a.tolist() for n, a in written.arrays.items()}
    assert found.to_bytes() == written.to_bytes()


def test_even_rows_take_a_few_hundred_bytes() -> None:
    rows = np.arange(1_000_001)
    packed = index(rows * 2048, starts=rows * 4104 + 77).to_bytes()
    assert len(packed) < 300
    assert ShardIndex.from_bytes(packed, "").num_tokens == 2048 * 1_000_000


def test_a_cut_at_any_byte_is_refused() -> None:
    whole = index(starts=[5, 1, 9]).to_bytes()
    for size in range(len(whole)):
        with pytest.raises(DataError, match=r"here: damaged row index \(.*\); rebuild it with 'tokenyard index'"):
            ShardIndex.from_bytes(whole[:size], "here")
    with pytest.raises(DataError, match=r"here: damaged row index .1 bytes too many"):
        ShardIndex.from_bytes(whole + b"\0", "here")


def damaged(**head: Any) -> bytes:
    arrays = {"offsets": {"count": 2, "first": 0, "step": 5}}
    return b"TYINDEX1\n" + json.dumps({"arrays": arrays, "meta": {}, **head}).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it does not begin with TYINDEX1"),
        (b"TYINDEX2\n{}\n", "it does not begin with TYINDEX1"),
        (b"TYINDEX1\n{}\n", "'arrays'"),
        (b"TYINDEX1\n[]\n", "list indices must be integers"),
        (b"TYINDEX1\n" + b"[" * 100_000 + b"\n", "recursion"),
        (damaged(arrays=[]), "has no attribute 'items'"),
        (damaged(arrays={}), "'offsets'"),
        (damaged(arrays={"offsets": 5}), "not subscriptable"),
        (damaged(arrays={"offsets": {"count": 0}}), "row offsets do not increase from 0"),
        (damaged(arrays={"offsets": {"count": 2, "first": 1, "step": 5}}), "row offsets do not increase from 0"),
        (damaged(arrays={"offsets": {"count": 3, "first": 0, "step": -5}}), "row offsets do not increase from 0"),
        (damaged(arrays={"offsets": {"count": -1}}), "array 'offsets' of -1 numbers"),
        (damaged(arrays={"offsets": {"count": -1, "first": 0, "step": 1}}), "array 'offsets' of -1 numbers"),
        (damaged(arrays={"offsets": {"count": 10**6}}), "array 'offsets' of 1000000 numbers goes past the end"),
        (damaged(arrays={"offsets": {"count": 2, "first": 0, "step": 2**70}}), "array 'offsets' goes past 64 bits"),
        (damaged(arrays={"offsets": {"count": 10**17, "first": 0, "step": 0}}), "Unable to allocate"),
        (damaged(arrays={"offsets": {"count": 10**30, "first": 0, "step": 0}}), "."),
        (damaged(arrays={"offsets": {"count": "many"}}), "invalid literal"),
        (damaged(meta=[1]), r"meta is \[1\]"),
    ],
    ids=lambda case: repr(case)[:40],
)
def test_what_is_damaged_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=f"here: damaged row index .*{reason}.*; rebuild it"):
        ShardIndex.from_bytes(data, "here")


def test_offsets_that_wrap_around_are_not_increasing() -> None:
    with pytest.raises(DataError, match="row offsets do not increase from 0"):
        ShardIndex.from_bytes(index([0, 2**63 - 1, -(2**63), 5]).to_bytes(), "here")


@given(st.data())
def test_any_changed_byte_is_refused_or_gives_a_sound_index(data: st.DataObject) -> None:
    whole = bytearray(index(starts=[5, 1, 9]).to_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    try:
        found = ShardIndex.from_bytes(bytes(whole), "here")
    except DataError as e:
        error: str | None = str(e)
    else:
        error = None
        assert found.offsets[0] == 0
        assert (np.diff(found.offsets) >= 0).all()
    assert error is None or error.startswith("here: damaged row index")


@pytest.mark.parametrize("extra", range(8))
def test_arrays_are_aligned_whatever_the_length_of_the_meta(extra: int) -> None:
    written = ShardIndex(arrays=index(starts=[5, 1, 9]).arrays, meta={"x": "." * extra})
    data = written.to_bytes()
    at = data.index(b"\n", len(b"TYINDEX1\n")) + 1
    assert at % 8 == 0
    unpadded = data[:at].rstrip() + b"\n" + data[at:]
    for found in (ShardIndex.from_bytes(data, "here"), ShardIndex.from_bytes(unpadded, "here")):
        assert found.meta == written.meta
        assert {n: a.tolist() for n, a in found.arrays.items()} == {n: a.tolist() for n, a in written.arrays.items()}
        assert all(a.flags.aligned for a in found.arrays.values())
