"""What a corpus holds: the token dtype, the vocabulary's marks, and the extra fields of every row.

A field's type is written as a string: a numpy scalar name (``"int64"``, ``"float32"``, ``"bool"``), ``"string"`` or
``"bytes"``; ``[]`` after a number makes it a list (``"uint8[]"``, such as a loss mask), and a last ``?`` allows nulls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenyard.errors import SchemaError

#: Token dtypes that corpora are written in; readers of other people's files take any integer type.
TOKEN_DTYPES = ("uint16", "uint32", "int32", "int64")

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_NUMBERS = (*_INTEGERS, "float16", "float32", "float64", "bool")
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
#: Names that a storage format uses for itself: the tokens' own column, and the row index of CSV.
_RESERVED = ("tokens", "row")


@dataclass(frozen=True)
class FieldType:
    """The type of one extra field: a number, a list of numbers, text or bytes; nullable or not."""

    name: str
    is_list: bool = False
    nullable: bool = False

    @classmethod
    def parse(cls, text: str) -> FieldType:
        """Read a type such as ``"uint8[]?"``. Raises SchemaError that lists what is known."""
        if not isinstance(text, str):
            raise SchemaError(f"a field's type is a string such as 'uint8[]', not {text!r:.60}")
        name = text.removesuffix("?")
        is_list = name.endswith("[]")
        name = name.removesuffix("[]")
        if name not in (*_NUMBERS, "string", "bytes") or (is_list and name in ("string", "bytes")):
            raise SchemaError(
                f"unknown field type {text!r}: expected one of {', '.join(_NUMBERS)} (each also as a list, 'uint8[]'), "
                "string or bytes, with a last '?' when nulls are allowed"
            )
        return cls(name, is_list, text.endswith("?"))

    def __str__(self) -> str:
        return self.name + "[]" * self.is_list + "?" * self.nullable

    @property
    def is_binary(self) -> bool:
        """Whether values are text or bytes, kept as raw bytes."""
        return self.name in ("string", "bytes")

    @property
    def has_offsets(self) -> bool:
        """Whether a row's value has a length of its own (lists, text and bytes)."""
        return self.is_list or self.is_binary

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the stored items; uint8 for text and bytes."""
        return np.dtype(np.uint8 if self.is_binary else self.name)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The declaration that every row of a corpus keeps to.

    ``fields`` maps names to types, given as strings or FieldTypes. ``vocab_size``, ``eos_token_id``, ``bos_token_id``
    and ``tokenizer`` (a fingerprint) describe where the ids come from. Raises SchemaError.
    """

    token_dtype: str = "uint32"
    vocab_size: int | None = None
    eos_token_id: int | None = None
    bos_token_id: int | None = None
    tokenizer: str | None = None
    fields: Mapping[str, FieldType] = field(default_factory=dict)

    if TYPE_CHECKING:  # what ``fields`` takes is more than what it holds afterwards

        def __init__(
            self,
            *,
            token_dtype: str = ...,
            vocab_size: int | None = ...,
            eos_token_id: int | None = ...,
            bos_token_id: int | None = ...,
            tokenizer: str | None = ...,
            fields: Mapping[str, FieldType | str] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        problems = []
        if self.token_dtype not in _INTEGERS:
            problems.append(
                f"token_dtype {self.token_dtype!r} is not an integer type; use one of {', '.join(TOKEN_DTYPES)}"
            )
        for name in ("vocab_size", "eos_token_id", "bos_token_id"):
            value: Any = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                problems.append(f"{name} must be a whole number from 0 on or None, not {value!r:.60}")
        tokenizer: Any = self.tokenizer
        if tokenizer is not None and not isinstance(tokenizer, str):
            problems.append(f"tokenizer must be a fingerprint or None, not {tokenizer!r:.60}")
        parsed: dict[str, FieldType] = {}
        declared: Mapping[str, Any] = self.fields
        for name, text in declared.items():
            if not is_text(name):
                problems.append(f"field {name!r}: a name is Unicode text")
            try:
                parsed[name] = text if isinstance(text, FieldType) else FieldType.parse(text)
            except SchemaError as e:
                problems.append(f"field {name!r}: {e}")
        if problems:
            raise SchemaError("; ".join(problems))
        object.__setattr__(self, "fields", parsed)

    def check_writable(self) -> None:
        """Raise SchemaError when a corpus can't be written with this schema: its token dtype or a field's name."""
        if self.token_dtype not in TOKEN_DTYPES:
            raise SchemaError(
                f"token_dtype {self.token_dtype} can be read but not written; use one of {', '.join(TOKEN_DTYPES)}"
            )
        for name in self.fields:
            if not _FIELD_NAME.fullmatch(name) or name.lower() in _RESERVED:
                raise SchemaError(
                    f"field name {name!r} can't be kept in every format: use letters, digits, '_' and '-', begin with "
                    f"a letter or '_', and none of {', '.join(_RESERVED)}"
                )
        folded = {name.lower() for name in self.fields}
        if len(folded) != len(self.fields):
            raise SchemaError(f"field names differ only in case: {', '.join(sorted(self.fields))}")

    def check_holds(self, largest_id: int) -> None:
        """Raise SchemaError when the token dtype is too narrow for ``largest_id``."""
        if largest_id > np.iinfo(self.token_dtype).max:
            raise SchemaError(
                f"token_dtype {self.token_dtype} can't hold id {largest_id}, which this tokenizer can give; use "
                f"{token_dtype_for(largest_id)}"
            )

    def to_dict(self) -> dict[str, Any]:
        """The schema as JSON values; fields sorted by name."""
        return {
            "token_dtype": self.token_dtype,
            "vocab_size": self.vocab_size,
            "eos_token_id": self.eos_token_id,
            "bos_token_id": self.bos_token_id,
            "tokenizer": self.tokenizer,
            "fields": {name: str(self.fields[name]) for name in sorted(self.fields)},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """The inverse of ``to_dict``. Raises SchemaError."""
        known = cls.__dataclass_fields__.keys()
        if unknown := sorted(set(data) - set(known)):
            raise SchemaError(f"unknown schema keys {', '.join(unknown)}; known are {', '.join(known)}")
        if not isinstance(data.get("fields", {}), Mapping):
            raise SchemaError(f"schema.fields must map names to types, not {data['fields']!r}")
        return cls(**data)


def is_text(name: object) -> bool:
    """Whether it is text that UTF-8 holds; what stands for bytes that were none, and half of a pair, is not."""
    if not isinstance(name, str):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def token_dtype_for(largest_id: int) -> str:
    """The narrowest of uint16 and uint32 that holds ``largest_id``. Raises SchemaError past 32 bits."""
    if not 0 <= largest_id < 2**32:
        raise SchemaError(f"token id {largest_id} is outside 0 .. 4294967295, the ids that a corpus can hold")
    return "uint16" if largest_id < 2**16 else "uint32"
