"""Verdicts that this machine can't be brought to: their conditions, words and figures."""

from dataclasses import replace

import pytest

from tokenyard.monitor.figures import Figures, Gpu, Making, Source
from tokenyard.monitor.system.disk import DiskLoad
from tokenyard.monitor.system.load import System
from tokenyard.monitor.verdict import judge
from tokenyard.stages import StageTime
from tokenyard.storage.cache.counts import Counts

MS = 1_000_000
WAITING = Figures(
    rank=0,
    world_size=1,
    step=99,
    seconds=10.0,
    stepping_seconds=10.0,
    num_steps=100,
    num_batches=100,
    num_tokens=100,
    wait_ms=60.0,
    median_wait_ms=60.0,
    compute_ms=40.0,
    making=Making(
        makers="threads",
        num_makers=2,
        prefetch_factor=4,
        num_batches=100,
        stages={"read": StageTime(190 * 100 * MS, 4 * 100 * MS), "tensors": StageTime(6 * 100 * MS, 6 * 100 * MS)},
        queued_ns=0,
    ),
    source=Source(formats=("npy",), file_system="ext4", is_remote=False),
    system=System(cores=8, idle_cores=6.0),
    gpu=Gpu(),
)
FED = replace(WAITING, wait_ms=1.0, compute_ms=99.0)
IDLE_GPU = Gpu(utilisation=50.0, has_cuda=True, batch_bytes=1_000_000)


def test_what_a_network_file_system_delays_is_the_networks():
    source = Source(formats=("npy",), file_system="nfs4", is_remote=True)
    found = judge(replace(WAITING, source=source, system=System(cores=8, received_mb_per_s=120.0)))
    assert found.kind == "network"
    assert "a step waits 60 ms for its data, 60% of it; of the 196 ms that a batch takes to make" in found.evidence
    assert "186 ms are waiting for nfs4, 120 MB/s come in over the network" in found.evidence
    assert found.advice == (
        "loader.num_threads 2 -> 6: waiting for data falls from 60% to about 0% of a step, 2.5 times the steps"
    )


def test_a_disk_that_gives_all_it_can_is_not_asked_by_more_threads():
    disk = DiskLoad(name="sda", read_mb_per_s=150, reads_per_s=300, read_ms=80, queue=24, utilisation=100)
    found = judge(replace(WAITING, system=System(cores=8, disk=disk)))
    assert found.kind == "disk"
    assert "(sda: 100% util, 150 MB/s, 300 reads/s of 80.0 ms, queue 24.0)" in found.evidence
    assert found.advice.startswith("the disk gives no more: put the corpus on a faster one")
    assert found.advice.endswith("without the wait there would be 2.5 times the steps")


def test_more_threads_that_were_tried_in_vain_are_not_asked_for():
    found = judge(replace(WAITING, making=replace(WAITING.making, more_may_help=False)))
    assert found.kind == "disk"
    assert found.advice.startswith("the disk gives no more: put the corpus on a faster one")


def test_a_container_that_is_stopped_at_its_limit_has_too_few_cores():
    found = judge(replace(WAITING, system=System(cores=8, idle_cores=1.0, throttled=0.5)))
    assert found.kind == "cpu"
    assert "8 cores, 1.0 idle, stopped at the container's CPU limit 50% of the time" in found.evidence


def test_a_gpu_with_too_little_to_do_is_not_always_the_loaders_fault():
    found = judge(replace(FED, gpu=IDLE_GPU))
    assert found.kind == "not the loader"
    assert "the GPU is 50% busy, and a step waits 1 ms for its data, 1% of it" in found.evidence
    assert "torch.profiler" in found.advice


def test_large_batches_in_ordinary_memory_are_copied_slowly():
    large = replace(IDLE_GPU, batch_bytes=80_000_000)
    found = judge(replace(FED, gpu=large))
    assert found.kind == "copy"
    assert "batches of 80.0 MB go to it from memory that is not page-locked, which takes about 20 ms" in found.evidence
    assert "loader.pin_memory: auto" in found.advice
    assert judge(replace(FED, gpu=replace(large, pins_memory=True))).kind == "not the loader"


