"""Tars as others write them, by Python's tarfile, with nothing of tokenyard's."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def npy(values: Any, dtype: str | None = None, **options: Any) -> bytes:
    """An array as np.save writes it."""
    out = io.BytesIO()
    np.save(out, np.asarray(values, dtype), **options)
    return out.getvalue()


def make(
    path: Path, members: Mapping[str, bytes | tarfile.TarInfo], *, mode: str = "w", format: int = tarfile.USTAR_FORMAT
) -> Path:
    """A tar of these members; a TarInfo is a member of another kind, without data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode, format=format) as archive:
        for name, data in members.items():
            if isinstance(data, tarfile.TarInfo):
                archive.addfile(data)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mtime = 1_600_000_000
            info.uname = "somebody"
            archive.addfile(info, io.BytesIO(data))
    return path


def special(name: str, type: bytes, linkname: str = "") -> tarfile.TarInfo:
    """A link, a device, a folder."""
    info = tarfile.TarInfo(name)
    info.type = type
    info.linkname = linkname
    return info
