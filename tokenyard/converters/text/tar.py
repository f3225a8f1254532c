"""Tars of samples, as WebDataset writes them: members of one key, next to each other, are a sample.

A member's key is its path up to the first dot of its file name, its extension the rest. The text is the member
`txt` (or `tar_member`), else the text field of the member `json`; each may have `.gz` and the like behind it. Fields
come from the `json` member.
"""

import io
from collections.abc import Iterable, Iterator
from itertools import groupby

from tokenyard.converters.text.compression import HEAD_BYTES, SUFFIXES, detect_compression, open_stream
from tokenyard.converters.text.decompress import DecompressedStream
from tokenyard.converters.text.document import BadRecord, Document, Place
from tokenyard.converters.text.jsonl import parse_object
from tokenyard.converters.text.lines import BOM
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.records import RecordReader, check_text
from tokenyard.converters.text.split import SourceFile, Split, TextSource
from tokenyard.converters.text.tar_members import Member, tar_members

_JSON = "json"


def plan(file: SourceFile, options: TextOptions) -> list[Split]:
    """Plan one split a file."""
    return [file.whole()]


def read(split: Split, options: TextOptions) -> Iterator[Document | BadRecord]:
    """Yield a document a sample; one without text is a BadRecord that names the extensions it has."""
    records = RecordReader(options)
    with open_stream(split) as stream:
        members = (member for member in tar_members(stream, split.path) if not _hidden(member.name))
        for key, group in groupby(members, key=lambda member: _key_and_extension(member.name)[0]):
            yield _sample(key, group, split.path, options, records)


def _hidden(name: str) -> bool:
    return name.rsplit("/", 1)[-1].startswith(".")


def _key_and_extension(name: str) -> tuple[str, str]:
    """Split a member's name at the first dot of its last part; the extension without compression suffixes."""
    folder, slash, base = name.removeprefix("./").rpartition("/")
    stem, _, extension = base.partition(".")
    for suffix in SUFFIXES:
        extension = extension.removesuffix(suffix)
    return folder + slash + stem, extension


def _sample(
    key: str, members: Iterable[Member], path: str, options: TextOptions, records: RecordReader
) -> Document | BadRecord:
    """Read the members that matter of one sample; all are walked through, whatever is found."""
    place = Place(path=path, unit="member", name=key)
    contents: dict[str, bytes] = {}
    extensions: list[str] = []
    fault: BadRecord | None = None
    text_member = options.tar_member or "txt"
    for member in members:
        _, extension = _key_and_extension(member.name)
        if extension in (text_member, _JSON):
            place = Place(path=path, unit="member", name=member.name, byte=member.byte)
            data = _content(member, place, options.max_document_bytes)
            if extension in contents:
                message = f"sample {key!r} has more than one {extension!r} member"
                fault = fault or BadRecord(kind="duplicate_key", place=place, message=message)
            elif isinstance(data, BadRecord):
                fault = fault or data
            else:
                contents[extension] = data
        extensions.append(extension)
    if fault is not None:
        return fault
    if text_member not in contents and (options.tar_member is not None or _JSON not in contents):
        shown = ", ".join(map(repr, extensions))
        message = f"sample {key!r} has no {text_member!r} member; its extensions are {shown} (see tar_member)"
        return BadRecord(kind="missing_text", place=place, message=message)
    return _document(contents, text_member, place, options, records)


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


def _content(member: Member, place: Place, limit: int) -> bytes | BadRecord:
    """Return a member's decompressed bytes; what is above `limit` is not read whole."""
    if member.num_bytes > limit:
        return _too_long(place, f"{member.num_bytes}", limit)
    data = member.read()
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
