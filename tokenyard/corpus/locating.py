"""From what a corpus is named by, a path, a URL or a list of either, to the folder of its files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import unquote

from tokenyard.corpus.paths import local_path
from tokenyard.errors import ConfigError, NotACorpusError
from tokenyard.storage import Bucket, Folder, ReadMode, is_url, quick_mode

#: How the bytes of raw shards come; `auto` chooses by the file system.
ReadOption = Literal["auto"] | ReadMode


def locate(path: Any, read: ReadOption) -> tuple[Folder, list[str] | None]:
    """The folder, and the names of the files when these were given and not the folder itself.

    Of a URL of one object it is not known yet that it is none of a folder. Raises NotACorpusError, ConfigError.
    """
    if isinstance(path, str | os.PathLike):
        if is_remote(path):
            return bucket(str(path), read), None
        local = local_path(path)
        if local.is_dir():
            return _folder(local, read), None
        if local.is_file():
            return _folder(local.parent, read), [local.name]
        raise NotACorpusError(f"{local}: no such file or folder{_counted_from(local)}")
    paths = list(path)
    if not paths:
        raise NotACorpusError("an empty list of files is no corpus")
    if any(is_remote(p) for p in paths):
        return _remote_list(paths, read)
    files = [Path(os.path.abspath(local_path(p))) for p in paths]
    for file in files:
        if not file.is_file():
            raise NotACorpusError(f"{file}: no such file (a list names the files of one corpus, in order)")
    parent = Path(os.path.commonpath([f.parent for f in files]))
    return _folder(parent, read), [f.relative_to(parent).as_posix() for f in files]


def _counted_from(path: Path) -> str:
    """For a message: the folder that a relative path is counted from; nothing of an absolute one."""
    return "" if path.is_absolute() else f" in {Path.cwd()}, from which relative paths are counted"


def is_remote(path: object) -> bool:
    """Whether a path is a URL of something that is not on this machine's disks."""
    return is_url(path) and not str(path).lower().startswith("file:")


def bucket(url: str, read: ReadOption) -> Bucket:
    """The folder of a URL. Raises ConfigError for a way of reading that it doesn't have."""
    _check_mode(read)
    if read == "mmap":
        raise ConfigError(f"read: mmap is for files of this machine, {url} is read by ranges; use auto or pread")
    return Bucket(url)


def single_object(folder: Bucket) -> tuple[Bucket, list[str]] | None:
    """The folder and the name of an object that a URL names itself; None where there is none."""
    parent, name = _parted(folder.url)
    if parent.endswith(("/", ":")) or not name:
        return None
    above = Bucket(parent)
    # Web servers answer for folders too, with a page that lists them.
    if above.objects.lists or "." in name:
        return (above, [name]) if above.exists(name) else None
    return None


def _remote_list(paths: Sequence[Any], read: ReadOption) -> tuple[Folder, list[str]]:
    urls = [str(p) for p in paths]
    parents = {_parted(url)[0] for url in urls}
    if len(parents) > 1 or not all(is_remote(p) for p in paths):
        raise NotACorpusError(
            f"{urls[0]}: a list with a URL in it names objects of one folder; found {len(parents)} folders, such as "
            + ", ".join(sorted(parents)[:2])
        )
    folder = bucket(parents.pop(), read)
    names = [_parted(url)[1] for url in urls]
    for name in names:
        if not folder.exists(name):
            raise NotACorpusError(f"{folder.at(name)}: no such object (a list names the files of one corpus, in order)")
    return folder, names


def _parted(url: str) -> tuple[str, str]:
    """The URL of a folder, and the name in it, without the %XX of a URL."""
    parent, _, name = url.rpartition("/")
    return parent, unquote(name)


def _folder(path: Path, read: ReadOption) -> Folder:
    _check_mode(read)
    return Folder(path, read=quick_mode(path) if read == "auto" else read)


def _check_mode(read: ReadOption) -> None:
    if read != "auto" and read not in get_args(ReadMode):
        raise ConfigError(f"read: expected auto, mmap or pread, found {read!r:.60}")
