"""A whole run, small: everything is measured, proven, and gone afterwards."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tokenyard
from tests.corpora import random_rows, write_corpus
from tokenyard.bench import BenchSettings, PeersSettings, rounds, run_bench, workplace
from tokenyard.bench.metrics import METRICS
from tokenyard.bench.reading import ReadJob, _Reader
from tokenyard.bench.variants import parse_variants
from tokenyard.bench.writing import WriteJob, measure_writing
from tokenyard.errors import BenchmarkError, ConfigError, DestinationExistsError, VerificationError
from tokenyard.formats.registry import get_format

SMALL = {"rounds": 1, "seconds": 0.02, "seq_len": 32, "batch_size": 4, "shard_bytes": 4096}
ALWAYS = {key for key in METRICS if not key.endswith("_cold")} - {"memory"}


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    home = tmp_path_factory.mktemp("bench")
    return write_corpus(home / "documents", random_rows(seed=1, num_rows=300, longest=60), format="mds")


def test_every_figure_of_every_format_is_measured_and_every_corpus_is_proven_equal(documents, tmp_path):
    steps = []
    found = run_bench(
        BenchSettings(source=documents.folder.path, folder=tmp_path, **SMALL),
        command="tokenyard bench",
        on_step=steps.append,
    )
    assert [result.variant.spec for result in found.variants] == [v.spec for v in parse_variants()]
    for result in found.variants:
        assert set(result.figures) >= ALWAYS, result.variant.spec
        assert all(figure.low > 0 for key, figure in result.figures.items() if key != "memory"), result.variant.spec
        assert result.digest == documents.digest
    assert found.tokens_per_sample == 32
    assert found.sample.is_whole
    assert [(step.done, step.steps) for step in steps] == [(i, 20) for i in range(20)]
    assert {step.what for step in steps} == {
        f"{does} {v.title}" for does in ("write", "read") for v in parse_variants()
    }
    assert all(step.seconds_left > 0 for step in steps)
    assert list(tmp_path.iterdir()) == []
    told = json.loads(json.dumps(found.to_dict()))
    assert told["variants"][0]["figures"]["loader"]["unit"] == "Mtok/s"
    assert told["corpus"]["digest"] == documents.digest
    assert str(tmp_path) not in json.dumps(told)
    assert any("cold" in note.lower() for note in found.notes)


def test_what_is_kept_can_be_opened_and_measured_by_the_commands_of_the_report(documents, tmp_path):
    settings = BenchSettings(
        source=documents.folder.path,
        keep=tmp_path / "kept",
        cold=False,
        variants=parse_variants(["parquet:lz4"]),
        **{**SMALL, "rounds": 2},
    )
    found = run_bench(settings, command="tokenyard bench")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["parquet-lz4", "sample"]
    assert tokenyard.open_corpus(tmp_path / "kept" / "parquet-lz4").digest == documents.digest
    (result,) = found.variants
    assert all(len(figure.values) == 2 for figure in result.figures.values())
    assert not any(key.endswith("_cold") for key in result.figures)
    assert "A cold page cache was not asked for." in found.notes
    python, *arguments = shlex.split(result.commands["read"])
    assert python == "python"
    said = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path / "kept",
        env={"PYTHONPATH": str(Path(tokenyard.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(said.stdout.splitlines()[-1])["figures"].keys() >= {"loader", "row_p50"}
    with pytest.raises(DestinationExistsError, match="kept: this folder is not empty; name another one to keep"):
        run_bench(settings, command="tokenyard bench")


def test_a_measurement_that_fails_ends_the_run_and_leaves_nothing(documents, tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "_LEAST_DEADLINE_S", -1e9)
    settings = BenchSettings(source=documents.folder.path, folder=tmp_path, variants=parse_variants(["npy"]), **SMALL)
    with pytest.raises(BenchmarkError, match="write npy: not done after"):
        run_bench(settings, command="tokenyard bench")
    assert list(tmp_path.iterdir()) == []


def test_a_format_that_writes_other_rows_is_found_out(documents, tmp_path, monkeypatch):
    write = type(get_format("mds")).write_shard

    def write_others(self, folder, stem, batches, schema, options):
        others = [replace(batch, tokens=batch.tokens ^ 1) for batch in batches]
        return write(self, folder, stem, others, schema, options)

    monkeypatch.setattr(type(get_format("mds")), "write_shard", write_others)
    source = write_corpus(tmp_path / "a", [[1, 2], [3]], format="npy")
    job = WriteJob(source=str(source.folder.path), path=str(tmp_path / "b"), format="mds", options={}, shard_bytes=9)
    with pytest.raises(VerificationError, match="the disk lost data, or format mds has a defect"):
        measure_writing(job)


def test_single_rows_are_measured_in_shards_other_than_the_one_before(tmp_path):
    corpus = write_corpus(tmp_path / "a", [[i] * 10 for i in range(100)], shard_bytes=300)
    assert len(corpus.shard_row_starts) > 4
    job = ReadJob(path=str(tmp_path / "a"), mode="concat", seq_len=8, batch_size=2, seconds=0.01, seed=0, cold=False)
    rows = np.array(_Reader(job)._far_apart(corpus, 500))
    shards = np.searchsorted(corpus.shard_row_starts, rows, side="right") - 1
    assert (np.diff(shards) != 0).all()
    assert set(shards.tolist()) == set(range(len(corpus.shard_row_starts) - 1))
    one = write_corpus(tmp_path / "b", [[1, 2], [3]])
    assert set(_Reader(job)._far_apart(one, 50)) == {0, 1}


def test_shards_are_small_enough_that_there_are_several(documents, tmp_path):
    told = {key: value for key, value in SMALL.items() if key != "shard_bytes"}
    settings = BenchSettings(
        source=documents.folder.path, folder=tmp_path, cold=False, variants=parse_variants(["npy"]), **told
    )
    found = run_bench(settings, command="tokenyard bench")
    assert found.variants[0].num_shards >= 8


def test_a_place_to_write_that_is_not_there_is_told(tmp_path):
    settings = BenchSettings(folder=tmp_path / "nowhere", **SMALL)
    with pytest.raises(ConfigError, match=r"dir: there is no folder .*nowhere; make it, or name another one"):
        run_bench(settings, command="tokenyard bench")
    with pytest.raises(ConfigError, match="dir and keep both say where to write"):
        BenchSettings(folder=tmp_path, keep=tmp_path / "kept")


def test_everything_is_written_beside_the_source_unless_told_otherwise(documents, monkeypatch):
    parent, notes = workplace.parent_of(BenchSettings(source=documents.folder.path))
    assert parent == documents.folder.path.parent
    assert "beside the corpus" in notes[0]
    monkeypatch.setattr(workplace.os, "access", lambda path, mode: False)
    parent, notes = workplace.parent_of(BenchSettings(source=documents.folder.path))
    assert parent == Path.cwd()
    assert "Nothing can be written beside the corpus" in notes[0]
    assert workplace.parent_of(BenchSettings())[0] == Path.cwd()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"made_documents": True, "made_tokens": 200}, r"batch_size: there are 6 windows of 32 tokens, fewer than"),
        ({"made_tokens": 100}, r"batch_size: there are 3 rows, fewer than a batch of 7; give a smaller --batch-size"),
    ],
)
def test_too_few_samples_for_a_batch_are_told(tmp_path, settings, expected):
    settings = BenchSettings(folder=tmp_path, **{**SMALL, "batch_size": 7, **settings})
    with pytest.raises(ConfigError, match=expected):
        run_bench(settings, command="tokenyard bench")
    assert list(tmp_path.iterdir()) == []


def test_an_interpreter_that_is_none_is_told_before_anything_is_measured(tmp_path):
    settings = BenchSettings(folder=tmp_path, peers=PeersSettings(python=str(tmp_path / "python")), **SMALL)
    with pytest.raises(ConfigError, match=r"--python: .*can't be run.*give the interpreter of an environment"):
        run_bench(settings, command="tokenyard bench")
