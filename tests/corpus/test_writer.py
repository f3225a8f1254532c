"""Writing: a corpus is whole or it is not there, and no value in it is another than was given."""

import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.corpus import Corpus, CorpusWriter, ShardRoller, destination, open_corpus
from tokenyard.corpus.indexing import index_corpus
from tokenyard.errors import (
    ConfigError,
    DestinationExistsError,
    IncompleteCorpusError,
    SchemaError,
    StorageError,
    UnknownFormatError,
)
from tokenyard.formats.base import FormatOptions, WrittenShard
from tokenyard.formats.npy import Npy
from tokenyard.manifest import Layout
from tokenyard.rows import Column, RowBatch
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import Folder
from tokenyard.testing.round_trips import contents
from tokenyard.testing.samples import documents

PLAIN = Schema(token_dtype="uint16")


def writer(path: Path, schema: Schema = PLAIN, **more: Any) -> CorpusWriter:
    return CorpusWriter(path, format="npy", schema=schema, **more)


def write(path: Path, *rows: Any, **more: Any) -> Corpus:
    with writer(path, **more) as w:
        for row in rows:
            w.write(row)
    return open_corpus(path)


class CallersError(Exception):
    """What goes wrong in the caller's own code."""


def write_and_stop(path: Path, *rows: Any, **more: Any) -> None:
    with writer(path, **more) as w:
        for row in rows:
            w.write(row)
        raise CallersError


