"""From what the user names (files, folders, globs, lists of them) to an ordered list of paths.

A list keeps its order. Inside a folder, and among what a glob matches, paths are sorted by their parts, character by
character. Names with a dot in front are passed over, unless listed. A folder holds all that is below it; links to
folders are not followed. A folder with an MDS `index.json` stands for that data set. What is at URLs is found by
`remote.py`.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import PurePath

from tokenyard.converters.text import remote
from tokenyard.converters.text.compression import open_raw
from tokenyard.corpus.paths import local_path
from tokenyard.errors import ConfigError, StorageError
from tokenyard.storage import is_url

INDEX = "index.json"
_MDS = re.compile(rb'"format"\s*:\s*"mds"')
_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class InputPath:
    """A file, or an MDS index, found among the inputs. `listed`: named by the user, not found in a folder or glob.

    num_bytes, etag: of an object, what its store says; of a local file None.
    """

    path: str
    listed: bool
    mds: bool = False
    num_bytes: int | None = None
    etag: str | None = None


def expand_inputs(inputs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str]) -> list[InputPath]:
    """Return every file that the inputs name, in order.

    StorageError when one names nothing, or its store can't be asked; ConfigError when a file comes twice.
    """
    named = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    found: list[InputPath] = []
    for item in named:
        name = here_or_url(item)
        here = list(_expand(name))
        if not here:
            raise StorageError(
                f"{name}: no files; expected a file, a folder with files in it, or a glob that matches some"
            )
        found += here
    _refuse_repeats(found)
    return found


def here_or_url(name: str | os.PathLike[str]) -> str:
    """Return what a user names as a path of this machine, also where it is a file:// URL, or as a URL of a store."""
    text = os.fspath(name)
    return str(local_path(text)) if text.lower().startswith("file://") else text


def place_of(path: str) -> str:
    """Return where a file lies, wherever the process stands: an absolute path, or a URL."""
    return path if is_url(path) else os.path.abspath(path)


def _expand(name: str) -> Iterator[InputPath]:
    if is_url(name):
        found = remote.find(name)
        for url, info in found:
            yield InputPath(path=url, listed=url == name, num_bytes=info.bytes, etag=info.etag)
    elif os.path.isdir(name):
        yield from _folder(name)
    elif os.path.exists(name):
        yield InputPath(path=name, listed=True, mds=_is_index(name))
    elif has_magic(name):
        yield from _glob(name)
    else:
        raise StorageError(f"{name}: no such file or folder")


def _glob(pattern: str) -> list[InputPath]:
    """Return the files that match, and those in folders that match, each once: `**` matches both."""
    found: dict[str, InputPath] = {}
    for match in glob(pattern, recursive=True):
        if os.path.isdir(match):
            found |= {item.path: item for item in _folder(match)}
        else:
            found[match] = InputPath(path=match, listed=False, mds=_is_index(match))
    return [found[path] for path in _sorted(found)]


def _folder(folder: str) -> Iterator[InputPath]:
    if _is_index(os.path.join(folder, INDEX)):
        yield InputPath(path=os.path.join(folder, INDEX), listed=False, mds=True)
        return
    for name in _sorted(name for name in os.listdir(folder) if not name.startswith(".")):
        path = os.path.join(folder, name)
        if not os.path.isdir(path):
            yield InputPath(path=path, listed=False)
        elif not os.path.islink(path):
            yield from _folder(path)


def _is_index(path: str) -> bool:
    """Say whether a file named index.json lists MDS shards, by its beginning."""
    if os.path.basename(path) != INDEX or not os.path.isfile(path):
        return False
    with open_raw(path) as file:
        return _MDS.search(file.read(_HEAD_BYTES)) is not None


def _sorted(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=lambda path: PurePath(path).parts)


def _refuse_repeats(found: list[InputPath]) -> None:
    seen: set[str] = set()
    for item in found:
        path = place_of(item.path)
        if path in seen:
            raise ConfigError(f"{item.path}: named by more than one input; its documents would be taken twice")
        seen.add(path)
