"""Writing into an object store: whole objects, and lines that share them."""

import io
import tempfile
from typing import Any

import pytest

from tokenyard.errors import StorageError
from tokenyard.storage import checksum
from tokenyard.storage.objects import Objects, open_objects
from tokenyard.storage.uploads import LineObjects, upload


@pytest.fixture
def objects(request: pytest.FixtureRequest) -> Objects:
    return open_objects(f"memory://uploads/{request.node.name}")


def test_a_file_appears_when_its_block_ends_and_is_hashed_on_the_way(objects: Objects) -> None:
    data = bytes(range(256)) * 20_000
    with upload(objects, "a/b.bin") as file:
        file.write(data[:3_000_000])
        file.write(data[3_000_000:])
        assert file.tell() == len(data)
        assert objects.list() == []
    assert bytes(objects.read("a/b.bin")) == data
    assert (file.info.name, file.info.bytes, file.info.checksum) == ("a/b.bin", len(data), checksum(data))


def test_an_error_inside_the_block_uploads_nothing(objects: Objects) -> None:
    with pytest.raises(ZeroDivisionError), upload(objects, "a") as file:
        file.write(bytes(1 // 0))
    assert objects.list() == []


def test_a_disk_without_room_for_the_temporary_file_is_told(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with (
        pytest.raises(StorageError, match=r"TMPDIR\), from where it is uploaded as memory://.*/a: the disk is full"),
        upload(objects, "a") as file,
    ):
        file.write(b"1")


def test_lines_are_there_when_they_were_added_and_share_objects(objects: Objects) -> None:
    lines = LineObjects(objects, "done/x")
    for number in range(130):
        lines.add(b"%d\n" % number)
        found = b"".join(bytes(objects.read(f"done/x-{i}.jsonl")) for i in range(len(objects.list("done"))))
        assert found.splitlines() == [b"%d" % i for i in range(number + 1)]
    lines.close()
    assert sorted(info.name for info in objects.list()) == [f"done/x-{i}.jsonl" for i in range(3)]
