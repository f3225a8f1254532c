"""CSV: a header, then ``row,tokens,<fields>``; ids apart by spaces, so that one cell holds a row's tokens.

``row`` counts the rows of a shard, so that an empty row is still a line. Text is always in quotes, quotes doubled (RFC
4180): newlines, commas, leading spaces and NUL survive. Bytes are base64; lists are numbers apart by spaces; bool is
true or false; floats are the shortest text of their float64, or nan, inf, -inf. A nullable field is followed by a
column ``<field>.valid`` (1 or 0), since most readers can't tell a null from an empty text.

Other people's files: UTF-8, commas, one header. The tokens' cells hold ids apart by spaces or a JSON list. CSV declares
no types, so every other column becomes a field of text, but for a first column named ``row`` or nothing, a row number.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenyard.errors import DataError
from tokenyard.formats.base import Discovered, ReadOptions, ShardSource
from tokenyard.formats.shared.arrow import binary_array
from tokenyard.formats.shared.columns import column_of_bytes, column_of_numbers
from tokenyard.formats.shared.foreign import MAX_ID, Place, choose_fields, find_tokens, first_twice, refuse_options
from tokenyard.formats.shared.numbers import format_numbers, join_lists, parse_lists
from tokenyard.formats.shared.promises import promised_names, promised_text
from tokenyard.formats.shared.text import MAX_ROW_BYTES, Fields, Lines, TextFormat, first_byte, refuse_compressed
from tokenyard.manifest import FileInfo, ShardInfo
from tokenyard.rows import Array, Column, Offsets, RowBatch, offsets_of
from tokenyard.schema import FieldType, Schema
from tokenyard.storage import Folder, open_regular, storage_error

#: A cell and what ends it: in quotes, quotes inside doubled; or bare.
_CELL = re.compile(rb'("[^"]*(?:""[^"]*)*"|[^",]*)(,|\Z)')
_MAX_HEADER = 1 << 20


class Csv(TextFormat):
    """See the module."""

    name = "csv"
    suffix = ".csv"
    summary = "a table of text; for spreadsheets and small exchanges, large and slow"

    def header(self, schema: Schema) -> bytes:
        """The names of the columns."""
        return ",".join(_columns(schema)).encode() + b"\n"

    def encode(self, rows: RowBatch, first_row: int, schema: Schema) -> pa.Array:
        """Cells joined by commas."""
        number = format_numbers(np.arange(first_row, first_row + len(rows)))
        cells = [number, join_lists(format_numbers(rows.tokens), rows.offsets, " ")]
        for name, type in sorted(schema.fields.items()):
            cells += _cells(name, type, rows.fields[name])
        lines = pc.binary_join_element_wise(*cells, ",")
        return pc.binary_join_element_wise(lines, "\n", "")

    def start(self, path: Path) -> tuple[int, int]:
        """After the header."""
        return _header(path)[1], 2

    def records(self, lines: Lines, meta: Mapping[str, Any], where: str) -> Lines:
        """Lines put together while a quote is open. Blank lines are nothing, but in a table of one column a riddle."""
        held: list[bytes] = []
        first, size, is_open = 0, 0, False
        for number, line in lines:
            if not held:
                first = number
            held.append(line.removesuffix(b"\n"))
            size += len(line)
            is_open ^= line.count(b'"') % 2 == 1
            if is_open and size < MAX_ROW_BYTES:
                continue
            if is_open:
                break
            record, held, size = b"\n".join(held).removesuffix(b"\r"), [], 0
            if record:
                yield first, record
            elif len(meta["columns"]) == 1:
                raise DataError(
                    f"{where}: line {first} is blank; in a table of one column it could be an empty row or nothing, "
                    'so write an empty row as ""'
                )
        if held:
            raise DataError(
                f"{where}: line {first}: a quote is opened and never closed; quotes inside a text are doubled"
            )

    def read_meta(self, shard: ShardInfo, schema: Schema) -> Mapping[str, Any]:
        """Our own columns, or those of the header. Raises DataError."""
        meta = shard.meta or {"tokens": "tokens", "columns": _columns(schema)}
        columns = promised_names(meta, "columns", shard.name)
        promised_text(meta, "tokens", columns, shard.name)
        needed = {n for name, t in schema.fields.items() for n in ([name, f"{name}.valid"] if t.nullable else [name])}
        if absent := sorted(needed.difference(columns)):
            raise DataError(f"{shard.name}: the manifest names no column {absent[0]!r}; restore the manifest")
        return meta

    def decode(self, records: Sequence[bytes], meta: Mapping[str, Any], fields: Fields, place: Place) -> RowBatch:
        """Raises DataError for a line that hasn't as many cells as the header."""
        names = list(meta["columns"])
        at_of = {name: at for at, name in enumerate(names)}
        table = [_split(r, names, place(i)) for i, r in enumerate(records)]
        at = at_of[meta["tokens"]]
        tokens, offsets = _ids([row[at] for row in table], place)
        columns = {}
        for name, type in fields.items():
            at = at_of[name]
            cells = [row[at] for row in table]
            valid = None
            if type.nullable:
                at = at_of[f"{name}.valid"]
                valid = np.array([row[at] != b"0" for row in table], np.bool_)
            columns[name] = _column(name, type, cells, valid, place)
        return RowBatch(tokens=tokens, offsets=offsets, fields=columns)

    def discover(self, folder: Folder, names: Sequence[str], options: ReadOptions) -> Discovered | None:
        """All .csv files, with one header."""
        mine = [n for n in names if n.endswith(".csv")]
        if not mine:
            refuse_compressed(folder, names, (".csv",))
            return None
        refuse_options(folder, options, self.name)
        headers = [_header(folder.at(n))[0] for n in mine]
        for name, header in zip(mine, headers, strict=True):
            if header != headers[0]:
                raise DataError(
                    f"{folder.at(name)}: its columns are {', '.join(header)}; those of {mine[0]} are "
                    f"{', '.join(headers[0])}. Open the files apart, or write them with one header"
                )
        where = str(folder.at(mine[0]))
        columns = headers[0]
        tokens = find_tokens(columns, options, where)
        numbered = columns[0] in ("row", "") and columns[0] != tokens
        types: dict[str, FieldType | str] = {n: FieldType("string") for n in columns[numbered:]}
        fields = choose_fields(types, tokens, options, where)
        meta = {"tokens": tokens, "columns": columns}
        shards = tuple(ShardSource(files=(FileInfo(name=n, bytes=folder.size(n)),), meta=meta) for n in mine)
        return Discovered(schema=Schema(token_dtype="uint32", fields=fields), shards=shards)


