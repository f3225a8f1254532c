"""Training from a URL through a cache a tenth of the corpus: how many steps wait, and how many bytes are fetched.

A web server on 127.0.0.1, in a process of its own, gives ranges at a bandwidth that is shared by all connections. Steps
sleep; what an epoch reads in that time needs less than the server gives. A step waits when the next batch takes over
1 ms to come; those before the first batch of an epoch, which nothing could have fetched ahead, are left out. Windows of
few order blocks keep what is open at a time within the cache. Parquet's row groups come whole::

    python benchmarks/streaming.py
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

# The scripts also run by themselves, where their folder's parent is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tokenyard
from benchmarks import corpora, results

QUICK = ["--rows", "24576", "--formats", "npy", "--cache-share", "0.9"]
WAIT_SECONDS = 0.001
#: Serves ranges of the files in a folder: python -c ... FOLDER BYTES_PER_SECOND. Prints its port.
_SERVER = """
import http.server, os, re, sys, threading, time

folder, rate = sys.argv[1], float(sys.argv[2])
turn, free_at = threading.Lock(), [0.0]

def wait_for(num_bytes):
    with turn:
        start = max(free_at[0], time.monotonic())
        free_at[0] = start + num_bytes / rate
    time.sleep(max(0.0, free_at[0] - time.monotonic()))

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body):
        path = folder + self.path
        if not os.path.isfile(path):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size = os.path.getsize(path)
        asked = re.fullmatch(r"bytes=(\\d+)-(\\d*)", self.headers.get("Range", ""))
        first, last = (int(asked[1]), int(asked[2] or size - 1)) if asked else (0, size - 1)
        last = min(last, size - 1)
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{size}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        if with_body:
            with open(path, "rb") as file:
                file.seek(first)
                left = last - first + 1
                while left:
                    piece = file.read(min(left, 1 << 18))
                    wait_for(len(piece))
                    self.wfile.write(piece)
                    left -= len(piece)

class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128

server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def served(folder: Path, bytes_per_second: float) -> Iterator[str]:
    """The URL of a server of the files in a folder."""
    command = [sys.executable, "-c", _SERVER, str(folder), str(bytes_per_second)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def measure(
    folder: Path, format: str, *, batch_size: int, step_seconds: float, spare: float, cache_share: float
) -> Iterator[results.Result]:
    """One epoch. ``spare``: the bandwidth, of what the steps need."""
    corpus = tokenyard.open_corpus(folder / format)
    num_bytes, num_steps = corpus.manifest.num_bytes, len(corpus) // batch_size
    needed = num_bytes / (num_steps * step_seconds)
    with served(folder, spare * needed) as url, tempfile.TemporaryDirectory() as cache:
        settings = {
            "data": {"path": f"{url}/{format}", "sample": {"mode": "rows"}},
            "order": {"global_batch_size": batch_size, "window_blocks": 8, "lanes": 1},
            "loader": {"cache": {"bytes": int(cache_share * num_bytes), "path": cache}},
        }
        loader = tokenyard.build_dataloader(settings, rank=0, world_size=1)
        waited = []
        batches = iter(loader)
        next(batches)
        while True:
            time.sleep(step_seconds)
            started = time.perf_counter()
            if next(batches, None) is None:
                break
            waited.append(time.perf_counter() - started)
        counts = loader.cache_counts
    assert counts is not None
    case = f"{format}, cache {cache_share:.0%}, bandwidth {spare:g} of the need"
    yield results.Result(
        work="streaming, steps",
        case=case,
        measured=float((np.array(waited) > WAIT_SECONDS).sum()),
        unit=f"of {len(waited)} steps waited",
        bar=0,
        at_most=True,
        rates={"wait ms, most": 1e3 * max(waited), "MB/s needed": needed / 1e6},
    )
    yield results.Result(
        work="streaming, bytes",
        case=case,
        measured=counts.bytes_fetched / num_bytes,
        unit="of the corpus",
        bar=1.1,
        at_most=True,
        rates={"requests": counts.requests, "evicted late": counts.evicted_late},
    )


def main(arguments: list[str] | None = None) -> list[results.Result]:
    """Measure each format."""
    parser = results.parser(__doc__)
    parser.add_argument("--rows", type=int, default=245_760)
    parser.add_argument("--formats", nargs="+", default=["npy", "mds", "parquet"])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--step-ms", type=float, default=40.0)
    parser.add_argument("--spare", type=float, default=2.0)
    parser.add_argument("--cache-share", type=float, default=0.1)
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tokens = corpora.zipf_rows(args.rows)
    found: list[results.Result] = []
    with tempfile.TemporaryDirectory() as name:
        for format in args.formats:
            corpora.write(Path(name) / format, format, tokens, 64 << 20)
            found += measure(
                Path(name),
                format,
                batch_size=args.batch_size,
                step_seconds=args.step_ms / 1e3,
                spare=args.spare,
                cache_share=args.cache_share,
            )
    return results.report(found, as_json=args.json)


if __name__ == "__main__":
    main()
