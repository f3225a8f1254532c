"""Plain text: a file is a document, or each of its lines is one."""

from collections.abc import Iterable, Iterator

from tokenyard.converters.text.compression import open_stream
from tokenyard.converters.text.document import BadRecord, Document, Place
from tokenyard.converters.text.lines import BOM, plan_lines, read_lines
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.records import decode_text
from tokenyard.converters.text.split import SourceFile, Split, TextSource
from tokenyard.errors import ConfigError


def plan(file: SourceFile, options: TextOptions) -> Iterable[Split]:
    """Plan one split a file, or ranges of lines; ConfigError when fields are asked for, which text has not."""
    if options.fields:
        raise ConfigError(f"{file.path}: plain text has no fields; asked for {', '.join(options.fields)}")
    return [file.whole()] if options.txt_documents == "file" else plan_lines(file, options)


def read(split: Split, options: TextOptions) -> Iterator[Document | BadRecord]:
    r"""Yield the file's content as it is, line ends and all, or each line without its end.

    A file of no bytes is one empty document, or no lines.
    """
    if options.txt_documents == "line":
        yield from _read_lines(split, options)
        return
    place = Place(path=split.path, unit="file", byte=0)
    limit = options.max_document_bytes
    with open_stream(split) as stream:
        parts, size = [], 0
        while size <= limit and (data := stream.read(min(1 << 20, limit + 1 - size))):
            parts.append(data)
            size += len(data)
    if size > limit:
        message = f"a document of more than max_document_bytes = {limit} bytes"
        yield BadRecord(kind="too_long", place=place, message=message)
        return
    text = decode_text(b"".join(parts).removeprefix(BOM), place)
    yield text if isinstance(text, BadRecord) else Document(text=text, place=place)


def _read_lines(split: Split, options: TextOptions) -> Iterator[Document | BadRecord]:
    for line in read_lines(split, options):
        if isinstance(line, BadRecord):
            yield line
            continue
        place, data = line
        text = decode_text(data, place)
        if isinstance(text, BadRecord):
            yield text
        elif text.strip() or not options.skip_blank_lines:
            yield Document(text=text, place=place)


TXT = TextSource(plan=plan, read=read)
