"""Samples in other people's tars: members grouped as webdataset does, and which of them are tokens and fields.

A member's key is its path up to the first dot of its file name, the rest its extension, in lower case; members of one
key that follow one another are a sample. Names that webdataset keeps for itself (``__name__``) are no samples. Where
grouping would merge or drop what somebody meant as a sample, the tar is refused: a key that comes back later, an
extension twice, an extension with a number in it (``Track 2.0.npy``: a dot that belonged to the key), files without any
extension.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tokenyard.errors import ConfigError, DataError, SchemaError
from tokenyard.formats import npy_header
from tokenyard.formats.base import ReadOptions
from tokenyard.formats.runs import Bytes
from tokenyard.formats.tar import Member
from tokenyard.schema import FieldType

_META = re.compile(r"__[^/]*__($|/)")
_TOKENS = ("tokens.npy", "input_ids.npy", "npy", "tokens.bin", "input_ids.bin", "tokens.json", "input_ids.json")
_TEXT = ("txt", "text", "transcript", "json", "jsn", "html", "htm", "id")
_INTEGER = ("cls", "cls2", "class", "count", "index", "inx")
_PICKLED = ("pyd", "pickle", "pkl", "pth", "pt")


class Sample(NamedTuple):
    """One sample: its key, and its members by extension."""

    key: str
    members: dict[str, Member]


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The samples of a shard, and the files that belong to none."""

    samples: list[Sample]
    strays: list[str]

    def extensions(self) -> dict[str, Member]:
        """Each extension with the first member that has it."""
        found: dict[str, Member] = {}
        for sample in self.samples:
            for extension, member in sample.members.items():
                if extension not in found:
                    found[extension] = member
        return found


@dataclass(frozen=True, kw_only=True)
class TarSelection:
    """What is read: the tokens' extension, and for each field its extension and type.

    ``chosen``: the fields were named by the option ``fields``, so they may be missing, and other members are left out.
    """

    tokens: str
    fields: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    chosen: bool = False


def group(members: Iterable[Member], where: str) -> Samples:
    """Members as samples. Raises DataError for keys and extensions that come twice."""
    samples: list[Sample] = []
    strays: list[str] = []
    seen: set[str] = set()
    last: str | None = None
    for member in members:
        folder, slash, name = member.name.rpartition("/")
        stem, dot, extension = name.partition(".")
        if _META.match(member.name):
            continue
        if not dot or not stem:
            strays.append(member.name)
            continue
        key, extension = folder + slash + stem, extension.lower()
        if key != last:
            if key in seen:
                raise DataError(
                    f"{where}: the members of sample {key!r} don't follow one another, {member.name!r} comes later; "
                    "webdataset would make two samples of them: pack the tar again, sorted by name (--sort=name)"
                )
            seen.add(key)
            samples.append(Sample(key, {}))
            last = key
        found = samples[-1].members
        if extension in found:
            raise DataError(f"{where}: sample {key!r} has two members .{extension}; remove one, and pack the tar again")
        found[extension] = member
    return Samples(samples=samples, strays=strays)


def check(samples: Samples, selection: TarSelection, where: str) -> None:
    """Raise DataError unless every member and every sample is accounted for by ``selection``."""
    known = {selection.tokens, *(extension for extension, _ in selection.fields.values())}
    unknown = {e: m for e, m in samples.extensions().items() if e not in known}
    for extension, member in unknown.items():
        check_extension(extension, member, where)
    if not selection.chosen:
        if unknown:
            member = next(iter(unknown.values()))
            raise DataError(
                f"{where}: the member {member.name!r} is of a kind that the first samples don't have (they have "
                f"{_dotted(sorted(known))}); name the members to keep with fields=[...]"
            )
        if samples.strays:
            raise DataError(
                f"{where}: {len(samples.strays)} files belong to no sample, having no key and extension: "
                f"{_some(samples.strays)}; remove them, or name the members to keep with fields=[...]"
            )
    _check_complete(samples, selection.tokens, where, "tokens")
    for name, (extension, type) in selection.fields.items():
        if not FieldType.parse(type).nullable:
            _check_complete(samples, extension, where, f"field {name!r}")


def check_extension(extension: str, member: Member, where: str) -> None:
    """Raise DataError for an extension with a number in it."""
    if any(part.isdigit() for part in extension.split(".")):
        raise DataError(
            f"{where}: the member {member.name!r} would be .{extension} of another sample, since keys end at the first "
            "dot; rename the members so that their keys have no dots"
        )


