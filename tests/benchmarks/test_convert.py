"""The benchmarks of converting and of tokenizing, small: all parts run, and wrong results stop them."""

from pathlib import Path

import pytest

import tokenyard
from benchmarks import convert, tokenizing
from tests import peers
from tests.real_data import gpt2_json

SMALL = ["--tokens", "40000", "--repeats", "1"]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENYARD_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("layout", ["packed", "documents"])
def test_every_pair_is_measured_against_its_parts(layout: str) -> None:
    found = convert.main([*SMALL, "--no-peers", "--layout", layout])
    assert [line.case.replace(" to ", ":") for line in found] == convert.PAIRS
    for line in found:
        assert min(line.rates[key] for key in ("ours", "floor", "digests", "checksum", "write")) > 0
        assert ("library read" in line.rates) == ("parquet" in line.case)
        assert line.measured == pytest.approx(line.rates["ours"] / line.rates["floor"])


def test_the_peers_convert_the_same_shards(monkeypatch: pytest.MonkeyPatch, peers_python: Path) -> None:
    monkeypatch.setenv("PEERS_VENV", str(peers_python.parent.parent))
    with peers.one_at_a_time():
        found = convert.main([*SMALL, "--pairs", "npy:mds", "mds:webdataset", "webdataset:npy"])
    times = [line for line in found if line.unit == "times the peers"]
    assert len(times) == 3
    assert all(line.measured > 0 for line in times)


def test_a_conversion_to_other_rows_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenyard.Corpus, "digest", property(lambda corpus: corpus.format))
    with pytest.raises(SystemExit, match="npy to mds gave other rows than were written"):
        convert.main([*SMALL, "--no-peers", "--pairs", "npy:mds"])


def test_tokenizing_is_measured_against_the_engine_and_tokenizers() -> None:
    arguments = ["--megabytes", "0.2", "--workers", "1", "--formats", "npy", "--tokenizer", str(gpt2_json())]
    of_engine, times, whole, *by_cpu = tokenizing.main(arguments)
    assert of_engine.case.startswith("to npy, ")
    assert min(of_engine.rates[key] for key in ("ours", "steady", "engine", "tokenizers")) > 0
    assert times.measured == of_engine.rates["steady"] / of_engine.rates["tokenizers"]
    assert whole.measured == of_engine.rates["ours"] / of_engine.rates["engine"]
    assert [line.case for line in by_cpu] == [f"{of_engine.case}, cpu"] * 3


def test_a_start_is_taken_off_only_where_most_of_the_job_is_left() -> None:
    assert [tokenizing.steady_seconds(10.0, start) for start in (1.0, 4.0, 5.0, 11.0)] == [9.0, 6.0, 10.0, 10.0]


def test_other_ids_than_those_of_tokenizers_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenyard.Corpus, "__getitem__", lambda corpus, row: [0])
    with pytest.raises(SystemExit, match="other ids than tokenizers gives"):
        tokenizing.main(["--megabytes", "0.1", "--workers", "1", "--formats", "npy", "--tokenizer", str(gpt2_json())])
