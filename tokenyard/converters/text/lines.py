r"""Lines out of bytes, with bounded memory.

A line ends with \n, \r\n or \r, and nothing else. All three are safe in JSONL, where strings hold them escaped.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO, cast

from tokenyard.converters.text.compression import ByteStream, open_raw, open_stream
from tokenyard.converters.text.document import BadRecord, Place
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.split import SourceFile, Split

_CHUNK = 1 << 20
#: Read at once where the end of one line is looked for.
_LINE_CHUNK = 1 << 16
BOM = b"\xef\xbb\xbf"


def plan_lines(file: SourceFile, options: TextOptions) -> Iterator[Split]:
    r"""Cut a plain file after the first \n past every `split_bytes`; a compressed one is one split."""
    if file.compression != "none":
        yield file.whole()
        return
    start = 0
    with open_raw(file.path, file.num_bytes, file.etag) as raw:
        while start < file.num_bytes:
            stop = start + options.split_bytes
            stop = _next_line(raw, stop, file.num_bytes) if stop < file.num_bytes else file.num_bytes
            yield file.part(start, stop, stop - start)
            start = stop


def _next_line(file: BinaryIO, position: int, end: int) -> int:
    r"""Return the first start of a line at or past `position`, by \n alone; `end` when there is none."""
    position -= 1
    file.seek(position)
    while chunk := file.read(_LINE_CHUNK):
        at = chunk.find(b"\n")
        if at >= 0:
            return position + at + 1
        position += len(chunk)
    return end


def read_lines(
    split: Split, options: TextOptions, *, keep_ends: bool = False
) -> Iterator[tuple[Place, bytes] | BadRecord]:
    """Yield each line with its place, without the file's byte-order mark, and without its end unless asked.

    A line above `max_document_bytes` is a BadRecord and is never in memory whole.
    """
    limit = options.max_document_bytes
    for number, (byte, line, end) in enumerate(_split_lines(_chunks(split), split.start, limit), 1):
        place = Place(path=split.path, unit="line", number=number, origin=split.start, byte=byte)
        if isinstance(line, int):
            message = f"a line of {line} bytes, above max_document_bytes = {limit}"
            yield BadRecord(kind="too_long", place=place, message=message)
            continue
        if byte == 0:
            line = line.removeprefix(BOM)
        yield place, line + end if keep_ends else line


def place_in_file(place: Place) -> Place:
    """Return the same place with its line counted from the file's first, by reading what is in front of the split."""
    if not place.origin:
        return place
    with open_raw(place.path) as file:
        before = sum(1 for _ in _split_lines(_limited(file, place.origin), 0, 0))
    return replace(place, number=before + place.number, origin=0)


def _chunks(split: Split) -> Iterator[bytes]:
    with open_stream(split) as stream:
        if split.compression == "none":
            cast(BinaryIO, stream).seek(split.start)
            yield from _limited(stream, split.stop - split.start)
        else:
            while chunk := stream.read(_CHUNK):
                yield chunk


def _limited(stream: ByteStream, size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := stream.read(min(size, _CHUNK))):
        size -= len(chunk)
        yield chunk


def _split_lines(chunks: Iterator[bytes], offset: int, limit: int) -> Iterator[tuple[int, bytes | int, bytes]]:
    """Yield (byte, line, its end); a line above `limit` as its length in bytes."""
    parts: list[bytes] = []
    size = 0  # of the line so far; `parts` holds it while it stays within the limit
    for chunk in _whole_ends(chunks):
        for piece, end in _pieces(chunk):
            size += len(piece)
            if size > limit:
                parts.clear()
            else:
                parts.append(piece)
            if end:
                yield offset, (b"".join(parts) if parts else size), end
                offset += size + len(end)
                parts, size = [], 0
    if size:
        yield offset, (b"".join(parts) if parts else size), b""


def _pieces(chunk: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the lines of a chunk and their ends; the last may have none."""
    if b"\r" not in chunk:  # twice as fast
        *lines, last = chunk.split(b"\n")
        for line in lines:
            yield line, b"\n"
        if last:
            yield last, b""
        return
    for piece in chunk.splitlines(keepends=True):
        line = piece.rstrip(b"\r\n")
        yield line, piece[len(line) :]


def _whole_ends(chunks: Iterator[bytes]) -> Iterator[bytes]:
    r"""Yield the chunks with a \r\n that two of them share put into one."""
    held = b""
    for chunk in chunks:
        joined = held + chunk if held else chunk
        held = joined[-1:] if joined.endswith(b"\r") else b""
        yield joined[:-1] if held else joined
    if held:
        yield held