@pytest.mark.parametrize(
    "figures",
    [
        FED,
        replace(FED, gpu=replace(IDLE_GPU, utilisation=80.0)),
        replace(WAITING, gpu=replace(IDLE_GPU, utilisation=96.0)),  # the loop is ahead of the GPU
    ],
)
def test_a_busy_gpu_and_a_loop_that_does_not_wait_get_no_verdict(figures):
    assert judge(figures) is None


def test_threads_that_wait_for_pythons_lock_wait_for_no_disk():
    found = judge(replace(WAITING, system=System(cores=8, idle_cores=6.0, interpreter_late_ms=5.0)))
    assert found.kind == "python"
    assert "threads wait 5.0 ms for Python's lock" in found.evidence
    assert "loader.num_workers 0 -> 6" in found.advice


def test_what_threads_compute_in_python_is_in_the_way_of_steps_that_do_not_wait():
    stages = {"transform": StageTime(60 * 100 * MS, 30 * 100 * MS)}
    held = replace(
        FED,
        making=replace(FED.making, stages=stages),
        system=System(cores=8, idle_cores=6.0, interpreter_late_ms=4.0),
    )
    found = judge(held)
    assert found.kind == "python"
    assert "a transform computes 30 ms in threads of this process" in found.evidence
    assert "waits 4.0 ms for Python's lock each time, the step too" in found.evidence
    assert found.advice.startswith("loader.num_workers 0 -> 1: ")
    assert judge(replace(held, gpu=IDLE_GPU)) == found
    assert judge(replace(held, gpu=replace(IDLE_GPU, utilisation=90.0))) is None
    # Somebody else has the lock; the transform is light; or it has a lock of its own.
    assert judge(replace(held, making=replace(held.making, stages={}))) is None
    light = {"transform": StageTime(60 * 100 * MS, 20 * 100 * MS)}
    assert judge(replace(held, making=replace(held.making, stages=light))) is None
    assert judge(replace(held, making=replace(held.making, makers="workers"))) is None


def test_more_threads_are_not_asked_for_where_no_core_is_idle():
    copying = replace(WAITING.making, stages={"read": StageTime(190 * 100 * MS, 190 * 100 * MS)})
    found = judge(replace(WAITING, making=copying, system=System(cores=2, idle_cores=0.0)))
    assert found.kind == "threads"
    assert found.advice.startswith("give this rank more cores (SLURM: --cpus-per-task")
    assert "5 busy cores would make batches as fast as they are taken" in found.advice


def making_of(transform, **options):
    return replace(WAITING.making, stages={"transform": StageTime(*(100 * MS * ms for ms in transform))}, **options)


def test_a_transform_that_waits_asks_for_threads_that_cost_no_core():
    found = judge(replace(WAITING, making=making_of((196, 2)), system=System(cores=2, idle_cores=0.5)))
    assert found.kind == "python"
    assert found.evidence.endswith("196 ms are a transform that waits rather than computes")
    assert found.advice == (
        "loader.num_threads 2 -> 6: waiting for data falls from 60% to about 0% of a step, 2.5 times the steps"
    )


def test_a_transform_that_waits_in_workers_asks_for_threads_in_their_place():
    making = making_of((196, 2), makers="workers")
    # The lock of the loop's process is not the workers'.
    found = judge(replace(WAITING, making=making, system=System(cores=2, interpreter_late_ms=9.0)))
    assert found.advice.startswith("loader.num_workers 2 -> 0, and loader.num_threads: 6 in their place: waiting for")


def test_what_a_waiting_transform_computes_is_what_threads_cannot_share():
    found = judge(replace(WAITING, making=making_of((196, 80))))
    assert found.advice.startswith("loader.num_threads 2 -> 3: waiting for data falls from 60% to about 50% of a step")


def test_a_transform_that_waits_whatever_was_tried_is_to_wait_less():
    found = judge(replace(WAITING, making=making_of((196, 2), more_may_help=False)))
    assert found.advice.startswith("let the transform wait less, or do what it does once before; without the wait")


def test_a_transform_that_computes_gets_no_more_workers_than_there_are_cores():
    computing = replace(WAITING, making=making_of((196, 190)), system=System(cores=3, idle_cores=2.0))
    found = judge(computing)
    assert found.evidence.endswith("196 ms are a transform or other work in Python")
    assert found.advice.startswith("loader.num_workers 0 -> 3: ")
    found = judge(replace(computing, making=making_of((196, 190), makers="workers", num_makers=3)))
    assert found.advice.startswith("make the transform cheaper")


