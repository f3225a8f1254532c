"""A web server on 127.0.0.1 that gives the files of a folder by ranges, and counts what it gives."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

#: Changes the bytes of a range: the file's name, the first byte, the bytes.
Change = Callable[[str, int, bytes], bytes]


@dataclass
class FileServer:
    """``given``: (name, bytes) of each answer with a body. ``changed``: what is given in place of a file's bytes.

    ``etags``: whether it gives some; else only when a file was changed last.
    """

    url: str
    given: list[tuple[str, int]] = field(default_factory=list)
    changed: Change | None = None
    etags: bool = True

    @property
    def num_bytes(self) -> int:
        """The bytes of all answers so far."""
        return sum(count for _, count in self.given)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, root: Path, server: FileServer, *args: Any) -> None:
        self._root, self._told = root, server
        super().__init__(*args)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, *, with_body: bool) -> None:
        name = unquote(self.path).strip("/")
        path = self._root / name
        if not path.is_file():
            self._begin(404, 0)
            return
        size = path.stat().st_size
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start, stop = (int(found[1]), min(size, int(found[2] or size) + 1)) if found else (0, size)
        with open(path, "rb") as f:
            f.seek(start)
            data = f.read(stop - start)
        if self._told.changed is not None:
            data = self._told.changed(name, start, data)
        etag = hashlib.sha256(f"{path} {path.stat().st_mtime_ns}".encode()).hexdigest()[:16]
        headers = {"ETag": f'"{etag}"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "Accept-Ranges": "bytes"}
        if not self._told.etags:
            del headers["ETag"]
            headers["Last-Modified"] = self.date_time_string(path.stat().st_mtime)
        if found:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        self._begin(206 if found else 200, len(data), headers)
        if with_body:
            self._told.given.append((name, len(data)))
            self.wfile.write(data)

    def _begin(self, status: int, size: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(size)}.items():
            self.send_header(name, value)
        self.end_headers()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    #: Connections that may wait to be taken: with 5, as by default, some of many at once come a second late.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that were killed."""


@contextmanager
def file_server(root: Path) -> Iterator[FileServer]:
    """Serve a folder until the block ends."""
    told = FileServer(url="")
    server = _Server(("127.0.0.1", 0), partial(_Handler, root, told))
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
