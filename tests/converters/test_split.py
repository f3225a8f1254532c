"""Splitting: each row in exactly one part, in order; sizes; the proof; going on; parts of the work."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.converters.test_convert import FORMATS, tree, write
from tests.converters.test_shuffle import sorted_row_digests
from tests.corpora import random_rows, write_corpus
from tokenyard.converters import picking
from tokenyard.converters.pack import pack
from tokenyard.converters.row_sums import RowSum, sum_of_corpus
from tokenyard.converters.split import split, split_part
from tokenyard.converters.workers import Workers
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.errors import ConfigError, DestinationExistsError, VerificationError

PARTS = {"validation": 0.1, "test": 17}
SMALL = {"shard_bytes": 20_000}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("split") / "source", "parquet", num_rows=3000, shard_bytes=30_000)


def parts_of(folder: Path) -> dict[str, Corpus]:
    return {path.name: open_corpus(path) for path in sorted(folder.iterdir())}


def numbers_of(part: Corpus) -> list[int]:
    """The rows of the source that are in a part; ``n`` is minus the row."""
    return [-n for batch in part.batches() for n in batch.fields["n"].values.tolist()]


def check_split(source: Corpus, parts: dict[str, Corpus]) -> None:
    """Each row in one part, and the rows of each part in the order of the source."""
    numbers = {name: numbers_of(part) for name, part in parts.items()}
    assert all(found == sorted(found) for found in numbers.values())
    assert sorted(n for found in numbers.values() for n in found) == list(range(len(source)))
    assert sorted(d for part in parts.values() for d in sorted_row_digests(part)) == sorted_row_digests(source)


@pytest.mark.parametrize("to", FORMATS)
def test_each_row_is_in_one_part_which_keeps_the_order(source: Path, tmp_path: Path, to: str) -> None:
    report = split(source, tmp_path / "out", parts=PARTS, format=to, seed=1, **SMALL)
    parts = parts_of(tmp_path / "out")
    assert {name: len(part) for name, part in parts.items()} == {"train": 2683, "validation": 300, "test": 17}
    assert {part.format for part in parts.values()} == {to}
    check_split(open_corpus(source), parts)
    assert report.rows_digest == str(sum_of_corpus(open_corpus(source), Workers()))
    assert {name: said["digest"] for name, said in report.parts.items()} == {n: p.digest for n, p in parts.items()}


def test_one_hundredth_is_for_validation_in_the_format_of_the_source_unless_told(source: Path, tmp_path: Path) -> None:
    split(source, tmp_path / "out")
    parts = parts_of(tmp_path / "out")
    assert {name: (len(part), part.format) for name, part in parts.items()} == {
        "train": (2970, "parquet"),
        "validation": (30, "parquet"),
    }


def test_the_seed_chooses_the_rows_and_a_larger_part_holds_the_smaller_one(source: Path, tmp_path: Path) -> None:
    chosen = {}
    for name, size, seed in (("a", 100, 1), ("b", 200, 1), ("c", 100, 2)):
        split(source, tmp_path / name, parts={"v": size}, rest="all", seed=seed)
        chosen[name] = set(numbers_of(open_corpus(tmp_path / name / "v")))
    assert chosen["a"] < chosen["b"]
    assert len(chosen["a"] & chosen["c"]) < 20


def test_the_bytes_do_not_depend_on_workers_or_shares_of_the_work(source: Path, tmp_path: Path) -> None:
    split(source, tmp_path / "one", parts=PARTS, **SMALL)
    split(source, tmp_path / "two", parts=PARTS, num_workers=2, **SMALL)
    with pytest.raises(ConfigError, match="tasks are not done yet"):
        split(source, tmp_path / "shares", parts=PARTS, finish=True, **SMALL)
    reports = [split_part(source, tmp_path / "shares", (k, 2), parts=PARTS, **SMALL) for k in (2, 1)]
    assert reports[-1].num_open_tasks == 0
    assert sum(report.num_rows for report in reports) == 3000
    split(source, tmp_path / "shares", parts=PARTS, finish=True, **SMALL)
    assert tree(tmp_path / "one") == tree(tmp_path / "two") == tree(tmp_path / "shares")


class StoppedError(Exception):
    pass


def test_a_split_that_was_stopped_goes_on_with_the_part_that_is_missing(source: Path, tmp_path: Path) -> None:
    def stop(progress: Any) -> None:
        if (tmp_path / "out" / "validation").exists():
            raise StoppedError

    split(source, tmp_path / "whole", parts=PARTS, **SMALL)
    with pytest.raises(StoppedError):
        split(source, tmp_path / "out", parts=PARTS, on_progress=stop, **SMALL)
    assert open_corpus(tmp_path / "out" / "train").digest
    split(source, tmp_path / "out", parts=PARTS, **SMALL)
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


def test_a_part_that_is_gone_is_made_again_and_the_others_are_held_to_the_source(source: Path, tmp_path: Path) -> None:
    split(source, tmp_path / "out", parts=PARTS, **SMALL)
    before = tree(tmp_path / "out")
    with pytest.raises(DestinationExistsError, match="this split is there already; pass --overwrite"):
        split(source, tmp_path / "out", parts=PARTS, **SMALL)
    manifest = tmp_path / "out" / "train" / ".tokenyard" / "manifest.json"
    made = manifest.stat().st_mtime_ns
    split(source, tmp_path / "out", parts=PARTS, overwrite=True, **SMALL)
    assert manifest.stat().st_mtime_ns != made
    made = manifest.stat().st_mtime_ns
    shutil.rmtree(tmp_path / "out" / "test")
    report = split(source, tmp_path / "out", parts=PARTS, **SMALL)
    assert tree(tmp_path / "out") == before
    assert manifest.stat().st_mtime_ns == made
    assert report.rows_digest == str(sum_of_corpus(open_corpus(source), Workers()))


def test_a_split_of_other_settings_is_not_gone_on_with_but_replaced_when_asked(source: Path, tmp_path: Path) -> None:
    split(source, tmp_path / "out", parts=PARTS, seed=1, **SMALL)
    with pytest.raises(DestinationExistsError, match="a corpus is there already"):
        split(source, tmp_path / "out", parts=PARTS, seed=2, **SMALL)
    split(source, tmp_path / "out", parts=PARTS, seed=2, overwrite=True, **SMALL)
    split(source, tmp_path / "other", parts=PARTS, seed=2, **SMALL)
    assert tree(tmp_path / "out") == tree(tmp_path / "other")


def test_a_part_of_another_split_is_not_left_beside_parts_that_may_have_its_rows(source: Path, tmp_path: Path) -> None:
    split(source, tmp_path / "out", parts=PARTS, seed=1, **SMALL)
    for overwrite in (False, True):
        with pytest.raises(DestinationExistsError, match="test: a part of another split is there, which may have rows"):
            split(source, tmp_path / "out", parts={"validation": 0.1}, seed=2, overwrite=overwrite, **SMALL)


def test_parts_that_are_not_the_source_together_are_noticed_before_the_last_appears(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picking, "sum_of", lambda batches: RowSum(num_rows=1, total=5))
    with pytest.raises(VerificationError, match=r"rows of digest rows1:.*but its parts \d+ of digest.*test was not"):
        split(source, tmp_path / "out", parts=PARTS, **SMALL)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["train", "validation"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parts": {}}, "expected at least one part besides the rest"),
        ({"parts": {"a/b": 0.1}}, "'a/b' is to be a folder's name"),
        ({"parts": {2024: 0.1}}, "2024 is to be a folder's name, as text"),
        ({"parts": {".a": 0.1}}, "'.a' is to be a folder's name"),
        ({"parts": {"train": 0.1}}, "rest: 'train' is the name of a part already"),
        (
            {"parts": {"v": 0}},
            "v: expected a share of the rows, between 0 and 1, or a number of rows, from 1 on; f",
        ),
        ({"parts": {"v": 1.0}}, "found 1.0"),
        ({"parts": {"v": True}}, "found True"),
        ({"parts": {"v": "a"}}, "found 'a'"),
        ({"parts": {"v": 2000, "t": 0.5}}, "v 2,000, t 1,500 rows are more than the 3,000 of"),
        ({"seed": -1}, "seed: expected an int from 0"),
    ],
)
def test_what_can_not_be_split_so_is_told(source: Path, tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split(source, tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_parts_are_not_put_into_a_corpus(source: Path) -> None:
    with pytest.raises(ConfigError, match="a corpus is there, but split makes a folder of corpora"):
        split(source, source)


def test_no_rows_are_split_into_empty_parts(tmp_path: Path) -> None:
    split(write_corpus(tmp_path / "empty", []), tmp_path / "out")
    assert {name: len(part) for name, part in parts_of(tmp_path / "out").items()} == {"train": 0, "validation": 0}


def test_packed_rows_keep_their_layout(tmp_path: Path) -> None:
    documents = write_corpus(tmp_path / "documents", random_rows(seed=2, num_rows=4000, longest=9))
    pack(documents, tmp_path / "packed", seq_len=4)
    split(tmp_path / "packed", tmp_path / "out", format="mds")
    assert open_corpus(tmp_path / "out" / "train").layout == open_corpus(tmp_path / "packed").layout
