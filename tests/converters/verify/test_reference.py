"""The official library reads the same, or its first difference is named by shard and row."""

import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

import tokenyard
from tests.converters.verify.made import BAD, FORMATS, remove, shard_file, write
from tests.corpora import write_corpus
from tests.formats import all_types, mds_by_hand
from tokenyard.converters.verify import official_library, verify
from tokenyard.converters.verify.meter import Meter
from tokenyard.converters.verify.official_library import SCRIPTS, End, Rows, Values, library_of
from tokenyard.converters.verify.reference import compare_with_reference
from tokenyard.corpus import Corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.errors import ConfigError, MissingDependencyError, VerificationError
from tokenyard.formats.registry import get_format

LIBRARY = {
    "npy": "numpy",
    "mds": "mosaicml-streaming",
    "webdataset": "webdataset",
    "parquet": "pyarrow",
    "jsonl": "json of Python",
    "csv": "csv of Python",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A corpus of each format with a field of every type."""
    home = tmp_path_factory.mktemp("whole")
    for format in FORMATS:
        with tokenyard.CorpusWriter(
            home / format, format=format, schema=all_types.schema(), shard_bytes=3000
        ) as writer:
            writer.write_batch(all_types.rows())
    return home


@pytest.mark.parametrize("format", FORMATS)
def test_the_official_library_reads_every_token_and_field_alike(whole, format, peers_python):
    report = verify(whole / format, reference=True, python=peers_python)
    assert report.problems == ()
    assert report.notes == ()
    assert report.num_shards > 1
    assert str(report.reference).startswith(LIBRARY[format] + " ")


@pytest.mark.parametrize(
    ("format", "compression"),
    [("mds", "zstd"), ("webdataset", "gz"), ("jsonl", "gzip"), ("csv", "gzip")],
)
def test_compressed_shards_are_compared_too(tmp_path, format, compression, peers_python):
    path = write(tmp_path / "corpus", format, num_rows=100, shard_bytes=800, compression=compression)
    report = verify(path, reference=True, python=peers_python)
    assert report.problems == ()
    assert report.notes == ()


@pytest.mark.parametrize("format", ["npy", "parquet", "jsonl", "csv"])
def test_several_workers_find_the_same(tmp_path, format, monkeypatch):
    monkeypatch.setattr("tokenyard.converters.verify.reference._TASK_BYTES", 4000)
    path = write(tmp_path / "corpus", format, num_rows=500, shard_bytes=2000)
    told = []
    report = verify(path, reference=True, num_workers=2, on_progress=told.append)
    assert report.ok
    assert told[-1].share == 1.0
    assert told[-1].rows == 1000


@pytest.mark.parametrize("format", FORMATS)
def test_a_token_that_the_library_reads_otherwise_is_named_by_shard_and_row(tmp_path, format, peers_python):
    path = write(tmp_path / "corpus", format, num_rows=100, shard_bytes=1000)
    corpus = tokenyard.open_corpus(path)
    shard = int(np.searchsorted(corpus.shard_row_starts, 70, "right")) - 1
    lying = Lying(corpus.folder, corpus.manifest, get_format(format))
    report = verify(lying, reference=True, python=peers_python)
    by_library = [p for p in report.problems if "official library" in str(p)]
    token, first = int(corpus[70][0]), int(corpus.shard_row_starts[shard])
    assert [str(p) for p in by_library] == [
        f"{shard_file(path, shard)}, row 70 ({70 - first} of the shard): differs from the official library: tokens: "
        f"item 0 is {token + 1} here, {token} by the library"
    ]
    assert by_library[0].rows == (70, 70)


class Lying(Corpus):
    """A reader with a defect: it gives another first token in row 70."""

    def batches(self, start=0, stop=None, **options):
        for batch in super().batches(start, stop, **options):
            if start <= 70 < start + len(batch):
                tokens = batch.tokens.copy()
                tokens[batch.offsets[70 - start]] += 1
                batch = replace(batch, tokens=tokens)
            start += len(batch)
            yield batch


@pytest.mark.parametrize("format", ["mds", "webdataset", "parquet", "npy"])
def test_a_corpus_that_others_made_is_compared_as_well(whole, tmp_path, format, peers_python, monkeypatch):
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "cache"))
    path = shutil.copytree(write(tmp_path / "ours", format, num_rows=60, shard_bytes=500), tmp_path / "others")
    shutil.rmtree(path / ".tokenyard")
    report = verify(path, reference=True, python=peers_python)
    assert report.problems == ()
    if format in ("npy", "parquet"):
        index_corpus(path)
        assert verify(path, reference=True, python=peers_python).ok


def test_bare_ids_and_two_dimensions_are_compared_by_rows(tmp_path):
    (tmp_path / "bare").mkdir()
    np.arange(50, dtype=np.uint16).tofile(tmp_path / "bare" / "tokens.npy")
    read = {"token_dtype": "uint16", "split": {"length": 7}}
    assert verify(tmp_path / "bare", reference=True, read=read).ok
    for order in "CF":
        (tmp_path / order).mkdir()
        np.save(tmp_path / order / "tokens.npy", np.asarray(np.arange(60).reshape(10, 6), order=order))
        assert verify(tmp_path / order, reference=True).ok


def test_what_the_library_gives_as_something_else_is_told_and_not_compared(tmp_path, peers_python):
    rows = [{"tokens": [1, 2], "info": {"a": 1}, "n": "5"}, {"tokens": [3], "info": {"a": 2}, "n": "6"}]
    mds_by_hand.dataset(tmp_path / "c", {"tokens": "ndarray:uint16", "info": "json", "n": "str_int"}, rows)
    report = verify(tmp_path / "c", reference=True, python=peers_python)
    assert report.ok
    assert "field 'info' was not compared: the library gives dict" in report.notes
    assert "field 'n' was not compared: the library gives int" in report.notes


def test_damaged_shards_are_not_read_again_and_the_others_are(tmp_path):
    path = write(tmp_path / "corpus", num_rows=200, shard_bytes=2000)
    remove(path)
    report = verify(path, reference=True)
    assert len(report.problems) == 1
    assert report.bad_shards == (BAD,)
    assert "1 damaged shards were not read with the official library" in report.notes


def test_a_native_index_that_the_library_can_not_read_is_told(tmp_path, peers_python):
    path = write(tmp_path / "corpus", "mds", num_rows=50)
    (path / "index.json").unlink()
    report = verify(path, reference=True, python=peers_python)
    assert any("the library can't read it: FileNotFoundError" in str(p) for p in report.problems)


@pytest.mark.parametrize(("format", "module"), [("mds", "streaming"), ("webdataset", "webdataset")])
def test_a_missing_library_is_an_error_that_says_what_to_install(whole, format, module):
    package = "mosaicml-streaming" if module == "streaming" else module
    with pytest.raises(
        MissingDependencyError,
        match=rf"has no module '{module}', .*: install {package} there \(.* -m pip install {package}\)",
    ):
        verify(whole / format, reference=True, python=sys.executable)


def test_an_interpreter_that_is_none_is_an_error_that_names_it(whole, tmp_path):
    with pytest.raises(
        ConfigError, match=r"--python: .*/nothing can't be run \(No such file.*give the interpreter of an"
    ):
        verify(whole / "npy", reference=True, python=tmp_path / "nothing")


def stand_in(tmp_path, *lines):
    """A program in the place of an interpreter."""
    program = tmp_path / "program"
    program.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    program.chmod(0o755)
    return program


VERSION = """echo '{"version": "1"}'"""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["echo gone wrong >&2", "exit 3"], r"numpy, asked of .*/program: ended with status 3; .*:\ngone wrong"),
        (["exit 0"], r"numpy, asked of .*/program: ended and said nothing; .*/program is no Python interpreter"),
        (["echo hello"], r"numpy, asked of .*: expected a frame, found b'hello"),
        (
            [VERSION, """echo '{"shard": 0, "rows": 1, "columns": [["tokens", "<u2", 9, 0, 0]]}'"""],
            "ended in the middle",
        ),
        (["exec sleep 600"], "numpy, asked of .*: said nothing for 0.2 s; ended"),
    ],
)
def test_a_library_whose_process_fails_is_an_error_that_says_how(whole, tmp_path, monkeypatch, lines, said):
    monkeypatch.setattr("tokenyard.converters.verify.official_library._SILENCE_S", 0.2 if "sleep" in lines[0] else 60)
    with pytest.raises(VerificationError, match=said):
        verify(whole / "npy", reference=True, python=stand_in(tmp_path, *lines))


def values(*rows, dtype=np.int64, valid=None):
    """Lists as a library gives them."""
    lengths = np.array([len(row) for row in rows])
    items = np.array([item for row in rows for item in row], dtype)
    return Values(items=items, lengths=lengths, valid=None if valid is None else np.array(valid))


@pytest.mark.parametrize(
    ("messages", "row", "said"),
    [
        ([values([1, 2], [3], [4, 5])], None, None),
        ([values([1, 2], [3], [4, 6])], 2, "tokens: item 1 is 5 here, 6 by the library"),
        ([values([1, 2], [3, 4], [5])], 1, "tokens: 1 items here, 2 by the library"),
        ([values([1, 2]), values([3], [4])], 2, "tokens: 2 items here, 1 by the library"),
        ([values([1, 2], [3])], 2, "the library ends before this row"),
        ([values([1, 2], [3], [4, 5]), values([6])], 2, "the library goes on after the last row"),
        (["text"], 0, "the library gives text as tokens"),
        ([], None, "the library can't read it: OSError: damaged"),
    ],
)
def test_the_first_difference_is_told_in_words(tmp_path, monkeypatch, messages, row, said):
    corpus = write_corpus(tmp_path / "corpus", [[1, 2], [3], [4, 5]])
    counts = [1 if isinstance(m, str) else len(m.lengths) for m in messages]
    frames = [Rows(shard=0, count=n, columns={"tokens": m}) for n, m in zip(counts, messages, strict=True)]
    end = End(shard=0, error=None if messages else "OSError: damaged")
    monkeypatch.setattr(official_library, "read", lambda *_: iter([*frames, end]))
    found, _ = compare_with_reference(corpus, "python", (), 1, Meter(None))
    assert [p.rows for p in found] == ([] if said is None else [None if row is None else (row, row)])
    for problem in found:
        assert str(problem).startswith(str(tmp_path / "corpus" / "shard-00000.npy"))
        assert str(problem).endswith(f": differs from the official library: {said}")


def test_nulls_and_numbers_of_fields_are_compared(tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus", [[1], [2], [3]], n=("uint64?", [2**64 - 1, None, 7]))
    tokens = values([1], [2], [3])

    def compare(n):
        frames = [Rows(shard=0, count=3, columns={"tokens": tokens, "n": n}), End(shard=0, error=None)]
        monkeypatch.setattr(official_library, "read", lambda *_: iter(frames))
        return [str(p).rpartition("library: ")[2] for p in compare_with_reference(corpus, "p", (), 1, Meter(None))[0]]

    assert compare(values([2**64 - 1], [], [7], dtype=np.uint64, valid=[True, False, True])) == []
    assert compare(values([2**64 - 1], [], [8], dtype=np.uint64, valid=[True, False, True])) == [
        "n: 7 here, 8 by the library"
    ]
    assert compare(values([2**64 - 1], [0], [7], dtype=np.uint64, valid=[True, True, True])) == [
        "n: it is null here, by the library it is not"
    ]


def test_rows_that_tokenyard_itself_can_not_read_are_told_as_such(tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus", [[1], [2]], format="jsonl")
    (tmp_path / "corpus" / "shard-00000.jsonl").unlink()
    frames = [Rows(shard=0, count=2, columns={"tokens": values([1], [2])}), End(shard=0, error=None)]
    monkeypatch.setattr(official_library, "read", lambda *_: iter(frames))
    (problem,) = compare_with_reference(corpus, "python", (), 1, Meter(None))[0]
    assert "tokenyard can't read it: can't" in str(problem)


def test_arguments_that_do_not_go_together_are_refused(whole, tmp_path):
    with pytest.raises(ConfigError, match="reference needs every shard read, which quick doesn't do"):
        verify(whole / "npy", quick=True, reference=True)
    with pytest.raises(
        ConfigError, match="python names the environment of the official library; it goes with reference"
    ):
        verify(whole / "npy", python=sys.executable)


def test_a_format_without_an_official_library_is_refused():
    with pytest.raises(ConfigError, match="format arrowfile has no official library to read with; there are mds, webd"):
        library_of("arrowfile")


def test_every_script_stands_alone():
    for script in SCRIPTS.glob("*.py"):
        assert "import tokenyard" not in script.read_text()
        assert "from tokenyard" not in script.read_text()
