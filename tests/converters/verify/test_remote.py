"""Verification of a corpus at a URL: many shards are asked for at a time, and what is wrong is told as on a disk."""

import threading
from pathlib import Path

import pytest

from tests.corpora import write_corpus
from tokenyard.converters.verify.shards import check_outside
from tokenyard.corpus import Corpus, open_corpus
from tokenyard.storage.objects import open_objects

ROWS = [list(range(i, i + 50)) for i in range(200)]


def test_shards_at_a_url_are_asked_for_many_at_a_time(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = write_corpus(tmp_path / "mine", ROWS, format="npy", shard_bytes=1_000)
    objects = open_objects(bucket)
    for path in sorted(p for p in Path(str(local.path)).rglob("*") if p.is_file()):
        objects.put(path.relative_to(str(local.path)).as_posix(), path.read_bytes())
    lost = [shard.files[0].name for shard in local.manifest.shards][1::3]
    for name in lost:
        objects.remove(name)
    corpus = open_corpus(bucket)
    together, check = threading.Barrier(8), Corpus.check_shard

    def check_together(self: Corpus, shard: int) -> None:
        if shard < 8:
            together.wait(60)
        check(self, shard)

    monkeypatch.setattr(Corpus, "check_shard", check_together)
    problems = check_outside(corpus, range(len(corpus.manifest.shards)))
    assert [problem.file for problem in problems] == lost
    assert all("no such object" in problem.message for problem in problems)
