"""The manifest: what a corpus is, shard by shard. A corpus is whole exactly when its manifest is there.

It holds nothing that changes from run to run (no time, host, absolute path or worker count), so equal work gives equal
bytes. It lies at ``.tokenyard/manifest.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tokenyard.digest import Digests
from tokenyard.errors import DataError, SchemaError
from tokenyard.schema import Schema

MANIFEST_VERSION = 1
#: The folder inside a corpus that holds everything of ours; hidden, so that native tools don't see it.
HOME = ".tokenyard"
MANIFEST_NAME = f"{HOME}/manifest.json"
#: Written first and removed last by every job that makes a corpus.
MARKER_NAME = f"{HOME}/job.json"


@dataclass(frozen=True, kw_only=True)
class FileInfo:
    """One file of a corpus: name relative to its folder, size in bytes, ``blake3:<hex>`` checksum (None: not known)."""

    name: str
    bytes: int
    checksum: str | None = None


@dataclass(frozen=True, kw_only=True)
class ShardInfo:
    """One shard: its files (the tokens' own file first), rows and tokens, and what the format must remember of it.

    ``index`` is the file of the shard's row index under ``.tokenyard/``; None when it is kept elsewhere (other people's
    corpora).
    """

    files: tuple[FileInfo, ...]
    num_rows: int
    num_tokens: int
    index: FileInfo | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the file that holds the tokens."""
        return self.files[0].name

    @property
    def num_bytes(self) -> int:
        """Bytes of all files of the shard, its index left out."""
        return sum(f.bytes for f in self.files)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a row is: a document, or a packed sequence of ``seq_len`` tokens whose document lengths lie in a field.

    Where ``pad_token_id`` is set, rows that their documents don't fill end in padding: the tokens past the sum of their
    document lengths.
    """

    kind: str = "documents"
    seq_len: int | None = None
    lengths_field: str | None = None
    pad_token_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything that is known of a corpus without opening a shard.

    ``digests`` is None for a corpus that others made, until somebody computes it. ``provenance`` says what made the
    corpus, from what, with which options and tokenizer.
    """

    format: str
    schema: Schema
    shards: tuple[ShardInfo, ...]
    layout: Layout = field(default_factory=Layout)
    digests: Digests | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """Rows in all shards."""
        return sum(s.num_rows for s in self.shards)

    @property
    def num_tokens(self) -> int:
        """Tokens in all shards."""
        return sum(s.num_tokens for s in self.shards)

    @property
    def num_bytes(self) -> int:
        """Bytes of all shards, indexes left out."""
        return sum(s.num_bytes for s in self.shards)

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
        lines = [f'  "{key}": {json.dumps(value, sort_keys=True)}' for key, value in head.items()]
        shards = ",\n".join("    " + json.dumps(_shard_to_dict(s), sort_keys=True) for s in self.shards)
        lines.append(f'  "shards": [\n{shards}\n  ]' if self.shards else '  "shards": []')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> Manifest:
        """Read a manifest. Raises DataError that lists every problem found; ``where`` names the file in it."""
        try:
            data = json.loads(text)
        except ValueError as e:
            raise DataError(
                f"{where}: not valid JSON ({e}); restore it, or rebuild it with 'tokenyard index'"
            ) from None
        return _Checker(where).manifest(data)


def _shard_to_dict(shard: ShardInfo) -> dict[str, Any]:
    return {
        "rows": shard.num_rows,
        "tokens": shard.num_tokens,
        "files": [[f.name, f.bytes, f.checksum] for f in shard.files],
        "index": [shard.index.name, shard.index.bytes, shard.index.checksum] if shard.index else None,
        "meta": dict(shard.meta),
    }


class _Checker:
    """Reads the parts of a manifest and collects every problem, so that all are told at once."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._problems: list[str] = []

    def manifest(self, data: Any) -> Manifest:
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
        layout = self._layout(self._get(data, "layout", dict, {}))
        shards = tuple(s for i, d in enumerate(self._get(data, "shards", list, [])) if (s := self._shard(i, d)))
        digests = self._digests(data)
        for key, total in (("rows", sum(s.num_rows for s in shards)), ("tokens", sum(s.num_tokens for s in shards))):
            if not self._problems and data.get(key) != total:
                self._problems.append(f"{key} is {data.get(key)!r}, but the shards sum to {total}")
        if self._problems:
            raise DataError(f"{self._where}: " + "; ".join(self._problems))
        return Manifest(
            format=name,
            schema=schema,
            layout=layout,
            shards=shards,
            digests=digests,
            provenance=self._get(data, "provenance", dict, {}),
            meta=self._get(data, "meta", dict, {}),
        )

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

    def _layout(self, data: dict[str, Any]) -> Layout:
        kind, seq_len = data.get("kind"), data.get("seq_len")
        if kind not in ("documents", "packed"):
            self._problems.append(f"layout.kind: expected documents or packed, found {kind!r}")
        if kind == "packed" and (not isinstance(seq_len, int) or seq_len < 1):
            self._problems.append(f"layout.seq_len: expected a whole number from 1 on, found {seq_len!r}")
        try:
            return Layout(**data)
        except TypeError as e:
            self._problems.append(f"layout: {e}")
            return Layout()

    def _digests(self, data: dict[str, Any]) -> Digests | None:
        digest, fields = data.get("digest"), data.get("field_digests")
        if digest is None:
            return None
        if not isinstance(digest, str) or not digest.startswith("ty1:") or not isinstance(fields, dict):
            self._problems.append(f"digest: expected 'ty1:' and field digests, found {digest!r:.60} and {fields!r:.60}")
            return None
        return Digests(tokens=digest, fields=fields)

    def _shard(self, i: int, data: Any) -> ShardInfo | None:
        try:
            files = tuple(self._file(f) for f in data["files"])
            rows, tokens = data["rows"], data["tokens"]
            if not files or not all(isinstance(n, int) and n >= 0 for n in (rows, tokens)):
                raise ValueError("a shard needs files and counts from 0 on")
            index = self._file(data["index"]) if data["index"] else None
            return ShardInfo(files=files, num_rows=rows, num_tokens=tokens, index=index, meta=data["meta"])
        except (KeyError, TypeError, ValueError) as e:
            self._problems.append(f"shards[{i}]: {e.__class__.__name__} {e}")
            return None

    def _file(self, data: Any) -> FileInfo:
        name, size, checksum = data
        if not isinstance(size, int) or size < 0:
            raise ValueError(f"size of {name!r} is {size!r}")
        check_name(name)
        return FileInfo(name=name, bytes=size, checksum=checksum)


def check_name(name: Any) -> None:
    """Raise DataError unless ``name`` is a plain relative path that stays inside its folder."""
    parts = name.split("/") if isinstance(name, str) else []
    if not parts or any(p in ("", ".", "..") for p in parts) or "\\" in name or "\0" in name:
        raise DataError(f"file name {name!r} is not a plain relative path; it would lead outside the corpus")
