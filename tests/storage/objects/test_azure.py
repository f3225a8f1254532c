"""az:// against Azurite, where it is installed: `pytest -m azure`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tokenyard
from tests.corpora import random_rows, write_corpus
from tests.servers.azurite import Azurite, azurite
from tokenyard.errors import DataError, DestinationExistsError, StorageError
from tokenyard.storage.objects import open_objects
from tokenyard.testing.round_trips import contents

pytestmark = pytest.mark.azure


@pytest.fixture(scope="module")
def server() -> Iterator[Azurite]:
    with azurite() as running:
        yield running


@pytest.fixture
def container(server: Azurite, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty container; the environment leads to its server."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"az://{server.make_container()}"


def test_objects_are_written_under_conditions_read_listed_and_removed(container: str) -> None:
    objects = open_objects(f"{container}/a folder")
    data = os.urandom(40 << 20)
    objects.put("large é.bin", data)
    assert bytes(objects.read("large é.bin")) == data
    assert bytes(objects.read("large é.bin", 5, 9)) == data[5:9]
    first = objects.put_new("small", b"1")
    assert first is not None
    assert objects.put_new("small", b"2") is None
    second = objects.put_if("small", b"3", first)
    assert second is not None
    assert objects.put_if("small", b"4", first) is None
    assert bytes(objects.read("small", etag=second)) == b"3"
    with pytest.raises(DataError, match="small"):
        objects.read("small", etag=first)
    assert sorted(info.name for info in objects.list()) == ["large é.bin", "small"]
    objects.remove("small")
    objects.remove("small")
    assert objects.head("small") is None
    with pytest.raises(StorageError, match=r"can't read az://.*/small: no such object"):
        objects.read("small")


@pytest.mark.parametrize("to", ["npy", "mds", "webdataset", "parquet", "jsonl", "csv"])
def test_a_job_writes_the_bytes_of_a_local_run_and_they_are_read_as_those(
    tmp_path: Path, container: str, to: str
) -> None:
    write_corpus(tmp_path / "source", random_rows(seed=3, num_rows=1500, longest=6), shard_bytes=5000)
    tokenyard.convert(tmp_path / "source", tmp_path / "near", to=to, shard_bytes=20_000)
    tokenyard.convert(tmp_path / "source", f"{container}/far", to=to, shard_bytes=20_000, num_workers=2)
    objects = open_objects(f"{container}/far")
    assert {info.name: bytes(objects.read(info.name)) for info in objects.list()} == contents(tmp_path / "near")
    assert tokenyard.verify(f"{container}/far", against=tmp_path / "source").problems == ()
    with pytest.raises(DestinationExistsError, match=r"a corpus is there already.*az storage blob delete-batch"):
        tokenyard.convert(tmp_path / "source", f"{container}/far", to=to)