FORMAT = Csv()


# ---- writing ----


def _columns(schema: Schema) -> list[str]:
    found = ["row", "tokens"]
    for name, type in sorted(schema.fields.items()):
        found += [name, f"{name}.valid"] if type.nullable else [name]
    return found


def _cells(name: str, type: FieldType, column: Column) -> list[pa.Array]:
    """The column's cells, and those of ``<field>.valid`` when it is nullable."""
    if column.offsets is None:
        cells = format_numbers(column.values)
    elif type.is_list:
        cells = join_lists(format_numbers(column.values), column.offsets, " ")
    elif type.name == "bytes":
        raw = binary_array(name, column).to_pylist()
        cells = pa.array([base64.b64encode(v).decode() for v in raw], pa.string())
    else:
        doubled = pc.replace_substring(binary_array(name, column), '"', '""')
        cells = pc.binary_join_element_wise('"', doubled, '"', "")
    if not type.nullable:
        return [cells]
    valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    marks = pa.array(valid)
    return [pc.if_else(marks, cells, ""), pc.if_else(marks, "1", "0")]


# ---- reading ----


def _header(path: Path) -> tuple[list[str], int]:
    """The names of the columns, and the byte after them."""
    start = first_byte(path)
    try:
        with open_regular(path) as f:
            f.seek(start)
            line = f.readline(_MAX_HEADER)
    except OSError as e:
        raise storage_error(e, f"can't read {path}") from e
    if not line.strip():
        raise DataError(f"{path}: no header; the first line names the columns")
    cells = _cells_of(line.rstrip(b"\r\n"))
    try:
        names = [_unquoted(c).decode("utf-8") for c in cells or []]
    except UnicodeDecodeError:
        names = []
    if not names:
        raise DataError(f"{path}: its first line {line[:60]!r} is no header: names apart by commas, in UTF-8")
    if (twice := first_twice(names)) is not None:
        raise DataError(f"{path}: two columns are named {twice!r}; rename one")
    return names, start + len(line)


