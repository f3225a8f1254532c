"""JSON Lines: an object a line. Lines of white space alone hold no record."""

import json
from collections.abc import Iterator
from typing import Any

from tokenyard.converters.text.document import BadKind, BadRecord, Document, Place
from tokenyard.converters.text.lines import plan_lines, read_lines
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.records import RecordReader, decode_text
from tokenyard.converters.text.split import Split, TextSource


class _Repeating(dict[str, Any]):
    """An object in which keys stand more than once: `repeated` names them."""

    repeated: frozenset[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    repeating = _Repeating(found)
    repeating.repeated = frozenset(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return repeating


_decode = json.JSONDecoder(object_pairs_hook=_object).decode


def read(split: Split, options: TextOptions) -> Iterator[Document | BadRecord]:
    """Yield a document for each line that holds an object with the text, a BadRecord for each other."""
    records = RecordReader(options)
    for line in read_lines(split, options):
        if isinstance(line, BadRecord):
            yield line
        elif not line[1].isspace() and line[1]:
            place, data = line
            yield read_object(data, place, records)


def read_object(data: bytes, place: Place, records: RecordReader) -> Document | BadRecord:
    """Return the document of one JSON object, or its fault. NaN and Infinity pass where nobody reads them."""
    found = parse_object(data, place, records)
    return found if isinstance(found, BadRecord) else records.document(found, place)


def parse_object(data: bytes, place: Place, records: RecordReader) -> dict[str, Any] | BadRecord:
    """Return a JSON object whose keys, as far as `records` reads them, stand in it once; or the fault."""
    text = decode_text(data, place)
    if isinstance(text, BadRecord):
        return text
    try:
        found = _decode(text)
    except json.JSONDecodeError as error:
        return _bad(
            "broken_json", place, f"broken JSON: {error.msg} at character {error.pos}; expected one object a line"
        )
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; very deep nesting
        return _bad("broken_json", place, f"JSON that can't be read: {error}")
    if not isinstance(found, dict):
        return _bad("not_an_object", place, f"expected a JSON object, found {type(found).__name__}")
    if isinstance(found, _Repeating) and (twice := sorted(found.repeated.intersection(records.names))):
        return _bad("duplicate_key", place, f"more than one {', '.join(map(repr, twice))} in one object")
    return found


def _bad(kind: BadKind, place: Place, message: str) -> BadRecord:
    return BadRecord(kind=kind, place=place, message=message)


JSONL = TextSource(plan=plan_lines, read=read)
