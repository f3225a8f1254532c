"""A Ray cluster on this machine whose nodes can be killed, and functions that tests run in it."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

# Else a token that lies in the user's home decides who may connect.
os.environ["RAY_AUTH_MODE"] = "disabled"

import ray

from tokenyard.converters.on_ray.cluster import connected
from tokenyard.errors import DataError

#: Each Python that the cluster begins runs it: tasks take their time while a file is there.
SLOW_DISK = """
import os, time
fsync = os.fsync
def slow(handle):
    if os.path.exists({flag!r}):
        time.sleep(0.05)
    fsync(handle)
os.fsync = slow
"""


def until(reached: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Ask again and again, until there is an answer."""
    end = time.monotonic() + seconds
    while not (found := reached()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


class Cluster:
    """A head and a second node with a processor each; they write into a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slow = folder / "slow"
        (folder / "site").mkdir()
        (folder / "site/sitecustomize.py").write_text(SLOW_DISK.format(flag=str(self.slow)))
        self.address = ""
        self._head: subprocess.Popen[bytes] | None = None
        self._second: subprocess.Popen[bytes] | None = None

    def start_head(self) -> None:
        """Begin the first node, and wait until it tells the port that it has bound."""
        self._head = self._start("--head", "--port=0", f"--temp-dir={self.folder}", "--include-dashboard=false")
        self.address = until(self._told_address)

    def start_second(self) -> None:
        """Begin the second node, and wait for it; this process is connected."""
        known = {node["NodeID"] for node in ray.nodes()}
        self._second = self._start(f"--address={self.address}")
        until(lambda: len(now := set(self.nodes())) == 2 and now - known)

    def kill_second(self) -> None:
        """End the second node at once, as a machine that loses its power."""
        assert self._second is not None
        kill(self._second)
        self._second = None

    def close(self) -> None:
        """End all nodes."""
        for node in (self._second, self._head):
            if node is not None:
                kill(node)

    def maps(self) -> str:
        """What the processes of all nodes have mapped, as the kernel tells it."""
        nodes = [node.pid for node in (self._head, self._second) if node is not None]
        texts = []
        for pid in [*nodes, *(found for node in nodes for found in descendants(node))]:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                texts.append(Path(f"/proc/{pid}/maps").read_text())
        return "".join(texts)

    @staticmethod
    def nodes() -> list[str]:
        """The ids of the nodes, the head first; for one who is connected."""
        alive = [node for node in ray.nodes() if node["Alive"]]
        return [n["NodeID"] for n in sorted(alive, key=lambda n: "node:__internal_head__" not in n["Resources"])]

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--node-ip-address=127.0.0.1"]
        # Any free ports, since other clusters may begin nodes on this machine too.
        command += ["--min-worker-port=0", "--max-worker-port=0"]
        command += ["--num-cpus=1", "--object-store-memory=80000000", f"--plasma-directory={self.folder}"]
        python_path = [str(self.folder / "site"), *sys.path]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(python_path), "RAY_USAGE_STATS_ENABLED": "0"}
        env["RAY_memory_monitor_refresh_ms"] = "0"  # else it kills tasks where other programs have the memory
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                [*command, *options], env=env, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    def _told_address(self) -> str:
        assert self._head is not None
        assert self._head.poll() is None, (self.folder / "log").read_text()
        try:
            return (self.folder / "ray_current_cluster").read_text().strip()
        except FileNotFoundError:
            return ""


def kill(node: subprocess.Popen[bytes]) -> None:
    """Kill a node with all that it began, at once, and wait until all are gone."""
    began = [node.pid, *descendants(node.pid)]
    for pid in began:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    node.wait()
    until(lambda: not any(is_alive(pid) for pid in began))


def descendants(pid: int) -> list[int]:
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A cluster that this process is connected to."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # short: names of sockets are limited to 107 bytes
    cluster = Cluster(folder)
    try:
        cluster.start_head()
        with connected(cluster.address):
            cluster.start_second()
            yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder)


def add(shared: int, task: int) -> int:
    return shared + task


def fail(shared: str, task: int) -> int:
    if task == 3:
        raise DataError(f"task {task} of {shared} is bad")
    return task


def divide(shared: int, task: int) -> float:
    return shared / task


def die(shared: Path, task: int) -> None:
    """Be killed, as by a system that wants memory."""
    (shared / f"{task}-{os.getpid()}").touch()
    os.kill(os.getpid(), signal.SIGKILL)


def wait_or_give(shared: Path, task: int) -> int:
    """Give the first task's result at once where another one waits."""
    if task == 0:
        until(lambda: list(shared.glob("1-*")))
        return task
    return wait(shared, task)


def wait(shared: Path, task: int) -> int:
    """Say where a task runs, and wait until it may end."""
    (shared / f"{task}-{os.getpid()}-{ray.get_runtime_context().get_node_id()}").touch()
    try:
        until((shared / "go").exists)
    finally:
        (shared / f"ended-{task}").touch()
    return task
