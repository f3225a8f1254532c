"""Rows come back as they were written: every length, every id, every type of field."""

# ruff: noqa: D102 - the name of a test says what it is about

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokenyard.corpus import Corpus, open_corpus
from tokenyard.digest import digest_of
from tokenyard.rows import RowBatch
from tokenyard.schema import TOKEN_DTYPES, Schema
from tokenyard.testing.base import SuiteBase, Variant
from tokenyard.testing.compare import assert_same_rows
from tokenyard.testing.samples import (
    FIELD_TYPES,
    documents,
    edge_ids,
    edge_values,
    field_batch,
    packed,
    zero_value,
)
from tokenyard.testing.strategies import corpora


class RoundTrips(SuiteBase):
    """Writing and reading back."""

    def check(self, path: Path, variant: Variant, schema: Schema, rows: RowBatch, **more: object) -> Corpus:
        """Write ``rows``, and read back the same rows, counts and digests."""
        corpus = self.write(path, variant, schema, rows, **more)
        assert corpus.format == self.format
        assert corpus.schema == schema
        assert (len(corpus), corpus.num_tokens) == (len(rows), rows.num_tokens)
        assert_same_rows(corpus.batches(), rows)
        assert corpus.row_lengths().tolist() == rows.lengths.tolist()
        assert corpus.manifest.digests == digest_of([rows], schema.fields)
        assert corpus.manifest.digests == digest_of(corpus.batches(), schema.fields)
        return corpus

    @pytest.mark.parametrize("token_dtype", TOKEN_DTYPES)
    def test_ids_at_the_edges_of_every_token_dtype_come_back(
        self, tmp_path: Path, variant: Variant, token_dtype: str
    ) -> None:
        ids = edge_ids(token_dtype)
        schema = Schema(token_dtype=token_dtype)
        rows = RowBatch.from_rows([ids, ids[-1:], ids[:1], ids[::-1]], schema)
        corpus = self.check(tmp_path / "corpus", variant, schema, rows)
        assert corpus[0].tolist() == ids
        assert corpus[0].dtype == np.dtype(token_dtype)
        assert next(corpus.batches()).cast(token_dtype).tokens.dtype == np.dtype(token_dtype)

    def test_empty_rows_and_rows_of_one_token_keep_their_places(self, tmp_path: Path, variant: Variant) -> None:
        schema = Schema(token_dtype="uint16")
        rows = RowBatch.from_rows([[], [7], [], [], [8], [9, 9], []], schema)
        corpus = self.check(tmp_path / "corpus", variant, schema, rows)
        assert [corpus[i].tolist() for i in range(7)] == [[], [7], [], [], [8], [9, 9], []]

    def test_rows_that_are_all_empty_come_back(self, tmp_path: Path, variant: Variant) -> None:
        schema = Schema(token_dtype="uint16", fields={"mask": "uint8[]", "source": "string?"})
        rows = RowBatch.from_rows([[]] * 5, schema, {"mask": [[]] * 5, "source": [None, "", None, "x", ""]})
        self.check(tmp_path / "corpus", variant, schema, rows)

    def test_a_corpus_without_rows_opens(self, tmp_path: Path, variant: Variant) -> None:
        for number, schema in enumerate((Schema(), documents()[0])):
            corpus = self.check(tmp_path / str(number), variant, schema, RowBatch.empty(schema))
            assert list(corpus.batches()) == []
            flat, offsets = corpus.gather_rows(np.empty(0, np.int64))
            assert (len(flat), offsets.tolist()) == (0, [0])
            assert corpus.gather_windows(np.empty(0, np.int64), 4).shape == (0, 4)

    def test_a_row_longer_than_a_shard_and_a_batch_comes_back_whole(self, tmp_path: Path, variant: Variant) -> None:
        schema = Schema(token_dtype="uint32")
        long = np.random.default_rng(0).integers(0, 2**17, (1 << 20) + 5)
        rows = RowBatch.from_rows([[1, 2], long, [3], []], schema)
        corpus = self.check(tmp_path / "corpus", variant, schema, rows, shard_bytes=1 << 16)
        assert np.array_equal(corpus[1], long)
        assert np.array_equal(corpus.gather_windows(np.array([0, len(long) - 2]), 5)[1], [*long[-4:], 3])

    @pytest.mark.parametrize("shard_bytes", [1, 300, 1 << 12, 1 << 30])
    def test_rows_keep_their_order_across_shards(self, tmp_path: Path, variant: Variant, shard_bytes: int) -> None:
        schema, rows = documents(60)
        corpus = self.check(tmp_path / "corpus", variant, schema, rows, shard_bytes=shard_bytes)
        names = [s.name for s in corpus.manifest.shards]
        assert names == sorted(names)
        assert (len(names) == 60) if shard_bytes == 1 else (len(names) == 1) == (shard_bytes == 1 << 30)

    @pytest.mark.parametrize("field_type", FIELD_TYPES)
    def test_fields_come_back_to_the_bit(self, tmp_path: Path, variant: Variant, field_type: str) -> None:
        schema, rows = field_batch(field_type)
        self.check(tmp_path / "corpus", variant, schema, rows)

    @pytest.mark.parametrize("field_type", FIELD_TYPES)
    def test_null_empty_and_zero_are_three_things(self, tmp_path: Path, variant: Variant, field_type: str) -> None:
        zero = zero_value(field_type)
        schema = Schema(token_dtype="uint16", fields={"field": f"{field_type}?"})
        rows = RowBatch.from_rows([[1], [2], [3]], schema, {"field": [None, zero, None]})
        corpus = self.check(tmp_path / "corpus", variant, schema, rows)
        assert [corpus.row(i)["field"] is None for i in range(3)] == [True, False, True]
        assert np.array_equal(corpus.row(1)["field"], zero)

    @pytest.mark.parametrize("nulls", ["all", "none"])
    def test_nullable_fields_may_be_null_everywhere_or_nowhere(
        self, tmp_path: Path, variant: Variant, nulls: str
    ) -> None:
        fields = {f"f{i}": f"{name}?" for i, name in enumerate(FIELD_TYPES)}
        schema = Schema(token_dtype="uint16", fields=fields)
        values = {n: [None if nulls == "all" else edge_values(t.removesuffix("?"))[0]] * 3 for n, t in fields.items()}
        self.check(tmp_path / "corpus", variant, schema, RowBatch.from_rows([[1], [], [2, 3]], schema, values))

    def test_rows_may_come_in_batches_of_any_size(self, tmp_path: Path, variant: Variant) -> None:
        schema, rows = documents(50)
        whole = self.write(tmp_path / "whole", variant, schema, rows, shard_bytes=900)
        cuts = [0, 1, 1, 7, 8, 30, 50]
        parts = [rows.slice(a, b) for a, b in itertools.pairwise(cuts)]
        cut = self.write(tmp_path / "cut", variant, schema, *parts, shard_bytes=900)
        assert cut.manifest == whole.manifest

    def test_the_same_rows_and_options_give_the_same_bytes(self, tmp_path: Path, variant: Variant) -> None:
        for name, (schema, rows) in {"documents": documents(), "packed": packed()}.items():
            for copy in ("first", "second"):
                self.write(tmp_path / copy / name, variant, schema, rows, shard_bytes=2000)
            first, second = (contents(tmp_path / copy / name) for copy in ("first", "second"))
            assert first.keys() == second.keys()
            assert [n for n in first if first[n] != second[n]] == []

    def test_shard_cuts_do_not_change_the_digest(self, tmp_path: Path, variant: Variant) -> None:
        schema, rows = documents(1500, longest=5)
        found = [
            self.write(tmp_path / str(size), variant, schema, rows, shard_bytes=size).manifest.digests
            for size in (1 << 13, 1 << 15, 1 << 30)
        ]
        assert found == [digest_of([rows], schema.fields)] * 3

    def test_any_rows_of_any_schema_come_back(self, tmp_path: Path, variant: Variant) -> None:
        numbers = itertools.count()

        @given(corpus=corpora(), shard_bytes=st.sampled_from([1, 100, 1 << 20]))
        @settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
        def check(corpus: tuple[Schema, RowBatch], shard_bytes: int) -> None:
            schema, rows = corpus
            path = tmp_path / str(next(numbers))
            self.check(path, variant, schema, rows, shard_bytes=shard_bytes)
            for i in range(len(rows)):
                assert open_corpus(path)[i].tolist() == rows.row(i)["tokens"].tolist()

        check()


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file in a folder, by name."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
