"""The benchmark of the gather, small: every format must give what numpy takes."""

import json

import numpy as np
import pytest

import tokenyard
from benchmarks import gather, run

SMALL = ["--rows", "96", "--shards", "3", "--repeats", "1"]


def test_raw_formats_give_the_tokens_that_numpy_takes(capsys):
    gather.main([*SMALL, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [(row["format"], row["batch"]) for row in found] == [
        (format, batch) for format in ("npy", "mds", "webdataset") for batch in (16, 64)
    ]
    assert all(row["ratio"] > 0 for row in found)


def test_other_tokens_than_numpys_stop_it(monkeypatch):
    read = tokenyard.Corpus.gather_rows
    monkeypatch.setattr(tokenyard.Corpus, "gather_rows", lambda *a: (read(*a)[0] ^ np.uint16(1), read(*a)[1]))
    with pytest.raises(SystemExit, match="gave other tokens than were written"):
        gather.main([*SMALL, "--formats", "npy"])


def test_one_command_runs_all_benchmarks(capsys):
    run.main(["--quick"])
    said = capsys.readouterr().out
    for benchmark in (gather, run.loader):
        assert benchmark.__doc__.splitlines()[0] in said
