"""Each of the other benchmarks, small: what it measures is there and right."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import tokenyard
from benchmarks import corpora, decoded, memory, monitor, opening, size, streaming, training_step, windows

SMALL = ["--seq-len", "16", "--shards", "3"]


@pytest.mark.parametrize("format", ["parquet", "mds"])
def test_decoded_formats_are_measured_against_decoding_and_loading(format, capsys):
    found = decoded.main(
        ["--rows", "256", *SMALL, "--rounds", "1", "--batch-sizes", "4", "--formats", format, "--peer-seconds", "0.01"]
    )
    assert [result.bar for result in found] == [0.8, 15]
    assert found[0].measured == pytest.approx(
        found[0].rates["samples/s"] * (1 / found[0].rates["decode"] + 1 / found[0].rates["loader"])
    )
    assert f"{format}, batch 4, {decoded.PEERS[format]}" in capsys.readouterr().out


def test_what_is_decoded_alone_is_all_of_the_shards(tmp_path):
    rows = corpora.zipf_rows(64, 16)
    corpora.write_rows(tmp_path / "parquet", "parquet", rows, 3)
    corpora.write_rows(tmp_path / "mds", "mds", rows, 3, compression="zstd")
    assert decoded.decode_parquet(tmp_path / "parquet") == 64
    assert decoded.decode_mds(tmp_path / "mds") > rows.nbytes


def test_windows_give_the_tokens_that_numpy_takes_and_positions_of_the_documents():
    options = ["--document-mean", "12", "--rounds", "1", "--seconds", "0.01", "--batch-sizes", "4", "--no-peers"]
    found = windows.main(["--samples", "64", *SMALL, *options])
    ways = ("two tensors", "four tensors", "windows", *("batch", "boundaries", "eos") * 2)
    assert sorted(result.case for result in found) == sorted(
        f"{format}, batch 4, {way}" for format in ("npy", "mds", "webdataset") for way in ways
    )


def test_windows_gathered_alone_are_those_of_the_stream(tmp_path):
    tokens = corpora.zipf_rows(8, 16).reshape(-1)
    corpus = corpora.write_documents(tmp_path / "npy", "npy", tokens, corpora.document_lengths(len(tokens), 12), 3)
    assert windows.gather(corpus, np.array([3, 0]), 16).tolist() == [tokens[48:65].tolist(), tokens[:17].tolist()]


def test_an_eos_id_ends_about_as_many_documents_as_there_are():
    assert windows.eos_of(np.array([3, 0, 3, 3, 7, 7], np.uint16), 2) == 7


def test_wrong_positions_stop_it():
    check = windows.checked_starts(np.array([5, 11]), 8)
    batch = {"sample_ids": torch.tensor([0]), "position_ids": torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2]])}
    check(batch)
    with pytest.raises(SystemExit, match="positions are not those of the documents"):
        check({**batch, "position_ids": torch.arange(8)[None]})


def test_documents_fill_the_tokens_and_differ_in_length():
    lengths = corpora.document_lengths(100_000, 800)
    assert lengths.sum() == 100_000
    assert lengths.min() > 0
    assert lengths.std() > lengths.mean() / 2
    assert 600 < lengths.mean() < 1000


def test_steps_are_timed_but_the_first_and_the_gil_is_watched():
    found = training_step.main(
        ["--rows", "64", *SMALL, "--steps", "12", "--formats", "npy", "parquet", "--batch-sizes", "4"]
    )
    assert [result.work for result in found] == ["training step", "GIL held"] * 4
    assert all(result.at_most and result.measured >= 0 for result in found)
    assert found[0].unit == "of 12 steps waited"


def test_a_thread_that_keeps_the_gil_is_seen():
    until = time.monotonic() + 60  # where others have the cores, the probe may not be there each time
    with training_step.Probe() as probe:
        while max(probe.late, default=0.0) <= 1 and time.monotonic() < until:
            sum(range(2_000_000))  # one call of compiled code
    assert probe.inside[1] > 1


def test_the_monitors_cost_and_its_false_alarms_are_measured():
    options = ["--rows", "64", "--rounds", "1", "--steps", "5", "--seconds", "2", "--window-seconds", "0.5"]
    found = monitor.main(options)
    assert [result.unit for result in found[:2]] == ["% of a step of 5 ms"] * 2
    assert found[2].case == "a run that doesn't wait"
    assert int(found[2].unit.split()[2]) >= 2


def test_memory_counts_what_a_process_holds():
    code_mb = memory.anonymous_mb()
    held = np.ones(64 << 20, np.uint8)
    assert memory.anonymous_mb() > code_mb + 0.9 * held.nbytes / 1e6


def test_memory_is_measured_over_an_epoch_in_a_process_of_its_own():
    found = memory.main(["--rows", "64", *SMALL, "--formats", "npy", "--batch-size", "4", "--workers", "0", "1"])
    assert [result.case for result in found] == [
        f"npy, {workers} workers, 64 rows{part}" for workers in (0, 1) for part in ("", ", over an epoch")
    ]
    assert found[0].measured > 0
    assert found[2].rates["worker"] > 0


def test_memory_is_compared_over_an_epoch_and_over_sizes():
    taken = {10: {"main": [5.0, 7.0], "worker": [1.0, 1.0]}, 90: {"main": [5.0, 8.0], "worker": [1.0, 30.0]}}
    found = {result.case: result.measured for result in memory.measured("npy", taken)}
    assert found == {
        "npy, 10 rows": 7.0,
        "npy, 10 rows, over an epoch": 2.0,
        "npy, 90 rows": 30.0,
        "npy, 90 rows, over an epoch": 29.0,
        "npy, 90 rows and not 10": 29.0,
    }


def test_many_shards_open_and_read_as_one_corpus(tmp_path: Path):
    opening.many_shards(tmp_path / "large", 7, 10)
    corpus = tokenyard.open_corpus(tmp_path / "large")
    assert (len(corpus), corpus.num_tokens) == (70, 70 * corpora.SEQ_LEN)
    assert not corpus.gather_rows(np.array([0, 33, 69]))[0].any()
    assert len(json.loads((tmp_path / "large/.tokenyard/manifest.json").read_text())["shards"]) == 7


def test_opening_is_measured_in_new_processes():
    found = opening.main(
        ["--shards", "5", "--rows-per-shard", "10", "--rows", "64", "--formats", "npy", "--repeats", "1"]
    )
    assert [(result.work, result.bar) for result in found] == [
        ("opening", 1.0),
        ("opening", 100.0),
        ("first batch", None),
        ("first batch", None),
        ("first batch", 50.0),
        ("first batch", None),
    ]


def test_sizes_of_tars_and_of_every_encoding():
    found = size.main(["--rows", "64", "--seq-len", "2048", "--shards", "1"])
    assert [result.case.partition(",")[0] for result in found] == ["webdataset"] * 3 + ["Parquet"]
    assert found[0].met  # bytes are no matter of time
    assert len(found[-1].rates) == 1 + len(size.ENCODINGS) * len(size.CODECS)


def test_an_epoch_from_a_slow_server_fetches_the_corpus_about_once():
    options = ["--rows", "8192", "--formats", "npy", "--batch-size", "256", "--step-ms", "1", "--cache-share", "3"]
    waits, fetched = streaming.main(options)
    assert 0 <= waits.measured <= 31
    assert waits.unit == "of 31 steps waited"
    assert 1 <= fetched.measured < 1.2
