"""The benchmark of the gather, small: every format must give what numpy takes."""

import json

import numpy as np
import pytest

import tokenyard
from benchmarks import gather

SMALL = ["--rows", "96", "--shards", "3", "--repeats", "1"]


def test_raw_formats_give_the_tokens_that_numpy_takes(capsys):
    found = gather.main([*SMALL, "--json"])
    assert [result.case for result in found] == [
        f"{format}, batch {batch}" for format in ("npy", "mds", "webdataset") for batch in (16, 64)
    ]
    assert all(result.measured > 0 and result.bar == 0.8 for result in found)
    assert [line["case"] for line in json.loads(capsys.readouterr().out)] == [result.case for result in found]


def test_other_tokens_than_numpys_stop_it(monkeypatch):
    read = tokenyard.Corpus.gather_rows
    monkeypatch.setattr(
        tokenyard.Corpus, "gather_rows", lambda *a, **k: (read(*a, **k)[0] ^ np.uint16(1), read(*a, **k)[1])
    )
    with pytest.raises(SystemExit, match="gave other tokens than were written"):
        gather.main([*SMALL, "--formats", "npy"])
