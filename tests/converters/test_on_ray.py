"""Tasks on a real Ray cluster of two nodes: the same bytes, whatever is lost on the way."""

import json
import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.converters import ray_cluster
from tests.converters.ray_cluster import Cluster, running_cluster, until
from tests.corpora import random_rows, write_corpus
from tests.real_data import gpt2_json
from tokenyard.converters.convert import convert, plan_convert
from tokenyard.converters.filter_rows import filter_rows
from tokenyard.converters.merge import merge
from tokenyard.converters.on_ray import tasks as on_ray
from tokenyard.converters.on_ray.worker import check_versions
from tokenyard.converters.pack import pack, plan_pack
from tokenyard.converters.run import run_part
from tokenyard.converters.sight import local_sight
from tokenyard.converters.split import split, split_part
from tokenyard.converters.tokenize import plan_tokenize, tokenize
from tokenyard.converters.workers import Workers
from tokenyard.corpus import open_corpus
from tokenyard.errors import ConfigError, DataError, MissingDependencyError, StorageError
from tokenyard.testing.round_trips import contents

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
SHARDS = {"shard_bytes": 20_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "corpus"
    write_corpus(path, random_rows(seed=3, num_rows=20_000, longest=6))
    return path


@pytest.fixture(scope="module")
def whole(source: Path) -> dict[str, bytes]:
    convert(source, source.parent / "whole", to="mds", **SHARDS)
    return contents(source.parent / "whole")


@pytest.fixture
def slow(cluster: Cluster) -> Iterator[None]:
    cluster.slow.touch()
    yield
    cluster.slow.unlink()


def run(cluster: Cluster, function: Callable[..., Any], shared: Any, tasks: Sequence[Any], **more: Any) -> Any:
    num_workers, reads = more.get("num_workers"), more.get("reads", ())
    workers = Workers(executor="ray", address=cluster.address, num_workers=num_workers)
    return workers.run(function, shared, tasks, reads=reads)


def begun(place: Path) -> dict[int, tuple[int, str]]:
    """Of tasks that wait: their process and node."""
    parts = [path.name.split("-") for path in place.glob("*-*-*")]
    return {int(task): (int(pid), node) for task, pid, node in parts}


@pytest.mark.parametrize("job", ["convert", "pack", "tokenize"])
def test_local_processes_a_cluster_and_single_tasks_write_the_same_bytes(
    tmp_path: Path, cluster: Cluster, source: Path, job: str
) -> None:
    texts = tmp_path / "a.jsonl"
    texts.write_text("".join(json.dumps({"text": f"a text of number {i}"}) + "\n" for i in range(300)))
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "text": {"split_bytes": 500}}
    function, plan, first, settings = {
        "convert": (convert, plan_convert, source, {"to": "parquet", **SHARDS}),
        "pack": (pack, plan_pack, source, {"seq_len": 4, "format": "webdataset", **SHARDS}),
        "tokenize": (tokenize, plan_tokenize, texts, {**how, "format": "mds"}),
    }[job]
    run_job: Any = function
    local = run_job(first, tmp_path / "local", num_workers=2, **settings)
    seen: list[Any] = []
    on_cluster = {"executor": "ray", "address": cluster.address}
    spread = run_job(first, tmp_path / "spread", **on_cluster, on_progress=seen.append, **settings)
    planned = plan(first, **settings)
    for number in range(1, 17):
        run_part(planned, tmp_path / "parts", (number, 16))
    parts = run_job(first, tmp_path / "parts", finish=True, **settings)
    assert len(planned.tasks) == len(seen) > 4
    assert seen[-1].share == 1
    assert local.digest == spread.digest == parts.digest
    assert contents(tmp_path / "local") == contents(tmp_path / "spread") == contents(tmp_path / "parts")
    assert not (tmp_path / "spread/.tokenyard/tmp").exists()


