"""The streaming cache: too small, on a full disk, or not there."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.cache_bytes import bytes_on_disk
from tests.preflight.looked import look, of_corpus, the_line
from tests.servers.files import FileServer, file_server
from tokenyard.corpus import CorpusWriter
from tokenyard.errors import ConfigError
from tokenyard.preflight import cache
from tokenyard.schema import Schema


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """40 MB, of which order blocks take little."""
    home = tmp_path_factory.mktemp("served")
    tokens = np.random.default_rng(1).integers(0, 1 << 16, (20_000, 1000), np.uint16)
    with CorpusWriter(home / "c", format="npy", schema=Schema(token_dtype="uint16"), shard_bytes=4_000_000) as writer:
        for row in tokens:
            writer.write(row)
    return home


@pytest.fixture
def served(corpus) -> Iterator[FileServer]:
    with file_server(corpus) as server:
        yield server


ORDER = {"block_samples": 256, "lanes": 1, "window_blocks": 1}


def streamed(server, folder, num_bytes):
    loader = {"cache": {"path": str(folder), "bytes": num_bytes}} if num_bytes else {}
    return of_corpus(f"{server.url}/c", batch=4, loader=loader, order=ORDER)


def test_a_cache_that_is_large_enough_passes(served, tmp_path):
    report = look(streamed(served, tmp_path, 1 << 30))
    the_line(
        report, "cache", "pass", match=r"1\.07 GB, of which .* are needed by 2 ranks of a node, for corpora of 40.0 MB"
    )
    the_line(report, "shards", "pass", match="no checksum was compared")
    assert report.ok


def test_a_cache_that_is_too_small_fails_with_the_figure_that_would_do(served, tmp_path):
    report = look(streamed(served, tmp_path, 100_000))
    line = the_line(
        report, "cache", "fail", match="loader.cache.bytes: 100000 bytes are too few for 2 ranks of this node"
    )
    enough = int(line.way_out.split()[-3])
    the_line(look(streamed(served, tmp_path / "other", enough)), "cache", "pass")
    too_few = streamed(served, tmp_path / "another", enough - 1)
    the_line(look(too_few), "cache", "fail", match=f"set loader.cache.bytes to {enough} or more")


def test_more_ranks_on_a_node_need_more(served, tmp_path):
    order = {"lanes": 4}
    config = streamed(served, tmp_path, 100_000)
    config = config.model_copy(update={"order": config.order.model_copy(update=order)})
    found = {
        ranks: int(the_line(look(config, ranks=4, ranks_per_node=ranks), "cache", "fail").way_out.split()[-3])
        for ranks in (1, 4)
    }
    assert found[1] < found[4]


def test_a_url_without_a_cache_warns(served, tmp_path):
    the_line(look(streamed(served, tmp_path, 0)), "cache", "warn", match="each range is fetched anew.*set loader.cache")


@pytest.mark.parametrize(("block_samples", "status"), [(256, "warn"), (8192, "fail")])
def test_a_disk_without_room_for_the_cache_is_told(served, tmp_path, monkeypatch, block_samples, status):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5_000_000))
    match = f"{tmp_path} has .* for it.*may grow to 40.0 MB.*make room there, lower loader.cache.bytes"
    config = streamed(served, tmp_path, 1 << 30)
    config = config.model_copy(update={"order": config.order.model_copy(update={"block_samples": block_samples})})
    the_line(look(config), "cache", status, match=match)


def test_what_a_cache_holds_already_is_room_for_it(served, tmp_path):
    look(streamed(served, tmp_path, 1 << 30))
    free, held = cache._room(tmp_path)
    assert 0 < bytes_on_disk(tmp_path) <= held < 40_000_000 < free


def test_files_of_this_machine_need_no_cache(corpus):
    the_line(look(of_corpus(corpus / "c")), "cache", "pass", match="none is needed: all files are on disks")


def test_a_cache_for_files_of_this_machine_fails_as_the_loader_does(corpus, tmp_path):
    config = of_corpus(corpus / "c", loader={"cache": {"path": str(tmp_path), "bytes": 1 << 20}})
    the_line(look(config), "corpus", "fail", match="loader.cache keeps what comes from URLs.*leave loader.cache out")


def test_a_cache_needs_some_bytes(tmp_path):
    with pytest.raises(ConfigError, match="bytes"):
        of_corpus(tmp_path, loader={"cache": {"path": str(tmp_path), "bytes": 0}})
