"""Kills a job at each of its calls to an object store in turn, runs it again, and tells what is there.

A process of its own, so that it can fork, and itself never calls the store, which a forked child could then not do by
itself: python -m tests.converters.remote_kills KIND SOURCE URL STRIDE [TOKENIZER]. Writes a line of JSON for each
STRIDE-th call, the last one for a run not killed.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from blake3 import blake3

from tests.converters.kills import forked, plan
from tokenyard.converters.run import run_job
from tokenyard.corpus import DONE_FOLDER, lease
from tokenyard.manifest import MANIFEST_NAME, Manifest
from tokenyard.storage.objects import open_objects
from tokenyard.storage.objects.direct import Direct

CALLS = ["get", "head", "put", "put_new", "put_if", "list", "remove"]
#: Here the first job is dead for certain.
WATCHED_SECONDS = 0.2


def kill_at(call: int) -> None:
    """Let this process be killed at its call of that number, from 0 on: before it, or after it where odd."""
    calls = count()

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == call:
                if call % 2:
                    function(*args, **kwargs)
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return made

    for name in CALLS:
        setattr(Direct, name, watched(getattr(Direct, name)))


def contents(url: str) -> dict[str, str]:
    objects = open_objects(url)
    return {name: blake3(objects.read(name)).hexdigest() for name in sorted(info.name for info in objects.list())}


def state(url: str) -> dict[str, Any]:
    """What lies there: whether there is a manifest, what it names that is missing, how much is done."""
    objects = open_objects(url)
    there = {info.name: info.bytes for info in objects.list()}
    done = [name for name in there if name.startswith(DONE_FOLDER)]
    if MANIFEST_NAME not in there:
        return {"manifest": False, "missing": [], "done": len(done)}
    manifest = Manifest.from_json(bytes(objects.read(MANIFEST_NAME)), url)
    missing = [file.name for file in manifest.all_files if there.get(file.name) != file.bytes]
    return {"manifest": True, "missing": missing, "done": len(done)}


def told(run: Callable[[], object]) -> Any:
    """What a function returns in a process of its own, as JSON."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(writing, json.dumps(run()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(pid, 0)
    return json.loads(said)


def main(kind: str, source: str, url: str, stride: int, tokenizer: str = "") -> None:
    job = plan(kind, source, tokenizer)
    call, ended = 0, "killed"

    def again(place: str) -> None:
        lease.LEASE_SECONDS = WATCHED_SECONDS
        run_job(job, place)

    while ended == "killed":
        place = f"{url}/{call}"

        def interrupted(call: int = call, place: str = place) -> None:
            kill_at(call)
            run_job(job, place)

        ended = forked(interrupted)
        found: dict[str, Any] = {"ended": ended, "found": told(lambda place=place: state(place))}
        if ended == "killed":
            found["again"] = forked(lambda place=place: again(place))
        found["contents"] = told(lambda place=place: contents(place))
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        call += stride


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), *sys.argv[5:])
