"""From a record with named values to a document, or to the fault that it has."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tokenyard.converters.text.document import BadKind, BadRecord, Document, FieldValue, Place
from tokenyard.converters.text.fields import fit
from tokenyard.converters.text.options import TextOptions
from tokenyard.schema import FieldType

Fit = Callable[..., FieldValue]
_TEXT = FieldType("string")
_PLAIN = re.compile("[A-Za-z0-9_]+")


@dataclass(frozen=True, kw_only=True)
class PlainKey:
    r"""A name that JSON needs no escapes for. `quoted`: as it is spelled; `escaped`: finds a letter of it as \u00xx."""

    name: str
    quoted: bytes
    escaped: re.Pattern[bytes]


def plain_key(name: str) -> PlainKey | None:
    """Return the key for a name of ASCII letters, digits and underscores; None for another."""
    if not _PLAIN.fullmatch(name):
        return None
    codes = "|".join(sorted({f"{ord(letter):02x}" for letter in name}))
    escaped = re.compile(rf"\\u00(?:{codes})".encode(), re.IGNORECASE)
    return PlainKey(name=name, quoted=f'"{name}"'.encode(), escaped=escaped)


class RecordReader:
    """Makes documents of records, under one set of options.

    `fit` turns a value into one of a declared type: `fields.fit` for typed sources, `fields.fit_text` for CSV.
    """

    def __init__(self, options: TextOptions, fit: Fit = fit) -> None:
        self._text_field = options.text_field
        self._limit = options.max_document_bytes
        self._types = options.field_types()
        self._fit = fit
        #: The key of the text, where nothing else is read and its name needs no escapes.
        self.plain_key: PlainKey | None = None if self._types else plain_key(self._text_field)

    @property
    def names(self) -> list[str]:
        """The names that are read: the text, then the fields."""
        return [self._text_field, *self._types]

    @property
    def kinds(self) -> list[FieldType]:
        """The types of `names`."""
        return [_TEXT, *self._types.values()]

    def document(self, record: Mapping[str, object], place: Place) -> Document | BadRecord:
        """Return the record's document, or what is wrong with it."""
        if self._text_field not in record:
            return _bad("missing_text", place, f"no {self._text_field!r}; there are {_names(record)}")
        text = record[self._text_field]
        checked = check_text(text, place, self._limit, self._text_field)
        if isinstance(checked, BadRecord):
            return checked
        return self.with_fields(checked, record, place)

    def with_fields(self, text: str, record: Mapping[str, object], place: Place) -> Document | BadRecord:
        """Return a document of a text that is known to be good, with its fields out of `record`."""
        if not self._types:
            return Document(text=text, place=place)
        fields: dict[str, FieldValue] = {}
        for name, kind in self._types.items():
            try:
                fields[name] = self._field(record, name, kind)
            except ValueError as error:
                return _bad("bad_field", place, f"field {name!r}: {error}")
        return Document(text=text, place=place, fields=fields)

    def _field(self, record: Mapping[str, object], name: str, kind: FieldType) -> FieldValue:
        if name in record:
            return self._fit(record[name], kind)
        if kind.nullable:
            return None
        raise ValueError(f"expected {kind}, found none; there are {_names(record)}")


def check_text(text: object, place: Place, limit: int, field: str) -> str | BadRecord:
    """Return `text` as a string of valid Unicode within `limit` UTF-8 bytes, or the fault."""
    if text is None:
        return _bad("null_text", place, f"{field!r} is null")
    if isinstance(text, bytes):
        if len(text) > limit:
            return _too_long(place, len(text), limit)
        return decode_text(text, place)
    if not isinstance(text, str):
        return _bad("text_not_string", place, f"{field!r}: expected a string, found {type(text).__name__}")
    if text.isascii():
        num_bytes = len(text)
    else:
        try:
            num_bytes = len(text.encode())
        except UnicodeEncodeError as error:
            at = error.start
            message = f"{field!r} holds half a surrogate pair, U+{ord(text[at]):04X}, at character {at}"
            return _bad("invalid_unicode", place, message)
    return text if num_bytes <= limit else _too_long(place, num_bytes, limit)


def decode_text(data: bytes, place: Place) -> str | BadRecord:
    """Return UTF-8 bytes as a string, or the fault with its byte."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        hint = ""
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            hint = "; it begins with the byte-order mark of UTF-16: convert it to UTF-8"
        found = f"byte 0x{data[error.start]:02X} at byte {error.start} of the text"
        return _bad("invalid_utf8", place, f"not UTF-8: {found} ({error.reason}){hint}")


def _too_long(place: Place, num_bytes: int, limit: int) -> BadRecord:
    return _bad("too_long", place, f"a document of {num_bytes} bytes, above max_document_bytes = {limit}")


def _bad(kind: BadKind, place: Place, message: str) -> BadRecord:
    return BadRecord(kind=kind, place=place, message=message)


def _names(record: Mapping[str, object]) -> str:
    names = ", ".join(repr(name) for name in list(record)[:20])
    return (names or "no names") + ", ..." * (len(record) > 20)
