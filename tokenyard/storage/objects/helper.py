"""The process that makes calls to a store for a forked one; see ``forked``."""

from __future__ import annotations

import threading
from multiprocessing.connection import Connection
from typing import Any

from tokenyard.storage.objects.direct import Direct
from tokenyard.storage.objects.patience import Patience

#: By their URL, the patience with them, and the commit.
_Stores = dict[tuple[str, Patience, str | None], Direct]


def serve(handles: list[int]) -> None:
    """Answer on each socket, a thread each, until all are closed at the other end."""
    stores: _Stores = {}
    threads = [threading.Thread(target=_serve_one, args=(Connection(handle), stores)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve_one(connection: Connection, stores: _Stores) -> None:
    while True:
        try:
            url, patience, commit, name, args = connection.recv()
        except (EOFError, ConnectionError):
            return
        answer: tuple[bool, Any]
        try:
            direct = stores.get((url, patience, commit))
            if direct is None:
                direct = Direct(url, patience, commit)
                stores[url, patience, commit or direct.commit] = direct
            value = getattr(direct, name)(*args)
            answer = True, (bytes(value[0]), value[1]) if name == "get" else value
        except Exception as e:  # noqa: BLE001  # raised by the one who asked
            answer = False, e
        try:
            connection.send(answer)
        except (EOFError, ConnectionError):
            return
