"""Gathers and windows, against the slow obvious way, over every way in which rows can lie."""

import itertools
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpus.made import MadeFormat, MadeShard, make_corpus
from tokenyard.corpus import Corpus, block_table, tables
from tokenyard.corpus.ranges import split_at
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=shards(), data=st.data())
def test_windows_and_labels_are_copied_to_lines(tmp_path: Path, shards: list[MadeShard], data: st.DataObject) -> None:
    corpus = make_corpus(tmp_path, shards, cache_bytes=data.draw(st.sampled_from([1, 1 << 20])))
    rows = slow_rows(shards, "tokens")
    stream = [t for row in rows for t in row]
    firsts = [i == 0 for row in rows for i in range(len(row))]
    for _ in range(2):
        width = data.draw(st.integers(0, len(stream)))
        shift = data.draw(st.integers(0, width))
        starts = data.draw(st.lists(st.integers(0, len(stream) - width), max_size=5))
        lines = data.draw(st.permutations(range(len(starts) + 1)))[: len(starts)]
        inputs, labels = (np.full((len(starts) + 1, width - shift), -7) for _ in range(2))
        args = np.array(starts, np.int64), np.array(lines, np.int64), inputs
        corpus.copy_windows(*args, labels, shift=shift)
        wanted = {line: stream[s : s + width] for s, line in zip(starts, lines, strict=True)}
        untouched = [-7] * width
        for line in range(len(starts) + 1):
            assert inputs[line].tolist() == wanted.get(line, untouched)[: width - shift]
            assert labels[line].tolist() == wanted.get(line, untouched)[shift:]
        inputs[...] = -7
        corpus.copy_windows(*args, None, shift=shift)
        assert [inputs[line].tolist() for line in lines] == [wanted[line][: width - shift] for line in lines]
        marks = corpus.row_starts_in_windows(args[0], width)
        assert marks.tolist() == [firsts[s : s + width] for s in starts]
        assert marks.dtype == np.bool_


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=shards(), data=st.data())
def test_rows_and_labels_are_copied_to_lines(tmp_path: Path, shards: list[MadeShard], data: st.DataObject) -> None:
    corpus = make_corpus(tmp_path, shards, cache_bytes=data.draw(st.sampled_from([1, 1 << 20])))
    rows = slow_rows(shards, "tokens")
    longest = max((len(row) for row in rows), default=0)
    for shift in (0, 1, 3):
        width = len(data.draw(st.sampled_from(rows))) if rows else 0
        like = [i for i, row in enumerate(rows) if len(row) == width]
        chosen = data.draw(st.lists(st.sampled_from(like), max_size=6)) if like else []
        seq_len = longest + data.draw(st.integers(0, 3))
        lines = data.draw(st.none() | st.permutations(range(len(chosen))).map(np.array))
        inputs, labels = (np.full((len(chosen), seq_len), -7) for _ in range(2))
        args = lines, inputs, labels
        corpus.copy_rows(np.array(chosen), width, *args, shift=shift, fill=5, ignored=-100)
        for i, line in zip(chosen, range(len(chosen)) if lines is None else lines.tolist(), strict=True):
            assert inputs[line].tolist() == rows[i] + [5] * (seq_len - len(rows[i]))
            known = rows[i][shift:]
            assert labels[line].tolist() == known + [-100] * (seq_len - len(known))
        other = next((i for i, row in enumerate(rows) if len(row) != width), None)
        if other is not None and chosen:
            with pytest.raises(DataError, match=f"row {other}: {len(rows[other])} tokens, expected {width}"):
                corpus.copy_rows(np.array([*chosen[:-1], other]), width, *args, shift=shift, fill=5, ignored=-100)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shards=shards(), data=st.data())
def test_gathers_give_other_dtypes(tmp_path: Path, shards: list[MadeShard], data: st.DataObject) -> None:
    corpus = make_corpus(tmp_path, shards, cache_bytes=data.draw(st.sampled_from([1, 1 << 20])))
    everything = np.arange(len(corpus))
    for dtype in (np.int64, np.int32, np.float64):
        flat, offsets = corpus.gather_rows(everything, dtype=dtype)
        plain, same = corpus.gather_rows(everything)
        assert flat.dtype == dtype
        assert flat.tolist() == plain.tolist()
        assert offsets.tolist() == same.tolist()
        windows = corpus.gather_windows(np.array([0]), len(flat), dtype=dtype)
        assert windows.dtype == dtype
        assert windows[0].tolist() == plain.tolist()