def test_rows_shuffled_split_merged_and_filtered_are_the_same_from_a_cluster(
    tmp_path: Path, cluster: Cluster, source: Path
) -> None:
    on_cluster: dict[str, Any] = {"executor": "ray", "address": cluster.address}
    hows: list[tuple[str, dict[str, Any]]] = [("local", {}), ("spread", on_cluster)]
    for place, how in hows:
        convert(source, tmp_path / place / "shuffled", to="mds", shuffle=3, **SHARDS, **how)
        split(source, tmp_path / place / "split", parts={"test": 0.1}, **SHARDS, **how)
        merge([source, tmp_path / "local/split/test"], tmp_path / place / "merged", **SHARDS, **how)
        filter_rows(source, tmp_path / place / "filtered", min_tokens=3, **SHARDS, **how)
    split_part(source, tmp_path / "part", (1, 1), parts={"test": 0.1}, **SHARDS, **on_cluster)
    split(source, tmp_path / "part", parts={"test": 0.1}, finish=True, **SHARDS)
    for name in ("shuffled", "split/train", "split/test", "merged", "filtered"):
        assert contents(tmp_path / "local" / name) == contents(tmp_path / "spread" / name)
    assert contents(tmp_path / "part") == contents(tmp_path / "local/split")


def test_parts_of_a_job_run_on_the_cluster_too(
    tmp_path: Path, cluster: Cluster, source: Path, whole: dict[str, bytes]
) -> None:
    job = plan_convert(source, to="mds", **SHARDS)
    for number in (1, 2):
        run_part(job, tmp_path / "out", (number, 2), executor="ray", address=cluster.address)
    convert(source, tmp_path / "out", to="mds", finish=True, executor="ray", address=cluster.address, **SHARDS)
    assert contents(tmp_path / "out") == whole


