"""Samples in other people's tars: members grouped as webdataset does, and checked to be all accounted for.

A member's key is its path up to the first dot of its file name, the rest its extension, in lower case; members of one
key that follow one another are a sample. Names that webdataset keeps for itself (``__name__``) are no samples. Where
grouping would merge or drop what somebody meant as a sample, the tar is refused: a key that comes back later, an
extension twice, an extension with a number in it (``Track 2.0.npy``: a dot that belonged to the key), files without any
extension.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tokenyard.errors import DataError
from tokenyard.formats.webdataset.tar import Member
from tokenyard.schema import FieldType

_META = re.compile(r"__[^/]*__($|/)")


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


class Keyed(NamedTuple):
    """A member with its sample's key and its extension; both are empty for a file that belongs to no sample."""

    key: str
    extension: str
    member: Member


def keyed(members: Iterable[Member], where: str) -> Iterator[Keyed]:
    """Members with their keys, without webdataset's own. Raises DataError for a key that comes back later."""
    seen: set[str] = set()
    last: str | None = None
    for member in members:
        folder, slash, name = member.name.rpartition("/")
        stem, dot, extension = name.partition(".")
        if _META.match(member.name):
            continue
        if not dot or not stem:
            yield Keyed("", "", member)
            continue
        key = folder + slash + stem
        if key != last:
            if key in seen:
                raise DataError(
                    f"{where}: the members of sample {key!r} don't follow one another, {member.name!r} comes later; "
                    "webdataset would make two samples of them: pack the tar again, sorted by name (--sort=name)"
                )
            seen.add(key)
            last = key
        yield Keyed(key, extension.lower(), member)


def group(members: Iterable[Member], where: str) -> Samples:
    """Members as samples. Raises DataError for keys and extensions that come twice."""
    samples: list[Sample] = []
    strays: list[str] = []
    for key, extension, member in keyed(members, where):
        if not key:
            strays.append(member.name)
            continue
        if not samples or key != samples[-1].key:
            samples.append(Sample(key, {}))
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
                f"{dotted(sorted(known))}); name the members to keep with fields=[...]"
            )
        if samples.strays:
            raise DataError(
                f"{where}: {len(samples.strays)} files belong to no sample, having no key and extension: "
                f"{some(samples.strays)}; remove them, or name the members to keep with fields=[...]"
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


def _check_complete(samples: Samples, extension: str, where: str, what: str) -> None:
    missing = [s.key for s in samples.samples if extension not in s.members]
    if missing:
        raise DataError(
            f"{where}: {len(missing)} of {len(samples.samples)} samples have no member .{extension} for {what}: "
            f"{some(missing)}; "
            + ("add it, or remove these samples" if what == "tokens" else "name the fields to keep with fields=[...]")
        )


def dotted(extensions: Iterable[str]) -> str:
    """Extensions in words."""
    return ", ".join(f".{e}" for e in extensions) or "none"


def some(names: Sequence[str]) -> str:
    """The first names in words."""
    return ", ".join(map(repr, names[:3])) + (" ..." if len(names) > 3 else "")
