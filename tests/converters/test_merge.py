"""Merging: rows one after another from any formats; what must be the same, and what may differ."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converters.test_convert import FORMATS, tree, write
from tests.converters.test_shuffle import rows_of
from tests.corpora import random_rows, write_corpus
from tokenyard.converters.convert import convert
from tokenyard.converters.merge import merge, plan_merge
from tokenyard.converters.run import run_part
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.digest import digest_of
from tokenyard.errors import ConfigError, SchemaError, VerificationError
from tokenyard.manifest import Layout

SMALL = {"shard_bytes": 20_000}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("merged")
    counts = {"npy": 1500, "mds": 1, "webdataset": 40, "parquet": 1024, "jsonl": 100, "csv": 0}
    return [write(folder / f, f, num_rows=n, seed=i, shard_bytes=9000) for i, (f, n) in enumerate(counts.items())]


def digest_of_all(sources: list[Path]) -> Any:
    opened = [open_corpus(source) for source in sources]
    return digest_of((b for corpus in opened for b in corpus.batches()), opened[0].schema.fields)


@pytest.mark.parametrize("to", FORMATS)
def test_corpora_of_all_formats_become_one_with_the_digest_of_all_their_rows(
    sources: list[Path], tmp_path: Path, to: str
) -> None:
    report = merge(sources, tmp_path / "out", format=to, **SMALL)
    merged = open_corpus(tmp_path / "out")
    assert merged.manifest.digests == digest_of_all(sources)
    assert merged.schema == open_corpus(sources[0]).schema
    assert rows_of(merged)[1500:1502] == rows_of(open_corpus(sources[1])) + rows_of(open_corpus(sources[2]))[:1]
    assert (report.num_rows, report.digest) == (2665, merged.digest)
    assert [said["rows"] for said in report.sources] == [1500, 1, 40, 1024, 100, 0]
    assert report.notes == []


def test_the_first_source_gives_the_format_and_a_corpus_may_come_twice(sources: list[Path], tmp_path: Path) -> None:
    merge([sources[1], sources[0], sources[1]], tmp_path / "out")
    merged = open_corpus(tmp_path / "out")
    assert (merged.format, len(merged)) == ("mds", 1502)
    assert rows_of(merged)[0] == rows_of(merged)[-1]


def test_the_bytes_do_not_depend_on_workers_or_parts(sources: list[Path], tmp_path: Path) -> None:
    settings: dict[str, Any] = {"format": "mds", **SMALL}
    merge(sources, tmp_path / "one", **settings)
    merge(sources, tmp_path / "two", num_workers=2, **settings)
    job = plan_merge(sources, **settings)
    for k in (2, 1):
        run_part(job, tmp_path / "parts", (k, 2))
    merge(sources, tmp_path / "parts", finish=True, **settings)
    assert tree(tmp_path / "one") == tree(tmp_path / "two") == tree(tmp_path / "parts")


def corpus(path: Path, **settings: Any) -> Corpus:
    return write_corpus(path, [[1, 2], [3]], **settings)


def test_tokens_are_as_wide_as_the_widest_and_nulls_are_where_a_source_has_no_field(tmp_path: Path) -> None:
    one = corpus(tmp_path / "a", url=("string?", ["x", None]), n=("int64", [1, 2]))
    two = corpus(tmp_path / "b", token_dtype="uint32", n=("int64?", [None, 4]))
    merge([one, two], tmp_path / "out")
    merged = open_corpus(tmp_path / "out")
    assert merged.schema.token_dtype == "uint32"
    assert {name: str(type) for name, type in merged.schema.fields.items()} == {"n": "int64?", "url": "string?"}
    assert [merged.row(i)["url"] for i in range(4)] == ["x", None, None, None]
    assert [merged.row(i)["n"] for i in range(4)] == [1, 2, None, 4]
    merge([one, two], tmp_path / "narrow", token_dtype="uint16")
    assert open_corpus(tmp_path / "narrow").schema.token_dtype == "uint16"


def test_what_a_source_does_not_say_the_result_does_not_say_and_it_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "foreign.npy", np.array([5, 6], np.uint16))
    report = merge([corpus(tmp_path / "a", eos_token_id=7), tmp_path / "foreign.npy"], tmp_path / "out")
    merged = open_corpus(tmp_path / "out")
    assert (merged.schema.eos_token_id, merged.schema.vocab_size) == (None, None)
    assert [row[0] for row in rows_of(merged)] == [[1, 2], [3], [5, 6]]
    assert [note.partition(" do not say it")[0] for note in report.notes] == [
        f"{name}: {tmp_path / 'foreign.npy'}" for name in ("vocab_size", "eos_token_id")
    ]


@pytest.mark.parametrize(
    ("mine", "theirs", "message"),
    [
        ({"vocab_size": 9}, {"vocab_size": 8}, r"vocab_size differs, so these corpora can't be one: .*a: 9; .*b: 8"),
        ({"eos_token_id": 0}, {"eos_token_id": 1}, "eos_token_id differs"),
        ({"tokenizer": "x"}, {"tokenizer": "y"}, "tokenizer differs"),
        ({"n": ("int64", [1, 2])}, {"n": ("int32", [1, 2])}, r"field 'n' differs.*a: int64; .*b: int32"),
        ({"n": ("int64", [1, 2])}, {}, r"b: it has no field 'n', which is never null in the other corpora \(int64\)"),
        ({"layout": Layout(seq_len=3)}, {}, "layout differs"),
    ],
)
def test_what_differs_in_meaning_is_refused(
    tmp_path: Path, mine: dict[str, Any], theirs: dict[str, Any], message: str
) -> None:
    one, two = corpus(tmp_path / "a", **mine), corpus(tmp_path / "b", **theirs)
    with pytest.raises(SchemaError, match=message):
        merge([one, two], tmp_path / "out")


@pytest.mark.parametrize("given", [[], "corpus"])
def test_sources_are_a_list(tmp_path: Path, given: Any) -> None:
    with pytest.raises(ConfigError, match="sources: expected a list of corpora; found"):
        merge(given, tmp_path / "out")


def test_a_source_with_changed_rows_is_told(tmp_path: Path) -> None:
    one = write_corpus(tmp_path / "a", random_rows(seed=1, num_rows=50, longest=5))
    two = write_corpus(tmp_path / "b", random_rows(seed=2, num_rows=50, longest=5))
    file = next((tmp_path / "b").glob("*.npy"))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(VerificationError, match=r"b: its rows don't have the digest that its manifest promises"):
        merge([one, two], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    convert(one, tmp_path / "fine", to="npy")
