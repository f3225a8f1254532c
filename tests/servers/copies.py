"""Copies of folders in buckets."""

from __future__ import annotations

from pathlib import Path

from tokenyard.storage.objects import open_objects


def upload(folder: Path, url: str, *, without: str = "\0") -> str:
    """Put all files of a folder below a URL, but for those whose name begins with ``without``. Returns the URL."""
    objects = open_objects(url)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith(without):
            objects.put(name, path.read_bytes())
    return url
