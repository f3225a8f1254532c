"""What runs in a worker of the cluster: a task, with what all tasks share, which each process takes once."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from tokenyard.converters.sight import Sight
from tokenyard.converters.versions import installed
from tokenyard.errors import ConfigError, MissingDependencyError, TokenyardError

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


def run_task(id: str, sent: list[Any], task: Any) -> Any:
    """The result of a task, or the error of tokenyard's that it raised, which Ray would wrap.

    ``sent`` holds the reference of what was sent: in a list, or Ray would bring it anew for each task.
    """
    try:
        function, shared = _work(id, sent)
        return function(shared, task)
    except TokenyardError as e:
        return e


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
