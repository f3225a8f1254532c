"""Every way to read gives the same rows: one by one, in batches, gathered, in windows; in threads and in children."""

# ruff: noqa: D102 - the name of a test says what it is about

from __future__ import annotations

import multiprocessing
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tokenyard.corpus import Corpus
from tokenyard.corpus.shards import open_shard
from tokenyard.errors import DataError, SchemaError
from tokenyard.formats.base import ShardReader
from tokenyard.formats.registry import get_format
from tokenyard.rows import RowBatch
from tokenyard.schema import Schema
from tokenyard.testing.base import SuiteBase, Variant
from tokenyard.testing.compare import assert_same_items, assert_same_rows
from tokenyard.testing.samples import documents, packed


class Access(SuiteBase):
    """Reading by row, by batch, by gather and by window."""

    @pytest.fixture(params=["documents", "packed"])
    def rows_of(self, request: pytest.FixtureRequest) -> tuple[Schema, RowBatch]:
        """Rows of any length, and rows of one."""
        return documents(120) if request.param == "documents" else packed(96)

    @pytest.fixture
    def corpus(self, tmp_path: Path, variant: Variant, rows_of: tuple[Schema, RowBatch]) -> Corpus:
        """The rows in several shards."""
        schema, rows = rows_of
        corpus = self.write(tmp_path / "corpus", variant, schema, rows, shard_bytes=2000)
        assert len(corpus.manifest.shards) > 3
        return corpus

    def test_rows_by_number_are_the_rows_written(self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]) -> None:
        _, rows = rows_of
        for i in range(len(rows)):
            row = corpus.row(i)
            assert row.keys() == rows.row(i).keys()
            for name, value in rows.row(i).items():
                assert np.array_equal(row[name], value), (i, name)
            assert corpus[i].tolist() == rows.row(i)["tokens"].tolist()
            assert corpus[i - len(rows)].tolist() == rows.row(i)["tokens"].tolist()

    def test_batches_of_any_range_are_the_rows_written(self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]) -> None:
        _, rows = rows_of
        for start, stop in [(0, len(rows)), (0, 1), (len(rows) - 1, len(rows)), (5, 70), (33, 34), (40, 40)]:
            assert_same_rows(corpus.batches(start, stop), rows.slice(start, stop))
            assert corpus.row_lengths(start, stop).tolist() == rows.slice(start, stop).lengths.tolist()

    def test_lengths_of_scattered_rows_are_those_written(
        self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]
    ) -> None:
        _, rows = rows_of
        for order in (np.random.default_rng(1).permutation(len(rows)), np.array([3, 3, 90, 3]), np.empty(0, np.int64)):
            assert corpus.row_lengths_of(order).tolist() == rows.lengths[order].tolist()
        for bad in (-1, len(rows)):
            with pytest.raises(IndexError, match=rf"rows {bad} \.\. {bad} are not all within the {len(rows)} rows"):
                corpus.row_lengths_of(np.array([bad]))

    def test_gathered_rows_are_the_rows_written(self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]) -> None:
        schema, rows = rows_of
        rng = np.random.default_rng(1)
        orders = [
            np.arange(len(rows)),
            rng.permutation(len(rows)),
            np.array([0]),
            np.array([3, 3, 3, 90, 3]),
            np.arange(10, 14),
        ]
        for field in ("tokens", *(n for n, t in schema.fields.items() if t.is_list)):
            for order in orders * 2:  # the second time, what was found the first time is known
                flat, offsets = corpus.gather_rows(order, field)
                wanted = [items_of(rows, int(i), field) for i in order]
                assert offsets.tolist() == [0, *np.cumsum([len(w) for w in wanted])]
                assert_same_items(field, flat, np.concatenate(wanted))
                assert flat.dtype == wanted[0].dtype
                assert flat.flags.writeable

    def test_windows_are_cut_from_the_rows_written(self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]) -> None:
        _, rows = rows_of
        rng = np.random.default_rng(2)
        for field in ("tokens", "mask"):
            stream = rows.tokens if field == "tokens" else rows.fields["mask"].values
            for length in (1, 7, 32, 33, 500, len(stream)):
                last = len(stream) - length
                starts = np.concatenate([[0, last], rng.integers(0, last + 1, 50)])
                wanted = stream[starts[:, None] + np.arange(length)]
                for _ in range(2):
                    found = corpus.gather_windows(starts, length, field)
                    assert_same_items(field, found.reshape(-1), wanted.reshape(-1))
                    assert found.dtype == wanted.dtype
                    assert found.flags.writeable

    def test_a_list_that_is_not_as_long_as_the_tokens_has_no_windows(
        self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]
    ) -> None:
        schema, _ = rows_of
        field = "lengths" if "lengths" in schema.fields else "spans"
        everything = np.arange(0, corpus.num_tokens - 64, 16)
        for _ in range(2):
            with pytest.raises(DataError, match=f"rows of field '{field}' are not as long as their tokens"):
                corpus.gather_windows(everything, 64, field)
            corpus.gather_rows(np.arange(len(corpus)), field)
            corpus.gather_rows(np.arange(len(corpus)))

    def test_what_is_not_there_is_an_index_error(self, corpus: Corpus) -> None:
        for row in (len(corpus), -len(corpus) - 1):
            with pytest.raises(IndexError, match=f"row {row} is not within"):
                corpus[row]
            with pytest.raises(IndexError, match=f"row {row} is not within"):
                corpus.row(row)
        corpus.gather_rows(np.arange(len(corpus)))
        for row in (len(corpus), -1):
            with pytest.raises(IndexError, match="are not all within"):
                corpus.gather_rows(np.array([0, row]))
        for start in (corpus.num_tokens - 3, -1):
            with pytest.raises(IndexError, match="are not all within"):
                corpus.gather_windows(np.array([0, start]), 4)

    def test_a_field_that_has_no_items_to_gather_is_an_error_that_names_those_that_do(self, corpus: Corpus) -> None:
        with pytest.raises(SchemaError, match=r"no list field 'absent'; it has .*mask"):
            corpus.gather_rows(np.array([0]), "absent")

    def test_extents_lie_inside_their_buffers_and_hold_the_rows(
        self, corpus: Corpus, variant: Variant, rows_of: tuple[Schema, RowBatch]
    ) -> None:
        _, rows = rows_of
        first = 0
        for reader in readers(corpus):
            assert reader.block_rows[0] == 0
            assert reader.block_rows[-1] == reader.index.num_rows
            for block, (start, stop) in enumerate(zip(reader.block_rows[:-1], reader.block_rows[1:], strict=True)):
                extents = reader.extents(block).check(reader.where)
                wanted = rows.slice(first + int(start), first + int(stop))
                assert extents.lengths.tolist() == wanted.lengths.tolist()
                assert_same_items("tokens", extents.items(0, int(stop - start)), wanted.tokens)
                mapped = self.expected_mapped
                if mapped is not None:
                    assert extents.mapped is (mapped if isinstance(mapped, bool) else mapped[variant.name])
            first += reader.index.num_rows
        assert first == len(rows)

    def test_a_pickled_corpus_opens_where_it_arrives(self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]) -> None:
        _, rows = rows_of
        corpus.gather_rows(np.arange(len(corpus)))
        copy = pickle.loads(pickle.dumps(corpus))
        assert copy.manifest == corpus.manifest
        assert_same_rows(copy.batches(), rows)
        assert_gathers(copy, rows)

    def test_threads_gather_at_once(self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]) -> None:
        _, rows = rows_of
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(assert_gathers, corpus, rows, seed) for seed in range(32)]:
                done.result(60)

    def test_a_forked_child_reads_what_its_parent_read(self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]) -> None:
        _, rows = rows_of
        assert_gathers(corpus, rows)
        child = multiprocessing.get_context("fork").Process(target=assert_gathers, args=(corpus, rows, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, such as a library's own
            child.start()
        child.join(60)
        if child.is_alive():
            child.kill()
        assert child.exitcode == 0

    def test_a_small_cache_gives_the_same_rows(self, corpus: Corpus, rows_of: tuple[Schema, RowBatch]) -> None:
        _, rows = rows_of
        small = Corpus(corpus.folder, corpus.manifest, self.registered, cache_bytes=1)
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(assert_gathers, small, rows, seed) for seed in range(8)]:
                done.result(60)


def assert_gathers(corpus: Corpus, rows: RowBatch, seed: int = 0) -> None:
    """A few random gathers and windows are the rows written."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    flat, _ = corpus.gather_rows(order)
    assert np.array_equal(flat, np.concatenate([items_of(rows, int(i), "tokens") for i in order]))
    starts = rng.integers(0, rows.num_tokens - 20, 30)
    assert np.array_equal(corpus.gather_windows(starts, 20), rows.tokens[starts[:, None] + np.arange(20)])


def items_of(rows: RowBatch, i: int, field: str) -> Any:
    """The tokens or a list of row i; nothing where it is null."""
    if field == "tokens":
        return rows.tokens[rows.offsets[i] : rows.offsets[i + 1]]
    column = rows.fields[field]
    assert column.offsets is not None
    return column.values[column.offsets[i] : column.offsets[i + 1]]


def readers(corpus: Corpus) -> list[ShardReader]:
    """A reader for each shard, as the format gives it."""
    format = get_format(corpus.format)
    return [open_shard(corpus.folder, format, shard, corpus.schema) for shard in corpus.manifest.shards]
