"""Texts at URLs: the documents of the same files on a disk, asked for sparingly, and held to what was planned."""

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.servers.faulty import Fault, Proxy
from tests.servers.files import file_server
from tests.servers.web import web_server
from tokenyard.converters.text import BadRecord, TextOptions, check_outside, plan_texts, read_split, size_of
from tokenyard.errors import ConfigError, DataError, StorageError
from tokenyard.storage.objects import open_objects

TEXTS = [f"text {i} é" for i in range(60)]
LINES = "".join(f'{{"text": "{t}"}}\n' for t in TEXTS).encode()


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), out, row_group_size=7)
    return out.getvalue()


FILES = {
    "a.jsonl": LINES,
    "b/c.jsonl.gz": gzip.compress(LINES),
    "b/d e%20#.csv.zst": zstandard.compress(b"text\n" + "\n".join(TEXTS).encode()),
    "b/empty.txt": b"",
    "e.parquet": _parquet(),
    "f.parquet.gz": gzip.compress(_parquet()),
    "g.txt": "\n".join(TEXTS).encode(),
    ".hidden/h.txt": b"no text",
    "readme.rst": b"of no known kind",
}


def put(url: str, files: dict[str, bytes] = FILES) -> str:
    objects = open_objects(url)
    for name, data in files.items():
        objects.put(name, data)
    return url


def test_a_folder_of_objects_has_the_documents_of_the_same_folder_on_a_disk(
    bucket: str, read: Callable[..., list[object]], file: Callable[[str, bytes], Path], tmp_path: Path
) -> None:
    for name, data in FILES.items():
        file(name, data)
    for documents in ("file", "line"):
        options = {"split_bytes": 300, "txt_documents": documents}
        far = read(put(f"{bucket}/texts"), **options)
        near = read(tmp_path, **options)
        assert [found.text for found in far] == [found.text for found in near]  # type: ignore[attr-defined]
        assert len(far) > 5 * len(TEXTS)
    assert [found.text for found in read(f"file://{tmp_path}/a.jsonl")] == TEXTS  # type: ignore[attr-defined]


def test_a_folder_is_listed_once_and_of_each_file_its_head_is_read(bucket: str, faulty: Proxy) -> None:
    put(bucket, {f"texts/{i}.jsonl": LINES for i in range(20)})
    faulty.clear()
    plan = plan_texts(f"{bucket}/texts", TextOptions())
    assert [split.path for split in plan.splits][:3] == [f"{bucket}/texts/{i}.jsonl" for i in (0, 1, 10)]
    assert (faulty.count("list"), faulty.count("HEAD"), faulty.count("GET")) == (1, 1, 20)
    faulty.clear()
    (split,) = plan_texts(f"{bucket}/texts/7.jsonl", TextOptions()).splits
    assert len(list(read_split(split, TextOptions()))) == len(TEXTS)
    assert (faulty.count("list"), faulty.count("HEAD")) == (0, 1)


def test_files_of_a_web_server_are_read_one_by_one(file: Callable[[str, bytes], Path], tmp_path: Path) -> None:
    file("a/b c.jsonl", LINES)
    with file_server(tmp_path) as server:
        (split,) = plan_texts(f"{server.url}/a/b%20c.jsonl", TextOptions()).splits
        assert len(list(read_split(split, TextOptions()))) == len(TEXTS)
        with pytest.raises(StorageError, match=r"/a: no such object; a web server lists no folders, so name each"):
            plan_texts(f"{server.url}/a", TextOptions())


def test_urls_that_name_nothing_or_what_is_not_read_are_errors(bucket: str) -> None:
    put(bucket, {"mds/index.json": b"{}", "mds/shard.00000.mds": b"", "a.jsonl": LINES})
    for url, error, message in (
        (f"{bucket}/nothing", StorageError, r"/nothing: no such object, and no files below it; check the URL"),
        (f"{bucket}/*.jsonl", ConfigError, r"\*\.jsonl: patterns are for paths of this machine; name the folder"),
        (
            f"{bucket}/mds",
            ConfigError,
            r"an MDS data set \(mds/shard|an MDS data set \(shard.00000.mds\).*copy it here",
        ),
        (bucket, ConfigError, r"an MDS data set \(mds/shard.00000.mds\); as texts .* folders of this machine"),
        (f"{bucket}/../a", ConfigError, r"names of objects have no"),
    ):
        with pytest.raises(error, match=message):
            plan_texts(url, TextOptions())
    with pytest.raises(ConfigError, match=r"a.jsonl: named by more than one input"):
        plan_texts([f"{bucket}/a.jsonl"] * 2, TextOptions())
    with pytest.raises(StorageError, match=r"can't read .*/gone.jsonl: no such object; check the URL, or restore"):
        size_of(f"{bucket}/gone.jsonl")
    assert size_of(f"{bucket}/a.jsonl") == len(LINES)


