"""What a storage format is: how one shard is written and how one is read. Everything else is shared.

Rolling over shards, validation, atomic publishing and the manifest belong to ``tokenyard.corpus``; batches, windows and
gathers work on extent tables. So a format is one small file: subclass Format, and register the instance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tokenyard.errors import ConfigError, DataError, StorageError, TokenyardError
from tokenyard.formats.extents import Extents
from tokenyard.formats.index import ShardIndex
from tokenyard.manifest import FileInfo, Manifest, ShardInfo
from tokenyard.rows import Offsets, RowBatch
from tokenyard.schema import Schema
from tokenyard.storage import Folder, RawFile


class FormatOptions(BaseModel):
    """Options of a writer. A format's own options model adds to these."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shard_bytes: int = Field(
        default=64 << 20,
        ge=1,
        description="Bytes of tokens and fields, before compression, after which a new shard begins; of shards with "
        "more than 1,024 rows, at a multiple of so many.",
    )


#: Told the name of a shard that can't be read, and why; the shard is then left out.
OnBad = Callable[[str, TokenyardError], None]

AnyOptions = TypeVar("AnyOptions", bound=FormatOptions)


def options_of(format: str, kind: type[AnyOptions], options: FormatOptions) -> AnyOptions:
    """``options`` as those of one format. Raises ConfigError for another format's."""
    if not isinstance(options, kind):
        raise ConfigError(f"format {format} takes {kind.__name__}, not {options.__class__.__name__}")
    return options


class Split(BaseModel):
    """How one long array of other people's tokens is cut into rows: every ``length`` tokens, or after each ``eos``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    length: int | None = Field(default=None, ge=1)
    eos: int | None = Field(default=None, ge=0)

    def model_post_init(self, _: Any) -> None:
        """Exactly one of the two is set."""
        if (self.length is None) == (self.eos is None):
            raise ValueError("split takes exactly one of 'length' and 'eos'")


class ReadOptions(BaseModel):
    """What a corpus that others made doesn't say itself. Not for corpora with a manifest of ours, which say all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: str | None = Field(default=None, description="The column, key or tar extension that holds the tokens.")
    token_dtype: str | None = Field(default=None, description="The dtype of tokens kept as bare bytes.")
    fields: tuple[str, ...] | None = Field(default=None, description="The extra columns to keep; all when not given.")
    split: Split | None = Field(default=None, description="How one long array is cut into rows.")

    @field_validator("token_dtype")
    @classmethod
    def _is_integer(cls, value: str | None) -> str | None:
        try:
            fine = value is None or np.dtype(value).kind in "iu"
        except TypeError:
            fine = False
        if not fine:
            raise ValueError(f"{value!r} is not an integer type, such as uint16, uint32 or '>i4' (big-endian)")
        return value


