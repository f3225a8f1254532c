"""What a store says of an object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ObjectInfo:
    """An object: its name below the URL, its size, and what tells one version of it from another.

    ``etag``: changes with the bytes; None where a server gives none. ``modified_ns``: nanoseconds since 1970, by the
    store's clock.
    """

    name: str
    bytes: int
    etag: str | None
    modified_ns: int
