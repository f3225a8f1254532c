"""Runs a planned job: its tasks, whatever was done before; then the proof, and the manifest.

The plan depends on the inputs and the options alone, and each task writes the same bytes wherever and whenever it runs.
So a job may be interrupted anywhere and run again, and its parts may run on many machines that share a file system.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, TypeVar

from blake3 import blake3

from tokenyard.converters.job import OnProgress, Target, TaskOutput, collect, digests_of, total_counts
from tokenyard.converters.ledger import LEDGER_VERSION, Ledger, missing_shards
from tokenyard.converters.sight import Sight
from tokenyard.converters.versions import ENCODERS, installed
from tokenyard.converters.workers import ExecutorName, Workers
from tokenyard.corpus import JOB_FOLDER, destination, publish_manifest, with_files
from tokenyard.corpus.claim import FINISHED_NAME, REPLACING_NAME
from tokenyard.corpus.locating import is_remote
from tokenyard.digest import Digester, Digests
from tokenyard.errors import ConfigError, DataError, StorageError, TokenyardError
from tokenyard.formats.base import Format, FormatOptions
from tokenyard.manifest import HOME, MANIFEST_NAME, Layout, Manifest, ShardInfo
from tokenyard.schema import Schema
from tokenyard.storage import Folder

Task = TypeVar("Task")
PLAN_NAME = f"{JOB_FOLDER}/plan.jsonl"
_SHOWN_NUMBERS = 10


@dataclass(frozen=True, kw_only=True)
class Job(Generic[Task]):
    """What is to be written, and the tasks that write it.

    Attributes:
        kind: ``"convert"``, ``"pack"``, ``"tokenize"``.
        format, schema, options, layout: of the corpus to be written.
        provenance: what its manifest says of its making.
        inputs: tells, as JSON values, what they are now; asked when the job begins, and when all is done.
        tasks: in the order of the rows that they write, after those that only make ready.
        num_first: tasks that come first. All others wait for them; their shards aren't part of the corpus.
        described: each task as JSON values.
        shared: given where the job writes, what all tasks need; sent to each process once. Asked again after the first.
        run: given that, and a number and its task, writes shards; importable by name.
        reads: some files that all tasks must see, wherever they run.
        check_place: told the destination before anything is done; may raise.
        unit, total: what progress is measured in, and how much there is.
        may_change: options that don't change what a task that has ended well has written.
        watch: told what each task has done; may raise.
        check: told the digests of all rows, and what each task did, before the manifest is written; may raise.
    """

    kind: str
    format: Format
    schema: Schema
    options: FormatOptions
    layout: Layout = field(default_factory=Layout)
    provenance: Mapping[str, Any]
    inputs: Callable[[], Any]
    tasks: Sequence[Task]
    described: Sequence[Any]
    shared: Callable[[Target], Any]
    run: Callable[[Any, tuple[int, Task]], TaskOutput]
    unit: str
    total: int
    num_first: int = 0
    reads: Sequence[Sight] = ()
    check_place: Callable[[str | os.PathLike[str]], None] = lambda _: None
    may_change: Set[str] = frozenset()
    watch: Callable[[TaskOutput], None] = lambda _: None
    check: Callable[[Digests, Sequence[TaskOutput]], None] = lambda *_: None

    def marker(self) -> dict[str, Any]:
        """What the destination's marker says while the job is at work: for people, and an id of all that matters."""
        said = {"job": self.kind, "to": self.format.name, **self.provenance.get("options", {})}
        said = {name: value for name, value in said.items() if name not in self.may_change}
        said |= {"versions": {"ledger": LEDGER_VERSION, **installed(ENCODERS)}}
        everything = [said, self.inputs(), self.schema.to_dict(), asdict(self.layout), self.described]
        said |= {"id": blake3(json.dumps(everything, sort_keys=True).encode()).hexdigest()}
        return with_files(said, self.format)


