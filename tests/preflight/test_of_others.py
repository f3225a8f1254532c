"""Corpora that others made: the golden ones, and what the official libraries write, without a manifest of ours."""

import shutil
from pathlib import Path

import pytest

from tests.peers import run_in_peers
from tests.preflight.looked import look, of_corpus, the_line
from tokenyard.corpus import open_corpus

GOLDEN = Path(__file__).parents[1] / "golden"
CORPORA = [
    "csv", "jsonl", "npy", "parquet", "webdataset/raw", "webdataset/gz", *(f"mds/{path.name}" for path in
    sorted((GOLDEN / "mds").iterdir()))
]  # fmt: skip


@pytest.mark.parametrize("name", CORPORA)
def test_a_golden_corpus_is_looked_at_without_its_manifest(name, tmp_path):
    shutil.copytree(GOLDEN / name, tmp_path / "c", ignore=shutil.ignore_patterns(".tokenyard", "*.blob.npy"))
    for file in (tmp_path / "c").glob("shard-*.*.npy"):  # fields of ours: others' arrays hold tokens alone
        file.unlink()
    corpus = open_corpus(tmp_path / "c")
    mode = {"mode": "rows"} if len(corpus) > 1 and name != "npy" else {"seq_len": 8}
    report = look(of_corpus(tmp_path / "c", batch=1, sample=mode), ranks=1, vocab_size=1 << 16)
    assert report.ok, report
    the_line(report, "vocabulary", "pass", match="ids up to 65,535 in all")
    the_line(report, "shards", "warn", match="others made it, so there are no checksums.*-> tokenyard index")
    the_line(report, "partition", "pass", match="^counted")
    report = look(of_corpus(tmp_path / "c", batch=1, sample=mode), ranks=1, vocab_size=300, full=True)
    the_line(report, "vocabulary", "fail", match="the model has ids 0 .. 299")


def test_documents_of_streaming_are_looked_at_and_a_damaged_shard_is_told(tmp_path):
    run_in_peers(
        f"""
import numpy as np
from streaming import MDSWriter
with MDSWriter(out={str(tmp_path / "mds")!r}, columns={{"tokens": "ndarray:uint16"}}, size_limit=2000) as writer:
    for n in range(60):
        writer.write({{"tokens": np.array([1, 1, *range(10, 20 + n % 7), 2], np.uint16)}})
"""
    )
    (tmp_path / "config.json").write_text('{"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}')
    config = of_corpus(tmp_path / "mds")
    report = look(config, model=tmp_path)
    the_line(report, "documents", "fail", match="60 of 60 documents begin with BOS .1. twice")
    the_line(report, "shards", "warn")
    shard = sorted((tmp_path / "mds").glob("*.mds"))[0]
    shard.write_bytes(shard.read_bytes()[:-100])
    the_line(look(config), "corpus", "fail", match="shard.00000.mds")