def select(samples: Samples, buffer: Bytes, options: ReadOptions, where: str) -> TarSelection:
    """Choose from the samples of the first shard.

    Raises DataError that names the extensions when none holds tokens, ConfigError for options that fit none.
    """
    found = samples.extensions()
    tokens = _tokens(samples, found, buffer, options, where)
    named = {} if options.fields is None else {f.lower().removeprefix("."): f for f in options.fields}
    fields: dict[str, tuple[str, str]] = {}
    problems = []
    for extension, member in found.items():
        name = _field_name(extension, found)
        if extension == tokens:
            continue
        if not named.keys() & {name.lower(), extension}:
            check_extension(extension, member, where)
            if options.fields is not None:
                continue
        named.pop(name.lower(), None)
        named.pop(extension, None)
        try:
            type = _field_type(extension, member, buffer)
        except ValueError as e:
            problems.append(f".{extension} ({member.name!r}): {e}")
            continue
        nullable = options.fields is not None or any(extension not in s.members for s in samples.samples)
        fields[name] = (extension, str(FieldType(type.name, type.is_list, nullable)))
    if named:
        raise ConfigError(f"{where}: no members {', '.join(named.values())} to keep; there are {_dotted(found)}")
    if problems:
        raise DataError(f"{where}: {'; '.join(problems)}; leave it out with fields={list(fields)}")
    return TarSelection(tokens=tokens, fields=fields, chosen=options.fields is not None)


def json_tokens(data: bytes, *, only: bool) -> list[int]:
    """The ids in a JSON member: a list, or an object with ``tokens`` or ``input_ids`` (and no more, when ``only``).

    Raises ValueError.
    """
    value = json.loads(data)
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


def _tokens(samples: Samples, found: Mapping[str, Member], buffer: Bytes, options: ReadOptions, where: str) -> str:
    if options.tokens is not None:
        chosen = options.tokens.lower().removeprefix(".")
        if chosen not in found:
            raise ConfigError(f"{where}: no member .{chosen}; there are {_dotted(found)}")
    else:
        candidates = [e for e in _TOKENS if e in found]
        if not candidates and "bin" in found and options.token_dtype:
            candidates = ["bin"]
        if not candidates and "json" in found and _holds_tokens(found["json"], buffer):
            candidates = ["json"]
        if not candidates:
            candidates = [e for e in found if e.endswith(".npy")]
        if not candidates or (len(candidates) > 1 and candidates[0] not in _TOKENS):
            for extension, member in found.items():
                check_extension(extension, member, where)
            pickled = [e for e in found if e.split(".")[-1] in _PICKLED]
            why = f" ({_dotted(pickled)} are pickled, which tokenyard never unpickles)" if pickled else ""
            raise DataError(
                f"{where}: {len(samples.samples)} of {len(samples.samples)} samples have no tokens "
                f"({_some([s.key for s in samples.samples])}): members are {_dotted(found)}{why}; name the one that "
                "holds token ids with tokens='<extension>', or tokenize the text first"
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


def _holds_tokens(member: Member, buffer: Bytes) -> bool:
    try:
        json_tokens(_data(member, buffer), only=False)
    except ValueError:
        return False
    return True


def _field_name(extension: str, found: Mapping[str, Member]) -> str:
    """``source`` for ``source.txt``, unless another extension has that name too."""
    stem, dot, _ = extension.rpartition(".")
    if dot and sum(e.rpartition(".")[0] == stem or e == stem for e in found) == 1:
        return stem
    return extension.replace(".", "_")


def _field_type(extension: str, member: Member, buffer: Bytes) -> FieldType:
    kind = extension.split(".")[-1]
    if kind == "npy":
        header = npy_header.read_members(buffer, np.array([member.start]), np.array([member.size])).headers[0]
        if len(header.shape) > 1:
            raise ValueError(f"an array of shape {header.shape}; a row's value has one dimension")
        try:
            return FieldType.parse(header.dtype.name + "[]" * len(header.shape))
        except SchemaError:
            raise ValueError(f"an array of {header.dtype}") from None
    if kind in _TEXT:
        return FieldType("string")
    return FieldType("int64" if extension in _INTEGER or kind in _INTEGER else "bytes")


def is_integer_text(extension: str) -> bool:
    """Whether members of this extension are whole numbers written as text."""
    return extension.split(".")[-1] in _INTEGER


def _check_complete(samples: Samples, extension: str, where: str, what: str) -> None:
    missing = [s.key for s in samples.samples if extension not in s.members]
    if missing:
        raise DataError(
            f"{where}: {len(missing)} of {len(samples.samples)} samples have no member .{extension} for {what}: "
            f"{_some(missing)}; "
            + ("add it, or remove these samples" if what == "tokens" else "name the fields to keep with fields=[...]")
        )


def _data(member: Member, buffer: Bytes) -> bytes:
    return buffer[member.start : member.start + member.size].tobytes()


def _dotted(extensions: Iterable[str]) -> str:
    return ", ".join(f".{e}" for e in extensions) or "none"


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (" ..." if len(names) > 3 else "")
