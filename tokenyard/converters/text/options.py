"""The options of reading texts, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from tokenyard.converters.text.fields import parse_type
from tokenyard.errors import ConfigError
from tokenyard.schema import FieldType

Kind = Literal["txt", "jsonl", "csv", "parquet", "mds", "tar"]
MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How documents are read.

    kind: `auto` tells it by each file's suffix; a kind forces it on every file.
    text_field: the key, column or MDS column that holds the text, also in a tar's `.json` members.
    fields: what else to copy, name to type (see `fields.py`).
    txt_documents: in txt, whether a `file` or a `line` is a document.
    skip_blank_lines: in txt by line, whether lines of white space alone are left out.
    csv_delimiter: None means a comma, or a tab in `.tsv` files.
    tar_member: the extension of the members that hold the text; None means `txt`, else `json`.
    max_document_bytes: a longer document, or line, is a bad record of kind `too_long`, and never in memory whole.
    split_bytes: about how much one split holds. The plan depends on it; the documents do not.
    """

    kind: Literal["auto"] | Kind = "auto"
    text_field: str = "text"
    fields: Mapping[str, str] = field(default_factory=dict)
    txt_documents: Literal["file", "line"] = "file"
    skip_blank_lines: bool = False
    csv_delimiter: str | None = None
    tar_member: str | None = None
    max_document_bytes: int = 256 * MIB
    split_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        kinds = ("auto", *get_args(Kind))
        if self.kind not in kinds:
            raise ConfigError(f"kind: expected one of {', '.join(kinds)}; found {self.kind!r}")
        if self.txt_documents not in ("file", "line"):
            raise ConfigError(f"txt_documents: expected 'file' or 'line'; found {self.txt_documents!r}")
        if self.csv_delimiter is not None and (len(self.csv_delimiter) != 1 or self.csv_delimiter in '"\r\n'):
            raise ConfigError(f"csv_delimiter: expected one character; found {self.csv_delimiter!r}")
        for name in ("max_document_bytes", "split_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: expected at least 1; found {getattr(self, name)}")
        if self.text_field in self.fields:
            raise ConfigError(f"fields: {self.text_field!r} is the text itself; it can't be copied as a field too")
        self.field_types()

    def field_types(self) -> dict[str, FieldType]:
        """Return the declared fields with their types parsed; ConfigError names the first that is none."""
        return {name: parse_type(name, declared) for name, declared in self.fields.items()}
