"""Paths and URLs that corpora are named by."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from tokenyard.errors import StorageError


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path or a ``file://`` URL as a path. Raises StorageError for URLs of other kinds or of other hosts."""
    text = os.fspath(path)
    scheme, separator, rest = text.partition("://")
    if "\0" in text:
        raise StorageError(f"{text!r}: a path has no NUL in it")
    if not separator:
        try:
            return Path(text).expanduser()
        except RuntimeError as e:
            raise StorageError(f"{text}: {e}") from None
    if scheme != "file":
        raise StorageError(
            f"{text}: {scheme}:// is not supported, only local paths and file:// URLs are; copy the corpus to a disk"
        )
    host, slash, below = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise StorageError(f"{text}: a file:// URL of this machine has an absolute path, as in file:///data/corpus")
    return Path("/" + unquote(below))
