"""The `index.json` of an MDS folder: which shards there are, and which file of each to read."""

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tokenyard.converters.text.compression import open_raw
from tokenyard.errors import DataError, StorageError

_MDS = re.compile(rb'"format"\s*:\s*"mds"')
_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class MdsShard:
    """One shard as the index describes it. A column size is None for values of varying length."""

    raw_name: str
    raw_bytes: int
    zip_name: str | None
    samples: int
    column_names: tuple[str, ...]
    column_encodings: tuple[str, ...]
    column_sizes: tuple[int | None, ...]

    def compressed(self, path: str) -> bool:
        """Say whether `path` is the shard's compressed file."""
        return self.zip_name is not None and path.endswith(self.zip_name)


def is_mds_index(path: str) -> bool:
    """Say whether a file named index.json lists MDS shards, by its beginning."""
    with open_raw(path) as file:
        return _MDS.search(file.read(_HEAD_BYTES)) is not None


def load_index(path: str) -> list[MdsShard]:
    """Read an index; DataError says which shard does not describe itself as MDS version 2 does."""
    try:
        found = json.loads(Path(path).read_bytes())
        shards = found["shards"]
    except OSError as error:
        raise StorageError(f"{path}: can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not an MDS index: expected a JSON object with 'shards' ({error})") from error
    return [_shard(shard, f"{path}, shard {number}") for number, shard in enumerate(shards)]


def _shard(found: dict[str, Any], place: str) -> MdsShard:
    try:
        if found["format"] != "mds" or found["version"] != 2:
            raise DataError(f"{place}: expected format mds, version 2; found {found['format']}, {found['version']}")
        zip_data = found.get("zip_data")
        shard = MdsShard(
            raw_name=found["raw_data"]["basename"],
            raw_bytes=found["raw_data"]["bytes"],
            zip_name=zip_data["basename"] if zip_data else None,
            samples=found["samples"],
            column_names=tuple(found["column_names"]),
            column_encodings=tuple(found["column_encodings"]),
            column_sizes=tuple(found["column_sizes"]),
        )
    except (KeyError, TypeError) as error:
        raise DataError(f"{place}: not described as MDS shards are: {error!r}") from error
    if not len(shard.column_names) == len(shard.column_encodings) == len(shard.column_sizes):
        raise DataError(f"{place}: column_names, column_encodings and column_sizes differ in length")
    for name in filter(None, (shard.raw_name, shard.zip_name)):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise DataError(f"{place}: the file name {name!r} leads out of the folder")
    return shard


def shard_file(index: str, shard: MdsShard) -> tuple[str, int]:
    """Return the path and size of the file to read: the raw one where it is there, else the compressed one.

    DataError when the raw file's size is not the index's, StorageError when neither is there.
    """
    folder = Path(index).parent
    raw = folder / shard.raw_name
    if raw.is_file():
        size = raw.stat().st_size
        if size != shard.raw_bytes:
            raise DataError(f"{raw}: the index promises {shard.raw_bytes} bytes, the shard has {size}")
        return str(raw), size
    if shard.zip_name is not None and (zipped := folder / shard.zip_name).is_file():
        return str(zipped), zipped.stat().st_size
    names = " nor ".join(filter(None, (shard.raw_name, shard.zip_name)))
    raise StorageError(f"{folder}: a shard of the index is missing: neither {names} is there")
