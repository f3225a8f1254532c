"""Gathers and windows, against the slow obvious way, over every way in which rows can lie."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpus.made import MadeFormat, MadeShard, make_corpus
from tokenyard.corpus import Corpus, gather
from tokenyard.corpus.runs import copy_runs, split_at
from tokenyard.errors import DataError
from tokenyard.formats.extents import Extents

DTYPES = ("<u2", ">u2", "<u4", ">u4", "|u1")


@st.composite
def shards(draw: st.DrawFn) -> list[MadeShard]:
    """Shards of one way or of several: ragged or even rows, together or apart, of one dtype or many, raw or decoded."""
    alike = draw(st.booleans())
    common = draw(st.sampled_from(DTYPES)), draw(st.integers(0, 4)), draw(st.booleans())
    found = []
    for _ in range(draw(st.integers(1, 5))):
        dtype, length, even = (
            common if alike else (draw(st.sampled_from(DTYPES)), draw(st.integers(0, 4)), draw(st.booleans()))
        )
        lengths = [length] * draw(st.integers(0, 6)) if even else draw(st.lists(st.integers(0, 5), max_size=6))
        ids = st.integers(0, 255 if dtype == "|u1" else 65535)
        rows = [draw(st.lists(ids, min_size=n, max_size=n)) for n in lengths]
        per_token = draw(st.booleans())
        counts = lengths if per_token else [draw(st.integers(0, 3)) for _ in lengths]
        masks = [draw(st.lists(st.integers(0, 255), min_size=n, max_size=n)) for n in counts]
        gaps = draw(st.sampled_from([[0], [3], [1, 0, 7]]))
        cuts = tuple(sorted(draw(st.lists(st.integers(0, len(rows)), max_size=2)))) if draw(st.booleans()) else ()
        found.append(MadeShard(rows=rows, masks=masks, dtype=dtype, gaps=gaps, cuts=cuts, mapped=draw(st.booleans())))
    return found


def slow_rows(shards: list[MadeShard], field: str) -> list[list[int]]:
    return [row for shard in shards for row in (shard.rows if field == "tokens" else shard.masks)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=shards(), data=st.data())
def test_gathers_are_the_rows_one_by_one(tmp_path: Path, shards: list[MadeShard], data: st.DataObject) -> None:
    corpus = make_corpus(tmp_path, shards, cache_bytes=data.draw(st.sampled_from([1, 1 << 20])))
    for _ in range(3):
        for field in ("tokens", "mask"):
            rows = slow_rows(shards, field)
            chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
            flat, offsets = corpus.gather_rows(np.array(chosen, np.int64), field)
            assert flat.tolist() == [t for i in chosen for t in rows[i]]
            assert np.diff(offsets).tolist() == [len(rows[i]) for i in chosen]
            assert offsets[0] == 0
            assert flat.dtype == (np.uint32 if field == "tokens" else np.uint8)
            assert flat.flags.writeable
            for i in chosen:
                assert corpus[i].tolist() == slow_rows(shards, "tokens")[i]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=shards(), data=st.data())
def test_windows_are_cut_from_the_rows_joined(tmp_path: Path, shards: list[MadeShard], data: st.DataObject) -> None:
    corpus = make_corpus(tmp_path, shards, cache_bytes=data.draw(st.sampled_from([1, 1 << 20])))
    stream = [t for row in slow_rows(shards, "tokens") for t in row]
    masks = [t for row in slow_rows(shards, "mask") for t in row]
    for _ in range(3):
        length = data.draw(st.integers(0, len(stream)))
        starts = data.draw(st.lists(st.integers(0, len(stream) - length), max_size=6))
        found = corpus.gather_windows(np.array(starts, np.int64), length)
        assert found.tolist() == [stream[s : s + length] for s in starts]
        assert found.dtype == np.uint32
        assert found.flags.writeable
        touched = blocks_of(shards, starts, length)
        try:
            found = corpus.gather_windows(np.array(starts, np.int64), length, "mask")
        except DataError:
            assert any([len(r) for r in rows] != [len(m) for m in masks] for rows, masks in touched)
        else:
            if all([len(r) for r in rows] == [len(m) for m in masks] for rows, masks in all_blocks(shards)):
                assert found.tolist() == [masks[s : s + length] for s in starts]
            assert all([len(r) for r in rows] == [len(m) for m in masks] for rows, masks in touched)
        if data.draw(st.booleans()):
            corpus.gather_rows(np.arange(len(corpus)), data.draw(st.sampled_from(["tokens", "mask"])))


Block = tuple[list[list[int]], list[list[int]]]


def all_blocks(shards: list[MadeShard]) -> Iterator[Block]:
    for shard in shards:
        edges = [0, *shard.cuts, len(shard.rows)]
        for start, stop in itertools.pairwise(edges):
            yield shard.rows[start:stop], shard.masks[start:stop]


def blocks_of(shards: list[MadeShard], starts: list[int], length: int) -> list[Block]:
    """The storage blocks that the windows touch."""
    found, position = [], 0
    for rows, masks in all_blocks(shards):
        end = position + sum(map(len, rows))
        if any(max(s, position) < min(s + length, end) for s in starts):
            found.append((rows, masks))
        position = end
    return found


def even(count: int, length: int = 4, first: int = 0, **more: Any) -> MadeShard:
    rows = [[first + i * length + j for j in range(length)] for i in range(count)]
    masks = [[j % 256 for j in row] for row in rows]
    return MadeShard(rows=rows, masks=masks, **more)


def test_a_shard_of_one_row_seen_first_does_not_slow_the_others(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, [even(1), even(8, first=100, gaps=[3]), even(8, first=200, gaps=[3])], "uint16")
    for _ in range(3):
        corpus.gather_rows(np.array([0]))
        corpus.gather_rows(np.arange(17))
    table = corpus._gatherer._row_tables.get("tokens")
    assert table is not None
    assert table.has(np.arange(3))


def test_shards_are_looked_at_once(tmp_path: Path) -> None:
    apart, together = (
        [MadeShard(rows=[[i, i], [], [i]], masks=[[1, 1], [], [1]], gaps=gaps) for i in range(6)]
        for gaps in ([1, 5], [0])
    )
    for shards in ([even(8), even(8)], apart, together):
        corpus = make_corpus(tmp_path, shards, "uint16")
        for _ in range(50):
            corpus.gather_rows(np.arange(len(corpus)))
            corpus.gather_windows(np.array([0, 3]), 5)
        format = corpus._format
        assert isinstance(format, MadeFormat)
        assert format.num_reads == len(shards)
        for tables in (corpus._gatherer._row_tables, corpus._gatherer._token_tables):
            assert all(len(t.owners) <= len(shards) for t in tables.values())


@pytest.mark.parametrize("gaps", [[0], [1, 5]])
def test_a_list_of_other_lengths_has_no_windows_even_when_its_items_lie_together(
    tmp_path: Path, gaps: list[int]
) -> None:
    for masks in ([[1], [2, 3]], [[1, 2], [3, 4]], [[1, 2, 3], []]):
        corpus = make_corpus(tmp_path, [MadeShard(rows=[[1, 2], [3]], masks=masks, gaps=gaps)] * 2, "uint16")
        for _ in range(3):
            with pytest.raises(
                DataError, match="rows of field 'mask' are not as long as their tokens; it has no windows"
            ):
                corpus.gather_windows(np.array([0, 1]), 2, "mask")
            assert corpus.gather_rows(np.array([1, 2]), "mask")[0].tolist() == masks[1] + masks[0]
            corpus.gather_rows(np.array([0]))


def test_tables_begin_anew_when_they_are_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MAX_OPEN_SHARDS", 3)
    shards = [even(4, first=16 * i) for i in range(8)]
    corpus = make_corpus(tmp_path, shards, "uint16")
    rows = slow_rows(shards, "tokens")
    rng = np.random.default_rng(0)
    for _ in range(40):
        chosen = rng.integers(0, len(rows), 3)
        assert corpus.gather_rows(chosen)[0].reshape(-1, 4).tolist() == [rows[i] for i in chosen]
        starts = rng.integers(0, 100, 3)
        assert corpus.gather_windows(starts, 9).tolist() == [list(range(s, s + 9)) for s in starts]
        assert all(
            len(t.owners) <= 3
            for t in (*corpus._gatherer._row_tables.values(), *corpus._gatherer._token_tables.values())
        )


@pytest.mark.parametrize("length", [16383, 16384, 16385, 40000])
def test_rows_longer_than_an_item_of_numpy_are_copied_too(tmp_path: Path, length: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 65536, (5, length)).tolist()
    shard = MadeShard(rows=rows, masks=[[]] * 5, gaps=[7])
    corpus = make_corpus(tmp_path, [shard, shard], "uint16")
    for _ in range(2):
        flat, _ = corpus.gather_rows(np.array([7, 0, 4]))
        assert flat.reshape(3, length).tolist() == [rows[2], rows[0], rows[4]]
        assert corpus.gather_windows(np.array([5]), length).tolist() == [(rows[0] + rows[1])[5 : 5 + length]]


def test_what_is_gathered_belongs_to_the_caller(tmp_path: Path) -> None:
    for shards in ([even(8)], [even(8, gaps=[1, 2])], [even(8, mapped=False)], [even(4), even(4, dtype=">u2")]):
        corpus = make_corpus(tmp_path, shards, "uint16")
        for _ in range(2):
            for take in (
                lambda c: c.gather_rows(np.arange(8))[0],
                lambda c: c.gather_windows(np.array([0, 9]), 7),
                lambda c: c[3],
            ):
                before = take(corpus).tolist()
                taken = take(corpus)
                taken[...] = 9
                assert take(corpus).tolist() == before


@pytest.mark.parametrize("positions", [[0.5], [[0]], ["a"], [None], [True], 3])
def test_positions_that_are_no_whole_numbers_are_refused(tmp_path: Path, positions: Any) -> None:
    corpus = make_corpus(tmp_path, [even(8)], "uint16")
    with pytest.raises(IndexError, match=r"positions are a flat array of whole numbers, not .-dimensional"):
        corpus.gather_rows(positions)
    with pytest.raises(IndexError, match=r"positions are a flat array of whole numbers, not .-dimensional"):
        corpus.gather_windows(positions, 2)


def test_positions_may_be_of_any_integer_type(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, [even(8)], "uint16")
    for dtype in ("int8", "uint8", "int32", "uint64", ">i8"):
        assert corpus.gather_rows(np.array([2, 1], dtype))[0].tolist() == [8, 9, 10, 11, 4, 5, 6, 7]
        assert corpus.gather_windows(np.array([2], dtype), 3).tolist() == [[2, 3, 4]]
        assert corpus[np.array([2], dtype)[0]].tolist() == [8, 9, 10, 11]
    assert corpus.gather_rows([])[0].tolist() == []


@pytest.mark.parametrize("row", [1.0, "1", None])
def test_a_row_number_is_a_whole_number(tmp_path: Path, row: Any) -> None:
    corpus = make_corpus(tmp_path, [even(8)], "uint16")
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        corpus[row]


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (0, -1), (-3, None)])
def test_ranges_are_counted_from_the_beginning(tmp_path: Path, start: int, stop: int | None) -> None:
    corpus = make_corpus(tmp_path, [even(8)], "uint16")
    for read in (lambda: list(corpus.batches(start, stop)), lambda: corpus.row_lengths(start, stop)):
        with pytest.raises(IndexError, match=f"rows {start} .. .*: rows are counted from 0 on"):
            read()


def test_ranges_past_the_end_stop_there(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, [even(3), even(3)], "uint16")
    assert sum(len(b) for b in corpus.batches(2, 99)) == 4
    assert corpus.row_lengths(2, 99).tolist() == [4] * 4
    assert list(corpus.batches(6)) == list(corpus.batches(99)) == list(corpus.batches(4, 3)) == []
    assert corpus.row_lengths(99).tolist() == []


def test_windows_of_negative_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="windows of -1 tokens"):
        make_corpus(tmp_path, [even(8)], "uint16").gather_windows(np.array([3]), -1)


def test_a_position_of_the_stream_finds_its_row(tmp_path: Path) -> None:
    shards = [MadeShard(rows=[[], [1, 2], [], []], masks=[[]] * 4), even(0), MadeShard(rows=[[3], []], masks=[[]] * 2)]
    corpus = make_corpus(tmp_path, shards)
    assert [corpus.row_at(t) for t in range(3)] == [(1, 0), (1, 1), (4, 0)]
    for token in (-1, 3):
        with pytest.raises(IndexError, match=f"token {token} is not within the 3 tokens"):
            corpus.row_at(token)


class Lying(MadeFormat):
    """A format whose extents are not what its index says."""

    def __init__(self, shards: list[MadeShard], change: dict[str, Any]) -> None:
        super().__init__(shards)
        self.change = change

    def open_shard(self, *args: Any) -> Any:
        reader = super().open_shard(*args)
        honest = reader.extents

        def lie(block: int, field: str = "tokens") -> Extents:
            told = honest(block, field)
            return Extents(
                **{**{n: getattr(told, n) for n in ("buffer", "starts", "lengths", "dtype", "mapped")}, **self.change}
            )

        reader.extents = lie
        if "block_rows" in self.change:
            reader.block_rows = self.change.pop("block_rows")
        return reader


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": np.array([0, 8, 26])}, "row 2 of the block would be 4 items from byte 26 on, outside its 24 bytes"),
        ({"lengths": np.array([4, 4, 5])}, "row 2 of the block would be 5 items from byte 16 on, outside its 24 bytes"),
        ({"lengths": np.array([4, 3, 4])}, "row 1 holds 3 tokens, its index says 4; the shard or its index is damaged"),
        ({"starts": np.array([0, 8]), "lengths": np.array([4, 4])}, "storage block 0 holds 2 rows, its index says 3"),
        ({"dtype": np.dtype("<i2")}, "tokens of type int16 may not fit the schema's uint16"),
        ({"block_rows": np.array([0, 2])}, "its storage blocks don't cover its 3 rows"),
        ({"block_rows": np.array([1, 3])}, "its storage blocks don't cover its 3 rows"),
        ({"block_rows": np.array([0, 2, 1, 3])}, "its storage blocks don't cover its 3 rows"),
    ],
)
def test_what_a_format_says_is_checked_before_memory_is_touched(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    honest = make_corpus(tmp_path, [even(3)], "uint16")
    for read in (
        lambda c: c.gather_rows(np.arange(3)),
        lambda c: c.gather_windows(np.array([0]), 5),
        lambda c: c[2],
    ):
        lying = Corpus(honest.folder, honest.manifest, Lying([even(3)], dict(change)), honest._indexes)
        with pytest.raises(DataError, match=message):
            read(lying)


def test_runs_are_copied_from_any_memory() -> None:
    blocks = [np.random.default_rng(i).integers(0, 256, 1000, np.uint8) for i in range(3)]
    addresses = np.array([blocks[i % 3].__array_interface__["data"][0] + 7 * i for i in range(30)])
    wanted = [blocks[i % 3][7 * i : 7 * i + 5] for i in range(30)]
    assert copy_runs(addresses, 5).tolist() == np.concatenate(wanted).tolist()
    lengths = np.arange(30) % 4
    wanted = [blocks[i % 3][7 * i : 7 * i + i % 4] for i in range(30)]
    assert copy_runs(addresses, lengths).tolist() == np.concatenate(wanted).tolist()
    assert copy_runs(addresses, 0).tolist() == []
    assert copy_runs(np.empty(0, np.int64), 5).tolist() == []
    assert copy_runs(addresses, np.zeros(30, np.int64)).tolist() == []


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_ranges_are_cut_where_pieces_end(sizes: list[int], data: st.DataObject) -> None:
    boundaries = np.cumsum([0, *sizes])
    total = int(boundaries[-1])
    if not total:
        return
    low = np.array(data.draw(st.lists(st.integers(0, total - 1), min_size=1, max_size=5)))
    high = np.array([data.draw(st.integers(a + 1, total)) for a in low.tolist()])
    parts = list(zip(*(a.tolist() for a in split_at(boundaries, low, high)), strict=True))
    slow = [
        (i, piece, max(a, boundaries[piece]), min(b, boundaries[piece + 1]))
        for i, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True))
        for piece in range(len(sizes))
        if max(a, boundaries[piece]) < min(b, boundaries[piece + 1])
    ]
    assert parts == slow
