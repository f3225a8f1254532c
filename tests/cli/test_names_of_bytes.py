"""Paths whose bytes are no UTF-8, as file systems of Unix allow: shown with escapes, and never in the way."""

import json
import os
import subprocess

import numpy as np
import pytest

from tests.cli.commands import run
from tests.cli.terminals import command
from tests.corpora import write_corpus

CORPUS, PAGE, SHARD = (os.fsdecode(name) for name in (b"caf\xe9", b"page-\xff.html", b"a\xff.npy"))
READ = ("--read", "token_dtype=uint16", "--read", "split={length: 10}")


@pytest.fixture
def ours(tmp_path):
    return write_corpus(tmp_path / CORPUS, [[1, 2], [3]]).path


@pytest.fixture
def theirs(tmp_path):
    folder = tmp_path / f"their {CORPUS}"
    folder.mkdir()
    (folder / SHARD).write_bytes(np.arange(40, dtype=np.uint16).tobytes())
    return folder


def said(*arguments):
    """What a process of its own prints on a standard output that refuses what is no UTF-8."""
    env = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command(*arguments), env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_a_corpus_is_described_and_its_page_written(ours, tmp_path):
    assert "caf<U+DCE9>" in said("info", ours)
    assert said("report", ours, "-o", tmp_path / PAGE) == f"page: {tmp_path}/page-<U+DCFF>.html\n"
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert f"<title>Corpus: {tmp_path}/caf&lt;U+DCE9&gt;</title>" in page
    assert run("peek", ours) == "row 0: 2 tokens\n1 2\n"


def test_json_has_the_bytes_as_python_reads_them(ours):
    path = json.loads(said("info", ours, "--json"))["path"]
    assert os.fsencode(path) == os.fsencode(ours)


def test_what_another_library_wrote_under_such_names_is_described_and_converted(theirs, tmp_path):
    assert json.loads(run("info", theirs, *READ, "--json"))["structural_id"].startswith("structural:")
    run("report", theirs, *READ, "-o", tmp_path / PAGE)
    assert "their caf&lt;U+DCE9&gt;" in (tmp_path / PAGE).read_text(encoding="utf-8")
    run("convert", theirs, tmp_path / "mds", "--to", "mds", *READ)
    assert run("peek", tmp_path / "mds", "--row", 3) == f"row 3: 10 tokens\n{' '.join(map(str, range(30, 40)))}\n"


def test_settings_at_such_a_path_are_named_on_the_page(tmp_path):
    corpus = write_corpus(tmp_path / CORPUS, [[i, i] for i in range(8)]).path
    settings = tmp_path / os.fsdecode(b"run-\xfe.yaml")
    settings.write_text("data: {path: elsewhere, sample: {mode: rows}}\norder: {global_batch_size: 4}\n")
    run("report", corpus, "--config", settings, "-o", tmp_path / PAGE, "--world-size", 2)
    assert "run-&lt;U+DCFE&gt;.yaml" in (tmp_path / PAGE).read_text(encoding="utf-8")
