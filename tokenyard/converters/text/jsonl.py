"""JSON Lines: an object a line. Lines of white space alone hold no record."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

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
    counts = Counter(name for name, _ in pairs)
    repeating = _Repeating(found)
    repeating.repeated = frozenset(name for name, count in counts.items() if count > 1)
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
    found = _parse_plain(data, records) or parse_object(data, place, records)
    return found if isinstance(found, BadRecord) else records.document(found, place)


def _parse_plain(data: bytes, records: RecordReader) -> dict[str, Any] | None:
    r"""Return an object of which the text alone is read, parsed twice as fast; None where `parse_object` must look.

    pydantic's parser takes nothing that json refuses, but doesn't tell of a key that stands twice: it gives the last
    one's value. Behind that key come at least as many bytes as the text has characters, so what is in front of them
    holds every key of that name, and is all that is searched: mostly a small part of the line. There the name stands
    in quotes once, and no letter of it stands as \u00xx, by which another key could spell it.
    """
    key = records.plain_key
    if key is None:
        return None
    try:
        found: object = from_json(data, cache_strings="keys")
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(text := found.get(key.name), str):
        return None
    stop = len(data) - len(text)
    if data.count(key.quoted, 0, stop) != 1 or key.escaped.search(data, 0, stop):
        return None
    return found


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
