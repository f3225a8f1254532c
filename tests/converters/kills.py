"""Kills a job at each of its acts on the file system in turn, runs it again, and tells what is there.

A process of its own, so that it can fork while it has one thread: python -m tests.converters.kills KIND SOURCE FOLDER
overwrite|create STRIDE [TOKENIZER]. Writes a line of JSON for each STRIDE-th act, the last one for a run not killed.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from blake3 import blake3

from tokenyard.converters.convert import plan_convert
from tokenyard.converters.filter_rows import plan_filter
from tokenyard.converters.merge import plan_merge
from tokenyard.converters.pack import plan_pack
from tokenyard.converters.run import run_job
from tokenyard.converters.split import split
from tokenyard.converters.tokenize import plan_tokenize
from tokenyard.corpus import open_corpus
from tokenyard.errors import TokenyardError

ACTS = ["link", "mkdir", "fsync", "open", "rename", "replace", "rmdir", "truncate", "unlink", "write"]
OPTIONS = {"shard_bytes": 20_000}


def job_of(kind: str, source: str, tokenizer: str) -> Callable[[Path, bool], object]:
    """What makes a corpus at a place, whether it replaces one or not."""
    if kind == "split":
        parts = {"validation": 0.3, "test": 7}
        return lambda place, overwrite: split(source, place, parts=parts, overwrite=overwrite, **OPTIONS)
    job = plan(kind, source, tokenizer)
    return lambda place, overwrite: run_job(job, place, overwrite=overwrite)


def plan(kind: str, source: str, tokenizer: str) -> Any:
    if kind == "tokenize":
        text = {"split_bytes": 200}
        return plan_tokenize(source, tokenizer=tokenizer, add_eos=False, format="mds", text=text, **OPTIONS)
    if kind == "pack":
        return plan_pack(source, seq_len=4, format="webdataset", **OPTIONS)
    if kind == "filter":
        return plan_filter(source, min_tokens=2, **OPTIONS)
    if kind == "merge":
        return plan_merge([source, source], format="parquet", **OPTIONS)
    if kind == "shuffle":
        return plan_convert(source, to="npy", shuffle=1, **OPTIONS)
    return plan_convert(source, to=kind, **OPTIONS)


def other_plan(kind: str, source: str, tokenizer: str) -> Any:
    """What makes the corpus that is replaced: another than that of ``plan``."""
    if kind == "tokenize":
        return plan_tokenize(source, tokenizer=tokenizer, eos_token="<|endoftext|>", format="csv")
    return plan_convert(source, to="csv")


def kill_at(act: int) -> None:
    """Let this process be killed before its act of that number, from 0 on."""
    acts = count()

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if next(acts) == act:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in ACTS:
        setattr(os, name, watched(getattr(os, name)))


def forked(run: Callable[[], object]) -> str:
    """Run something in a process of its own. Returns how that ended: "done", "killed", or the error."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        with os.fdopen(reading) as file:
            said = file.read()
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return "killed" if ended == -signal.SIGKILL else said
    said = "done"
    try:
        run()
    except BaseException as e:  # noqa: BLE001  # whatever ends the job is told to the parent
        said = repr(e)
    os.write(writing, said.encode())
    os._exit(0)


def contents(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): blake3(p.read_bytes()).hexdigest() for p in files}


def state(place: Path) -> str:
    """What somebody finds who opens a corpus there."""
    try:
        corpus = open_corpus(place)
        return f"{corpus.digest} {sum(int(batch.tokens.sum()) for batch in corpus.batches())}"
    except TokenyardError as e:
        return type(e).__name__


def main(kind: str, source: str, folder: Path, overwrite: bool, stride: int, tokenizer: str = "") -> None:
    run, old = job_of(kind, source, tokenizer), folder / "old"
    if overwrite:
        run_job(other_plan(kind, source, tokenizer), old)
    act, ended = 0, "killed"
    while ended == "killed":
        place = folder / str(act) / "corpus"
        place.parent.mkdir()
        if overwrite:
            shutil.copytree(old, place)

        def interrupted(act: int = act, place: Path = place) -> None:
            kill_at(act)
            run(place, overwrite)

        ended = forked(interrupted)
        found: dict[str, Any] = {"ended": ended, "found": state(place)}
        if ended == "killed":
            found["again"] = forked(lambda place=place: run(place, overwrite))
        sys.stdout.write(json.dumps({**found, "contents": contents(place.parent)}) + "\n")
        sys.stdout.flush()
        shutil.rmtree(place.parent)
        act += stride


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4] == "overwrite", int(sys.argv[5]), *sys.argv[6:])