@pytest.mark.parametrize("dtypes", [["<u8"], [">u8"], ["<u8", "|u1"], [">u8", "<u4", "<u8"]])
def test_items_past_int64_are_cast_from_what_they_are(tmp_path: Path, dtypes: list[str]) -> None:
    largest = [255 if dtype == "|u1" else 2**32 - 1 if dtype == "<u4" else 2**64 - 1 for dtype in dtypes]
    made = [MadeShard(rows=[[n], [1, n - 1]], masks=[[], []], dtype=d) for n, d in zip(largest, dtypes, strict=True)]
    corpus = make_corpus(tmp_path, made, "uint64")
    stream = np.array([t for n in largest for t in (n, 1, n - 1)], np.uint64)
    for dtype in (None, np.uint64, np.float64, np.float32, np.uint8, np.int64):
        wanted = stream.astype(dtype or np.uint64)
        flat, _ = corpus.gather_rows(np.arange(len(corpus)), dtype=dtype)
        windows = corpus.gather_windows(np.array([0]), len(stream), dtype=dtype)
        assert flat.dtype == windows.dtype == wanted.dtype
        assert flat.tolist() == windows[0].tolist() == wanted.tolist()


def test_one_long_row_does_not_make_many_short_ones_cost_as_much(tmp_path: Path) -> None:
    long = MadeShard(rows=[list(range(1000)) * 70], masks=[[]])
    corpus = make_corpus(tmp_path, [long, even(70)], "uint16")
    for _ in range(2):
        assert len(corpus.gather_rows(np.array([0]))[0]) == 70_000
        tracemalloc.start()
        assert corpus.gather_rows(np.arange(1, 71))[0].tolist() == list(range(280))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


@pytest.mark.parametrize("mapped", [True, False])
def test_rows_longer_than_a_line_are_refused(tmp_path: Path, mapped: bool) -> None:
    corpus = make_corpus(tmp_path, [even(2, length=3), even(2, length=5, mapped=mapped)], "uint16")
    inputs = np.zeros((2, 4), np.int64)
    with pytest.raises(DataError, match="row 3: 5 tokens, expected 5, in lines of 4"):
        corpus.copy_rows(np.array([3, 2]), 5, None, inputs, None, shift=0, fill=0, ignored=0)
    assert not inputs.any()