def test_relative_paths_lead_workers_to_what_they_lead_the_job_to(
    tmp_path: Path, cluster: Cluster, source: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = os.path.relpath(source)
    convert(relative, "out", to="mds", executor="ray", address=cluster.address, **SHARDS)
    assert contents(tmp_path / "out") == whole


def test_a_job_goes_on_where_a_node_is_killed_in_the_middle(
    tmp_path: Path, cluster: Cluster, source: Path, whole: dict[str, bytes], slow: None
) -> None:
    done: list[int] = []

    def meanwhile(progress: Any) -> None:
        done.append(progress.rows)
        if len(done) == 3:
            cluster.kill_second()

    try:
        convert(
            source,
            tmp_path / "out",
            to="mds",
            executor="ray",
            address=cluster.address,
            on_progress=meanwhile,
            **SHARDS,
        )
    finally:
        cluster.start_second()
    assert done[-1] == 20_000
    assert contents(tmp_path / "out") == whole


def test_a_task_of_a_node_that_is_killed_runs_again_on_another_one(tmp_path: Path, cluster: Cluster) -> None:
    lost: list[int] = []

    def meanwhile() -> None:
        until(lambda: len(begun(tmp_path)) == 2)
        lost.extend(task for task, (_, node) in begun(tmp_path).items() if node == second)
        cluster.kill_second()
        (tmp_path / "go").touch()

    _, second = cluster.nodes()
    killing = threading.Thread(target=meanwhile)
    killing.start()
    found = dict(run(cluster, ray_cluster.wait, tmp_path, [0, 1], num_workers=2))
    killing.join()
    cluster.start_second()
    assert found == {0: 0, 1: 1}
    assert len(lost) == 1
    assert len(list(tmp_path.glob(f"{lost[0]}-*"))) == 2


def command(source: Path, place: Path, *more: str) -> list[str]:
    job = ["convert", str(source), str(place), "--to", "mds", "-o", "shard_bytes=20000", "--executor", "ray", *more]
    return [sys.executable, "-m", "tokenyard", *job]


def begin(cluster: Cluster, source: Path, place: Path) -> subprocess.Popen[str]:
    """Begin a job from the command line, which ends at a signal as one in the foreground does."""
    return subprocess.Popen(
        command(source, place, "--address", cluster.address),
        env=ENV,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        start_new_session=True,
    )


def tasks_done(place: Path) -> int:
    return sum(ledger.read_bytes().count(b"\n") for ledger in place.glob(".tokenyard/job/done/*.jsonl"))


def test_a_driver_that_is_killed_goes_on_when_it_is_run_again(
    tmp_path: Path, cluster: Cluster, source: Path, whole: dict[str, bytes], slow: None
) -> None:
    place = tmp_path / "out"
    job = begin(cluster, source, place)
    until(lambda: tasks_done(place) >= 2)
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    done = tasks_done(place)
    assert not (place / ".tokenyard/manifest.json").exists()
    env = {**ENV, "RAY_ADDRESS": cluster.address}
    again = subprocess.run(
        command(source, place, "--address", "auto"), env=env, capture_output=True, text=True, timeout=120
    )
    assert again.returncode == 0, again.stderr
    assert 2 <= done < len(whole)
    assert contents(place) == whole


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_job_that_is_told_to_end_ends_its_tasks_and_can_go_on(
    tmp_path: Path, cluster: Cluster, source: Path, whole: dict[str, bytes], slow: None, number: int, code: int
) -> None:
    place = tmp_path / "out"
    job = begin(cluster, source, place)
    until(lambda: tasks_done(place) >= 2)
    job.send_signal(number)
    _, said = job.communicate(timeout=120)
    assert job.returncode == code, said
    assert "the same job, run again, goes on with it" in said
    assert "Traceback" not in said
    convert(source, place, to="mds", **SHARDS)
    assert contents(place) == whole


def test_what_runs_is_ended_when_nobody_asks_for_more(tmp_path: Path, cluster: Cluster) -> None:
    with closing(run(cluster, ray_cluster.wait_or_give, tmp_path, range(2), num_workers=2)) as results:
        assert next(results) == (0, 0)
    until((tmp_path / "ended-1").exists, 30)  # by itself it waits far longer


def test_a_job_may_be_left_again_and_again_while_its_tasks_come_to_an_end(cluster: Cluster) -> None:
    for _ in range(8):
        with closing(run(cluster, ray_cluster.add, 10, range(1000), num_workers=4)) as results:
            next(results)
    assert dict(run(cluster, ray_cluster.add, 10, [1])) == {0: 11}


def test_as_many_tasks_are_handed_over_as_may_run(cluster: Cluster) -> None:
    class Asked(list[int]):
        def __getitem__(self, i: Any) -> Any:
            asked.append(i)
            return super().__getitem__(i)

    asked: list[int] = []
    tasks = Asked(range(1000))
    with closing(run(cluster, ray_cluster.add, 10, tasks, num_workers=3)) as results:
        first = [next(results) for _ in range(2)]
    assert len(asked) == 4
    assert all(result == number + 10 for number, result in first)
    asked.clear()
    with closing(run(cluster, ray_cluster.add, 10, tasks)) as results:
        next(results)
    assert len(asked) == 2 * 2


def test_every_result_comes_once_with_the_number_of_its_task(cluster: Cluster) -> None:
    assert dict(run(cluster, ray_cluster.add, 10, [1, 2, 3, 4, 5])) == {0: 11, 1: 12, 2: 13, 3: 14, 4: 15}


def test_an_error_in_a_task_is_the_error_of_the_job(cluster: Cluster) -> None:
    with pytest.raises(DataError, match=r"^task 3 of it is bad$") as error:
        list(run(cluster, ray_cluster.fail, "it", list(range(6))))
    assert type(error.value) is DataError


def test_a_defect_in_a_task_arrives_with_its_place(cluster: Cluster) -> None:
    with pytest.raises(ZeroDivisionError, match="return shared / task"):
        list(run(cluster, ray_cluster.divide, 1, [1, 0]))


def test_an_error_of_a_job_on_the_cluster_says_that_it_can_go_on(tmp_path: Path, cluster: Cluster) -> None:
    lines = [json.dumps({"text": f"a text of number {i}"}) for i in range(40)]
    lines[-1] = "{"
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "text": {"split_bytes": 200}}
    with pytest.raises(DataError, match="line 40") as error:
        tokenize(tmp_path / "a.jsonl", tmp_path / "out", executor="ray", address=cluster.address, num_workers=1, **how)
    assert "goes on with it" in error.value.__notes__[0]


def test_a_task_that_is_killed_each_time_is_given_up(tmp_path: Path, cluster: Cluster) -> None:
    with pytest.raises(
        StorageError, match=r"task 1 ended 4 times without an error of its own \(.*fewer tasks at a time"
    ):
        list(run(cluster, ray_cluster.die, tmp_path, [0]))
    assert len(list(tmp_path.iterdir())) == 4


