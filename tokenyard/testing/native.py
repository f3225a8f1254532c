"""Without our manifest, the shards are still corpora of their format; and what the format says of itself."""

# ruff: noqa: D102 - the name of a test says what it is about

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tokenyard.corpus import open_corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.errors import ConfigError, DataError, NotACorpusError
from tokenyard.formats.base import Format, FormatOptions
from tokenyard.formats.registry import format_names
from tokenyard.rows import RowBatch
from tokenyard.schema import TOKEN_DTYPES, Schema
from tokenyard.testing.base import SuiteBase, Variant
from tokenyard.testing.compare import assert_same_rows
from tokenyard.testing.round_trips import contents
from tokenyard.testing.samples import documents, edge_ids, packed


class Native(SuiteBase):
    """Recognizing, indexing, and the format's own words."""

    def test_it_is_registered_and_described(self) -> None:
        assert isinstance(self.registered, Format)
        assert self.registered.name == self.format
        assert self.format in format_names()
        assert self.registered.summary.strip()
        assert issubclass(self.registered.Options, FormatOptions)
        for name, field in self.registered.Options.model_fields.items():
            assert field.description, f"option {name} has no description"

    def test_an_unknown_option_is_an_error_that_lists_what_is_known(self, tmp_path: Path, variant: Variant) -> None:
        with pytest.raises(ConfigError, match=f"format {self.format} has no option colour; it has .*shard_bytes"):
            self.write(tmp_path / "corpus", variant, Schema(), colour="red")
        assert not (tmp_path / "corpus").exists()

    def test_shards_carry_the_suffix(self, tmp_path: Path, variant: Variant) -> None:
        schema, rows = documents(20)
        corpus = self.write(tmp_path / "corpus", variant, schema, rows)
        assert all(self.registered.suffix in s.name for s in corpus.manifest.shards)

    def test_nothing_visible_is_left_but_what_the_format_needs(self, tmp_path: Path, variant: Variant) -> None:
        schema, rows = documents(20)
        corpus = self.write(tmp_path / "corpus", variant, schema, rows)
        hidden = [n for n in contents(tmp_path / "corpus") if n.startswith(".")]
        assert all(n.startswith(".tokenyard/") for n in hidden)
        assert sorted(hidden) == sorted(
            [".tokenyard/manifest.json", *(s.index.name for s in corpus.manifest.shards if s.index)]
        )

    def test_a_folder_of_other_things_is_not_recognized(self, tmp_path: Path) -> None:
        (tmp_path / "notes.md").write_text("nothing here")
        (tmp_path / "empty").mkdir()
        with pytest.raises(NotACorpusError, match=f"not a corpus of format {self.format} \\(found notes.md\\)"):
            open_corpus(tmp_path, format=self.format)

    @pytest.mark.parametrize("kind", ["documents", "packed", "edges"])
    def test_without_the_manifest_the_shards_give_the_same_tokens(
        self, tmp_path: Path, variant: Variant, kind: str
    ) -> None:
        schema, rows = self.rows_of_kind(kind)
        corpus = self.write(tmp_path / "corpus", variant, schema, rows, shard_bytes=1500)
        shutil.rmtree(tmp_path / "corpus/.tokenyard")
        before = contents(tmp_path / "corpus")
        for _ in range(2):  # the second time, indexes come from the cache
            found = open_corpus(tmp_path / "corpus")
            assert found.format == self.format
            assert found.digest is None
            assert [s.files[0].name for s in found.manifest.shards] == [s.name for s in corpus.manifest.shards]
            self.check_tokens(found.batches(), rows)
            assert np.array_equal(found.gather_windows(np.array([0]), rows.num_tokens)[0], rows.tokens)
        assert contents(tmp_path / "corpus") == before

    @pytest.mark.parametrize("token_dtype", TOKEN_DTYPES)
    def test_without_the_manifest_ids_at_the_edges_are_the_same(
        self, tmp_path: Path, variant: Variant, token_dtype: str
    ) -> None:
        schema = Schema(token_dtype=token_dtype)
        rows = RowBatch.from_rows([edge_ids(token_dtype), edge_ids(token_dtype)[:2]], schema)
        self.write(tmp_path / "corpus", variant, schema, rows)
        shutil.rmtree(tmp_path / "corpus/.tokenyard")
        self.check_tokens(open_corpus(tmp_path / "corpus", format=self.format).batches(), rows)

    def test_indexing_what_lost_its_manifest_gives_the_same_token_digest(
        self, tmp_path: Path, variant: Variant
    ) -> None:
        schema, rows = documents(60)
        corpus = self.write(tmp_path / "corpus", variant, schema, rows, shard_bytes=1500)
        shutil.rmtree(tmp_path / "corpus/.tokenyard")
        index_corpus(tmp_path / "corpus")
        found = open_corpus(tmp_path / "corpus")
        assert found.manifest.provenance["job"] == "index"
        self.check_tokens(found.batches(), rows)
        assert (found.digest == corpus.digest) is not self.rows_need_index

    def test_a_lost_row_index_is_rebuilt_when_the_shard_itself_says_where_rows_begin(
        self, tmp_path: Path, variant: Variant
    ) -> None:
        schema, rows = documents(60)
        corpus = self.write(tmp_path / "corpus", variant, schema, rows, shard_bytes=1500)
        lost = corpus.manifest.shards[1].index
        assert lost is not None
        (tmp_path / "corpus" / lost.name).unlink()
        if self.rows_need_index:
            with pytest.raises(DataError, match=f"its row index can't be rebuilt, restore {lost.name} from a copy"):
                index_corpus(tmp_path / "corpus")
            return
        index_corpus(tmp_path / "corpus")
        found = open_corpus(tmp_path / "corpus")
        assert_same_rows(found.batches(), rows)
        assert found.manifest.digests == corpus.manifest.digests
        assert found.manifest.provenance == corpus.manifest.provenance

    def rows_of_kind(self, kind: str) -> tuple[Schema, RowBatch]:
        """Rows to write, by name."""
        if kind == "packed":
            return packed(80)
        if kind == "documents":
            return documents(80)
        schema = Schema(token_dtype="uint16")
        return schema, RowBatch.from_rows([[], [1], [2, 3], [], [65535]], schema)

    def check_tokens(self, found: object, rows: RowBatch) -> None:
        """The same rows, or the same tokens where rows need the index."""
        batches = list(found)  # type: ignore[call-overload]
        tokens = np.concatenate([b.tokens for b in batches])
        assert tokens.tolist() == rows.tokens.tolist()
        if not self.rows_need_index:
            assert np.concatenate([b.lengths for b in batches]).tolist() == rows.lengths.tolist()