@dataclass(frozen=True, kw_only=True)
class WrittenShard:
    """What a writer made: its files (the tokens' own first), its row index, and what to remember of it."""

    files: tuple[FileInfo, ...]
    index: ShardIndex
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Discovered:
    """A corpus that others made: its schema and its shards. Their rows are still unknown: index them with ``scan``."""

    schema: Schema
    shards: tuple[ShardSource, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ShardSource:
    """One shard that others made: its files, the tokens' own first, and what the format must know to scan it."""

    files: tuple[FileInfo, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


class Span(NamedTuple):
    """Bytes start .. stop of a file."""

    file: RawFile
    start: int
    stop: int


class ShardReader(ABC):
    """Random access to one shard.

    ``index.offsets`` gives the rows' cumulative token counts. ``block_rows`` (int64[blocks + 1]) says at which rows
    the shard's storage blocks begin; it must increase from 0 to the number of rows. ``mapped``: the buffers of its
    extent tables are views of a map.
    """

    mapped: bool = False
    #: Whether storage blocks are ranges of raw files, of which neighbours can be fetched at once.
    in_ranges: bool = False

    def __init__(self, where: str, index: ShardIndex, block_rows: Offsets | None = None) -> None:
        self.where = where
        self.index = index
        self.block_rows = np.array([0, index.num_rows], np.int64) if block_rows is None else block_rows

    @abstractmethod
    def extents(self, block: int, field: str = "tokens") -> Extents:
        """The extent table of one storage block, of the tokens or of another list field of numbers.

        Decodes when the block is not raw; the caller caches. Raises DataError that names shard and row.
        """

    def spans(self, first: int, last: int, fields: Sequence[str]) -> list[Span]:
        """What is read of files for the extent tables of storage blocks ``first`` .. ``last``, the last one included.

        ``fields``: the tokens, or list fields of numbers.

        Nothing where a format doesn't say; then nothing of it is fetched before it is read.
        """
        del first, last, fields
        return []

    def head_spans(self) -> list[Span]:
        """What is read of files, beside the row index, before the first storage block."""
        return []

    @abstractmethod
    def rows(self, start: int, stop: int) -> RowBatch:
        """Rows start .. stop with every field of the schema, for conversion. Raises DataError."""


class Format(ABC):
    """A storage format: stateless, one instance registered under its name."""

    name: str
    #: The suffix of shard files, with its dot.
    suffix: str
    #: One line for listings: what it is good for.
    summary: str
    Options: type[FormatOptions] = FormatOptions
    #: The file that names all others in the native layout, where there is one.
    index_name: str | None = None
    #: What else `finish` writes at the top of a corpus: names of files or folders. By these what a job that was killed
    #: has left is known for its own.
    native_files: tuple[str, ...] = ()
    #: The largest file that the native layout allows, if it has a limit.
    max_file_bytes: int | None = None

    @property
    def native_names(self) -> tuple[str, ...]:
        """All names that `finish` may give at the top of a corpus."""
        return (*([self.index_name] if self.index_name else ()), *self.native_files)

    @abstractmethod
    def write_shard(
        self, folder: Folder, stem: str, batches: Sequence[RowBatch], schema: Schema, options: FormatOptions
    ) -> WrittenShard:
        """Publish one shard under the name ``stem`` + suffix. The same rows and options must give the same bytes.

        Raises ConfigError for options of another format.
        """

    @abstractmethod
    def open_shard(self, folder: Folder, shard: ShardInfo, index: ShardIndex, schema: Schema) -> ShardReader:
        """A reader of one shard. Cheap: no token is read. Raises DataError when sizes are not as promised."""

    def finish(self, folder: Folder, manifest: Manifest) -> tuple[FileInfo, ...]:
        """Write what the native layout needs beside the shards, right before the manifest; returns those files.

        They are named in `index_name` and `native_files`.
        """
        del folder, manifest
        return ()

    def is_index(self, data: bytes, where: str) -> bool:
        """Whether these are the bytes of such a file, and not of another of that name. Raises DataError."""
        del data, where
        return False

    @abstractmethod
    def discover(self, folder: Folder, names: Sequence[str], options: ReadOptions) -> Discovered | None:
        """Recognize a corpus that others made, among ``names`` (in natural order); None when it is not of this format.

        Reads headers only, writes nothing. Raises DataError when it is this format but damaged, or lacks the tokens.
        """

    def discover_readable(
        self, folder: Folder, names: Sequence[str], options: ReadOptions, on_bad: OnBad
    ) -> Discovered | None:
        """As ``discover``; but files that are damaged by themselves are left out and told, where others remain."""
        try:
            return self.discover(folder, names, options)
        except DataError as e:
            error = e
        bad: dict[str, TokenyardError] = {}
        for name in names:
            try:
                self.discover(folder, [name], options)
            except (DataError, StorageError) as e:
                bad[name] = e
        good = [name for name in names if name not in bad]
        found = self.discover(folder, good, options) if bad and good else None
        if found is None:
            raise error
        for name, why in bad.items():
            on_bad(name, why)
        return found

    @abstractmethod
    def scan(self, folder: Folder, shard: ShardSource, schema: Schema) -> ShardIndex:
        """Build the row index of a shard that others made. Raises DataError that names shard and row."""

    def options(self, values: Mapping[str, Any] | FormatOptions | None = None) -> FormatOptions:
        """Writer options from plain values. Raises ConfigError that names the option and what is known."""
        if isinstance(values, FormatOptions):
            return options_of(self.name, self.Options, values)
        values = dict(values or {})
        known = self.Options.model_fields
        if unknown := sorted(set(values) - set(known)):
            raise ConfigError(
                f"format {self.name} has no option {', '.join(unknown)}; it has {', '.join(sorted(known))}"
            )
        try:
            return self.Options(**values)
        except ValueError as e:
            raise ConfigError(f"options of format {self.name}: {explain(e)}") from None


def explain(error: ValueError) -> str:
    """What pydantic found wrong, in words: each option, what was expected and what was found."""
    if not isinstance(error, ValidationError):
        return str(error)
    told = []
    for problem in error.errors(include_url=False, include_context=False):
        place = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        told.append(f"{place}: {message}; found {problem['input']!r:.60}" if place else message)
    return "; ".join(told)


def iter_pieces(offsets: Offsets, start: int, stop: int, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Cut rows start .. stop into runs of at most ``max_tokens`` tokens (but at least one row).

    ``offsets``: int64[rows + 1], cumulative tokens.
    """
    while start < stop:
        end = int(np.searchsorted(offsets, offsets[start] + max_tokens, side="right")) - 1
        end = min(max(end, start + 1), stop)
        yield start, end
        start = end
