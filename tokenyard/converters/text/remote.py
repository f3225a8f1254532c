"""Texts at URLs: what lies there, and one object as a file that is read by ranges.

An object is known by its size and etag from when the plan is made, and where a web server gives no etags, by when it
was changed last; another one in its place is an error of the read that meets it. In names of objects, what a URL would
take for something else stands as ``%xx``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from glob import has_magic
from pathlib import PurePosixPath
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from tokenyard.errors import ConfigError, DataError, StorageError
from tokenyard.storage import ObjectFile
from tokenyard.storage.objects import ObjectInfo, Objects, Patience, open_objects
from tokenyard.storage.objects.patience import patience_of_environment
from tokenyard.storage.objects.urls import split_url

#: What stands in the place of an etag where there is none: it begins as no etag does.
_MODIFIED = "modified "
_INDEX, _SHARD = "index.json", ".mds"


def find(url: str) -> list[tuple[str, ObjectInfo]]:
    """Return the objects that a URL names, with their URLs: one, or all below it, sorted by their parts.

    Of a folder by one listing. Names with a dot in front are passed over. What lies on a branch of the Hub is named by
    the commit that it is at, so that it stays the same. Raises ConfigError for patterns, and for MDS; StorageError for
    a URL where there is nothing, and for a folder of a web server.
    """
    if has_magic(url):
        raise ConfigError(
            f"{url}: patterns are for paths of this machine; name the folder, whose files of unknown kinds are left "
            "out, or each file (in a name, *, ? and [ are %2A, %3F and %5B)"
        )
    at = split_url(url)
    folder = open_objects(url.rstrip("/"), patience_of_environment())
    if at.prefix if at.scheme != "hf" else at.prefix.count("/") > 1:  # else all of a bucket, or of a repository
        above, _, last = url.rstrip("/").rpartition("/")
        objects, name = open_objects(above, patience_of_environment()), unquote(last)
        if (info := objects.head(name)) is not None:
            found_at = objects.url_of(name) if at.scheme == "hf" else url
            return [(found_at, replace(info, etag=_version(info)))]
    if not folder.lists:
        raise StorageError(f"can't read {url}: no such object; a web server lists no folders, so name each file")
    found = [info for info in folder.list() if info.name and not info.name.endswith("/")]
    found = [info for info in found if not any(part.startswith(".") for part in info.name.split("/"))]
    found.sort(key=lambda info: PurePosixPath(info.name).parts)
    if not found:
        raise StorageError(f"{url}: no such object, and no files below it; check the URL, or wait for the upload")
    _refuse_mds(url, [info.name for info in found])
    return [(folder.url_of(info.name), info) for info in found]


def _refuse_mds(url: str, names: Sequence[str]) -> None:
    folders = {name.rpartition("/")[0] for name in names if name.rpartition("/")[2] == _INDEX}
    for name in names:
        folder, _, last = name.rpartition("/")
        if folder in folders and _SHARD in last:
            raise ConfigError(
                f"{url}: an MDS data set ({name}); as texts these are read from folders of this machine: copy it here"
            )


@dataclass
class _Object:
    """An object of known size, read by ranges."""

    path: str
    objects: Objects
    name: str
    num_bytes: int
    etag: str | None

    def read(self, start: int, stop: int) -> NDArray[np.uint8]:
        """uint8[stop - start]: these bytes. Raises StorageError, and DataError for an object that is another one."""
        if start == stop:
            return np.empty(0, np.uint8)
        version = self.etag or ""
        is_etag = not version.startswith(_MODIFIED)
        data, info = self.objects.get(self.name, start, stop, etag=self.etag if is_etag else None)
        if info.bytes != self.num_bytes:
            raise DataError(
                f"{self.path}: has {info.bytes} bytes; the plan was made when it had {self.num_bytes}. Plan anew"
            )
        if not is_etag and version != _version(info):
            raise DataError(f"{self.path}: was changed since the plan was made, by what the server says. Plan anew")
        return data


def _version(info: ObjectInfo) -> str | None:
    """What tells an object from another one in its place; None where its server says nothing but its size."""
    return info.etag or (f"{_MODIFIED}{info.modified_ns}" if info.modified_ns else None)


def open_object(url: str, num_bytes: int | None = None, etag: str | None = None) -> ObjectFile:
    """Open an object; one of unknown size is asked for first. Raises StorageError when there is none."""
    objects, name = _at(url)
    if num_bytes is None:
        info = objects.head(name)
        if info is None:
            raise StorageError(f"can't read {url}: no such object; check the URL, or restore the object")
        num_bytes, etag = info.bytes, _version(info)
    return ObjectFile(_Object(url, objects, name, num_bytes, etag))


def size_of(url: str) -> int:
    """Return an object's size, asked anew. Raises StorageError when there is none."""
    with open_object(url) as file:
        return file.seek(0, 2)


def _at(url: str) -> tuple[Objects, str]:
    """The folder of an object, and its name in it."""
    folder, _, name = url.rstrip("/").rpartition("/")
    return _objects(folder), unquote(name)


def _objects(url: str) -> Objects:
    return _opened(url, patience_of_environment())


@lru_cache(256)
def _opened(url: str, patience: Patience) -> Objects:
    return open_objects(url, patience)
