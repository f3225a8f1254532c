"""Pieces of remote files, and the files of the cache that hold them.

A piece lies in ``pieces/<file>/<start>-<stop>.<label>``, where ``<file>`` stands for the content and the name of the
remote file; so what is left of another corpus is never taken for this one's. While it is fetched, its name begins with
a dot and ends with ``.part``. ``kept`` in place of ``pieces`` holds what every process needs for as long as it reads:
row indexes, and other small files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import blake3
import numpy as np

#: Of a piece that nobody will use again, as far as one knows.
NEVER = np.iinfo(np.int64).max
_NAME = re.compile(r"(\d{1,19})-(\d{1,19})(?:\.([a-z0-9-]{1,60}))?")
_PART = ".part"


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes start .. stop of a remote file. ``label`` is whatever the policy of eviction knows it by."""

    file: str
    start: int
    stop: int
    label: str = ""
    kept: bool = False

    @property
    def num_bytes(self) -> int:
        """Its size."""
        return self.stop - self.start

    @property
    def name(self) -> str:
        """Where it lies, from the folder of the cache."""
        label = f".{self.label}" if self.label else ""
        return f"{'kept' if self.kept else 'pieces'}/{self.file}/{self.start}-{self.stop}{label}"

    def path(self, home: Path) -> Path:
        """Where it lies."""
        return home / self.name

    def part(self, home: Path) -> Path:
        """Where it lies while it is fetched."""
        path = self.path(home)
        return path.with_name(f".{path.name}{_PART}")


def file_key(*known_by: str | int) -> str:
    """The name of a remote file in the cache, by all that its content depends on."""
    return blake3.blake3("\0".join(map(str, known_by)).encode()).hexdigest(16)


def folder_of(home: Path, file: str, kept: bool) -> Path:
    """The folder of a remote file's pieces."""
    return home / ("kept" if kept else "pieces") / file


def pieces_of(home: Path, file: str, kept: bool) -> Iterator[Piece]:
    """The pieces of one remote file that are there."""
    for name in _listed(folder_of(home, file, kept)):
        if (piece := _piece_of(file, name, kept)) is not None:
            yield piece


def all_pieces(home: Path) -> tuple[list[Piece], list[tuple[Piece, Path]]]:
    """All pieces that are there, and those being fetched or left by somebody who died, with their files."""
    whole, parts = [], []
    for kept in (False, True):
        for file in _listed(home / ("kept" if kept else "pieces")):
            for name in _listed(folder_of(home, file, kept)):
                if (piece := _piece_of(file, name, kept)) is not None:
                    whole.append(piece)
                elif name.endswith(_PART) and (piece := _piece_of(file, name[1 : -len(_PART)], kept)) is not None:
                    parts.append((piece, folder_of(home, file, kept) / name))
    return whole, parts


def _piece_of(file: str, name: str, kept: bool) -> Piece | None:
    found = _NAME.fullmatch(name)
    if found is None or int(found[1]) >= int(found[2]):
        return None
    return Piece(file, int(found[1]), int(found[2]), found[3] or "", kept)


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
