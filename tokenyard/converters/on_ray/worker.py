"""What runs in a worker of the cluster: a task, with what all tasks share, which each process takes once."""

from __future__ import annotations

import ctypes
import os
import pickle
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from tokenyard.converters.sight import Sight
from tokenyard.converters.versions import installed
from tokenyard.errors import ConfigError, MissingDependencyError, TokenyardError

#: How often a task asks whether its job has ended.
_ASK_SECONDS = 0.5

_taken: tuple[str, Callable[[Any, Any], Any], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What is sent to the cluster once.

    Attributes:
        id: tells it from what another run of tasks sends.
        cwd: where paths count from.
        versions: of what decides on the bytes.
        work: the function and what all tasks share, and the files that must be seen with their bytes; pickled.
    """

    id: str
    cwd: str
    versions: Mapping[str, str | None]
    work: bytes

    @classmethod
    def of(
        cls,
        id: str,
        versions: Mapping[str, str | None],
        function: Callable[[Any, Any], Any],
        shared: Any,
        sights: Sequence[Sight],
    ) -> Sent:
        """What this process sends. Raises StorageError where it doesn't see the files itself."""
        return cls(
            id=id,
            cwd=os.getcwd(),
            versions=versions,
            work=pickle.dumps((function, shared, [(sight, sight.size()) for sight in sights])),
        )


class Ended:
    """An actor that is there, by its name, where a job has ended whose tasks may still run."""


def name_of_end(id: str) -> str:
    """The name of a job's `Ended`."""
    return f"tokenyard-ended-{id}"


def run_task(id: str, sent: list[Any], task: Any) -> Any:
    """The result of a task, or the error of tokenyard's that it raised, which Ray would wrap.

    None where its job has ended: it is then not begun, or interrupted. Ray could cancel a task, but where that has just
    ended it ends the process that asked for it.

    ``sent`` holds the reference of what was sent: in a list, or Ray would bring it anew for each task.
    """
    if _has_ended(id):
        return None
    watch = _Watch(id)
    try:
        with watch:
            try:
                function, shared = _work(id, sent)
                return function(shared, task)
            except TokenyardError as e:
                return e
    except KeyboardInterrupt:
        if watch.has_interrupted:
            return None
        raise


class _Watch:
    """A thread that interrupts the main one when a job has ended."""

    def __init__(self, id: str) -> None:
        self.has_interrupted = False
        self._id = id
        self._lock = threading.Lock()
        self._done = threading.Event()

    def __enter__(self) -> None:
        threading.Thread(target=self._run, name="tokenyard-watch", daemon=True).start()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._done.set()

    def _run(self) -> None:
        while not self._done.wait(_ASK_SECONDS):
            if not _has_ended(self._id):
                continue
            with self._lock:  # so that whatever comes after the task is not interrupted
                if not self._done.is_set():
                    self.has_interrupted = True
                    # A signal would not do: workers ignore it where whatever began the cluster does.
                    main = ctypes.c_ulong(threading.main_thread().ident or 0)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(KeyboardInterrupt))
            return


def _has_ended(id: str) -> bool:
    try:
        ray.get_actor(name_of_end(id))
    except (ValueError, RayError):  # there is none; or who knows is away, and will be asked again
        return False
    return True


def check_node(id: str, sent: list[Any]) -> TokenyardError | None:
    """Why tasks can't run on this node; None where they can."""
    try:
        _work(id, sent)
    except TokenyardError as e:
        return e
    return None


def check_versions(here: Mapping[str, str | None], expected: Mapping[str, str | None], node: str) -> None:
    """Raise ConfigError, or MissingDependencyError, where a node has other versions than are expected."""
    if here["tokenyard"] is None:
        raise MissingDependencyError(
            f"{node} has no tokenyard; install the same version on all nodes of the cluster "
            f"(pip install 'tokenyard=={expected['tokenyard']}')"
        )
    if others := [name for name, found in here.items() if found != expected[name]]:
        told = ", ".join(f"{name} {here[name] or 'missing'} (expected {expected[name]})" for name in others)
        raise ConfigError(
            f"{node} has {told}, on which bytes may depend; install the versions of the machine that begins the job on "
            "all nodes of the cluster"
        )


def _work(id: str, sent: list[Any]) -> tuple[Callable[[Any, Any], Any], Any]:
    global _taken
    if _taken is None or _taken[0] != id:
        _taken = (id, *_checked(ray.get(sent[0])))
    return _taken[1:]


def _checked(sent: Sent) -> tuple[Callable[[Any, Any], Any], Any]:
    node = f"node {socket.gethostname()} ({ray.util.get_node_ip_address()})"
    check_versions(installed(sent.versions), sent.versions, node)
    os.chdir(sent.cwd if os.path.isdir(sent.cwd) else "/")  # relative paths lead to what they led to, or nowhere
    try:
        function, shared, sights = pickle.loads(sent.work)
    except ImportError as e:
        raise MissingDependencyError(
            f"{node} can't import what this job needs ({e}); install on all nodes of the cluster what the machine has "
            "that begins the job"
        ) from None
    for sight, expected in sights:
        sight.check(expected, node)
    return function, shared
