"""A file that is cut, missing or exchanged is an error that names it, and never other rows in its place."""

# ruff: noqa: D102 - the name of a test says what it is about

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tokenyard.converters.verify import verify
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.errors import DataError, TokenyardError
from tokenyard.testing.base import SuiteBase, Variant
from tokenyard.testing.compare import assert_same_rows
from tokenyard.testing.samples import documents


def _remove(path: Path) -> None:
    path.unlink()


def _cut_by_one(path: Path) -> None:
    _cut(path, path.stat().st_size - 1)


def _cut_in_half(path: Path) -> None:
    _cut(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    _cut(path, 0)


def _lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 8)


def _cut(path: Path, size: int) -> None:
    with open(path, "r+b") as f:
        f.truncate(size)


DAMAGES: tuple[Callable[[Path], None], ...] = (_remove, _cut_by_one, _cut_in_half, _empty, _lengthen)


class Damage(SuiteBase):
    """What happens when files are not as the manifest says."""

    @pytest.fixture
    def damageable(self, tmp_path: Path, variant: Variant) -> Path:
        """The folder of a corpus of several shards."""
        schema, rows = documents(80)
        self.write(tmp_path / "corpus", variant, schema, rows, shard_bytes=2000)
        return tmp_path / "corpus"

    @pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__.strip("_"))
    def test_a_damaged_file_of_a_shard_is_an_error_that_names_it(
        self, damageable: Path, damage: Callable[[Path], None]
    ) -> None:
        for file in open_corpus(damageable).manifest.shards[1].files:
            path = damageable / file.name
            intact = path.read_bytes()
            damage(path)
            self.check_only_shard_1_fails(damageable, file.name)
            path.write_bytes(intact)
        assert_same_rows(open_corpus(damageable).batches(), documents(80)[1])

    @pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__.strip("_"))
    def test_a_damaged_row_index_is_an_error_that_names_it(
        self, damageable: Path, damage: Callable[[Path], None]
    ) -> None:
        index = open_corpus(damageable).manifest.shards[1].index
        assert index is not None
        damage(damageable / index.name)
        self.check_only_shard_1_fails(damageable, index.name)

    def test_verification_finds_a_changed_byte_in_any_file_of_a_shard_and_names_that_shard_alone(
        self, damageable: Path
    ) -> None:
        assert verify(damageable).problems == ()
        for file in open_corpus(damageable).manifest.shards[1].files:
            path = damageable / file.name
            intact = path.read_bytes()
            middle = len(intact) // 2
            path.write_bytes(intact[:middle] + bytes([intact[middle] ^ 1]) + intact[middle + 1 :])
            assert verify(damageable).bad_shards == (1,)
            path.write_bytes(intact)

    def test_a_row_index_of_another_shard_is_refused(self, damageable: Path) -> None:
        mine, other = (s.index for s in open_corpus(damageable).manifest.shards[1:3])
        assert mine is not None
        assert other is not None
        shutil.copy(damageable / other.name, damageable / mine.name)
        self.check_only_shard_1_fails(damageable, mine.name)

    def test_a_row_index_with_other_cuts_is_refused(self, damageable: Path) -> None:
        index = open_corpus(damageable).manifest.shards[1].index
        assert index is not None
        data = bytearray((damageable / index.name).read_bytes())
        data[-8] ^= 1
        (damageable / index.name).write_bytes(data)
        self.check_only_shard_1_fails(damageable, index.name)

    def test_a_corpus_without_its_manifest_but_with_a_marker_is_refused(self, damageable: Path) -> None:
        (damageable / ".tokenyard/manifest.json").rename(damageable / ".tokenyard/job.json")
        with pytest.raises(TokenyardError, match="a job began here and did not finish"):
            open_corpus(damageable)

    def test_a_damaged_manifest_is_an_error_that_names_it(self, damageable: Path) -> None:
        path = damageable / ".tokenyard/manifest.json"
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(DataError, match=r"\.tokenyard/manifest\.json: not valid JSON"):
            open_corpus(damageable)

    def check_only_shard_1_fails(self, folder: Path, name: str) -> None:
        """Every way to read shard 1 names the file; the other shards are as they were."""
        corpus = open_corpus(folder)
        begin, end = corpus.shard_row_starts[1:3].tolist()
        _, rows = documents(80)
        first_token = int(rows.offsets[begin])
        ways: list[Callable[[Corpus], object]] = [
            lambda c: list(c.batches(begin, end)),
            lambda c: [c[i] for i in range(begin, end)],
            lambda c: c.gather_rows(np.arange(begin, end)),
            lambda c: c.gather_rows(np.arange(len(c))),
            lambda c: c.gather_windows(np.array([first_token]), 10),
            lambda c: c.gather_windows(np.array([0]), c.num_tokens),
            lambda c: (
                [c.gather_rows(np.arange(begin, end), f) for f, t in c.schema.fields.items() if t.is_list]
                + list(c.batches(begin, end))
            ),
        ]
        for way in ways:
            with pytest.raises(TokenyardError) as caught:
                way(open_corpus(folder))
            assert name.rpartition("/")[2] in str(caught.value)
        assert_same_rows(corpus.batches(0, begin), rows.slice(0, begin))
        assert_same_rows(corpus.batches(end), rows.slice(end, len(rows)))