@pytest.mark.parametrize("mapped", [True, False])
def test_positions_outside_are_refused_by_every_gather(tmp_path: Path, mapped: bool) -> None:
    corpus = make_corpus(tmp_path, [even(2), even(2, mapped=mapped)], "uint16")
    lines = np.zeros((1, 3), np.int64)
    for start in (-1, 14, 1 << 62, (1 << 63) - 5):
        message = rf"windows of 3 tokens from {start} .. {start} are not all within the 16 tokens of"
        with pytest.raises(IndexError, match=message):
            corpus.gather_windows(np.array([start]), 3)
        with pytest.raises(IndexError, match=message):
            corpus.copy_windows(np.array([start]), np.array([0]), lines, None, shift=0)
        with pytest.raises(IndexError, match=message):
            corpus.row_starts_in_windows(np.array([start]), 3)
    for row in (-1, 4, 1 << 62, (1 << 63) - 5):
        message = rf"rows {row} .. {row} are not all within the 4 rows of"
        with pytest.raises(IndexError, match=message):
            corpus.gather_rows(np.array([row]))
        with pytest.raises(IndexError, match=message):
            corpus.copy_rows(np.array([row]), 4, None, lines, None, shift=0, fill=0, ignored=0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"lines": np.array([0, -1])}, IndexError, r"lines -1 \.\. 0 are not all within the 2 of inputs"),
        ({"lines": np.array([0, 2])}, IndexError, r"lines 0 \.\. 2 are not all within the 2 of inputs"),
        ({"lines": np.array([0])}, ValueError, "one line a sample"),
        ({"labels": np.zeros((1, 3), np.int64)}, ValueError, "labels of the shape of inputs"),
        ({"lines": None, "inputs": np.zeros((1, 3), np.int64)}, ValueError, "2 samples, no lines"),
        ({"shift": -1}, ValueError, "shift -1"),
    ],
)
def test_lines_outside_are_never_written_to(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    corpus = make_corpus(tmp_path, [even(4, length=3)], "uint16")
    around = np.full((4, 3), -7)
    args = {"lines": np.arange(2), "inputs": around[1:3], "labels": np.zeros((2, 3), np.int64), "shift": 0, **change}
    with pytest.raises(error, match=message):
        corpus.copy_windows(np.arange(2), **args)
    with pytest.raises(error, match=message):
        corpus.copy_rows(np.arange(2), 3, **args, fill=0, ignored=0)
    assert (around[[0, 3]] == -7).all()


def test_shards_whose_row_indexes_are_large_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_table, "_MAX_INDEX_BYTES", 200)
    shards = [even(8, first=32 * i, gaps=[i % 2]) for i in range(40)]
    corpus = make_corpus(tmp_path, shards, "uint16")
    for _ in range(5):
        assert corpus.gather_rows(np.arange(320))[0].tolist() == list(range(1280))
        assert corpus.gather_windows(np.array([3]), 1000).tolist() == [list(range(3, 1003))]
    assert isinstance(corpus._format, MadeFormat)
    assert corpus._format.num_reads == 40


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


def test_decoded_blocks_that_are_evicted_are_let_go(tmp_path: Path) -> None:
    shards = [even(4, mapped=False) for _ in range(6)]
    corpus = make_corpus(tmp_path, shards, "uint16", cache_bytes=2 * 40)
    for row in (0, 4, 8, 12, 16, 20, 0):
        assert corpus.gather_rows(np.array([row]))[0].tolist() == [0, 1, 2, 3]
    assert corpus._gatherer is not None
    assert len(corpus._gatherer._rows._recent["tokens"].blocks) < 4


def test_decoded_blocks_in_use_are_not_looked_up_again(tmp_path: Path) -> None:
    shards = [even(8, cuts=(2, 5), mapped=False) for _ in range(3)]
    corpus = make_corpus(tmp_path, shards, "uint16")
    for _ in range(50):
        assert len(corpus.gather_rows(np.arange(24))[0]) == 96
        corpus.gather_windows(np.array([0, 3, 30]), 50)
    assert isinstance(corpus._format, MadeFormat)
    assert corpus._format.num_reads == 9


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
    monkeypatch.setattr(tables, "MAX_OPEN_SHARDS", 3)
    shards = [even(4, first=16 * i) for i in range(8)]
    corpus = make_corpus(tmp_path, shards, "uint16")
    rows = slow_rows(shards, "tokens")
    rng = np.random.default_rng(0)
    for _ in range(40):
        chosen = rng.integers(0, len(rows), 3)
        assert corpus.gather_rows(chosen)[0].reshape(-1, 4).tolist() == [rows[i] for i in chosen]
        starts = rng.integers(0, 100, 3)
        assert corpus.gather_windows(starts, 9).tolist() == [list(range(s, s + 9)) for s in starts]
    assert corpus.gather_windows(np.array([0]), 128).tolist() == [list(range(128))]
    assert corpus.gather_rows(np.arange(32))[0].tolist() == list(range(128))


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


@pytest.mark.parametrize("max_tokens", [1, 3, 4, 5, 100])
def test_batches_hold_no_more_tokens_than_asked_for_or_one_row(tmp_path: Path, max_tokens: int) -> None:
    corpus = make_corpus(tmp_path, [even(3), even(3)], "uint16")
    found = list(corpus.batches(1, 6, max_tokens=max_tokens))
    assert all(b.num_tokens <= max_tokens or len(b) == 1 for b in found)
    assert np.concatenate([b.tokens for b in found]).tolist() == corpus.gather_rows(np.arange(1, 6))[0].tolist()


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
