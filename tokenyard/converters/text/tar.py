"""Tars of samples, as WebDataset writes them: members of one key, next to each other, are a sample.

Members and keys are found by what reads corpora in tars (``formats/webdataset``), here out of a stream: a tar without
its end, data behind it, and a key that comes back later are errors. The text is the member `txt` (or `tar_member`),
else the text field of the member `json`; each may have `.gz` and the like behind it. Fields come from the `json`
member.
"""

import io
from collections.abc import Iterator

from tokenyard.converters.text.compression import HEAD_BYTES, SUFFIXES, detect_compression, open_stream
from tokenyard.converters.text.decompress import DecompressedStream
from tokenyard.converters.text.document import BadRecord, Document, Place
from tokenyard.converters.text.jsonl import parse_object
from tokenyard.converters.text.lines import BOM
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.records import RecordReader, check_text
from tokenyard.converters.text.split import SourceFile, Split, TextSource
from tokenyard.formats.webdataset.samples import keyed
from tokenyard.formats.webdataset.tar import Member, read_member, walk
from tokenyard.formats.webdataset.tar_source import StreamSource

_JSON = "json"


def plan(file: SourceFile, options: TextOptions) -> list[Split]:
    """Plan one split a file."""
    return [file.whole()]


def read(split: Split, options: TextOptions) -> Iterator[Document | BadRecord]:
    """Yield a document a sample; one without text is a BadRecord that names the extensions it has.

    DataError when the tar is damaged, has no end, or has a sample's members in two places. All keys stay in memory.
    """
    records = RecordReader(options)
    with open_stream(split) as stream:
        source = StreamSource(stream.read)
        sample: _Sample | None = None
        strays: list[BadRecord] = []  # of the sample that they stand in or behind
        for key, extension, member in keyed(walk(source, split.path), split.path):
            if not key:
                if not _hidden(member.name):
                    strays.append(_stray(member, split.path))
                continue
            if sample is None or key != sample.key:
                yield from _finished(sample, strays)
                sample, strays = _Sample(key, split.path, options, records), []
            sample.add(member, _uncompressed(extension), source)
        yield from _finished(sample, strays)


def _finished(sample: "_Sample | None", strays: list[BadRecord]) -> Iterator[Document | BadRecord]:
    if sample is not None:
        yield sample.document()
    yield from strays


def _stray(member: Member, path: str) -> BadRecord:
    place = Place(path=path, unit="member", name=member.name, byte=member.start)
    return BadRecord(kind="missing_text", place=place, message="a file without an extension belongs to no sample")


def _hidden(name: str) -> bool:
    return name.rpartition("/")[2].startswith(".")


def _uncompressed(extension: str) -> str:
    for suffix in SUFFIXES:
        extension = extension.removesuffix(suffix)
    return extension


class _Sample:
    """What has been read of one sample: the members that matter, and the first fault."""

    def __init__(self, key: str, path: str, options: TextOptions, records: RecordReader) -> None:
        self.key = key
        self._path, self._options, self._records = path, options, records
        self._text_member = (options.tar_member or "txt").lower()
        self._place = Place(path=path, unit="member", name=key)
        self._contents: dict[str, bytes] = {}
        self._extensions: list[str] = []
        self._fault: BadRecord | None = None

    def add(self, member: Member, extension: str, source: StreamSource) -> None:
        """Take a member, and read it if it holds the text or the fields."""
        self._extensions.append(extension)
        if extension not in (self._text_member, _JSON):
            return
        self._place = place = Place(path=self._path, unit="member", name=member.name, byte=member.start)
        data = _content(member, source, place, self._options.max_document_bytes)
        if extension in self._contents:
            message = f"sample {self.key!r} has more than one {extension!r} member"
            self._fault = self._fault or BadRecord(kind="duplicate_key", place=place, message=message)
        elif isinstance(data, BadRecord):
            self._fault = self._fault or data
        else:
            self._contents[extension] = data

    def document(self) -> Document | BadRecord:
        """Return the document, once all members have been added; or the fault."""
        if self._fault is not None:
            return self._fault
        if self._text_member not in self._contents and (self._options.tar_member or _JSON not in self._contents):
            shown = ", ".join(map(repr, self._extensions))
            message = (
                f"sample {self.key!r} has no {self._text_member!r} member; its extensions are {shown} (see tar_member)"
            )
            return BadRecord(kind="missing_text", place=self._place, message=message)
        return _document(self._contents, self._text_member, self._place, self._options, self._records)


def _document(
    contents: dict[str, bytes], text_member: str, place: Place, options: TextOptions, records: RecordReader
) -> Document | BadRecord:
    record: dict[str, object] = {}
    if _JSON in contents and (text_member not in contents or options.fields):
        found = parse_object(contents[_JSON].removeprefix(BOM), place, records)
        if isinstance(found, BadRecord):
            return found
        record = found
    if text_member not in contents:
        return records.document(record, place)
    text = check_text(contents[text_member].removeprefix(BOM), place, options.max_document_bytes, text_member)
    return text if isinstance(text, BadRecord) else records.with_fields(text, record, place)


def _content(member: Member, source: StreamSource, place: Place, limit: int) -> bytes | BadRecord:
    """Return a member's decompressed bytes; what is above `limit` is not read whole."""
    if member.size > limit:
        return _too_long(place, f"{member.size}", limit)
    data = read_member(source, member, place.path)
    compression = detect_compression(data[:HEAD_BYTES], str(place)) if data else "none"
    if compression == "none":
        return data
    parts, size = [], 0
    with DecompressedStream(io.BytesIO(data), compression, str(place)) as stream:
        while size <= limit and (part := stream.read(min(1 << 20, limit + 1 - size))):
            parts.append(part)
            size += len(part)
    return b"".join(parts) if size <= limit else _too_long(place, f"more than {limit}", limit)


def _too_long(place: Place, size: str, limit: int) -> BadRecord:
    message = f"a member of {size} bytes, above max_document_bytes = {limit}"
    return BadRecord(kind="too_long", place=place, message=message)


TAR = TextSource(plan=plan, read=read)
