"""What the jobs share: a digest that is the same however its parts are read."""

import pytest

import tokenyard
from tokenyard.converters import job
from tokenyard.converters.executor import run_tasks
from tokenyard.converters.workers import Workers
from tokenyard.schema import Schema


def write(path, num_rows):
    schema = Schema(token_dtype="uint16", vocab_size=1000, eos_token_id=2)
    with tokenyard.CorpusWriter(path, format="jsonl", schema=schema) as writer:
        for i in range(num_rows):
            writer.write([i % 1000] * (i % 5))
    return tokenyard.open_corpus(path)


@pytest.mark.parametrize(("worker_seconds", "workers"), [(0.0, 2), (1e9, None)])
def test_workers_digest_the_rest_where_it_takes_longer_than_to_begin_them(
    tmp_path, monkeypatch, worker_seconds, workers
):
    corpus, asked = write(tmp_path / "c", 3000), []
    parts = [range(1024), range(1024, 2048), range(2048, 3000)]

    def run(self, function, shared, tasks):
        asked.append((tasks, self.num_workers))
        return run_tasks(function, shared, tasks, 1)

    monkeypatch.setattr(job, "plan_rows", lambda *_: iter(parts))
    monkeypatch.setattr(Workers, "run", run)
    monkeypatch.setattr(job, "_WORKER_SECONDS", worker_seconds)
    assert job.digest_corpus(corpus, Workers(num_workers=2)) == corpus.manifest.digests
    assert asked == [(parts[1:], workers)]


@pytest.mark.parametrize("num_rows", [0, 1, 1025])
def test_a_corpus_of_one_part_or_none_is_digested(tmp_path, num_rows):
    corpus = write(tmp_path / "c", num_rows)
    assert job.digest_corpus(corpus, Workers(num_workers=2)) == corpus.manifest.digests
