"""A folder of objects that a job fills: what is there now counts, not what was seen before."""

from typing import Any

import numpy as np
import pytest

from tokenyard.errors import DataError
from tokenyard.storage import checksum
from tokenyard.storage.objects.direct import Direct
from tokenyard.storage.target_bucket import TargetBucket


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> TargetBucket:
    return TargetBucket(f"memory://targets/{request.function.__name__}")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that are made from here on."""
    made: list[str] = []

    def counted(name: str) -> Any:
        real = getattr(Direct, name)

        def call(*args: Any) -> Any:
            made.append(name)
            return real(*args)

        return call

    for name in ("get", "head", "list", "put", "remove"):
        monkeypatch.setattr(Direct, name, counted(name))
    return made


def test_files_are_listed_as_in_a_folder_and_those_below_one_with_the_hidden(bucket: TargetBucket) -> None:
    for name in ("b10", "b2", ".tokenyard/index/x", ".tokenyard/job.json", "sub/y", "sub/.z"):
        bucket.write(name, b"1")
    assert bucket.list() == ["b2", "b10", "sub/y"]
    assert bucket.below(".tokenyard/index") == [".tokenyard/index/x"]
    assert bucket.below("sub") == ["sub/.z", "sub/y"]
    assert bucket.below("nothing") == []


def test_what_was_written_or_removed_since_a_listing_is_known(bucket: TargetBucket) -> None:
    bucket.write("a", b"1")
    assert bucket.list() == ["a"]
    info = bucket.write("b", b"12")
    assert (info.name, info.bytes, info.checksum) == ("b", 2, checksum(b"12"))
    bucket.remove("a")
    bucket.remove("a")
    assert (bucket.exists("a"), bucket.exists("b")) == (False, True)
    bucket.write("b", b"123")
    assert (bucket.size("b"), bucket.read("b")) == (3, b"123")


def test_sizes_of_few_are_asked_for_one_by_one_and_of_many_by_one_listing(
    bucket: TargetBucket, calls: list[str]
) -> None:
    for number in range(150):
        bucket.write(f"x{number}", bytes(number))
    calls.clear()
    assert bucket.sizes([]) == {}
    assert calls == []
    assert bucket.sizes(["x3", "x5", "none"]) == {"x3": 3, "x5": 5}
    assert calls == ["head"] * 3
    calls.clear()
    assert bucket.sizes([*(f"x{n}" for n in range(120)), "none"]) == {f"x{n}": n for n in range(120)}
    assert calls == ["list"]


def test_what_is_read_back_in_order_takes_few_requests(bucket: TargetBucket, calls: list[str]) -> None:
    data = np.random.default_rng(3).integers(0, 256, 20 << 20, np.uint8)
    with bucket.publish("a") as file:
        file.write(data)
    calls.clear()
    raw, piece = bucket.raw("a", len(data)), 300_001
    for start in range(0, len(data), piece):
        stop = min(start + piece, len(data))
        assert np.array_equal(raw.read(start, stop), data[start:stop])
        assert len(raw.read(start, start)) == 0
    assert calls == ["get"] * 4
    assert np.array_equal(raw.read(0, len(data)), data)


def test_what_is_read_here_and_there_is_fetched_as_it_is_asked_for(
    bucket: TargetBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.write("a", bytes(20 << 20))
    asked: list[int] = []
    real = Direct.get

    def counted(self: Direct, name: str, start: int, stop: int, etag: str | None) -> Any:
        asked.append(stop - start)
        return real(self, name, start, stop, etag)

    monkeypatch.setattr(Direct, "get", counted)
    raw = bucket.raw("a", 20 << 20)
    for start in (0, 5_000_000, 1_000_000):
        assert len(raw.read(start, start + 100)) == 100
    assert asked == [100] * 3


def test_an_object_of_another_size_and_bytes_beyond_it_are_refused(bucket: TargetBucket) -> None:
    bucket.write("a", bytes(100))
    with pytest.raises(DataError, match="100 bytes, expected 200; it was cut or replaced"):
        bucket.raw("a", 200).read(0, 50)
    with pytest.raises(DataError, match=r"no bytes 50 \.\. 101 in an object of 100"):
        bucket.raw("a", 100).read(50, 101)


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b"])
def test_nothing_is_written_outside(bucket: TargetBucket, name: str) -> None:
    with pytest.raises(DataError, match="lead outside"):
        bucket.write(name, b"1")
    with pytest.raises(DataError, match="lead outside"), bucket.publish(name):
        pass
    with pytest.raises(DataError, match="lead outside"):
        bucket.remove(name)
    with pytest.raises(DataError, match="lead outside"):
        bucket.lines(name)


def test_what_a_killed_job_left_for_its_workers_to_see_is_cleared(bucket: TargetBucket) -> None:
    for name in (".tokenyard/tmp/x", ".tokenyard/job.json", "shard"):
        bucket.write(name, b"1")
    bucket.clear_temporary()
    assert bucket.below("") == [".tokenyard/job.json", "shard"]
