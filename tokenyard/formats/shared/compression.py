"""Whole-file compression by the names that MDS uses: zstd, gz, br, bz2 and snappy. Equal input gives equal output.

Decompression is bounded: by the exact size that the caller knows, or by a limit.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import zstandard

from tokenyard.errors import DataError, MissingDependencyError
from tokenyard.formats.runs import Bytes

if TYPE_CHECKING:
    import pyarrow as pa

#: For each name its levels, lowest and highest, and the level used when none is given. (On tokens gz 6 is four times
#: slower than 1, and saves 7 % more.)
LEVELS: dict[str, tuple[int, int, int] | None] = {
    "zstd": (1, 22, 3),
    "gz": (0, 9, 1),
    "br": (0, 11, 5),
    "bz2": (1, 9, 9),
    "snappy": None,
}


def check_level(name: str, level: int | None) -> None:
    """Raise ValueError when ``name`` (or ``none``) has no such level."""
    levels = LEVELS.get(name)
    if level is None:
        return
    if levels is None:
        raise ValueError(f"compression_level {level}: compression {name} has no levels")
    if not levels[0] <= level <= levels[1]:
        raise ValueError(f"compression_level {level}: {name} has levels {levels[0]} .. {levels[1]}")


def compress(data: Bytes, name: str, level: int | None = None) -> Any:
    """``data`` compressed, as something with a buffer."""
    levels = LEVELS[name]
    if level is None and levels is not None:
        level = levels[2]
    view = data.data
    if name == "zstd":
        return zstandard.ZstdCompressor(level=level or 3).compress(view)
    if name == "gz":
        packer = gzip_packer(level)
        return packer.compress(view) + packer.flush()
    if name == "bz2":
        return bz2.compress(view, level or 9)
    return _arrow(name, level).compress(view)


def gzip_packer(level: int | None = None) -> Any:
    """A zlib compressor that writes gzip with no time and no name in it."""
    return zlib.compressobj(1 if level is None else level, zlib.DEFLATED, 31)


#: The most bytes that one byte can stand for, where the way of packing has such a bound.
_MAX_RATIO = {"zstd": 1 << 15, "gz": 1032, "snappy": 22}
_LIBRARY_ERRORS = (zlib.error, zstandard.ZstdError, EOFError, OSError, ValueError)


def decompress(data: Bytes, name: str, size: int, where: str) -> Bytes:
    """The ``size`` bytes that ``data`` holds. Raises DataError, naming ``where``, when they are fewer or more.

    A size that so few bytes can't hold is refused before memory is taken for it.
    """
    if size > (largest := len(data) * _MAX_RATIO.get(name, size)):
        raise DataError(
            f"{where}: {size} bytes were promised after decompression, but {len(data)} bytes of {name} hold at most "
            f"{largest}; restore it"
        )
    try:
        found = _READERS[name](data, size)
    except _LIBRARY_ERRORS as e:
        raise DataError(f"{where}: damaged {name} data ({e}); restore the file") from None
    if len(found) != size:
        more = "more than that" if len(found) > size else f"{len(found)}"
        raise DataError(f"{where}: {size} bytes were promised after decompression, {name} gives {more}; restore it")
    return found


def decompress_up_to(data: bytes, name: str, limit: int, where: str) -> bytes:
    """All that gz or zstd data hold. Raises DataError past ``limit`` bytes, and for damaged or cut data."""
    found: bytes | None
    try:
        if name == "zstd":
            found = _one_zstd_frame(data, limit)
        else:
            unpacked = _gunzip(np.frombuffer(data, np.uint8), limit)
            found = unpacked.tobytes() if len(unpacked) <= limit else None
    except _LIBRARY_ERRORS as e:
        raise DataError(f"{where} can't be decompressed ({e}); restore it") from None
    if found is None:
        raise DataError(
            f"{where} hold more than {limit} bytes after decompression, which no such rows take; restore it"
        )
    return found


def gunzip(data: Bytes, limit: int, where: str) -> Bytes:
    """All that gzip data holds, up to ``limit`` bytes. Raises DataError past the limit, and for damaged or cut data."""
    found = gunzip_head(data, limit, where)
    if len(found) > limit:
        raise DataError(f"{where}: more than {limit} bytes after decompression; unpack the file first")
    return found


def gunzip_head(data: Bytes, size: int, where: str) -> Bytes:
    """The first ``size`` bytes, or somewhat more, that gzip data holds; fewer only when it holds no more."""
    try:
        return _gunzip(data, size)
    except (zlib.error, EOFError) as e:
        raise DataError(f"{where}: damaged gz data ({e}); restore the file") from None


def _unzstd(data: Bytes, size: int) -> Bytes:
    out = np.empty(size, np.uint8)
    reader = zstandard.ZstdDecompressor().stream_reader(data.data, read_across_frames=True)
    have = 0
    while have < size and (got := reader.readinto(out[have:].data)):
        have += got
    return out[:have] if have < size or not reader.read(1) else np.append(out, np.uint8(0))


def _one_zstd_frame(data: bytes, limit: int) -> bytes | None:
    """What a frame holds that says its size, as ours do; None where it says more than ``limit``."""
    size = zstandard.frame_content_size(data)
    if size < 0 or size > len(data) * _MAX_RATIO["zstd"]:
        raise ValueError("a frame that does not say how much it holds" if size < 0 else f"no {size} bytes are in it")
    return None if size > limit else zstandard.ZstdDecompressor().decompress(data)


def _streams(new: Callable[[], Any], data: Bytes, size: int) -> Bytes:
    """The output of gzip members or bzip2 streams that follow one another, and a byte more than ``size`` at most."""
    parts: list[bytes] = []
    have, rest = 0, data.data
    while len(rest) and have <= size:
        stream = new()
        part = stream.decompress(rest, size + 1 - have)
        parts.append(part)
        have += len(part)
        if have <= size and not stream.eof:
            raise EOFError("it ends early")
        rest = memoryview(stream.unused_data)
    return np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), np.uint8)


def _gunzip(data: Bytes, size: int) -> Bytes:
    return _streams(lambda: zlib.decompressobj(31), data, size)


def _unbzip2(data: Bytes, size: int) -> Bytes:
    return _streams(bz2.BZ2Decompressor, data, size)


_BROTLI_BYTES = 16 << 20


def _unbrotli(data: Bytes, size: int) -> Bytes:
    import pyarrow as pa

    _arrow("br", None)
    parts, have = [], 0
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "brotli") as stream:
        # It takes memory for all that is asked for.
        while have <= size and (part := stream.read(min(size + 1 - have, _BROTLI_BYTES))):
            parts.append(part)
            have += len(part)
    return np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), np.uint8)


def _unsnappy(data: Bytes, size: int) -> Bytes:
    # The data begins with its own decompressed size, a varint; Arrow takes any larger buffer and leaves the rest unset.
    promised = shift = 0
    for byte in data[:5].tolist():
        promised |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if promised != size:
        raise ValueError(f"it says {promised} bytes, expected {size}")
    return np.frombuffer(_arrow("snappy", None).decompress(data.data, decompressed_size=size), np.uint8)


def _arrow(name: str, level: int | None) -> pa.Codec:
    import pyarrow as pa

    codec = {"br": "brotli"}.get(name, name)
    if not pa.Codec.is_available(codec):
        raise MissingDependencyError(
            f"compression {name}: this build of pyarrow has no {codec}; install pyarrow from PyPI or conda-forge"
        )
    return pa.Codec(codec, compression_level=level)


_READERS: dict[str, Callable[[Bytes, int], Bytes]] = {
    "zstd": _unzstd,
    "gz": _gunzip,
    "br": _unbrotli,
    "bz2": _unbzip2,
    "snappy": _unsnappy,
}