def test_a_file_that_a_node_does_not_see_is_named_before_any_task(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    sight = local_sight(str(file))
    monkeypatch.setattr(on_ray, "check_nodes", removing(file, on_ray.check_nodes))
    with pytest.raises(StorageError, match=rf"node \S+ \(\S+\) doesn't see {file} .*No such file.*at one path"):
        list(run(cluster, ray_cluster.fail, "it", [3], reads=[sight]))
    file.write_bytes(b"abc")
    monkeypatch.setattr(on_ray, "check_nodes", lambda *_: file.write_bytes(b"longer"))
    with pytest.raises(StorageError, match=r"found 6 bytes, expected 3 bytes"):
        list(run(cluster, ray_cluster.fail, "it", [3], reads=[sight]))


def removing(file: Path, check: Any) -> Any:
    def call(*arguments: Any) -> None:
        file.unlink()
        check(*arguments)

    return call


def test_a_node_with_other_versions_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    here = on_ray.installed
    monkeypatch.setattr(on_ray, "installed", lambda names: {**here(names), "numpy": "1.2.3"})
    with pytest.raises(ConfigError, match=r"node .* has numpy \d\S* \(expected 1\.2\.3\), on which bytes may depend"):
        list(run(cluster, ray_cluster.add, 1, [1]))
    monkeypatch.setattr(on_ray, "check_nodes", lambda *_: None)  # as for a node that joins later
    with pytest.raises(ConfigError, match=r"has numpy \d\S* \(expected 1\.2\.3\)"):
        list(run(cluster, ray_cluster.add, 1, [1]))


def test_a_node_without_tokenyard_is_refused() -> None:
    with pytest.raises(MissingDependencyError, match=r"node x has no tokenyard; install .*tokenyard==1\.0'"):
        check_versions({"tokenyard": None, "numpy": "2"}, {"tokenyard": "1.0", "numpy": "2"}, "node x")


def test_what_workers_can_not_import_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("a_format_of_mine")
    exec("class Options: pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "a_format_of_mine", module)
    with pytest.raises(
        MissingDependencyError, match=r"can't import what this job needs \(No module named 'a_format_of_"
    ):
        list(run(cluster, ray_cluster.add, module.Options(), [1]))


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path, source: Path) -> None:
    job = command(source, tmp_path / "out", "--address", "127.0.0.1:9")
    ended = subprocess.run(job, env=ENV, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "can't connect to a Ray cluster at 127.0.0.1:9: " in ended.stderr
    assert "begin one (ray start --head" in ended.stderr


def test_a_program_that_is_connected_stays_so(cluster: Cluster) -> None:
    assert dict(run(cluster, ray_cluster.add, 1, [1])) == {0: 2}
    assert ray.is_initialized()


def test_ray_is_asked_for_where_it_is_missing(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tokenyard.converters.on_ray.tasks")
    monkeypatch.delitem(sys.modules, "tokenyard.converters.on_ray.cluster")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"executor ray needs Ray .*pip install 'tokenyard\[ray\]'"):
        convert(source, tmp_path / "out", to="mds", executor="ray")
    assert not (tmp_path / "out").exists()


def test_settings_that_do_not_fit_are_refused(tmp_path: Path, source: Path) -> None:
    with pytest.raises(ConfigError, match="executor: expected local or ray; found 'dask'"):
        convert(source, tmp_path / "out", to="mds", executor="dask")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"address \(auto\) is of a Ray cluster.*set executor to ray"):
        convert(source, tmp_path / "out", to="mds", address="auto")
    with pytest.raises(ConfigError, match="num_workers must be 1 or more, not 0"):
        convert(source, tmp_path / "out", to="mds", executor="ray", num_workers=0)
    assert open_corpus(source).num_tokens
    assert not (tmp_path / "out").exists()


def test_a_cluster_leaves_nothing_in_shared_memory(cluster: Cluster) -> None:
    list(run(cluster, ray_cluster.add, 1, [1]))
    mapped = cluster.maps()
    assert f"{cluster.folder}/plasma" in mapped
    assert "/dev/shm/plasma" not in mapped


def test_a_cluster_without_a_cpu_is_told_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "_SECONDS_WITHOUT_CPU", 0.0)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"memory": 1.0})
    monkeypatch.setattr(ray, "wait", lambda refs, **_: ([], refs))
    monkeypatch.setattr(on_ray, "_end", lambda *_: None)
    with pytest.raises(StorageError, match="no node left with a CPU to run tasks on; add one, and run the job again"):
        list(on_ray._results("id", lambda task: task, ["a"], None))
