"""Which way to read is quick on which file system."""

from __future__ import annotations

import os
from pathlib import Path

from tokenyard.storage.raw_file import ReadMode

#: File systems where a page fault waits for another machine. All of FUSE counts: most of it is object stores.
_NETWORK = frozenset(
    (
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs3",
        "nfs4",
        "orangefs",
        "panfs",
        "pvfs2",
        "smb3",
        "smbfs",
        "wekafs",
    )
)
_MOUNTS = Path("/proc/self/mountinfo")


def quick_mode(path: Path, mounts: Path = _MOUNTS) -> ReadMode:
    """``pread`` where the path lies on a network file system, else ``mmap``; also where nothing says which it is."""
    kind = file_system(path, mounts)
    return "pread" if kind in _NETWORK or kind.startswith("fuse.") else "mmap"


def file_system(path: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system that a path lies on, as ``mount`` names it; empty where that is not known.

    Format of the list: https://docs.kernel.org/filesystems/proc.html, chapter 3.5.
    """
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, types = before.split(" "), after.split(" ")
        if len(fields) < 5 or not types[0]:
            continue
        point = _unescaped(fields[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        # Of mounts at one place, the last one hides the others.
        if inside and len(point) >= len(best):
            best, kind = point, types[0]
    return kind


def _unescaped(text: str) -> str:
    for escape, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, char)
    return text