def _split(record: bytes, names: Sequence[str], where: str) -> list[bytes]:
    """The cells of a line, as many as the header has names, quotes still on."""
    cells = _cells_of(record)
    if cells is None:
        raise DataError(
            f"{where}: a quote inside a cell that isn't quoted; quote the cell, and double quotes inside it"
        )
    if len(cells) != len(names):
        raise DataError(f"{where}: {len(cells)} cells, the header names {len(names)}: {', '.join(names)}")
    return cells


def _cells_of(record: bytes) -> list[bytes] | None:
    if b'"' not in record:
        return record.split(b",")
    cells, at = [], 0
    while match := _CELL.match(record, at):
        cells.append(match[1])
        at = match.end()
        if not match[2]:
            return cells
    return None


def _unquoted(cell: bytes) -> bytes:
    return cell[1:-1].replace(b'""', b'"') if cell[:1] == b'"' else cell


def _ids(cells: Sequence[bytes], place: Place) -> tuple[Array, Offsets]:
    """Flat int64 ids and offsets, of cells like ``1 2 3`` or ``[1, 2, 3]``."""
    cells = [_unquoted(c) for c in cells]
    plain, separator = cells, b" "
    if all(c[:1] == b"[" and c[-1:] == b"]" for c in cells):
        plain, separator = [c[1:-1].replace(b", ", b",") for c in cells], b","
    found = parse_lists(plain, separator)
    if found is not None and (not len(found[0]) or found[0].max() <= MAX_ID):
        return found
    rows = [_ids_of(c, place(i)) for i, c in enumerate(cells)]
    return np.fromiter((t for row in rows for t in row), np.int64), offsets_of([len(row) for row in rows])


def _ids_of(cell: bytes, where: str) -> list[int]:
    items: Any = cell.split()
    if cell.strip()[:1] == b"[":
        try:
            items = json.loads(cell)
        except (ValueError, RecursionError):
            items = [cell.decode("utf-8", "replace")]
    for item in items:
        # Longer texts are no ids, and more digits than Python takes for a number could follow.
        is_id = item.isdigit() and len(item) < 1000 if isinstance(item, bytes) else type(item) is int
        if not is_id or not 0 <= int(item) <= MAX_ID:
            shown = item.decode("utf-8", "replace") if isinstance(item, bytes) else item
            raise DataError(
                f"{where}: {shown!r:.60} is no token id; a cell holds whole numbers 0 .. {MAX_ID} apart by spaces, "
                "or a JSON list"
            )
    return [int(item) for item in items]


def _column(name: str, type: FieldType, cells: Sequence[bytes], valid: Any, place: Place) -> Column:
    """Cells as a field. Raises DataError that names the row."""
    if type.is_list and type.dtype.kind in "iu" and (found := parse_lists(cells, b" ")) is not None:
        values = found[0].astype(type.dtype)
        if np.array_equal(values, found[0]):
            return Column(type=type, values=values, offsets=found[1], valid=valid)
    convert = _converter(type)
    items = []
    for i, cell in enumerate(cells):
        try:
            items.append(None if valid is not None and not valid[i] else convert(cell))
        except (ValueError, KeyError) as e:
            raise DataError(
                f"{place(i)}: column {name!r} is {cell[:60]!r}, which is no {type} ({e}); mend the cell"
            ) from None
    return column_of_bytes(type, items) if type.is_binary else column_of_numbers(name, type, items, place)


def _converter(type: FieldType) -> Callable[[bytes], Any]:
    if type.name == "string":
        return lambda cell: _unquoted(cell).decode("utf-8").encode()
    if type.name == "bytes":
        return lambda cell: base64.b64decode(_unquoted(cell), validate=True)
    numbers: dict[str, Callable[[bytes], Any]] = {"f": float, "b": _BOOL.__getitem__}
    number = numbers.get(type.dtype.kind, int)
    return (lambda cell: [number(c) for c in cell.split()]) if type.is_list else number


_BOOL = {b"true": True, b"false": False}
