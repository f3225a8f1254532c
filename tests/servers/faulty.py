"""A proxy in front of an S3 server that counts requests, and answers some of them badly."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import unquote, urlsplit

Fault = Literal["500", "503", "429", "403", "reset", "cut", "slow", "stalled", "wrong", "missing", "lost"]
_CODES = {
    "500": "InternalError",
    "503": "SlowDown",
    "429": "TooManyRequests",
    "403": "AccessDenied",
    "404": "NoSuchKey",
}
#: Seconds between two bytes of a slow answer.
_SLOW_SECONDS = 0.2


@dataclass(frozen=True)
class Request:
    """``kind``: list, or the method. ``key``: the object, in its bucket. ``attempt``: of equal requests, from 1."""

    kind: str
    key: str
    range: str | None
    attempt: int


@dataclass
class Proxy:
    """``choose``: the fault of each request. ``seen``: all requests, faults included."""

    port: int = 0
    choose: Callable[[Request], Fault | None] = lambda request: None
    seen: list[Request] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    attempts: Counter[tuple[str, str, str | None]] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def count(self, kind: str) -> int:
        """Requests of a kind."""
        return sum(request.kind == kind for request in self.seen)

    def clear(self) -> None:
        """Begin to count anew."""
        with self.lock:
            self.seen.clear()
            self.faults.clear()
            self.attempts.clear()

    def note(self, kind: str, key: str, range: str | None) -> Fault | None:
        with self.lock:
            self.attempts[kind, key, range] += 1
            request = Request(kind, key, range, self.attempts[kind, key, range])
            self.seen.append(request)
            fault = self.choose(request)
            if fault is not None:
                self.faults[fault] += 1
            return fault


@contextmanager
def proxy(target_port: int) -> Iterator[Proxy]:
    """Start one in front of a server on this machine."""
    state = Proxy()

    class Handler(_Handler):
        proxy = state
        target = target_port

    with _Server(("127.0.0.1", 0), Handler) as server:
        state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield state
        finally:
            state.ended.set()
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    #: Connections that may wait to be taken: with 5, as by default, some of many at once come a second late.
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy
    target: int

    def log_message(self, *args: object) -> None:
        """Nothing is logged."""

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        key = unquote(parts.path.lstrip("/").partition("/")[2])
        kind = "list" if self.command == "GET" and not key else self.command
        fault = self.proxy.note(kind, key, self.headers.get("Range"))
        with suppress(OSError):  # the client gave up
            if fault in ("500", "503", "429", "403", "missing"):
                self._refuse("404" if fault == "missing" else fault)
            elif fault == "reset":
                self._reset()
            else:
                self._forward(body, fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _do  # noqa: N815  # named by the base class

    def _refuse(self, status: str) -> None:
        text = f"<Error><Code>{_CODES[status]}</Code><Message>a fault</Message></Error>".encode()
        self.send_response(int(status))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _forward(self, body: bytes, fault: Fault | None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=60)
        try:
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if fault == "lost":
            self._reset()
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(data)))
        self.end_headers()
        if fault == "wrong" and data:
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        if fault == "cut":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif fault in ("slow", "stalled"):
            self.close_connection = True
            for byte in data if fault == "slow" else b"":
                self.wfile.write(bytes([byte]))
                if self.proxy.ended.wait(_SLOW_SECONDS):
                    return
            self.proxy.ended.wait(60)
        else:
            self.wfile.write(data)
