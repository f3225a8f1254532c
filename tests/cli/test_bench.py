"""`tokenyard bench`, as a user types it."""

import json

import pytest

from tests.cli.commands import end
from tests.corpora import random_rows, write_corpus

SMALL = ["--rounds", "1", "--seconds", "0.02", "--batch-size", "4", "--no-cold"]


@pytest.fixture
def bench(monkeypatch, capsys, tmp_path):
    """Run `tokenyard bench` with arguments; returns standard output, or the error."""

    def run(*arguments, code=0):
        monkeypatch.chdir(tmp_path)
        out, err = end(monkeypatch, capsys, "bench", *arguments, code=code)
        return err if code else out

    return run


def test_a_corpus_is_compared_and_the_best_choice_is_named(bench, tmp_path):
    write_corpus(tmp_path / "a", random_rows(seed=1, num_rows=100, longest=60))
    said = bench(tmp_path / "a", "--formats", "npy,mds:zstd", "--seq-len", 32, *SMALL, "--report", "page.html")
    assert "Train from this disk: " in said
    assert "shuffled read" in said
    assert "mds zstd" in said
    assert "charts: page.html" in said
    page = (tmp_path / "page.html").read_text()
    assert "mds zstd" in page
    assert "tokenyard bench" in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "page.html"]


def test_ids_are_made_where_there_is_no_corpus_and_json_holds_every_figure(bench):
    found = json.loads(
        bench(
            "--make", 8192, "--documents", "--seq-len", 64, "--formats", "npy", "--formats", "parquet", *SMALL, "--json"
        )
    )
    assert [variant["name"] for variant in found["variants"]] == ["npy", "parquet"]
    assert found["corpus"]["num_tokens"] == 8192
    assert found["command"].startswith("tokenyard bench --make 8192")
    assert all(variant["figures"]["loader"]["median"] > 0 for variant in found["variants"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a", "--make", "9"], "--make and --documents are about ids that are made, but SRC is given"),
        (["--peers"], "--peers and --python go together"),
        (["--report", "nowhere/page.html"], "--report: there is no folder"),
        (["--formats", "zarr"], "unknown format 'zarr'"),
        (["--rounds", "0"], "rounds: expected a whole number from 1 on, found 0"),
        (["nowhere"], "nowhere: no such file or folder"),
    ],
)
def test_wrong_use_is_told_before_anything_is_measured(bench, arguments, expected):
    assert expected in bench(*arguments, code=2).replace("\n", " ")