@pytest.mark.parametrize("other", [LINES[::-1], LINES + b"\n"], ids=["of the same size", "of another size"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_an_object_that_is_replaced_after_it_was_planned_is_an_error(bucket: str, name: str, other: bytes) -> None:
    data = _parquet() if name == "a.parquet" else LINES
    objects = open_objects(bucket)
    objects.put(name, data)
    (split,) = plan_texts(f"{bucket}/{name}", TextOptions()).splits
    objects.put(name, other)
    with pytest.raises(DataError, match=rf"{name}.* (replaced|changed|another)"):
        list(read_split(split, TextOptions()))


def test_of_a_server_without_etags_the_time_of_the_last_change_tells(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    os.utime(tmp_path / "a.jsonl", (1e9, 1e9))
    with file_server(tmp_path) as server:
        server.etags = False
        (split,) = plan_texts(f"{server.url}/a.jsonl", TextOptions()).splits
        assert len(list(read_split(split, TextOptions()))) == len(TEXTS)
        (tmp_path / "a.jsonl").write_bytes(LINES[::-1])
        assert plan_texts(f"{server.url}/a.jsonl", TextOptions()).splits != (split,)
        with pytest.raises(DataError, match=r"a.jsonl: was changed since the plan was made.*Plan anew"):
            list(read_split(split, TextOptions()))


@pytest.mark.parametrize("fault", ["500", "503", "reset", "cut"])
def test_faults_that_pass_change_no_document(bucket: str, faulty: Proxy, fault: Fault) -> None:
    put(bucket)
    faulty.clear()
    faulty.choose = lambda request: fault if request.attempt == 1 else None
    options = TextOptions(split_bytes=300, txt_documents="line")
    found = [record for split in plan_texts(bucket, options).splits for record in read_split(split, options)]
    assert faulty.faults[fault] > 10
    assert not [record for record in found if isinstance(record, BadRecord)]
    assert len(found) == 6 * len(TEXTS)


@pytest.mark.parametrize("name", ["a.jsonl", "e.parquet"])
def test_a_store_that_stays_away_is_an_error_that_names_the_file(
    bucket: str, faulty: Proxy, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    put(bucket)
    monkeypatch.setenv("TOKENYARD_STORAGE_DEADLINE", "1")
    split = plan_texts(f"{bucket}/{name}", TextOptions()).splits[0]
    faulty.choose = lambda request: "500"
    with pytest.raises(StorageError, match=rf"can't read {bucket}/{name}: the store answered 500"):
        list(read_split(split, TextOptions()))
    with pytest.raises(StorageError, match=rf"{bucket}.*: the store answered 500"):
        plan_texts(bucket, TextOptions())


def test_a_corpus_among_its_own_inputs_is_told_at_urls_too() -> None:
    with pytest.raises(ConfigError, match=r"s3://b/texts/out: the destination lies in S3://b/texts, whose files"):
        check_outside(["/tmp", "S3://b/texts"], ["s3://b/texts/a.jsonl"], "s3://b/texts/out")
    with pytest.raises(ConfigError, match=r"s3://b/out/a%20b.jsonl: an input that lies in the destination, s3://b/out"):
        check_outside("s3://b/out/a%20b.jsonl", ["s3://b/out/a%20b.jsonl"], "s3://b/out")
    for dst in ("s3://b/texts2", "s3://other/texts/out", "s3://b/texts/.out", "/tmp/out", "gs://b/texts/out"):
        check_outside("s3://b/texts", ["s3://b/texts/a.jsonl"], dst)


def test_texts_on_a_branch_of_the_hub_are_those_of_the_commit_that_was_planned(
    texts: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = TextOptions()
    first, second = "1" * 40, "2" * 40
    for commit, letter in ((first, "a"), (second, "b")):
        for name in ("x.txt", "some/y.txt"):
            path = tmp_path / commit / "te%41 xts" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{letter} of {name}")
    with web_server(tmp_path) as web:
        monkeypatch.setenv("HF_ENDPOINT", web.url)
        for url, names in (
            ("hf://datasets/owner/name/te%2541%20xts", ["some/y.txt", "x.txt"]),
            ("hf://datasets/owner/name@main/te%2541%20xts/x.txt", ["x.txt"]),
        ):
            web.main = first
            splits = plan_texts(url, options).splits
            web.main = second
            found = [record.text for split in splits for record in read_split(split, options)]  # type: ignore[union-attr]
            assert found == [f"a of {name}" for name in names]
            folder = f"hf://datasets/owner/name@{first}/te%2541%20xts"
            assert [split.path for split in splits] == [f"{folder}/{name}" for name in names]
            assert texts(url) == [f"b of {name}" for name in names]
