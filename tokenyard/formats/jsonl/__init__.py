"""JSONL: one row a line, ``{"tokens": [1, 2], "source": "web"}``; any JSON parser reads it.

Fields: text as strings, bytes as base64, null as null, numbers in full (64-bit integers too), and floats that are not
finite as the strings "NaN", "Infinity" and "-Infinity", since JSON has no number for them.

Other people's files (.jsonl, .ndjson, or .json when a folder has nothing else): one object a line, blank lines skipped.
Every other key becomes a field that allows nulls; its type comes from the beginning of each file, and is checked in all
lines when the file is indexed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tokenyard.errors import DataError
from tokenyard.formats.base import Discovered, ReadOptions, ShardSource
from tokenyard.formats.jsonl.rows import NOT_FINITE, Objects, field_column, infer_types, parse_object, parse_rows
from tokenyard.formats.shared.arrow import binary_array
from tokenyard.formats.shared.foreign import Place, choose_fields, find_tokens, refuse_options
from tokenyard.formats.shared.numbers import format_numbers, join_lists
from tokenyard.formats.shared.text import Fields, Lines, NumberedLines, TextFormat, first_byte, refuse_compressed
from tokenyard.manifest import FileInfo
from tokenyard.rows import Column, RowBatch
from tokenyard.schema import Schema
from tokenyard.storage import Folder, open_regular, storage_error

_SUFFIXES = (".jsonl", ".ndjson")
#: What else may lie in a folder whose .json files are taken for rows.
_PAPERS = (".json", ".md", ".txt", "LICENSE", "NOTICE")
_SAMPLE_BYTES = 256 << 10
_SAMPLE_FILES = 64
#: By how ``format_numbers`` writes them.
_NOT_FINITE = {repr(value): json.dumps(text) for text, value in NOT_FINITE.items()}


class Jsonl(TextFormat):
    """See the module."""

    name = "jsonl"
    suffix = ".jsonl"
    summary = "a JSON object a line; read by everything, large and slow"

    def encode(self, rows: RowBatch, first_row: int, schema: Schema) -> pa.Array:
        """Keys in order: tokens, then the fields by name."""
        del first_row
        parts: list[Any] = ['{"tokens":[', join_lists(format_numbers(rows.tokens), rows.offsets, ","), "]"]
        for name in sorted(schema.fields):
            parts += [f",{json.dumps(name)}:", _texts(name, rows.fields[name])]
        return pc.binary_join_element_wise(*parts, "}\n", "")

    def start(self, path: Path) -> tuple[int, int]:
        """After a byte order mark."""
        return first_byte(path), 1

    def records(self, lines: Lines, meta: Mapping[str, Any], where: str) -> Lines:
        """Every line that isn't blank."""
        del meta, where
        for number, line in lines:
            if record := line.strip():
                yield number, record

    def decode(self, records: Sequence[bytes], meta: Mapping[str, Any], fields: Fields, place: Place) -> RowBatch:
        """Raises DataError for a key that no field holds, unless the fields to keep were chosen."""
        tokens, offsets, objects = parse_rows(records, meta["tokens"], place)
        if meta["all"]:
            _check_keys(objects, {meta["tokens"], *meta["names"]}, place)
        columns = {n: field_column(n, t, objects, place) for n, t in fields.items()}
        return RowBatch(tokens=tokens, offsets=offsets, fields=columns)

    def discover(self, folder: Folder, names: Sequence[str], options: ReadOptions) -> Discovered | None:
        """Takes the types of fields from the first lines of the first files."""
        mine = [n for n in names if n.endswith(_SUFFIXES)]
        if not mine and all(n.endswith(_PAPERS) for n in names):
            mine = [n for n in names if n.endswith(".json")]
        if not mine:
            refuse_compressed(folder, names, (*_SUFFIXES, ".json"))
            return None
        refuse_options(folder, options, self.name)
        objects: Objects = []
        for name in mine[:_SAMPLE_FILES]:
            objects += self._sample(folder.at(name))
        if not objects:
            raise DataError(f"{folder.at(mine[0])}: no rows in it; remove it, or write rows into it")
        types = infer_types(objects)
        where = str(folder.at(mine[0]))
        tokens = find_tokens(list(types), options, where, "key")
        fields = choose_fields(types, tokens, options, where, "key")
        meta = {"tokens": tokens, "names": sorted(fields), "all": options.fields is None}
        shards = tuple(ShardSource(files=(FileInfo(name=n, bytes=folder.size(n)),), meta=meta) for n in mine)
        return Discovered(schema=Schema(token_dtype="uint32", fields=fields), shards=shards)

    def _sample(self, path: Path) -> Objects:
        """The objects of the first lines."""
        start = first_byte(path)
        objects = []
        try:
            with open_regular(path) as f:
                lines = NumberedLines(f, start, 1, str(path))
                for number, record in self.records(iter(lines), {}, str(path)):
                    objects.append(parse_object(record, f"{path}: line {number}"))
                    if lines.at - start >= _SAMPLE_BYTES:
                        break
        except OSError as e:
            raise storage_error(e, f"can't read {path}") from e
        return objects


FORMAT = Jsonl()


def _check_keys(objects: Objects, known: set[str], place: Place) -> None:
    for i, value in enumerate(objects):
        if unknown := sorted(value.keys() - known):
            raise DataError(
                f"{place(i)}: a key {unknown[0]!r} that the first lines don't have; name the fields to keep with the "
                "option 'fields' (an empty list keeps the tokens alone)"
            )


def _texts(name: str, column: Column) -> pa.Array:
    """One JSON value a row."""
    if column.offsets is None:
        texts = format_numbers(column.values)
        texts = _finite(texts) if column.type.dtype.kind == "f" else texts
    elif column.type.is_list:
        items = format_numbers(column.values)
        items = _finite(items) if column.type.dtype.kind == "f" else items
        texts = pc.binary_join_element_wise("[", join_lists(items, column.offsets, ","), "]", "")
    else:
        values = binary_array(name, column).to_pylist()
        if column.type.name == "bytes":
            values = [base64.b64encode(v).decode() for v in values]
        texts = pa.array([json.dumps(v, ensure_ascii=False) for v in values], pa.string())
    return texts if column.valid is None else pc.if_else(pa.array(column.valid), texts, "null")


def _finite(texts: pa.Array) -> pa.Array:
    values = texts.to_pylist()
    return pa.array([_NOT_FINITE.get(v, v) for v in values], pa.string())
