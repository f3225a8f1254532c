"""The model of a manifest, its JSON, and the check of all that is read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tokenyard.digest import Digests
from tokenyard.errors import DataError, SchemaError
from tokenyard.manifest.entries import FileInfo, ShardInfo, file_of, file_to_list, is_count, shard_of, shard_to_dict
from tokenyard.manifest.shard_lines import ShardLines, split_shards
from tokenyard.rows import Offsets
from tokenyard.schema import Schema

MANIFEST_VERSION = 1
#: The folder inside a corpus that holds everything of ours; hidden, so that native tools don't see it.
HOME = ".tokenyard"
MANIFEST_NAME = f"{HOME}/manifest.json"
#: Written first and removed last by every job that makes a corpus.
MARKER_NAME = f"{HOME}/job.json"

_DIGEST = re.compile(r"ty1:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a row is: a document, or a packed sequence of ``seq_len`` tokens whose document lengths lie in a field.

    Where ``pad_token_id`` is set, rows that their documents don't fill end in padding: the tokens past the sum of their
    document lengths. Raises SchemaError.
    """

    kind: str = "documents"
    seq_len: int | None = None
    lengths_field: str | None = None
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        problems = []
        if self.kind not in ("documents", "packed"):
            problems.append(f"kind: expected documents or packed, found {self.kind!r:.60}")
        if not (is_count(self.seq_len, 1) or (self.seq_len is None and self.kind != "packed")):
            problems.append(f"seq_len: expected a whole number from 1 on, found {self.seq_len!r:.60}")
        lengths_field: Any = self.lengths_field
        if not (lengths_field is None or isinstance(lengths_field, str)):
            problems.append(f"lengths_field: expected the name of a field or null, found {lengths_field!r:.60}")
        if not (self.pad_token_id is None or is_count(self.pad_token_id)):
            problems.append(f"pad_token_id: expected a token id or null, found {self.pad_token_id!r:.60}")
        if problems:
            raise SchemaError("; ".join(f"layout.{p}" for p in problems))

    def check(self, schema: Schema) -> None:
        """Raise SchemaError when the schema lacks the field of document lengths."""
        if self.lengths_field is not None and self.lengths_field not in schema.fields:
            raise SchemaError(
                f"layout.lengths_field is {self.lengths_field!r}, but the schema's fields are "
                f"{', '.join(sorted(schema.fields)) or 'none'}"
            )


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that is known of a corpus without opening a shard.

    ``digests`` is None for a corpus that others made, until somebody computes it. ``provenance`` says what made the
    corpus, from what, with which options and tokenizer. ``files`` are those that the native layout keeps beside the
    shards.
    """

    format: str
    schema: Schema
    shards: Sequence[ShardInfo]
    layout: Layout = field(default_factory=Layout)
    digests: Digests | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[FileInfo, ...] = ()

    @property
    def all_files(self) -> tuple[FileInfo, ...]:
        """Every file of the corpus that the manifest names: of shards, their indexes, and beside them."""
        of_shards = (f for s in self.shards for f in (*s.files, *([s.index] if s.index else ())))
        return (*of_shards, *self.files)

    @property
    def num_rows(self) -> int:
        """Rows in all shards."""
        return sum(self.rows_of_shards.tolist())

    @property
    def num_tokens(self) -> int:
        """Tokens in all shards."""
        return sum(self.tokens_of_shards.tolist())

    @property
    def rows_of_shards(self) -> Offsets:
        """int64[shards]: rows in each shard."""
        if isinstance(self.shards, ShardLines):
            return self.shards.num_rows
        return np.array([s.num_rows for s in self.shards], np.int64)

    @property
    def tokens_of_shards(self) -> Offsets:
        """int64[shards]: tokens in each shard."""
        if isinstance(self.shards, ShardLines):
            return self.shards.num_tokens
        return np.array([s.num_tokens for s in self.shards], np.int64)

    @property
    def num_bytes(self) -> int:
        """Bytes of all shards, indexes left out."""
        return sum(self.bytes_of_shards.tolist())

    @property
    def bytes_of_shards(self) -> Offsets:
        """int64[shards]: bytes of the files of each shard, its index left out."""
        if isinstance(self.shards, ShardLines):
            return self.shards.num_bytes
        return np.array([s.num_bytes for s in self.shards], np.int64)

    def to_json(self) -> str:
        """JSON with one line a shard, keys in a fixed order."""
        head: dict[str, Any] = {
            "tokenyard": MANIFEST_VERSION,
            "format": self.format,
            "rows": self.num_rows,
            "tokens": self.num_tokens,
            "bytes": self.num_bytes,
            "digest": self.digests.tokens if self.digests else None,
            "field_digests": dict(self.digests.fields) if self.digests else None,
            "schema": self.schema.to_dict(),
            "layout": asdict(self.layout),
            "provenance": dict(self.provenance),
            "meta": dict(self.meta),
        }
        if self.files:
            head["files"] = [file_to_list(f) for f in self.files]
        lines = [f'  "{key}": {json.dumps(value, sort_keys=True)}' for key, value in head.items()]
        shards = ",\n".join("    " + json.dumps(shard_to_dict(s), sort_keys=True) for s in self.shards)
        lines.append(f'  "shards": [\n{shards}\n  ]' if self.shards else '  "shards": []')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> Manifest:
        """Read a manifest. Raises DataError that lists every problem found; ``where`` names the file in it."""
        if (split := split_shards(text.encode() if isinstance(text, str) else text)) is not None:
            return _Checker(where).manifest(*split)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as e:
            raise DataError(f"{where}: not valid JSON ({e}); the manifest is damaged, restore it") from None
        return _Checker(where).manifest(data)


class _Checker:
    """Reads the parts of a manifest and collects every problem, so that all are told at once."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._problems: list[str] = []

    def manifest(self, data: Any, checked: ShardLines | None = None) -> Manifest:
        """The manifest of JSON values, but for the shards, where these were checked already."""
        if not isinstance(data, dict):
            raise DataError(f"{self._where}: expected a JSON object, found {type(data).__name__}")
        version = data.get("tokenyard")
        if version != MANIFEST_VERSION:
            raise DataError(
                f"{self._where}: manifest version {version!r}, this tokenyard reads {MANIFEST_VERSION}; "
                "use the release that wrote it, or a newer one"
            )
        name = self._get(data, "format", str, "")
        schema = self._schema(self._get(data, "schema", dict, {}))
        layout = self._layout(self._get(data, "layout", dict, {}), schema)
        shards = self._shards(self._get(data, "shards", list, [])) if checked is None else checked
        digests = self._digests(data, schema)
        provenance = self._get(data, "provenance", dict, {})
        meta = self._get(data, "meta", dict, {})
        # Most formats keep nothing beside their shards.
        files = self._files(self._get(data, "files", list, []) if "files" in data else [])
        manifest = Manifest(
            format=name,
            schema=schema,
            layout=layout,
            shards=shards,
            digests=digests,
            provenance=provenance,
            meta=meta,
            files=files,
        )
        for key, total in (("rows", manifest.num_rows), ("tokens", manifest.num_tokens)):
            if not is_count(total):
                self._problems.append(f"{key}: the shards sum to {total}, more than 63 bits hold")
            if not self._problems and data.get(key) != total:
                self._problems.append(f"{key} is {data.get(key)!r}, but the shards sum to {total}")
        if self._problems:
            raise DataError(f"{self._where}: " + "; ".join(self._problems))
        return manifest

    def _get(self, data: Mapping[str, Any], key: str, kind: type[Any], default: Any) -> Any:
        value = data.get(key)
        if isinstance(value, kind) and not isinstance(value, bool):
            return value
        self._problems.append(f"{key}: expected {kind.__name__}, found {value!r:.60}")
        return default

    def _schema(self, data: dict[str, Any]) -> Schema:
        try:
            return Schema.from_dict(data)
        except (SchemaError, TypeError) as e:
            self._problems.append(f"schema: {e}")
            return Schema()

    def _layout(self, data: dict[str, Any], schema: Schema) -> Layout:
        try:
            layout = Layout(**data)
            if not self._problems:  # else the fields may be missing for another reason
                layout.check(schema)
            return layout
        except SchemaError as e:
            self._problems.append(str(e))
        except TypeError as e:
            self._problems.append(f"layout: {e}")
        return Layout()

    def _digests(self, data: dict[str, Any], schema: Schema) -> Digests | None:
        digest, fields = data.get("digest"), data.get("field_digests") or {}
        if digest is None:
            return None
        if not _is_digest(digest):
            self._problems.append(f"digest: expected 'ty1:' and 64 hexadecimal digits, found {digest!r:.80}")
        if not isinstance(fields, dict) or not all(_is_digest(d) for d in fields.values()):
            self._problems.append(f"field_digests: expected digests by field, found {fields!r:.80}")
        elif not self._problems and fields.keys() != schema.fields.keys():
            self._problems.append(f"field_digests: of {sorted(fields)}, but the fields are {sorted(schema.fields)}")
        return None if self._problems else Digests(tokens=digest, fields=fields)

    def _shards(self, data: list[Any]) -> tuple[ShardInfo, ...]:
        return tuple(s for i, d in enumerate(data) if (s := self._shard(i, d)))

    def _shard(self, i: int, data: Any) -> ShardInfo | None:
        try:
            return shard_of(data)
        except KeyError as e:
            self._problems.append(f"shards[{i}]: {e} is missing")
        except (TypeError, ValueError) as e:
            self._problems.append(f"shards[{i}]: {e}")
        return None

    def _files(self, data: list[Any]) -> tuple[FileInfo, ...]:
        found = []
        for i, file in enumerate(data):
            try:
                found.append(file_of(file))
            except (TypeError, ValueError) as e:
                self._problems.append(f"files[{i}]: {e}")
        return tuple(found)


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None
