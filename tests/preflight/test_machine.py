"""Memory, open files and memory maps, against what this machine allows."""

import json
import resource
import subprocess
import sys

import pytest

from tests.corpora import write_corpus
from tests.preflight.looked import look, of_corpus, settings, the_line, write_corpora
from tokenyard.preflight import machine


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def compressed(tmp_path_factory):
    return write_corpora(tmp_path_factory.mktemp("runs"), "parquet")


def test_memory_is_estimated_with_its_parts(home):
    report = look(settings(home, num_threads=3, prefetch_factor=5))
    the_line(report, "memory", "pass", match=r"at most .* a rank \(17 batches .* kB.*the processes .*, .* for 2 ranks")


def test_batches_past_the_end_of_an_epoch_are_not_read_ahead(home):
    the_line(look(settings(home, num_threads=9, prefetch_factor=50)), "memory", "pass", match=r"\(23 batches")


def test_decoded_blocks_count_for_each_worker_and_no_more_than_there_are(compressed, home):
    report = look(settings(compressed, num_workers=3))
    the_line(report, "memory", "pass", match=r"decoded blocks \(3 x loader.cache_bytes at most\) 32\.6 kB, 17 batches")
    assert "decoded blocks" not in the_line(look(settings(home)), "memory", "pass").found


def test_a_read_ahead_that_no_memory_holds_fails(home):
    config = settings(home, mixture=True, num_threads=8, prefetch_factor=10**9)
    the_line(look(config), "memory", "fail", match="for 2 ranks of a node, which has .*-> lower loader.cache_bytes")


def test_a_read_ahead_that_takes_most_of_the_memory_warns(home):
    one = 576
    factor = int(0.6 * (machine.memory_bytes() or 0)) // one
    config = settings(home, mixture=True, num_threads=1, prefetch_factor=factor)
    report = look(config, ranks_per_node=1)
    the_line(report, "memory", "warn", match="for 1 rank of a node is more than half of its .* of memory")


def test_a_container_with_less_memory_than_the_machine_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    whole = machine.memory_bytes()
    (tmp_path / "memory.max").write_text("1000000\n")
    assert machine.memory_bytes() == 1_000_000 < whole


def preflight_in(limit: int, config: str, *asked: str) -> dict:
    """What the command says as JSON, in a process that may have as many files open."""
    program = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))\n"
        "from tokenyard.cli import main\n"
        f"sys.argv = ['tokenyard', 'doctor', '--preflight', {config!r}, '--ranks', '1', '--json', *{asked!r}]\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False)
    return {**json.loads(done.stdout), "code": done.returncode}


@pytest.mark.parametrize(("limit", "status", "code"), [(100, "fail", 1), (200, "warn", 0), (300, "pass", 0)])
def test_a_limit_of_open_files_that_is_too_low_is_told(home, tmp_path, limit, status, code):
    (tmp_path / "run.json").write_text(json.dumps(settings(home).model_dump(exclude_defaults=True)))
    said = preflight_in(limit, str(tmp_path / "run.json"))
    (line,) = [line for line in said["lines"] if line["check"] == "open files"]
    assert (line["status"], said["code"]) == (status, code), line
    assert f"{limit} allowed" in line["found"]
    assert status == "pass" or f"ulimit -n 4096 (up to {limit} here, without root)" in line["way_out"]


def test_files_that_are_kept_open_and_workers_count(home):
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    config = of_corpus(home / "web", data={"read": "pread"}, loader={"num_workers": 2})
    num_shards = len(list((home / "web").glob("*.npy")))
    report = look(config)
    line = next(line for line in report.lines if line.check == "open files")
    assert f"about {128 + 32 + num_shards} are needed, {num_shards} of them shards; {soft:,} allowed" in line.found


@pytest.mark.parametrize(("limit", "status"), [(8_000, "fail"), (12_000, "warn"), (65_530, "pass")])
def test_a_limit_of_memory_maps_that_is_too_low_is_told(home, tmp_path, monkeypatch, limit, status):
    monkeypatch.setattr(machine, "_PROC", tmp_path)  # only root can lower it, for all processes of the machine
    (tmp_path / "sys/vm").mkdir(parents=True)
    (tmp_path / "sys/vm/max_map_count").write_text(f"{limit}\n")
    match = f"vm.max_map_count is {limit:,}" + ("" if status == "pass" else ".*-> raise it as root.*data.read: pread")
    the_line(look(settings(home)), "memory maps", status, match=match)


def test_a_system_that_does_not_tell_its_maps_has_no_line(home, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_PROC", tmp_path)
    assert "memory maps" not in [line.check for line in look(settings(home)).lines]


def test_memory_that_others_use_now_warns(home, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_PROC", tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal: 64000000 kB\nMemAvailable: 1000 kB\n")
    report = look(settings(home))
    the_line(report, "memory", "warn", match="for 2 ranks of a node, and 1.02 MB are free now.*end what else runs here")


def test_a_first_batch_without_tokens_fails(tmp_path):
    write_corpus(tmp_path / "c", [[]] * 8)
    the_line(look(of_corpus(tmp_path / "c")), "first batch", "fail", match="it has no token.*filter --min-tokens 1")


def test_batches_that_are_mostly_padding_are_told(tmp_path):
    write_corpus(tmp_path / "c", [[7] * 16 for _ in range(8)])
    padded = look(of_corpus(tmp_path / "c", sample={"mode": "rows", "seq_len": 64}))
    the_line(
        padded, "first batch", "warn", match=r"76.6 % of its labels are masked: padding.*lower data.sample.seq_len"
    )
    the_line(look(of_corpus(tmp_path / "c", sample={"mode": "rows", "seq_len": 16})), "first batch", "pass")
    without = {"mode": "rows", "seq_len": 64, "labels": "none"}
    the_line(look(of_corpus(tmp_path / "c", sample=without)), "first batch", "pass")
