"""What formats put aside between calls: a bounded number of values, each gone with its owner."""

import gc
import itertools
import os
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.formats.registry import get_format
from tokenyard.formats.shared import blocks
from tokenyard.formats.shared.blocks import Recent, cut_batches, cut_blocks
from tokenyard.rows import RowBatch, offsets_of
from tokenyard.storage import Folder
from tokenyard.testing.samples import FIELD_TYPES, field_batch


class Owner:
    """Stands for a reader."""


class Kept:
    """A value that can be watched."""


def test_a_value_is_taken_once_and_by_its_owner_alone() -> None:
    recent: Recent[Kept] = Recent()
    mine, other, value = Owner(), Owner(), Kept()
    recent.put(mine, 0, value)
    assert recent.take(other, 0) is None
    assert recent.take(mine, 1) is None
    assert recent.take(mine, 0) is value
    assert recent.take(mine, 0) is None


def test_values_go_with_their_owner() -> None:
    recent: Recent[Kept] = Recent()
    owner, value = Owner(), Kept()
    recent.put(owner, 0, value)
    watched = weakref.ref(value)
    del value
    assert watched() is not None
    del owner
    gc.collect()
    assert watched() is None
    for _ in range(20):  # what is left of the owner makes place
        recent.put(Owner(), 0, Kept())


def test_the_one_put_aside_the_longest_ago_is_closed() -> None:
    closed: list[int] = []
    recent: Recent[int] = Recent(closed.append)
    owners = [Owner() for _ in range(4)]
    for i in range(10):
        recent.put(owners[i % 4], i // 4, i)
    assert closed == [0, 1]
    recent.put(owners[2], 0, 12)
    assert closed == [0, 1, 2]
    assert recent.take(owners[3], 0) == 3
    recent.put(owners[0], 0, 20)
    assert closed == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_begins_with_nothing() -> None:
    recent: Recent[int] = Recent()
    owner = Owner()
    recent.put(owner, 0, 1)
    recent._lock.acquire()  # as another thread of the parent might
    child = os.fork()
    if not child:
        os._exit(0 if recent.take(owner, 0) is None else 1)
    recent._lock.release()
    assert os.waitpid(child, 0)[1] == 0
    assert recent.take(owner, 0) == 1


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 8), st.integers(1, 60))
def test_blocks_begin_every_so_many_rows_and_keep_within_their_bounds(
    sizes: list[int], max_rows: int, max_bytes: int
) -> None:
    cut = cut_blocks(np.array(sizes, np.int64), max_rows, max_bytes).tolist()
    assert (cut[0], cut[-1]) == (0, len(sizes))
    assert {*range(0, len(sizes), max_rows)} <= {*cut}
    found = [sizes[start:stop] for start, stop in itertools.pairwise(cut)]
    assert all(len(block) == 1 or (block and sum(block) <= max_bytes) for block in found)


@pytest.mark.parametrize(
    ("num_rows", "size", "expected"),
    [(2048, 16_384, [1024, 1024]), (1024, 16_392, [512, 512]), (1500, 40_000, [341, 341, 342, 238, 238])],
)
def test_rows_that_are_too_large_for_one_block_are_shared_out_evenly(
    num_rows: int, size: int, expected: list[int]
) -> None:
    assert np.diff(cut_blocks(np.full(num_rows, size), 1024, 16 << 20)).tolist() == expected


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=4), st.integers(1, 4), st.integers(1, 12))
def test_cut_batches_hold_the_same_rows_within_their_bounds(lengths: list[list[int]], rows: int, tokens: int) -> None:
    batches = [RowBatch(tokens=np.arange(sum(n), dtype=np.uint16), offsets=offsets_of(n), fields={}) for n in lengths]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "PIECE_ROWS", rows)
        patch.setattr(blocks, "PIECE_TOKENS", tokens)
        cut = list(cut_batches(batches))
    assert all(1 <= len(b) <= rows and (b.num_tokens <= tokens or len(b) == 1) for b in cut)
    found = [b.row(i)["tokens"].tolist() for b in cut for i in range(len(b))]
    assert found == [b.row(i)["tokens"].tolist() for b in batches for i in range(len(b))]


@pytest.mark.parametrize("format", ["mds", "webdataset"])
@pytest.mark.parametrize("kind", FIELD_TYPES)
def test_a_shard_has_the_same_bytes_in_whatever_pieces_it_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, kind: str
) -> None:
    schema, batch = field_batch(kind)
    writer = get_format(format)
    made = set()
    for rows, tokens in ((4096, 1 << 20), (1, 1), (3, 2), (4096, 5)):
        monkeypatch.setattr(blocks, "PIECE_ROWS", rows)
        monkeypatch.setattr(blocks, "PIECE_TOKENS", tokens)
        folder = Folder(tmp_path / f"{rows}-{tokens}")
        written = writer.write_shard(folder, "shard-00000", [batch], schema, writer.options())
        made.add((folder.read(written.files[0].name), written.index.to_bytes()))
    assert len(made) == 1
