"""Which members of other people's tars hold the tokens, which are fields, and of what type.

Types go by the extension: ``.npy`` is what its header says, text and JSON are text, ``.cls`` and the like are whole
numbers, everything else is bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenyard.errors import ConfigError, DataError, SchemaError
from tokenyard.formats.base import ReadOptions
from tokenyard.formats.npy import header as npy_header
from tokenyard.formats.runs import Bytes
from tokenyard.formats.webdataset.samples import Samples, TarSelection, check_extension, dotted, some
from tokenyard.formats.webdataset.tar import Member
from tokenyard.schema import FieldType

_TOKENS = ("tokens.npy", "input_ids.npy", "npy", "tokens.bin", "input_ids.bin", "tokens.json", "input_ids.json")
_TEXT = ("txt", "text", "transcript", "json", "jsn", "html", "htm", "id")
_INTEGER = ("cls", "cls2", "class", "count", "index", "inx")
_PICKLED = ("pyd", "pickle", "pkl", "pth", "pt")


@dataclass(frozen=True, kw_only=True)
class Head:
    """The beginning of a shard: its name in messages, its bytes, and its first samples."""

    where: str
    buffer: Bytes
    samples: Samples


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """An extension: the first member that has it, and where that lies."""

    member: Member
    head: Head

    @property
    def data(self) -> bytes:
        """The member's bytes."""
        return self.head.buffer[self.member.start : self.member.start + self.member.size].tobytes()


def select(heads: Sequence[Head], options: ReadOptions) -> TarSelection:
    """Choose from the first samples of some shards.

    Raises DataError that names the extensions when none holds tokens, ConfigError for options that fit none.
    """
    where = heads[0].where
    found: dict[str, _Kind] = {}
    for head in heads:
        for extension, member in head.samples.extensions().items():
            found.setdefault(extension, _Kind(member=member, head=head))
    tokens = _tokens(heads, found, options)
    named = {} if options.fields is None else {f.lower().removeprefix("."): f for f in options.fields}
    fields: dict[str, tuple[str, str]] = {}
    problems = []
    stems = Counter(stem for extension in found for stem in {extension, extension.rpartition(".")[0]})
    for extension, kind in found.items():
        name = _field_name(extension, stems)
        if extension == tokens:
            continue
        if not named.keys() & {name.lower(), extension}:
            check_extension(extension, kind.member, kind.head.where)
            if options.fields is not None:
                continue
        named.pop(name.lower(), None)
        named.pop(extension, None)
        try:
            type = _field_type(extension, kind)
        except ValueError as e:
            problems.append(f".{extension} ({kind.member.name!r}): {e}")
            continue
        samples = [s for head in heads for s in head.samples.samples]
        nullable = options.fields is not None or any(extension not in s.members for s in samples)
        fields[name] = (extension, str(FieldType(type.name, type.is_list, nullable)))
    if named:
        raise ConfigError(f"{where}: no members {', '.join(named.values())} to keep; there are {dotted(found)}")
    if problems:
        raise DataError(f"{where}: {'; '.join(problems)}; leave it out with fields={list(fields)}")
    return TarSelection(tokens=tokens, fields=fields, chosen=options.fields is not None)


def json_tokens(data: bytes, *, only: bool) -> list[int]:
    """The ids in a JSON member: a list, or an object with ``tokens`` or ``input_ids`` (and no more, when ``only``).

    Raises ValueError.
    """
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
    if isinstance(value, dict):
        key = next((k for k in ("tokens", "input_ids") if k in value), None)
        if key is None:
            raise ValueError(f"no 'tokens' or 'input_ids' among its keys {', '.join(value) or 'none'}")
        if only and len(value) > 1:
            others = ", ".join(k for k in value if k != key)
            raise ValueError(f"keys beside {key!r} would be lost: {others}; leave them out with fields=[]")
        value = value[key]
    if not isinstance(value, list) or not all(type(v) is int for v in value):
        raise ValueError("its tokens are not a list of whole numbers")
    return value


def ascii_integers(values: Bytes, offsets: Any, where: str, first_row: int) -> Any:
    """Numbers written as text, one a row. Raises DataError that names the row."""
    data = values.tobytes()
    found = np.zeros(len(offsets) - 1, np.int64)
    for row, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        if b > a:
            try:
                found[row] = int(data[a:b])
            except (ValueError, OverflowError):
                raise DataError(
                    f"{where}, row {first_row + row}: {data[a:b]!r:.60} is no 64-bit whole number"
                ) from None
    return found


def _tokens(heads: Sequence[Head], found: Mapping[str, _Kind], options: ReadOptions) -> str:
    where = heads[0].where
    if options.tokens is not None:
        chosen = options.tokens.lower().removeprefix(".")
        if chosen not in found:
            raise ConfigError(f"{where}: no member .{chosen}; there are {dotted(found)}")
    else:
        candidates = [e for e in _TOKENS if e in found]
        if not candidates and "bin" in found and options.token_dtype:
            candidates = ["bin"]
        if not candidates and "json" in found and _holds_tokens(found["json"].data):
            candidates = ["json"]
        if not candidates:
            candidates = [e for e in found if e.endswith(".npy")]
        if not candidates or (len(candidates) > 1 and candidates[0] not in _TOKENS):
            for extension, found_kind in found.items():
                check_extension(extension, found_kind.member, found_kind.head.where)
            keys = [s.key for head in heads for s in head.samples.samples]
            pickled = [e for e in found if e.split(".")[-1] in _PICKLED]
            why = f" ({dotted(pickled)} are pickled, which tokenyard never unpickles)" if pickled else ""
            raise DataError(
                f"{where}: {len(keys)} of {len(keys)} samples have no tokens ({some(keys)}): members are "
                f"{dotted(found)}{why}; name the one that holds token ids with tokens='<extension>', or tokenize the "
                "text first"
            )
        chosen = candidates[0]
    kind = chosen.split(".")[-1]
    if kind not in ("npy", "bin", "json"):
        why = "pickled, which tokenyard never unpickles" if kind in _PICKLED else "not a kind that holds token ids"
        raise DataError(f"{where}: members .{chosen} are {why}; write tokens as .npy (np.save)")
    if kind == "bin" and options.token_dtype is None:
        raise DataError(
            f"{where}: members .{chosen} are bare bytes; name the dtype of their ids: token_dtype='uint16' ..."
        )
    return chosen


def _holds_tokens(data: bytes) -> bool:
    try:
        json_tokens(data, only=False)
    except ValueError:
        return False
    return True


def _field_name(extension: str, stems: Mapping[str, int]) -> str:
    """``source`` for ``source.txt``, unless another extension has that name too, by how many have each."""
    stem, dot, _ = extension.rpartition(".")
    if dot and stems[stem] == 1:
        return stem
    return extension.replace(".", "_")


def _field_type(extension: str, found: _Kind) -> FieldType:
    kind = extension.split(".")[-1]
    if kind == "npy":
        start, size = np.array([found.member.start]), np.array([found.member.size])
        header = npy_header.read_members(found.head.buffer, start, size).headers[0]
        if len(header.shape) > 1:
            raise ValueError(f"an array of shape {header.shape}; a row's value has one dimension")
        try:
            return FieldType.parse(header.dtype.name + "[]" * len(header.shape))
        except SchemaError:
            raise ValueError(f"an array of {header.dtype}") from None
    if kind in _TEXT:
        return FieldType("string")
    return FieldType("int64" if is_integer_text(extension) else "bytes")


def is_integer_text(extension: str) -> bool:
    """Whether members of this extension are whole numbers written as text."""
    return extension.split(".")[-1] in _INTEGER
