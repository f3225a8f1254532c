"""What a text source yields: documents, and records that are none, each with its place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FieldValue = str | bytes | int | float | bool | None

Unit = Literal["file", "line", "row", "sample", "member"]

BadKind = Literal[
    "bad_field",  # a declared field is absent, null, or not of its type
    "broken_json",
    "duplicate_key",  # a key that is read stands twice in one object
    "invalid_unicode",  # JSON escapes that name half a surrogate pair
    "invalid_utf8",
    "missing_text",
    "not_an_object",  # JSON, but not {...}
    "null_text",
    "text_not_string",
    "too_long",
    "wrong_columns",  # a CSV row with more or fewer cells than the header
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a record stands.

    `number` counts lines from 1, rows and samples from 0. In a split that begins inside a file, lines are
    counted from byte `origin`; `converters.text.lines.place_in_file` turns that into the line of the file.
    `byte` is where the record begins in the (decompressed) file, where that is known.
    """

    path: str
    unit: Unit
    number: int = 0
    origin: int = 0
    byte: int | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.unit == "file":
            return self.path
        if self.unit == "member":
            return f"{self.path}, member {self.name!r}"
        after = f" after byte {self.origin}" if self.origin else ""
        return f"{self.path}, {self.unit} {self.number}{after}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document: valid Unicode text, possibly empty, and the fields asked for."""

    text: str
    place: Place
    fields: Mapping[str, FieldValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class BadRecord:
    """A record that gives no document: what kind of fault, where, and what was found."""

    kind: BadKind
    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"
