"""What is read of the machine is what the machine does; what it doesn't tell is said to be unknown."""

import os
import threading
import time

import numpy as np
import pytest
import torch

from tokenyard.monitor.system import counters
from tokenyard.monitor.system.disk import DiskCounters, device_of, disk_counters, disk_load
from tokenyard.monitor.system.gpu import gpu_utilisation
from tokenyard.monitor.system.sampler import Sampler

DISKSTATS = """\
   8       0 sda 100 3 2000 400 50 9 800 70 0 600 470
   8       1 sda1 90 3 1900 390 50 9 800 70 0 590 460 1 2 3 4 5 6
"""


def test_a_disk_is_read_as_iostat_reads_it(tmp_path):
    file = tmp_path / "diskstats"
    file.write_text(DISKSTATS)
    before = disk_counters("sda", file)
    assert before == DiskCounters(reads=100, read_sectors=2000, reading_ms=400, busy_ms=600, queued_ms=470)
    file.write_text("   8       0 sda 300 3 202000 1400 50 9 800 70 0 1600 8470\n")
    load = disk_load("sda", before, disk_counters("sda", file), 2.0)
    assert (load.read_mb_per_s, load.reads_per_s, load.read_ms) == (51.2, 100.0, 5.0)
    assert (load.queue, load.utilisation) == (4.0, 50.0)
    assert disk_counters("sdb", file) is None
    assert disk_counters("sda", tmp_path / "nowhere") is None


def test_the_disk_of_a_partition_is_the_whole_one(tmp_path):
    number = os.stat(tmp_path).st_dev
    folder = tmp_path / "devices" / "nvme0n1" / "nvme0n1p2"
    folder.mkdir(parents=True)
    (tmp_path / f"{os.major(number)}:{os.minor(number)}").symlink_to(folder)
    assert device_of(tmp_path, tmp_path) == "nvme0n1p2"
    (folder / "partition").write_text("2\n")
    assert device_of(tmp_path, tmp_path) == "nvme0n1"
    assert device_of(tmp_path / "nowhere", tmp_path) is None


def test_a_file_system_without_a_disk_is_said_to_have_none(tmp_path):
    assert device_of(tmp_path, tmp_path / "empty") is None
    sampler = Sampler([str(tmp_path / "nowhere")])
    system, _, _ = sampler.window()
    assert system.disk is None
    assert system.disk_unknown == f"{tmp_path / 'nowhere'}: its file system tells no disk"


@pytest.mark.parametrize("missing", ["nowhere", ""])
def test_a_system_that_counts_nothing_is_no_error(tmp_path, missing):
    proc = tmp_path / missing
    assert counters.queued_ns(1, 1, proc) is None
    assert counters.major_faults(1, proc) is None
    assert counters.read_bytes(1, proc) is None
    assert counters.idle_ticks([0], proc) is None
    assert counters.pressure_us("cpu", proc) is None
    assert counters.network_bytes(proc) == (None, None)
    assert counters.throttled_us(proc, proc) is None


def test_counters_are_taken_from_where_linux_has_them(tmp_path):
    for name, text in {
        "7/task/8/schedstat": "5000 123 9\n",
        "7/stat": "7 (a ) b) S 1 2 3 4 5 6 7 8 42 9 10\n",
        "7/io": "rchar: 1\nread_bytes: 4096\nwrite_bytes: 3\n",
        "stat": "cpu 9 9 9 9 9\ncpu0 1 0 2 30 4 0\ncpu1 1 0 2 50 6 0\ncpu10 0 0 0 9 9 9\n",
        "pressure/io": "some avg10=1.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0 total=5\n",
        "net/dev": "Inter-|\n face |\n  lo: 9 9 9 9 9 9 9 9 9\n  eth0: 10 1 0 0 0 0 0 0 20\n  eth1:5 1 0 0 0 0 0 0 6\n",
        "self/cgroup": "0::/job/5\n",
        "cgroup/job/5/cpu.stat": "usage_usec 9\nthrottled_usec 1234\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert counters.queued_ns(7, 8, tmp_path) == 123
    assert counters.major_faults(7, tmp_path) == 42
    assert counters.read_bytes(7, tmp_path) == 4096
    assert counters.idle_ticks([0, 1], tmp_path) == 90
    assert counters.pressure_us("io", tmp_path) == 77
    assert counters.network_bytes(tmp_path) == (15, 26)
    assert counters.throttled_us(tmp_path, tmp_path / "cgroup") == 1234


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="only Linux has /proc")
def test_a_window_tells_what_this_machine_did(tmp_path):
    sampler = Sampler([str(tmp_path)])
    written = np.random.default_rng(0).bytes(1 << 20)
    (tmp_path / "file").write_bytes(written)
    time.sleep(0.5)  # idle cores are counted in ticks of 10 ms
    sampler.tick({(os.getpid(), threading.get_native_id())}, None)
    system, queued, gpu = sampler.window()
    assert queued is not None
    assert queued >= 0
    assert system.cores == len(os.sched_getaffinity(0))
    assert 0 <= system.idle_cores <= 1.5 * system.cores
    assert system.process_read_mb_per_s >= 0
    assert system.major_faults_per_s >= 0
    assert gpu == "no CUDA device" or torch.cuda.is_available()


def test_a_thread_that_holds_the_interpreter_is_seen():
    done = threading.Event()

    def hold():
        while not done.is_set():
            sum(range(1 << 16))

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        sampler = Sampler([])
        until = time.monotonic() + 60
        late = 0.0
        while late < 1 and time.monotonic() < until:
            for _ in range(5):
                sampler.tick(set(), None)
            late = sampler.window()[0].interpreter_late_ms
    finally:
        done.set()
        thread.join()
    assert late >= 1


def test_a_thread_that_has_ended_is_left_out():
    makers = {(os.getpid(), 1 << 22)}
    sampler = Sampler([])
    sampler.tick(makers, None)
    assert makers == set()
    assert sampler.window()[1] is None


def test_why_a_gpu_is_unknown_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_utilisation(0) == "no CUDA device"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert gpu_utilisation(None) == "the loop has not used a CUDA device yet"

    def fails(error):
        def utilization(device):
            raise error

        monkeypatch.setattr(torch.cuda, "utilization", utilization)

    fails(ModuleNotFoundError("pynvml"))
    assert gpu_utilisation(0) == "needs nvidia-ml-py: pip install 'tokenyard[monitor]'"
    fails(RuntimeError("Not Supported"))
    assert gpu_utilisation(0) == "NVML doesn't tell: Not Supported"
