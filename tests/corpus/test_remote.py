"""Corpora at URLs: the same rows as on a disk, with no more requests than needed."""

from __future__ import annotations

import multiprocessing
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.corpora import FORMATS, random_rows, write_corpus
from tests.formats.golden import CORPORA, DIGEST, GOLDEN
from tests.servers.copies import upload
from tests.servers.faulty import Proxy
from tokenyard.bench.settings import BenchSettings
from tokenyard.bench.workplace import parent_of
from tokenyard.converters.convert import convert
from tokenyard.converters.verify import verify
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.digest import digest_of
from tokenyard.errors import ConfigError, DataError, IncompleteCorpusError, NotACorpusError, StorageError
from tokenyard.manifest import MANIFEST_NAME, MARKER_NAME
from tokenyard.storage.objects import open_objects

ROWS = random_rows(0, 200, 100)
SOURCES = [f"source {i}" for i in range(len(ROWS))]


@pytest.fixture(scope="module", params=FORMATS)
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus of a few shards in each format, with a field of text."""
    path = tmp_path_factory.mktemp("local") / request.param
    return write_corpus(path, ROWS, format=request.param, shard_bytes=8_000, source=("string", SOURCES))


def assert_same(corpus: Corpus, local: Corpus) -> None:
    """All ways of reading give the rows of the local corpus."""
    assert digest_of(corpus.batches(), local.schema.fields).tokens == local.digest
    assert [corpus.row(i)["source"] for i in (0, 57, 199)] == [SOURCES[i] for i in (0, 57, 199)]
    rows = np.random.default_rng(0).permutation(len(local))
    assert np.array_equal(corpus.gather_rows(rows)[0], local.gather_rows(rows)[0])
    starts = np.arange(0, local.num_tokens - 50, 331)
    assert np.array_equal(corpus.gather_windows(starts, 50), local.gather_windows(starts, 50))


def test_a_corpus_at_a_url_has_the_rows_of_the_local_one(local: Corpus, bucket: str) -> None:
    corpus = open_corpus(upload(Path(str(local.path)), f"{bucket}/corpus"))
    assert (corpus.digest, str(corpus.path), len(corpus)) == (local.digest, f"{bucket}/corpus", len(local))
    assert repr(corpus) == f"Corpus('{bucket}/corpus', {local.format}, {len(local)} rows, {local.num_tokens} tokens)"
    assert_same(corpus, local)
    assert_same(pickle.loads(pickle.dumps(corpus)), local)


def test_a_corpus_in_memory_has_the_rows_of_the_local_one(local: Corpus) -> None:
    assert_same(open_corpus(upload(Path(str(local.path)), f"memory://remote/{local.format}")), local)


def _read_in_a_child(corpus: Corpus, local: Corpus) -> None:
    assert_same(corpus, local)


@pytest.mark.timeout(120)
def test_a_forked_child_reads_what_its_parent_reads(local: Corpus, bucket: str) -> None:
    corpus = open_corpus(upload(Path(str(local.path)), bucket))
    assert_same(corpus, local)
    child = multiprocessing.get_context("fork").Process(target=_read_in_a_child, args=(corpus, local))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child.start()
    child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("name", CORPORA)
def test_golden_corpora_read_from_a_url_in_every_way_they_are_stored(name: str, bucket: str) -> None:
    corpus = open_corpus(upload(GOLDEN / name, f"{bucket}/a folder/{name}"))
    assert digest_of(corpus.batches(), corpus.schema.fields).tokens == DIGEST


def test_nothing_is_listed_where_a_manifest_is(local: Corpus, faulty: Proxy, bucket: str) -> None:
    upload(Path(str(local.path)), bucket)
    faulty.clear()
    corpus = open_corpus(bucket)
    assert_same(corpus, local)
    assert faulty.count("list") == 0
    # The manifest is asked for once, and read once; nothing else is asked for before it is read.
    assert [r.key for r in faulty.seen if r.kind == "HEAD" and r.key.startswith(".")] == [MANIFEST_NAME]
    assert [r.key for r in faulty.seen if r.kind == "GET"].count(MANIFEST_NAME) == 1


def test_nothing_is_listed_where_an_index_json_is(tmp_path: Path, faulty: Proxy, bucket: str) -> None:
    write_corpus(tmp_path / "source", ROWS, shard_bytes=8_000)
    for compression in ("none", "zstd"):
        path = tmp_path / compression
        convert(tmp_path / "source", path, to="mds", compression=compression)
        url = upload(path, f"{bucket}/{compression}", without=".tokenyard")
        faulty.clear()
        corpus = open_corpus(url)
        assert np.array_equal(np.concatenate([b.tokens for b in corpus.batches()]), np.concatenate(ROWS))
        assert faulty.count("list") == 0
        gets = len([r for r in faulty.seen if r.kind == "GET"])
        again = open_corpus(url)
        assert len(again) == len(ROWS)
        # Indexes come from the user's cache: index.json alone is read again.
        assert {r.key for r in faulty.seen if r.kind == "GET"} >= {f"{compression}/index.json"}
        assert len([r for r in faulty.seen if r.kind == "GET"]) <= gets + 3


def test_a_folder_of_others_is_listed_once(local: Corpus, faulty: Proxy, bucket: str, tmp_path: Path) -> None:
    if local.format == "mds":
        return  # it has an index.json
    read = {"fields": ()} if local.format == "npy" else {}
    upload(Path(str(local.path)), bucket, without=".tokenyard")
    faulty.clear()
    corpus = open_corpus(bucket, **({"fields": ("source",)} if local.format == "csv" else read))
    assert faulty.count("list") == 1
    tokens = np.concatenate([b.tokens for b in corpus.batches()])
    assert np.array_equal(tokens, np.concatenate(ROWS))
    assert faulty.count("list") == 1


def test_a_url_of_one_object_and_a_list_of_them_open_as_files_do(tmp_path: Path, bucket: str) -> None:
    corpus = write_corpus(tmp_path / "c", ROWS, format="parquet", shard_bytes=8_000)
    names = [f.name for s in corpus.manifest.shards for f in s.files]
    upload(tmp_path / "c", bucket)
    one = open_corpus(f"{bucket}/{names[1]}")
    assert (len(one), str(one.path)) == (corpus.manifest.shards[1].num_rows, f"{bucket}/{names[1]}")
    some = open_corpus([f"{bucket}/{n}" for n in names])
    assert np.array_equal(np.concatenate([b.tokens for b in some.batches()]), np.concatenate(ROWS))


@pytest.mark.parametrize("written", ["a b ü.parquet", "a%20b%20%C3%BC.parquet"])
def test_an_object_is_found_by_its_url_as_a_folder_is(tmp_path: Path, written: str) -> None:
    corpus = write_corpus(tmp_path / "c", ROWS, format="parquet")
    at = "memory://names/of%20objects"
    open_objects(at).put("a b ü.parquet", corpus.folder.read(corpus.manifest.shards[0].files[0].name))
    for path in (f"{at}/{written}", [f"{at}/{written}"]):
        assert len(open_corpus(path)) == len(ROWS)


def test_an_index_of_others_is_known_by_the_etags_of_its_objects(tmp_path: Path, faulty: Proxy, bucket: str) -> None:
    write_corpus(tmp_path / "a", ROWS, format="jsonl")
    write_corpus(tmp_path / "b", ROWS[::-1], format="jsonl")
    (name,) = [p.name for p in (tmp_path / "a").glob("*.jsonl")]
    objects = open_objects(bucket)
    objects.put("rows.jsonl", (tmp_path / "a" / name).read_bytes())
    assert len(open_corpus(bucket)[0]) == len(ROWS[0])
    faulty.clear()
    assert len(open_corpus(bucket)) == len(ROWS)
    read = sum(r.kind == "GET" for r in faulty.seen)
    objects.put("rows.jsonl", (tmp_path / "b" / name).read_bytes())
    assert open_corpus(bucket)[0].tolist() == ROWS[-1]
    assert sum(r.kind == "GET" for r in faulty.seen) > 2 * read


def test_an_index_at_a_url_goes_into_the_cache_of_the_user(tmp_path: Path, bucket: str) -> None:
    local = write_corpus(tmp_path / "c", ROWS, format="jsonl")
    upload(tmp_path / "c", bucket, without=".tokenyard")
    manifest = index_corpus(bucket)
    assert manifest.digests is not None
    assert manifest.digests.tokens == local.digest
    assert open_corpus(bucket).digest == local.digest
    assert [o.name for o in open_objects(bucket).list()] == ["shard-00000.jsonl"]


def test_an_index_is_not_made_where_a_manifest_is(tmp_path: Path, bucket: str) -> None:
    write_corpus(tmp_path / "c", ROWS)
    with pytest.raises(ConfigError, match=r"has a manifest already, and row indexes are rebuilt on a disk; copy"):
        index_corpus(upload(tmp_path / "c", bucket))


def test_an_index_that_can_be_kept_nowhere_is_told(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path / "c", ROWS, format="jsonl")
    upload(tmp_path / "c", bucket, without=".tokenyard")
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(StorageError, match=r"the user's cache, where its index goes, can't be written; set TOKENYARD"):
        index_corpus(bucket)


@pytest.mark.parametrize("way", [{"reference": True}, {"quarantine": "good"}])
def test_what_works_on_files_alone_is_refused_of_a_url(way: dict[str, Any], tmp_path: Path, bucket: str) -> None:
    write_corpus(tmp_path / "c", ROWS)
    with pytest.raises(
        ConfigError, match=rf"{bucket}: {next(iter(way))} works on files of this machine; copy the corpus"
    ):
        verify(upload(tmp_path / "c", bucket), **way)


def test_a_benchmark_of_a_corpus_at_a_url_says_which_disk_it_measures(tmp_path: Path, bucket: str) -> None:
    write_corpus(tmp_path / "c", ROWS)
    settings = BenchSettings(source=upload(tmp_path / "c", bucket))
    assert parent_of(settings) == (
        Path.cwd(),
        ["The corpus is on no disk here, so that of the current folder was measured; --dir names one."],
    )


def test_an_object_that_is_replaced_under_a_reader_is_refused(tmp_path: Path, bucket: str) -> None:
    write_corpus(tmp_path / "c", ROWS, shard_bytes=1 << 20)
    corpus = open_corpus(upload(tmp_path / "c", bucket))
    objects, name = corpus.folder.objects, corpus.manifest.shards[0].name  # type: ignore[attr-defined]
    assert corpus[3].tolist() == ROWS[3]
    objects.put(name, objects.read(name).tobytes()[::-1])
    with pytest.raises(DataError, match=rf"{name}: was replaced while it was read; open the corpus again"):
        list(corpus.batches())


def test_an_object_of_another_size_is_refused_with_its_first_bytes(tmp_path: Path, bucket: str) -> None:
    corpus = write_corpus(tmp_path / "c", ROWS, format="mds", shard_bytes=1 << 20)
    name, size = corpus.manifest.shards[0].files[0].name, corpus.manifest.shards[0].files[0].bytes
    url = upload(tmp_path / "c", bucket)
    open_objects(url).put(name, (tmp_path / "c" / name).read_bytes() + b"x")
    with pytest.raises(DataError, match=rf"{name}: {size + 1} bytes, expected {size}; it was cut or replaced"):
        open_corpus(url)[0]


def test_a_url_where_nothing_is_and_one_where_a_job_began_are_told_apart(bucket: str) -> None:
    with pytest.raises(NotACorpusError, match=r"/nothing: no tokenyard manifest, and not a corpus of one of"):
        open_corpus(f"{bucket}/nothing")
    open_objects(bucket).put(MARKER_NAME, b"{}")
    with pytest.raises(IncompleteCorpusError, match=r"a job has begun here and has not finished"):
        open_corpus(bucket)


def test_maps_of_a_url_are_refused(bucket: str) -> None:
    with pytest.raises(ConfigError, match=r"read: mmap is for files of this machine, s3://.* is read by ranges"):
        open_corpus(bucket, read="mmap")


def test_a_list_of_urls_names_objects_of_one_folder(bucket: str, tmp_path: Path) -> None:
    with pytest.raises(NotACorpusError, match=r"names objects of one folder; found 2 folders, such as"):
        open_corpus([f"{bucket}/a/1.npy", f"{bucket}/b/2.npy"])
    with pytest.raises(NotACorpusError, match=r"/a/1.npy: no such object \(a list names the files of one corpus"):
        open_corpus([f"{bucket}/a/1.npy"])


def test_a_bucket_that_is_not_there_is_named(bucket: str) -> None:
    with pytest.raises(
        StorageError, match=r"can't list s3://no-such-bucket-here/corpus: .*404.*\(NoSuchBucket\).*check the URL"
    ):
        open_corpus("s3://no-such-bucket-here/corpus")
