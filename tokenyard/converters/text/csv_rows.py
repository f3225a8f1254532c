"""CSV: a header, then a document a row. Quoted cells may hold line ends, so a file is one split.

A row whose quotes don't fit, or that is too long, ends the reading with an error under any policy: where the
next row begins is then a guess.
"""

import csv
from collections.abc import Iterator, Sequence

from tokenyard.converters.text.document import BadRecord, Document, Place
from tokenyard.converters.text.fields import fit_text
from tokenyard.converters.text.lines import read_lines
from tokenyard.converters.text.options import TextOptions
from tokenyard.converters.text.records import RecordReader
from tokenyard.converters.text.split import SourceFile, Split, TextSource
from tokenyard.errors import DataError


def plan(file: SourceFile, options: TextOptions) -> list[Split]:
    """Plan one split a file."""
    return [file.whole()]


def read(split: Split, options: TextOptions) -> Iterator[Document | BadRecord]:
    """Yield a document a row. Places count lines; a row of several lines stands at its last one.

    DataError when the header lacks the text or a field, and when the quoting is broken.
    """
    records = RecordReader(options, fit_text)
    delimiter = options.csv_delimiter or ("\t" if ".tsv" in split.path.lower() else ",")
    csv.field_size_limit(max(csv.field_size_limit(), options.max_document_bytes))
    rows = csv.reader(_text_lines(split, options), delimiter=delimiter, strict=True)
    try:
        header = next(rows, None)
        if header is None:
            return
        columns = _find_columns(header, records.names, split.path)
        for row in rows:
            if row:
                place = Place(path=split.path, unit="line", number=rows.line_num)
                yield _document(row, len(header), columns, place, records)
    except csv.Error as error:
        raise DataError(
            f"{split.path}, line {rows.line_num}: broken CSV: {error}. Rows behind it can't be told apart"
        ) from error


def _text_lines(split: Split, options: TextOptions) -> Iterator[str]:
    """Yield lines with their ends. Bytes that are not UTF-8 become lone surrogates, for the row's check to find."""
    for line in read_lines(split, options, keep_ends=True):
        if isinstance(line, BadRecord):
            raise DataError(f"{line}. In CSV nothing behind it can be read")
        yield line[1].decode(errors="surrogateescape")


def _find_columns(header: Sequence[str], names: list[str], path: str) -> dict[str, int]:
    for name in names:
        if header.count(name) != 1:
            found = ", ".join(map(repr, header))
            raise DataError(
                f"{path}: expected one column {name!r}, found {header.count(name)}; the columns are {found}"
            )
    return {name: header.index(name) for name in names}


def _document(
    row: list[str], num_columns: int, columns: dict[str, int], place: Place, records: RecordReader
) -> Document | BadRecord:
    if len(row) != num_columns:
        message = f"expected {num_columns} cells as in the header, found {len(row)}"
        return BadRecord(kind="wrong_columns", place=place, message=message)
    found: dict[str, object] = {name: row[at] for name, at in columns.items()}
    text = found[records.names[0]]
    if isinstance(text, str) and not text.isascii():
        found[records.names[0]] = text.encode(errors="surrogateescape")  # its own bytes again, decoded with a check
    return records.document(found, place)


CSV = TextSource(plan=plan, read=read)
