"""What the tasks of a job have done, kept in its destination, so that an interrupted job goes on where it was.

A line a task, and a file for each process that runs tasks. A line ends in a checksum: what was cut when its process was
killed, or its machine went down, is as if it had not been written, and its task is done again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from blake3 import blake3

from tokenyard.converters.job import TaskOutput
from tokenyard.corpus import DONE_FOLDER
from tokenyard.digest import Leaves
from tokenyard.manifest import FileInfo, ShardInfo, shard_of, shard_to_dict
from tokenyard.storage import Folder, Lines

LEDGER_VERSION = 2
_LEAF_BYTES = 32
_READERS = 8


class Ledger:
    """The tasks that are done in a folder; the file to add more is made when there is one."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._own: Lines | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its file, which may be removed then."""
        if self._own is not None:
            self._own.close()
        self._own = None

    def read(self, tasks: Container[int] | None = None) -> dict[int, TaskOutput]:
        """The tasks, or those of some numbers, that are done and whose files are there, by their numbers."""
        found: dict[int, TaskOutput] = {}
        for line in self._lines():
            body, _, checksum = line.rstrip(b"\n").rpartition(b" ")
            if checksum == _checksum(body):
                number, output = _output_of(json.loads(body))
                if tasks is None or number in tasks:
                    found[number] = output
        gone = set(missing_shards(self._folder, found.values()))
        return {number: output for number, output in found.items() if gone.isdisjoint(s.name for s in output.shards)}

    def add(self, number: int, output: TaskOutput) -> None:
        """Note a task, whose files are on the disk. Raises StorageError."""
        body = json.dumps(_to_dict(number, output), sort_keys=True).encode()
        if self._own is None:
            self._own = self._folder.lines(f"{DONE_FOLDER}/{uuid.uuid4().hex}.jsonl")
        # Not synced: a line that is lost with the machine costs its task once more, and waiting would cost all.
        self._own.add(body + b" " + _checksum(body) + b"\n")

    def clear(self) -> None:
        """Forget all tasks. Raises StorageError."""
        self.close()
        for name in self._folder.below(DONE_FOLDER):
            self._folder.remove(name)

    def _lines(self) -> Iterator[bytes]:
        with ThreadPoolExecutor(_READERS) as pool:  # from an object store one alone takes its time
            for data in pool.map(self._folder.read, self._folder.below(DONE_FOLDER)):
                yield from data.splitlines(keepends=True)


def missing_shards(folder: Folder, outputs: Iterable[TaskOutput]) -> list[str]:
    """Names of shards that tasks have written and that are not there, or not with all files in their sizes."""
    files = {shard.name: _files(shard) for output in outputs for shard in output.shards}
    sizes = folder.sizes(file.name for shard in files.values() for file in shard)
    return [name for name, shard in files.items() if any(sizes.get(file.name) != file.bytes for file in shard)]


def _files(shard: ShardInfo) -> tuple[FileInfo, ...]:
    return (*shard.files, *([shard.index] if shard.index else ()))


def _checksum(body: bytes) -> bytes:
    return blake3(body).hexdigest()[:16].encode()


def _to_dict(number: int, output: TaskOutput) -> dict[str, Any]:
    return {
        "task": number,
        "shards": [shard_to_dict(shard) for shard in output.shards],
        "leaves": _leaves_to_dict(output.leaves),
        "read": None if output.read is None else _leaves_to_dict(output.read),
        "bytes": output.num_bytes,
        "counts": dict(output.counts),
    }


def _output_of(data: Mapping[str, Any]) -> tuple[int, TaskOutput]:
    output = TaskOutput(
        shards=tuple(shard_of(shard) for shard in data["shards"]),
        leaves=_leaves_of(data["leaves"]),
        read=None if data["read"] is None else _leaves_of(data["read"]),
        num_bytes=data["bytes"],
        counts=data["counts"],
    )
    return data["task"], output


def _leaves_to_dict(leaves: Leaves) -> dict[str, Any]:
    return {
        "rows": leaves.num_rows,
        "tokens": b"".join(leaves.tokens).hex(),
        "fields": {name: b"".join(parts).hex() for name, parts in leaves.fields.items()},
    }


def _leaves_of(data: Mapping[str, Any]) -> Leaves:
    return Leaves(
        num_rows=data["rows"],
        tokens=_leaves(data["tokens"]),
        fields={name: _leaves(text) for name, text in data["fields"].items()},
    )


def _leaves(text: str) -> tuple[bytes, ...]:
    data = bytes.fromhex(text)
    return tuple(data[i : i + _LEAF_BYTES] for i in range(0, len(data), _LEAF_BYTES))