def test_workers_that_would_take_away_little_of_the_wait_are_not_asked_for():
    """As many as there are makers already; 196 ms shared by two are 98, of the 100 that a step takes now."""
    found = judge(replace(WAITING, making=making_of((196, 190)), system=System(cores=2, idle_cores=0.0)))
    assert found.advice.startswith("make the transform cheaper")
    found = judge(replace(WAITING, wait_ms=90.0, making=making_of((196, 190)), system=System(cores=2, idle_cores=0.0)))
    assert found.advice.startswith("loader.num_workers 0 -> 2: waiting for data falls from 69% to about 59% of a step")


def test_more_workers_than_cores_are_said_to_be_more():
    found = judge(replace(WAITING, making=replace(WAITING.making, makers="workers"), system=System(cores=4)))
    assert found.kind == "disk"
    assert found.advice.startswith(
        "loader.num_workers 2 -> 6 (more than the 4 cores here, of which torch warns; they mostly wait): waiting for"
    )


def test_a_step_of_several_micro_batches_is_told_apart_from_the_batch_that_is_made():
    found = judge(replace(WAITING, num_steps=25))
    assert found.evidence.startswith(
        "a step of 4 micro-batches waits 60 ms for its data, 60% of it; of the 196 ms that a micro-batch takes to make"
    )


#: 32 batches of a single thread, as measured where a dozen processes had its core: most of each was queueing for it.
STARVED = replace(
    WAITING,
    stepping_seconds=0.78,
    seconds=0.8,
    num_steps=32,
    num_batches=32,
    wait_ms=18.0,
    compute_ms=0.02,
    making=Making(
        makers="threads",
        num_makers=1,
        prefetch_factor=4,
        num_batches=32,
        stages={"read": StageTime(12 * 32 * MS, 32 * MS)},
        queued_ns=11 * 32 * MS,
    ),
    system=System(cores=1, idle_cores=0.0),
)


def test_a_single_thread_that_is_waited_for_is_not_idle_whatever_holds_it_up():
    found = judge(STARVED)
    assert found.kind == "threads"
    assert "11 ms are waiting for a core" in found.evidence
    assert judge(replace(STARVED, making=replace(STARVED.making, num_makers=2))).kind == "prefetch"


def test_a_thread_that_queues_for_a_core_needs_one_and_no_earlier_beginning():
    seldom = replace(STARVED, wait_ms=4.0, compute_ms=20.0)  # the loop itself is held up longer
    assert judge(seldom).kind == "cpu"
    awake = replace(seldom, making=replace(seldom.making, queued_ns=5 * 32 * MS))
    assert judge(awake).kind == "prefetch"
    unexplained = replace(seldom, wait_ms=12.0)  # longer than what its thread queued
    assert judge(unexplained).kind == "prefetch"


def test_what_the_cache_has_not_yet_is_the_networks():
    streamed = replace(
        WAITING,
        source=Source(formats=("npy",), file_system="s3", is_remote=True),
        making=replace(WAITING.making, stages={"read": StageTime(100 * MS, 100 * MS)}),
        cache=Counts(bytes_fetched=50_000_000, requests=20, hits=70, waits=30, wait_ns=4000 * MS),
    )
    found = judge(streamed)
    assert found.kind == "network"
    assert found.evidence == (
        "a step waits 60 ms for its data, 60% of it; 30 ranges were not in the cache when they were due, and were "
        "waited for 4000 ms in all; 5.0 MB/s come in from s3"
    )
    assert found.advice.startswith("give loader.cache.bytes more, so that more is fetched ahead")
    late = replace(streamed, cache=replace(streamed.cache, evicted_late=3))
    assert "were due, 3 of them evicted before they were read, and" in judge(late).evidence
    assert judge(replace(streamed, cache=replace(streamed.cache, wait_ns=2000 * MS))).kind == "prefetch"


def test_what_the_loop_did_before_its_steps_does_not_make_threads_idle():
    # A minute of compiling lies in the window, in which full queues let threads rest.
    found = judge(replace(WAITING, seconds=70.0))
    assert found.kind == "disk"
    assert judge(replace(WAITING, seconds=70.0, stepping_seconds=70.0)).kind == "prefetch"
