"""Which way of reading is taken for quick, by the file system."""

from pathlib import Path

import pytest

from tokenyard.storage.mounts import file_system, quick_mode

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /data rw,relatime shared:9 - nfs4 server:/data rw,vers=4.2
31 30 0:41 / /data/local rw - xfs /dev/vdb rw
32 22 0:42 / /mnt/with\\040blank rw master:1 - fuse.gcsfuse bucket rw
33 22 0:43 / /twice rw - lustre mds:/l rw
34 33 0:44 / /twice rw - tmpfs tmpfs rw
broken line
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTS)
    return path


@pytest.mark.parametrize(
    ("path", "kind", "mode"),
    [
        ("/home/corpus", "ext4", "mmap"),
        ("/data", "nfs4", "pread"),
        ("/data/corpus", "nfs4", "pread"),
        ("/database", "ext4", "mmap"),
        ("/data/local/corpus", "xfs", "mmap"),
        ("/mnt/with blank/corpus", "fuse.gcsfuse", "pread"),
        ("/twice/corpus", "tmpfs", "mmap"),
    ],
)
def test_network_file_systems_are_read_by_ranges(mounts: Path, path: str, kind: str, mode: str) -> None:
    assert file_system(Path(path), mounts) == kind
    assert quick_mode(Path(path), mounts) == mode


def test_maps_are_used_where_nothing_is_known(tmp_path: Path) -> None:
    assert quick_mode(tmp_path, tmp_path / "absent") == "mmap"


def test_the_machines_own_list_is_read() -> None:
    assert file_system(Path("/proc")) == "proc"
