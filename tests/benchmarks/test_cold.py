"""The benchmark of cold files, small: every mode must give what was written."""

from pathlib import Path

import numpy as np
import pytest

import tokenyard
from benchmarks import cold

SMALL = ["--samples", "96", "--seq-len", "64", "--shards", "3", "--batch-size", "8", "--repeats", "1"]


def test_every_mode_reads_what_was_written(tmp_path: Path):
    found = cold.main([*SMALL, "--folder", str(tmp_path)])
    ways = {f"{way} {mode}" for way in ("gather", "loader", "warm") for mode in cold.MODES}
    assert len(found) == 21
    for format in ("npy", "mds", "webdataset"):
        for mode in cold.MODES:
            (line, *_) = [line for line in found if line.case.startswith(f"{format}, loader, {mode}")]
            assert set(line.rates) == {"dd", "stayed in memory", *ways}
            assert all(line.rates[way] > 0 for way in ways)
            assert line.measured == line.rates[f"loader {mode}"] / line.rates["dd"]
            (fair,) = [
                other for other in found if other.case == line.case and other.unit.startswith("of dd, or of warm")
            ]
            assert fair.measured >= line.measured
    assert list(tmp_path.iterdir()) == []


def test_files_that_stay_in_memory_are_told(monkeypatch, capsys):
    monkeypatch.setattr(cold, "drop", lambda path, names: 0.25)
    cold.main([*SMALL, "--formats", "npy"])
    assert "npy, loader, pread, 25% stayed in memory" in capsys.readouterr().out


def test_other_tokens_than_were_written_stop_it(monkeypatch):
    read = tokenyard.Corpus.gather_rows
    monkeypatch.setattr(
        tokenyard.Corpus, "gather_rows", lambda *a, **k: (read(*a, **k)[0] ^ np.uint16(1), read(*a, **k)[1])
    )
    with pytest.raises(SystemExit, match="gave other tokens than were written"):
        cold.main([*SMALL, "--formats", "npy"])