@dataclass(frozen=True, kw_only=True)
class PartReport:
    """What part of a job was done: ``num_tasks`` of this part, and ``num_open_tasks`` of the whole job that are not.

    ``num_waiting_tasks`` of this part wait for what others have not made ready yet: run it again when they have ended.
    """

    destination: str
    part: str
    num_tasks: int
    num_rows: int
    num_tokens: int
    num_open_tasks: int
    num_waiting_tasks: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


def run_job(
    job: Job[Any],
    dst: str | os.PathLike[str],
    *,
    num_workers: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    overwrite: bool = False,
    finish: bool = False,
    on_progress: OnProgress | None = None,
) -> tuple[Manifest, list[TaskOutput]]:
    """Do what is not done of a job, and publish the corpus. Returns its manifest, and what each task did.

    ``finish``: all tasks must have been done by parts. Raises ConfigError then, and whatever tasks raise. Of a corpus
    that parts with ``overwrite`` have made, and that is finished, what all tasks counted is returned as one's.
    """
    workers = Workers(executor=executor, num_workers=num_workers, address=address)
    job.check_place(dst)
    marker = job.marker()
    with destination(dst, marker, overwrite=overwrite, finish=finish) as folder, Ledger(folder) as ledger:
        target, done = _target(job, folder), ledger.read()
        if folder.exists(MANIFEST_NAME):  # interrupted in its last acts, or finished before
            manifest = Manifest.from_json(folder.read(MANIFEST_NAME), str(folder.at(MANIFEST_NAME)))
            return manifest, _finished(job, folder) or [done[n] for n in sorted(done)]
        _clear_leftovers(folder, [s for output in done.values() for s in output.shards])
        _write_plan(folder, job)
        missing = [n for n in range(len(job.tasks)) if n not in done]
        if finish and missing:
            raise _not_done(missing, len(job.tasks))
        outputs = _run(job, target, ledger, done, missing, workers, on_progress)
        _check_there(folder, outputs)
        written = outputs[job.num_first :]
        digests = digests_of(target, written, workers)
        try:
            job.check(digests, outputs)
            _check_unchanged(job, marker)
        except TokenyardError:
            ledger.clear()  # what was done is not what it should be, and would not be if it was gone on with
            raise
        manifest = Manifest(
            format=job.format.name,
            schema=job.schema,
            layout=job.layout,
            shards=tuple(s for o in written for s in o.shards),
            digests=digests,
            provenance=job.provenance,
        )
        ledger.close()
        if not is_remote(dst) and folder.exists(REPLACING_NAME):
            finished = {"id": marker["id"], "counts": total_counts(outputs)}
            folder.write(FINISHED_NAME, json.dumps(finished).encode())
        return publish_manifest(folder, job.format, manifest), outputs


