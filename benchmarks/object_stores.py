"""obstore, tokenyard's own client over it, and s3fs on one S3 server: ranges, whole objects, and small ones.

The server is moto's, on this machine, and all clients are given the same of it, in turn: ranges of 1 MiB out of a large
object, large objects as a whole, and small objects read and written, by one thread and by eight. What the server itself
takes is part of every figure, so ratios are nearer to one than those of the clients alone; `CPU` is the time that the
client's process takes itself, which is what is left where the server is elsewhere::

    python benchmarks/object_stores.py --repeats 5
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import results
from tests.servers.s3 import CREDENTIALS, S3Server, s3_server
from tokenyard.storage.objects import open_objects

QUICK = ["--repeats", "1", "--large", "4", "--small", "8"]
_RANGE = 1 << 20
_SMALL_BYTES = 4 << 10
_THREADS = 8

Work = Callable[[int], int]


class Tokenyard:
    """The client of tokenyard."""

    def __init__(self, server: S3Server, bucket: str) -> None:
        os.environ.update(server.environment)
        self._objects = open_objects(f"s3://{bucket}")

    def read(self, key: str, start: int, stop: int) -> Any:
        return self._objects.read(key, start, stop)

    def write(self, key: str, data: bytes) -> None:
        self._objects.put(key, data)


class Obstore:
    """The library that it is made of, by itself."""

    def __init__(self, server: S3Server, bucket: str) -> None:
        import obstore
        from obstore.store import S3Store

        self._obstore = obstore
        self._store = S3Store(
            bucket,
            endpoint=server.url,
            region=CREDENTIALS["AWS_REGION"],
            access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            client_options={"allow_http": True},
        )

    def read(self, key: str, start: int, stop: int) -> Any:
        return self._obstore.get_range(self._store, key, start=start, end=stop)

    def write(self, key: str, data: bytes) -> None:
        self._obstore.put(self._store, key, data, use_multipart=False)


class S3fs:
    """fsspec's file system."""

    def __init__(self, server: S3Server, bucket: str) -> None:
        import s3fs

        self._fs = s3fs.S3FileSystem(
            key=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            secret=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            endpoint_url=server.url,
            client_kwargs={"region_name": CREDENTIALS["AWS_REGION"]},
        )
        self._bucket = bucket

    def read(self, key: str, start: int, stop: int) -> Any:
        return self._fs.cat_file(f"{self._bucket}/{key}", start=start, end=stop)

    def write(self, key: str, data: bytes) -> None:
        self._fs.pipe_file(f"{self._bucket}/{key}", data)


CLIENTS: dict[str, Any] = {"tokenyard": Tokenyard, "obstore": Obstore, "s3fs": S3fs}


def works(client: Any, large: int, small: int) -> dict[str, tuple[Work, int, int]]:
    """By name: what call number i does (it returns bytes), how many calls, and threads."""

    def ranges(i: int) -> int:
        return len(client.read("large-0", i * _RANGE, (i + 1) * _RANGE))

    def whole(i: int) -> int:
        return len(client.read(f"large-{i % 2}", 0, large * _RANGE))

    def read_small(i: int) -> int:
        return len(client.read(f"small-{i}", 0, _SMALL_BYTES))

    def write_small(i: int) -> int:
        client.write(f"written-{i}", bytes(_SMALL_BYTES))
        return _SMALL_BYTES

    return {
        "ranges of 1 MiB, 1 thread": (ranges, min(large, 16), 1),
        "ranges of 1 MiB, 8 threads": (ranges, large, _THREADS),
        f"objects of {large} MiB": (whole, 2, 1),
        "reading 4 KiB, 8 threads": (read_small, small, _THREADS),
        "writing 4 KiB, 8 threads": (write_small, small, _THREADS),
    }


def measure(work: Work, calls: int, threads: int) -> tuple[float, float]:
    """Calls a second, and seconds of CPU of this process for a call."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: None, range(threads)))
        cpu, started = _cpu(), time.perf_counter()
        moved = sum(pool.map(work, range(calls)))
        took = time.perf_counter() - started
    assert moved > 0
    return calls / took, (_cpu() - cpu) / calls


def _lines(work: str, found: dict[str, float]) -> list[results.Result]:
    lines = [
        results.Result(
            work=work,
            case=f"calls a second, of {of}",
            measured=found["tokenyard"] / found[of],
            unit=f"of {of}",
            rates=found,
        )
        for of in ("s3fs", "obstore")
    ]
    cpu = found["tokenyard CPU"] / max(found["s3fs CPU"], 1e-9)
    return [*lines, results.Result(work=work, case="CPU a call, of s3fs", measured=cpu, unit="of s3fs", rates=found)]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure all clients in turn, several times; the best of each counts."""
    parser = results.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--large", type=int, default=64, help="MiB of a large object")
    parser.add_argument("--small", type=int, default=200, help="small objects")
    args = parser.parse_args(arguments)
    data = np.random.default_rng(0).integers(0, 256, args.large * _RANGE, np.uint8).tobytes()
    rates: dict[str, dict[str, float]] = {}
    with s3_server() as server:
        bucket = server.make_bucket()
        clients = {name: kind(server, bucket) for name, kind in CLIENTS.items()}
        for i in range(2):
            clients["tokenyard"].write(f"large-{i}", data)
        for i in range(args.small):
            clients["tokenyard"].write(f"small-{i}", bytes(_SMALL_BYTES))
        for name, client in clients.items():
            assert bytes(client.read("large-0", _RANGE, 2 * _RANGE)) == data[_RANGE : 2 * _RANGE], name
        for _ in range(args.repeats):
            for name, client in clients.items():
                for work, (function, calls, threads) in works(client, args.large, args.small).items():
                    rate, cpu = measure(function, calls, threads)
                    found = rates.setdefault(work, {})
                    found[name] = max(found.get(name, 0.0), rate)
                    found[f"{name} CPU"] = min(found.get(f"{name} CPU", cpu), cpu)
    found_results: list[results.Result] = []
    for work, found in rates.items():
        found_results += _lines(work, found)
    return results.report(found_results, as_json=args.json)


if __name__ == "__main__":
    main()
