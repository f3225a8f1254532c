"""A connection to a Ray cluster, and what must hold on its nodes before tasks run there."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tokenyard.converters import versions
from tokenyard.converters.on_ray.worker import check_node, check_versions
from tokenyard.errors import ConfigError, StorageError

_CONNECT_SECONDS = 20.0
#: How long a node may take to begin a process and answer.
_ANSWER_SECONDS = 120.0


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Connect to a cluster, unless this process is connected already. Raises ConfigError."""
    if ray.is_initialized():
        yield
        return
    where = os.environ.get("RAY_ADDRESS", "auto") if address in (None, "auto") else address
    try:
        _reach(where)
        with _signals_kept():
            ray.init(where, logging_level=logging.WARNING)
    except (OSError, RuntimeError, ValueError, RayError) as e:
        raise ConfigError(
            f"can't connect to a Ray cluster at {where}: {e}; begin one (ray start --head, and on further nodes "
            "ray start --address HOST:PORT), or give the address of one (--address, RAY_ADDRESS)"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Raise OSError where nobody answers at HOST:PORT, which Ray would find out in two minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


def check_nodes(id: str, sent: list[Any], expected: Mapping[str, str | None]) -> None:
    """Hold each node to the versions here, and to what tasks must see.

    Raises MissingDependencyError, ConfigError, StorageError; each names the node.
    """
    ray.cloudpickle.register_pickle_by_value(versions)  # for a node without tokenyard, which is to be told
    try:
        found = _on_each_node(versions.installed, list(expected))
    finally:
        ray.cloudpickle.unregister_pickle_by_value(versions)
    for node, here in found.items():
        check_versions(here, expected, node)
    for error in _on_each_node(check_node, id, sent).values():
        if error is not None:
            raise error


def has_cpus() -> bool:
    """Whether any node of the cluster runs tasks, now."""
    return bool(ray.cluster_resources().get("CPU", 0) >= 1)


def num_cpus() -> int:
    """Of the whole cluster, now; one at least, since a node may still come."""
    return max(1, int(ray.cluster_resources().get("CPU", 0)))


def as_remote(function: Callable[..., Any], **options: Any) -> Any:
    """A function that runs in the cluster, once: what is lost is seen to here, and not by Ray."""
    decorator: Any = ray.remote  # whose types know neither all options nor functions that come later
    return decorator(max_retries=0, **options)(function)


def as_actor(kind: type, **options: Any) -> Any:
    """An object that lives in the cluster, until nobody here knows it any more."""
    decorator: Any = ray.remote
    return decorator(kind).options(**options).remote()


def _on_each_node(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """What a function gives on each node, by the node's name."""
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    asked: dict[str, Any] = {}
    for id in nodes:
        there = NodeAffinitySchedulingStrategy(node_id=id, soft=False)
        asked[id] = as_remote(function, num_cpus=0, scheduling_strategy=there).remote(*arguments)
    ready, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=_ANSWER_SECONDS)
    answers = {}
    for id, ref in asked.items():
        name = f"node {nodes[id]['NodeManagerHostname']} ({nodes[id]['NodeManagerAddress']})"
        if ref not in ready:
            raise StorageError(
                f"{name} of the Ray cluster did not answer within {_ANSWER_SECONDS:.0f} s; see to it, or take it out "
                "of the cluster"
            )
        try:
            answers[name] = ray.get(ref)
        except RayError as e:
            if _is_alive(id):
                raise StorageError(f"{name} of the Ray cluster can't run tasks: {e}") from None
    return answers


def _is_alive(id: str) -> bool:
    return any(node["NodeID"] == id and node["Alive"] for node in ray.nodes())


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it connects; how this process ends stays its own matter."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)