def tokens_of(path: Path) -> list[list[int]]:
    corpus = open_corpus(path)
    return [corpus[i].tolist() for i in range(len(corpus))]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A destination; nothing may be left beside it that was not there before."""
    yield tmp_path / "corpus"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_the_marker_comes_first_and_the_manifest_last(place: Path) -> None:
    with writer(place, shard_bytes=4000) as w:
        assert json.loads((place / ".tokenyard/job.json").read_text()) == {"job": "write"}
        for i in range(3000):
            w.write([i])
        assert (place / "shard-00000.npy").exists()
        assert not (place / ".tokenyard/manifest.json").exists()
        with pytest.raises(IncompleteCorpusError, match=f"{place}: a job is making this corpus right now"):
            open_corpus(place)
    assert not (place / ".tokenyard/job.json").exists()
    assert not (place / ".tokenyard/tmp").exists()
    assert len(open_corpus(place)) == 3000
    assert w.manifest == w.close() == open_corpus(place).manifest


def test_an_error_in_the_block_leaves_nothing(place: Path) -> None:
    for wrapped in (place, place / "deep" / "er"):
        with pytest.raises(CallersError):
            write_and_stop(wrapped, *([i] for i in range(3000)), shard_bytes=4000)
        assert not place.exists()


def test_a_closed_writer_takes_no_more(place: Path) -> None:
    with writer(place) as w:
        w.write([1])
    with pytest.raises(ValueError, match="this CorpusWriter is closed"):
        w.write([1])
    assert tokens_of(place) == [[1]]


def test_an_error_in_the_block_leaves_an_empty_folder_empty(place: Path) -> None:
    place.mkdir()
    with pytest.raises(CallersError):
        write_and_stop(place, *([i] for i in range(3000)), shard_bytes=4000)
    assert list(place.iterdir()) == []
    assert tokens_of(write(place, [1]).folder.path) == [[1]]


def test_a_writer_that_is_never_closed_makes_no_corpus(place: Path) -> None:
    w = writer(place)
    w.write([1])
    with pytest.raises(IncompleteCorpusError, match="a job is making this corpus right now; wait for its end"):
        open_corpus(place)
    with pytest.raises(IncompleteCorpusError, match="a job is making this corpus right now"):
        index_corpus(place)
    w.close()
    assert tokens_of(place) == [[1]]


def test_after_an_error_that_lost_rows_a_writer_takes_no_more(place: Path) -> None:
    w = writer(place)
    for i in range(1023):
        w.write([65536 if i == 700 else i])
    with pytest.raises(SchemaError, match="row 700: token id 65536 does not fit uint16"):
        w.write([1])
    assert not place.exists()
    for use in (lambda: w.write([1]), w.close, lambda: w.__exit__(None, None, None)):
        with pytest.raises(
            ValueError, match="this CorpusWriter failed and removed what it had written; make a new one"
        ):
            use()


def test_an_error_caught_inside_the_block_does_not_end_in_silence(place: Path) -> None:
    def write_and_go_on() -> None:
        with writer(place) as w:
            for i in range(1024):
                with suppress(SchemaError):
                    w.write([-1 if i == 700 else i])

    with pytest.raises(ValueError, match="this CorpusWriter failed"):
        write_and_go_on()
    assert not place.exists()


def test_a_row_refused_at_once_is_not_written_and_the_others_are(place: Path) -> None:
    with writer(place) as w:
        w.write([1])
        for wrong in ([0.5], [[1]], "text", torch.tensor([1.0])):
            with pytest.raises(SchemaError, match="row 1: tokens must be a one-dimensional array of integers"):
                w.write(wrong)
        w.write([2])
    assert tokens_of(place) == [[1], [2]]


@pytest.mark.parametrize(("token", "row"), [(-1, 5), (65536, 1030), (119546, 2000), (2**40, 0)])
def test_an_id_that_does_not_fit_is_never_wrapped_and_its_row_is_named(place: Path, token: int, row: int) -> None:
    rows = [[1, token] if i == row else [1, 2] for i in range(2100)]
    with pytest.raises(SchemaError, match=f"row {row}: token id {token} does not fit uint16"):
        write(place, *rows)
    assert not place.exists()


def test_ids_that_fit_the_dtype_are_kept(place: Path) -> None:
    assert tokens_of(write(place, [65535, 65536, 119546], schema=Schema(token_dtype="uint32")).folder.path) == [
        [65535, 65536, 119546]
    ]


FIELDS = Schema(token_dtype="uint16", fields={"source": "string", "note": "string?", "mask": "uint8[]"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"source": "a", "mask": [1], "colour": 1},
            "row 1: field 'colour' is not declared; add it to Schema.fields, which has",
        ),
        ({"source": "a"}, r"row 1: field 'mask' is missing; pass it, or declare it 'uint8\[\]\?'"),
        (
            {"source": "a", "mask": {1}},
            r"row 1: field 'mask': \{1\} is neither a number, text, bytes nor a list of numbers",
        ),
        ({"source": "a", "mask": torch.ones(2, dtype=torch.bfloat16)}, "row 1: field 'mask': tensor.* can't be copied"),
    ],
)
def test_a_field_that_is_wrong_is_refused_at_once(place: Path, fields: dict[str, Any], message: str) -> None:
    with writer(place, FIELDS) as w:
        w.write([1], source="a", mask=[1], note=None)
        with pytest.raises(SchemaError, match=message):
            w.write([2], **fields)
        w.write([3], source="c", mask=[])
    assert tokens_of(place) == [[1], [3]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": None, "mask": [1]}, "row 1: field 'source' is null"),
        ({"source": 5, "mask": [1]}, "row 1: field 'source': expected string, found int"),
        ({"source": "a", "mask": [256]}, "row 1, item 0: field 'mask': 256 does not fit uint8"),
        ({"source": "a", "mask": [0.5]}, "row 1, item 0: field 'mask': expected uint8, found 0.5"),
    ],
)
def test_a_value_that_a_field_can_not_hold_is_refused_before_the_corpus_is_whole(
    place: Path, fields: dict[str, Any], message: str
) -> None:
    w = writer(place, FIELDS)
    w.write([1], source="a", mask=[1])
    w.write([2], **fields)
    with pytest.raises(SchemaError, match=message):
        w.close()
    assert not place.exists()


def test_what_is_written_is_what_was_given_and_not_what_it_became(place: Path) -> None:
    schema = Schema(
        token_dtype="uint16",
        fields={"list": "int64[]", "array": "int64[]", "raw": "bytes", "tensor": "int64[]", "one": "int64"},
    )
    tokens, values, array, raw = np.zeros(2, np.int64), [0, 0], np.zeros(2, np.int64), bytearray(2)
    tensor, one = torch.zeros(2, dtype=torch.int64), np.zeros((), np.int64)
    with writer(place, schema) as w:
        for i in range(3):
            for buffer in (tokens, values, array, raw, tensor):
                buffer[0] = i
            one[...] = i
            w.write(tokens, list=values, array=array, raw=raw, tensor=tensor, one=one)
    corpus = open_corpus(place)
    for i in range(3):
        row = {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in corpus.row(i).items()}
        assert row == {
            "tokens": [i, 0],
            "list": [i, 0],
            "array": [i, 0],
            "raw": bytes([i, 0]),
            "tensor": [i, 0],
            "one": i,
        }


def test_rows_and_batches_may_be_mixed(place: Path) -> None:
    schema, rows = documents(10)
    with writer(place, schema) as w:
        for i in range(3):
            w.write(rows.row(i)["tokens"], **{n: v for n, v in rows.row(i).items() if n != "tokens"})
        w.write_batch(rows.slice(3, 7))
        w.write_batch(rows.slice(7, 7))
        for i in range(7, 10):
            w.write(rows.row(i)["tokens"], **{n: v for n, v in rows.row(i).items() if n != "tokens"})
    whole = writer(place.with_name("whole"), schema)
    whole.write_batch(rows)
    assert open_corpus(place).manifest == whole.close()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the batch has fields none, the schema declares x: int64"),
        ({"x": ("int32", [1])}, "the batch has fields x: int32, the schema declares x: int64"),
        ({"x": ("int64?", [1])}, r"the batch has fields x: int64\?, the schema declares x: int64"),
        ({"x": ("int64", [1, 2])}, "field 'x' has 2 rows, its batch 1"),
    ],
)
def test_a_batch_that_does_not_keep_to_the_schema_is_refused(
    place: Path, fields: dict[str, tuple[str, list[int]]], message: str
) -> None:
    columns = {
        n: Column(type=FieldType.parse(t), values=np.array(v, FieldType.parse(t).dtype)) for n, (t, v) in fields.items()
    }
    batch = RowBatch(tokens=np.array([1], np.uint16), offsets=np.array([0, 1]), fields=columns)
    with (
        pytest.raises(SchemaError, match=message),
        writer(place, Schema(token_dtype="uint16", fields={"x": "int64"})) as w,
    ):
        w.write_batch(batch)
    assert not place.exists()


def test_the_ids_of_a_batch_are_checked_too(place: Path) -> None:
    w = writer(place)
    w.write([1])
    with pytest.raises(SchemaError, match="row 3: token id 70000 does not fit uint16"):
        w.write_batch(RowBatch.from_rows([[1], [2], [70000]], Schema()))
    assert not place.exists()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"format": "npz"}, UnknownFormatError, "unknown format 'npz'; did you mean 'npy'"),
        ({"colour": "red"}, ConfigError, "format npy has no option colour; it has shard_bytes"),
        ({"shard_bytes": 0}, ConfigError, "options of format npy: .*shard_bytes"),
        ({"schema": Schema(token_dtype="uint8")}, SchemaError, "token_dtype uint8 can be read but not written"),
        ({"schema": Schema(fields={"row": "int8"})}, SchemaError, "field name 'row' can't be kept in every format"),
        (
            {"layout": Layout(lengths_field="x")},
            SchemaError,
            "layout.lengths_field is 'x', but the schema's fields are none",
        ),
        ({"provenance": {"path": Path("x")}}, ConfigError, "provenance goes into the manifest, so it must be JSON"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_anything_is_made(
    place: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        CorpusWriter(place, **{"format": "npy", "schema": PLAIN, **arguments})
    assert not place.exists()


class Limited(Npy):
    """A format whose files have a limit."""

    max_file_bytes = 1000

    def write_shard(
        self, folder: Folder, stem: str, batches: Any, schema: Schema, options: FormatOptions
    ) -> WrittenShard:
        rows = RowBatch.concat(batches)
        size = rows.nbytes + 16 * len(rows) + 8 * len(rows) * sum(t.has_offsets for t in schema.fields.values())
        assert size <= 1000 or len(rows) == 1
        return super().write_shard(folder, stem, batches, schema, options)


@pytest.mark.parametrize("shard_bytes", [1, 100, 900, 1 << 30])
def test_a_shard_ends_before_the_limit_of_its_format(tmp_path: Path, shard_bytes: int) -> None:
    schema, rows = documents(200)
    roller = ShardRoller(Folder(tmp_path), Limited(), schema, FormatOptions(shard_bytes=shard_bytes))
    for start in range(0, 200, 30):
        roller.add(rows.slice(start, min(start + 30, 200)))
    roller.add(RowBatch.empty(schema))
    shards = roller.close()
    assert sum(s.num_rows for s in shards) == 200
    assert all(s.num_rows for s in shards)
    if shard_bytes == 1 << 30:
        assert max(s.num_tokens for s in shards) > 2 * rows.lengths.max()


def test_a_row_past_the_limit_of_its_format_is_refused_with_its_number(tmp_path: Path) -> None:
    roller = ShardRoller(Folder(tmp_path), Limited(), PLAIN, FormatOptions())
    roller.add(RowBatch.from_rows([[1], [2]], PLAIN))
    with pytest.raises(SchemaError, match="row 3: 4016 bytes, but a file of format npy holds 1000; cut the row"):
        roller.add(RowBatch.from_rows([[3], [0] * 2000, [4]], PLAIN))


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=60),
    st.lists(st.integers(1, 20), max_size=8),
    st.integers(1, 400),
    st.integers(0, 9),
)
def test_a_shard_of_a_block_or_more_ends_with_its_last_one_unless_half_of_it_would_be_left(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], cuts: list[int], shard_bytes: int, first_row: int
) -> None:
    """Whatever batches the rows come in, shards are cut as row by row: at the block before the row that fills them."""
    expected, shard, at = [], [], first_row
    for length in lengths:
        shard.append(2 * length + 16)
        at += 1
        if sum(shard) >= shard_bytes:
            after = at % 4 if len(shard) >= 4 and 2 * (at % 4) <= len(shard) else 0
            expected.append(len(shard) - after)
            shard = shard[len(shard) - after :]
            if sum(shard) >= shard_bytes:
                expected.append(len(shard))
                shard = []
    expected += [len(shard)] if shard else []
    rows = RowBatch.from_rows([[i] * length for i, length in enumerate(lengths)], PLAIN)
    folder = Folder(tmp_path_factory.mktemp("shards"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenyard.corpus.writer.BLOCK_ROWS", 4)
        roller = ShardRoller(folder, Npy(), PLAIN, FormatOptions(shard_bytes=shard_bytes), first_row=first_row)
        start = 0
        for stop in [*np.cumsum(cuts).tolist(), len(rows)]:
            if start < (stop := min(stop, len(rows))):
                roller.add(rows.slice(start, stop))
                start = stop
        shards = roller.close()
    assert [s.num_rows for s in shards] == expected
    tokens = [np.load(folder.path / f.name) for s in shards for f in s.files]
    assert np.concatenate(tokens).tolist() == rows.tokens.tolist()


# ---- what is there already ----


def test_a_corpus_is_replaced_only_when_asked(place: Path) -> None:
    write(place, [1])
    before = contents(place)
    with pytest.raises(DestinationExistsError, match=r"a corpus is there already; pass --overwrite \(overwrite=True\)"):
        writer(place)
    assert contents(place) == before
    write(place, [2], [3], overwrite=True)
    assert tokens_of(place) == [[2], [3]]


def test_the_old_corpus_stays_until_the_new_one_is_whole(place: Path) -> None:
    write(place, [1])
    before = contents(place)
    with writer(place, overwrite=True, shard_bytes=1) as w:
        w.write([2])
        assert contents(place) == before
        assert tokens_of(place) == [[1]]
    assert tokens_of(place) == [[2]]


def test_the_old_corpus_is_untouched_when_the_new_one_fails(place: Path) -> None:
    write(place, [1])
    before = contents(place)
    with pytest.raises(CallersError):
        write_and_stop(place, [2], overwrite=True)
    assert contents(place) == before


def test_the_old_corpus_is_put_back_when_the_new_one_can_not_take_its_place(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, [1])
    before = contents(place)
    really = os.replace

    def replace(source: Any, target: Any) -> None:
        if str(source).endswith(".new"):
            raise OSError(5, "Input/output error")
        really(source, target)

    monkeypatch.setattr("tokenyard.storage.exchange._exchanged", lambda *_: False)
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(StorageError, match=f"can't put the new corpus at {place}: Input/output error") as error:
        write(place, [2], overwrite=True)
    assert contents(place) == before
    beside = place.with_name(".corpus.new")
    assert error.value.__notes__ == [
        f"the new corpus is whole, and lies in {beside}; what was at {place} is still there"
    ]
    assert tokens_of(beside) == [[2]]
    monkeypatch.undo()
    write(place, [3], overwrite=True)
    assert tokens_of(place) == [[3]]


def test_an_old_corpus_that_can_not_be_removed_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place, [1])

    really = shutil.rmtree

    def fail(path: Any, **how: Any) -> None:
        if not how and place.with_name(".corpus.new") in [path, *Path(path).parents]:
            raise OSError(16, "Device or resource busy")
        really(path, **how)

    monkeypatch.setattr(shutil, "rmtree", fail)
    with pytest.warns(
        UserWarning, match=r"the new corpus is at .*, but the one it replaced is left at .*\.corpus\.new"
    ):
        write(place, [2], overwrite=True)
    assert tokens_of(place) == [[2]]
    assert place.with_name(".corpus.new").exists()
    monkeypatch.undo()
    write(place, [3], overwrite=True)
    assert tokens_of(place) == [[3]]


def test_a_corpus_lost_between_two_steps_of_a_swap_is_found_again(place: Path) -> None:
    write(place, [1])
    place.rename(place.with_name(".corpus.0123456789ab.old"))
    with pytest.raises(DestinationExistsError, match="a corpus is there already"):
        write(place, [2])
    assert tokens_of(place) == [[1]]


def test_a_half_made_corpus_is_replaced_when_asked(place: Path) -> None:
    abandoned = writer(place.with_name("elsewhere"))
    abandoned.write([1])
    shutil.copytree(place.with_name("elsewhere"), place)  # what is left when its process is killed
    with pytest.raises(
        DestinationExistsError, match="a corpus that an interrupted job left half-made is there already"
    ):
        writer(place)
    write(place, [2], overwrite=True)
    assert tokens_of(place) == [[2]]


def test_a_corpus_that_a_living_job_makes_is_never_replaced(place: Path) -> None:
    living = writer(place)
    living.write([1])
    with pytest.raises(DestinationExistsError, match=r"another job is making right now.*choose another destination"):
        write(place, [2], overwrite=True)
    living.close()
    assert tokens_of(place) == [[1]]


def test_a_corpus_with_other_files_among_its_own_is_never_replaced(place: Path) -> None:
    write(place, [1])
    (place / "notes.txt").write_text("mine")
    with pytest.raises(DestinationExistsError, match=r"also 'notes\.txt', which tokenyard did not make"):
        write(place, [2], overwrite=True)
    assert (place / "notes.txt").read_text() == "mine"


def test_an_indexed_corpus_of_others_is_not_replaced_when_its_manifest_is_damaged(place: Path) -> None:
    place.mkdir(parents=True)
    np.save(place / "a0.npy", np.arange(3, dtype=np.int32))
    index_corpus(place)
    (place / ".tokenyard/manifest.json").write_text("{")
    with pytest.raises(DestinationExistsError, match=r"also 'a0\.npy'"):
        write(place, [2], overwrite=True)
    assert (place / "a0.npy").exists()


@pytest.mark.parametrize("kind", ["folder", "file", "foreign corpus", "indexed corpus", "link to nowhere below a file"])
def test_what_tokenyard_did_not_make_is_never_replaced(place: Path, kind: str) -> None:
    what = "something that is not a tokenyard corpus"
    if kind == "file":
        place.write_text("notes")
    elif kind == "link to nowhere below a file":
        place.with_name("file").touch()
        place.symlink_to(place.with_name("file") / "x")
        what = f"can't create {place.with_name('file') / 'x'}: a file is in the way where a folder should be"
    else:
        place.mkdir()
        np.save(place / "tokens.npy", np.arange(3))
        if kind == "indexed corpus":
            index_corpus(place)
            what = "a corpus that others made and tokenyard only indexed"
    with pytest.raises(StorageError, match=what):
        write(place, [1], overwrite=True)
    if kind not in ("file", "link to nowhere below a file"):
        assert np.load(place / "tokens.npy").tolist() == [0, 1, 2]


def test_a_damaged_corpus_of_ours_can_be_replaced(place: Path) -> None:
    write(place, [1])
    (place / ".tokenyard/manifest.json").write_text("{")
    write(place, [2], overwrite=True)
    assert tokens_of(place) == [[2]]


def test_a_link_stays_and_leads_to_the_new_corpus(tmp_path: Path) -> None:
    real, link = tmp_path / "disk/real", tmp_path / "link"
    write(real, [1])
    link.symlink_to(real)
    write(link, [2], overwrite=True)
    assert link.is_symlink()
    assert tokens_of(real) == tokens_of(link) == [[2]]
    assert [p.name for p in (tmp_path / "disk").iterdir()] == ["real"]


def test_a_relative_path_and_the_folder_itself_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("corpus"), [1])
    monkeypatch.chdir(tmp_path / "corpus")
    with writer(Path(), overwrite=True) as w:
        w.write([2])
    assert tokens_of(tmp_path / "corpus") == [[2]]


def test_two_jobs_that_begin_at_once_do_not_share_a_place(place: Path) -> None:
    ready = threading.Barrier(8)

    def begin() -> str:
        ready.wait(10)
        try:
            with destination(place, {"job": "test"}):
                go_on.wait(10)
                raise CallersError
        except DestinationExistsError:
            return "refused"
        except CallersError:
            return "begun"

    go_on = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(begin) for _ in range(8)]
        while sum(j.done() for j in jobs) < 7:
            time.sleep(0.01)
        go_on.set()
        assert sorted(j.result(10) for j in jobs) == ["begun"] + ["refused"] * 7
    assert not place.exists() or not list(place.iterdir())


def test_a_file_system_without_links_and_locks_has_corpora_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def impossible(*_: Any, **__: Any) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "link", impossible)
    monkeypatch.setattr(fcntl, "flock", impossible)
    write(place, [1])
    with destination(place.with_name("other"), {"job": "test"}) as folder:
        with pytest.raises(DestinationExistsError), destination(place.with_name("other"), {"job": "test"}):
            pass
        Path(folder.path / ".tokenyard/manifest.json").touch()
    write(place, [2], overwrite=True)
    assert tokens_of(place) == [[2]]


def test_a_job_that_ends_without_a_manifest_is_an_error(place: Path) -> None:
    with (
        pytest.raises(StorageError, match=f"{place}: the job ended without a manifest"),
        destination(place, {"job": "x"}),
    ):
        pass
    assert not place.exists()


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        StorageError, match=f"can't create {tmp_path}/file/corpus: a file is in the way where a folder should be"
    ):
        writer(tmp_path / "file/corpus")


# ---- what comes from outside ----


def run(code: str, *arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **more)


def test_a_killed_writer_leaves_a_folder_that_is_refused_and_can_be_replaced(tmp_path: Path) -> None:
    place = tmp_path / "corpus"
    code = """
        import os, signal, sys
        import tokenyard
        with tokenyard.CorpusWriter(sys.argv[1], format="npy", schema=tokenyard.Schema(), shard_bytes=5000) as w:
            for i in range(5000):
                w.write([i])
            os.kill(os.getpid(), signal.SIGKILL)
    """
    assert run(code, place).returncode == -signal.SIGKILL
    assert (place / "shard-00000.npy").exists()
    with pytest.raises(IncompleteCorpusError, match="a job began here and did not finish"):
        open_corpus(place)
    write(place, [1], overwrite=True)
    assert tokens_of(place) == [[1]]


def test_a_full_disk_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    code = """
        import sys
        import tokenyard
        with tokenyard.CorpusWriter(sys.argv[1], format="npy", schema=tokenyard.Schema()) as w:
            for i in range(5000):
                w.write(range(100))
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = run(code, tmp_path / "corpus", preexec_fn=limit)
    assert "StorageError: can't write" in done.stderr
    assert "use smaller shards" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    code = """
        import os, signal, sys
        import tokenyard
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
        with tokenyard.CorpusWriter(sys.argv[1], format="npy", schema=tokenyard.Schema(), shard_bytes=5000) as w:
            for i in range(5000):
                w.write([i])
                if i == 3000:
                    os.kill(os.getpid(), signal.SIGINT)
    """
    assert "KeyboardInterrupt" in run(code, tmp_path / "corpus").stderr
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_is_forgotten_leaves_nothing(tmp_path: Path) -> None:
    code = """
        import sys
        import tokenyard
        w = tokenyard.CorpusWriter(sys.argv[1], format="npy", schema=tokenyard.Schema(), shard_bytes=5000)
        for i in range(3000):
            w.write([i])
        del w
    """
    done = run(code, tmp_path / "corpus")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_ids_of_another_vocabulary_are_refused_with_their_row(tmp_path: Path) -> None:
    writer = CorpusWriter(tmp_path / "c", format="npy", schema=Schema(token_dtype="uint16", vocab_size=100))
    batch = RowBatch.from_rows([[0, 99], [], [5, 100, 101]], Schema())
    with pytest.raises(SchemaError, match="row 2: token id 100 is not below vocab_size 100"):
        writer.write_batch(batch)
    assert not (tmp_path / "c").exists()
