"""Where an object is: what a folder of a URL gives in place of a path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol


class Bucket(Protocol):
    """What a path needs of the folder that it is in."""

    url: str

    def open(self, name: str) -> Any:
        """An object as a file."""


@dataclass(frozen=True, repr=False)
class ObjectPath:
    """An object of a bucket by its name, or, without one, the bucket's own folder. As text, its URL."""

    bucket: Bucket
    key: str = ""

    def __str__(self) -> str:
        return f"{self.bucket.url}/{self.key}" if self.key else self.bucket.url

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    @property
    def name(self) -> str:
        """The last part."""
        return str(self).rstrip("/").rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """As that of a path."""
        return PurePosixPath(self.key).suffix

    def absolute(self) -> ObjectPath:
        """Itself: a URL is no relative path."""
        return self

    def open(self) -> Any:
        """A file that reads the object by ranges. Raises StorageError when there is none."""
        return self.bucket.open(self.key)
