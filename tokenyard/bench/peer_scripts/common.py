"""What the scripts share: the job, batches of the same kind as tokenyard's, and the clock.

A script runs by its path in an environment of its own, without tokenyard: ``python -I script.py JOB``. Its last line of
output is JSON: ``{"version": ..., "loader" or "sequential": Mtok/s, ...}``, or ``{"missing": module}``.
"""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path


def main(package, measure):
    """Do the job that the only argument tells: ``path``, ``batch_size``, ``seconds``, ``seed``, ``row_length``."""
    job = json.loads(sys.argv[1])
    try:
        found = measure(job)
    except ModuleNotFoundError as e:
        print(f"\n{json.dumps({'missing': e.name})}")
        return
    print(f"\n{json.dumps({'version': version(package), **found})}")


def files(job, suffix):
    """The shards, in order."""
    return sorted(str(path) for path in Path(job["path"]).glob(f"*{suffix}"))


def sample(tokens):
    """A row as a training sample: inputs and labels, each label the token after its input, int64."""
    import torch

    ids = torch.from_numpy(tokens.astype("int64"))
    labels = torch.full_like(ids, -100)
    labels[:-1] = ids[1:]
    return {"input_ids": ids, "labels": labels}


def collate(samples):
    """Samples as a batch: stacked, or lists where rows are of different lengths."""
    from torch.utils.data import default_collate

    if len({len(s["input_ids"]) for s in samples}) == 1:
        return default_collate(samples)
    return {name: [s[name] for s in samples] for name in samples[0]}


def training(begin_epoch, job):
    """Rate of batches, epoch after epoch until the time is over. What comes before an epoch's first batch is free."""
    tokens = batches = 0
    # As for tokenyard: the first epoch to its end, for ten times as long at most.
    limit, spent, first_batch = 10 * job["seconds"], 0.0, None
    while True:
        begun = time.perf_counter()
        steps = iter(begin_epoch())
        check(next(steps))
        now = begun_rate = time.perf_counter()
        if first_batch is None:
            first_batch = now - begun
        found = 0
        for batch in steps:
            found += sum(map(len, batch["input_ids"]))
            batches += 1
            now = time.perf_counter()
            if spent + now - begun_rate >= limit:
                break
        tokens += found
        spent += now - begun_rate
        limit = job["seconds"]
        if spent >= job["seconds"] or not found:
            break
    if not batches:
        raise SystemExit("an epoch has a single batch; there is nothing to measure")
    return {"loader": tokens / spent / 1e6, "first_batch": first_batch * 1e3, "batches": batches}


def check(batch):
    """A batch must be what tokenyard gives too."""
    for name in ("input_ids", "labels"):
        assert str(batch[name][0].dtype) == "torch.int64", (name, batch[name])


def reading(read_all, job):
    """Rate of whole reads until the time is over; ``read_all`` returns the number of tokens. The first is free."""
    read_all()
    tokens, spent = 0, 0.0
    while spent < job["seconds"]:
        begun = time.perf_counter()
        tokens += read_all()
        spent += time.perf_counter() - begun
    return {"sequential": tokens / spent / 1e6}