def run_part(
    job: Job[Any],
    dst: str | os.PathLike[str],
    part: tuple[int, int],
    *,
    num_workers: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> PartReport:
    """Do part K of N of a job's tasks, each N-th one from the K-th on; ``run_job`` makes the corpus whole afterwards.

    Parts may run at the same time, in any order and on any machine that has the destination. Where tasks wait for those
    of other parts (``num_waiting_tasks``), all parts run twice. Raises ConfigError unless
    1 <= K <= N, DestinationExistsError while another process does the same part.
    """
    workers = Workers(executor=executor, num_workers=num_workers, address=address)
    number, count = part
    if not 1 <= number <= count:
        raise ConfigError(f"task {number}/{count}: tasks are counted from 1/{count} to {count}/{count}")
    job.check_place(dst)
    with destination(dst, job.marker(), overwrite=overwrite, part=part) as folder, Ledger(folder) as ledger:
        outputs, remaining, waiting = list[TaskOutput](), 0, 0
        if not folder.exists(MANIFEST_NAME):
            _write_plan(folder, job)
            mine = range(number - 1, len(job.tasks), count)
            done = ledger.read(mine)
            missing = [n for n in mine if n not in done]
            share = replace(job, total=job.total * len(mine) // max(1, len(job.tasks)))
            outputs = _run(share, _target(job, folder), ledger, done, missing, workers, on_progress)
            remaining, waiting = len(job.tasks) - len(ledger.read()), len(mine) - len(outputs)
    return PartReport(
        destination=os.fspath(dst),
        part=f"{number}/{count}",
        num_tasks=len(outputs),
        num_rows=sum(o.num_rows for o in outputs),
        num_tokens=sum(o.num_tokens for o in outputs),
        num_open_tasks=remaining,
        num_waiting_tasks=waiting,
    )


def _finished(job: Job[Any], folder: Folder) -> list[TaskOutput]:
    """What all tasks of a corpus have counted that parts have made, as one's; nothing of other corpora."""
    if not folder.exists(FINISHED_NAME):
        return []
    counts = json.loads(folder.read(FINISHED_NAME)).get("counts", {})
    return [TaskOutput(shards=(), leaves=Digester(job.schema.fields).finish(), num_bytes=0, counts=counts)]


def _target(job: Job[Any], folder: Folder) -> Target:
    return Target(folder=folder, format=job.format, schema=job.schema, options=job.options, num_tasks=len(job.tasks))


def _run(
    job: Job[Any],
    target: Target,
    ledger: Ledger,
    done: dict[int, TaskOutput],
    missing: Sequence[int],
    workers: Workers,
    on_progress: OnProgress | None,
) -> list[TaskOutput]:
    """Run the tasks that are missing, but none that still waits for others' tasks.

    Returns what these and those that were done did, in the order of the tasks.
    """
    for output in done.values():
        job.watch(output)

    def results() -> Generator[tuple[int, TaskOutput]]:
        for stage in (range(job.num_first), range(job.num_first, len(job.tasks))):
            given = [(number, job.tasks[number]) for number in missing if number in stage]
            if not given or len(ledger.read(range(stage.start))) < stage.start:
                continue
            running = workers.run(job.run, job.shared(target), given, writes=target.folder, reads=job.reads)
            with closing(running) as ended:
                for i, output in ended:
                    ledger.add(given[i][0], output)
                    job.watch(output)
                    yield given[i][0], output

    # Closed at once, so that nobody works any more when the folder is given free.
    with closing(results()) as new:
        return collect(done, new, job.unit, job.total, on_progress)


def _check_unchanged(job: Job[Any], marker: Mapping[str, Any]) -> None:
    if job.marker() != marker:
        raise DataError(
            f"the inputs of this job ({job.kind}) were changed while it read them, so what it wrote may be of both "
            "versions. Nothing was published; run it again when they stay as they are"
        )


def _check_there(folder: Folder, outputs: Sequence[TaskOutput]) -> None:
    """Hold what tasks have written to what they said: somebody may have cleared up meanwhile."""
    if gone := missing_shards(folder, outputs):
        raise StorageError(
            f"{folder.path}: {gone[0]} was written, and is not there any more ({len(gone)} such shards); is another "
            "job at work on it, on a file system without locks? Run this one again when it has ended"
        )


def _write_plan(folder: Folder, job: Job[Any]) -> None:
    """For people, and so that it can be seen what a number stands for; a part may have written the same already."""
    if not folder.exists(PLAN_NAME):
        lines = (json.dumps(task, sort_keys=True) for task in job.described)
        folder.write(PLAN_NAME, "".join(f"{line}\n" for line in lines).encode())


def _clear_leftovers(folder: Folder, shards: Sequence[ShardInfo]) -> None:
    """Remove what tasks wrote that did not come to their end."""
    kept = {file.name for shard in shards for file in (*shard.files, *([shard.index] if shard.index else ()))}
    folder.clear_temporary()
    for name in [*folder.list(), *folder.below(f"{HOME}/index")]:
        if name not in kept:
            folder.remove(name)


def _not_done(missing: Sequence[int], num_tasks: int) -> ConfigError:
    shown = ", ".join(str(n + 1) for n in missing[:_SHOWN_NUMBERS]) + ", ..." * (len(missing) > _SHOWN_NUMBERS)
    return ConfigError(
        f"{len(missing)} of {num_tasks} tasks are not done yet ({shown}): run the parts that have not ended "
        "(--task K/N), or leave --finish out to do the rest here"
    )
