"""A web server on 127.0.0.1 that gives files by ranges, and one that behaves like the Hugging Face Hub."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Files in an answer of the Hub's listing.
_PAGE = 3


@dataclass
class Web:
    """``folder``: what is served. ``token``: what the Hub asks for. ``seen``: method and path of all requests.

    ``main``: the commit that the branch of that name is at. The files of a commit lie in the folder of its name.
    ``no_commit``: what is answered, with its status, to who asks for it.
    """

    folder: Path
    token: str | None = None
    port: int = 0
    main: str = "0" * 40
    no_commit: tuple[int, bytes] | None = None
    seen: list[tuple[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def web_server(folder: Path, token: str | None = None) -> Iterator[Web]:
    """Serve the files of a folder at ``/``, and as the data set ``owner/name`` of the Hub, revision ``v1``.

    Its branch ``main`` is at the commit ``Web.main``.
    """
    state = Web(folder, token)

    class Handler(_Handler):
        web = state

    with _Server(("127.0.0.1", 0), Handler) as server:
        state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    #: Connections that may wait to be taken: with 5, as by default, some of many at once come a second late.
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: Web

    def log_message(self, *args: object) -> None:
        """Nothing is logged."""

    def _do(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        self.web.seen.append((self.command, path))
        if re.fullmatch(r"/api/datasets/owner/name/revision/(main|refs/(pr/1|convert/parquet))", path):
            self._answer(*(self.web.no_commit or (200, json.dumps({"sha": self.web.main}).encode())))
        elif hub := re.fullmatch(r"/datasets/owner/name/resolve/([0-9a-f]{40}|main|refs/\w+/\w+)/(.*)", path):
            self._file(self.web.folder / hub[1] / hub[2])
        elif hub := re.fullmatch(r"/datasets/owner/name/resolve/v1/(.*)", path):
            if self.web.token and self.headers.get("Authorization") != f"Bearer {self.web.token}":
                self._answer(401, b"")
            else:  # as large files are: from another address
                self._answer(302, b"", {"Location": f"/{hub[1]}"})
        elif hub := re.fullmatch(r"/api/datasets/owner/name/tree/(v1|[0-9a-f]{40})(?:/(.*))?", path):
            folder = self.web.folder if hub[1] == "v1" else self.web.folder / hub[1]
            self._list(folder, hub[2] or "", int((re.search(r"cursor=(\d+)", parts.query) or [0, 0])[1]))
        else:
            self._file(self.web.folder / path.lstrip("/"))

    do_GET = do_HEAD = _do  # noqa: N815  # named by the base class

    def _list(self, folder: Path, prefix: str, first: int) -> None:
        names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
        names = [n for n in names if n.startswith(f"{prefix}/") or not prefix]
        entries = []
        for name in names[first : first + _PAGE]:
            data = (folder / name).read_bytes()
            oid = sha256(data).hexdigest()
            entries.append({"type": "file", "path": name, "size": len(data), "oid": oid})
        more = first + _PAGE < len(names)
        link = (
            {"Link": f'<{self.web.url}{urlsplit(self.path).path}?cursor={first + _PAGE}>; rel="next"'} if more else {}
        )
        self._answer(200, json.dumps(entries).encode(), link)

    def _file(self, path: Path) -> None:
        if not path.is_file():
            self._answer(404, b"")
            return
        data = path.read_bytes()
        headers = {"ETag": f'"{sha256(data).hexdigest()[:16]}"', "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted is None:
            self._answer(200, data, headers)
            return
        start, stop = int(wanted[1]), min(int(wanted[2] or len(data)) + 1, len(data))
        if start >= len(data):
            self._answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        self._answer(206, data[start:stop], headers)

    def _answer(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
