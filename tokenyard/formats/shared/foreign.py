"""Opening files that others made, for formats with named columns.

Which column holds the tokens, which others are kept as fields, and whether the ids are ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from tokenyard.errors import ConfigError, DataError, NoTokensError, SchemaError
from tokenyard.formats.base import ReadOptions
from tokenyard.rows import Array, Offsets
from tokenyard.schema import FieldType, is_text
from tokenyard.storage import Folder

#: Looked for in this order when nobody says which column holds the tokens.
TOKEN_COLUMNS = ("tokens", "input_ids")
#: The largest token id.
MAX_ID = 2**32 - 1

Place = Callable[[int], str]


def refuse_options(folder: Folder, options: ReadOptions, format: str) -> None:
    """Raise ConfigError for options that say nothing of files whose tokens are numbers in rows already."""
    for name in ("token_dtype", "split"):
        if getattr(options, name) is not None:
            raise ConfigError(
                f"{folder.path}: format {format} keeps rows of numbers, the option {name!r} has no use there"
            )


def find_tokens(columns: Sequence[str], options: ReadOptions, where: str, kind: str = "column") -> str:
    """The name of the column that holds the tokens. Raises DataError that lists the columns there are."""
    wanted = (options.tokens,) if options.tokens else TOKEN_COLUMNS
    for name in wanted:
        if name in columns:
            return name
    shown = ", ".join(repr(c) for c in columns[:20]) or "none"
    raise NoTokensError(
        f"{where}: holds no tokens: no {kind} {' or '.join(repr(w) for w in wanted)}; its {kind}s are {shown}. If one "
        "of them holds token ids, name it with the option 'tokens'; if one holds text, 'tokenyard tokenize' makes "
        "tokens of it"
    )


def first_twice(names: Iterable[str]) -> str | None:
    """The first name, in order, that comes twice."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def choose_fields(
    types: Mapping[str, FieldType | str], tokens: str, options: ReadOptions, where: str, kind: str = "column"
) -> dict[str, FieldType]:
    """The columns kept as fields: all but the tokens, or those that ``options.fields`` names.

    ``types`` maps each column to its type, or to words that say what it is when no field can hold it. Raises DataError
    that names those, and the fields asked for that are not there.
    """
    wanted = [n for n in types if n != tokens] if options.fields is None else list(options.fields)
    if absent := [n for n in wanted if n not in types or n == tokens]:
        there = ", ".join(repr(n) for n in types if n != tokens) or "none"
        raise DataError(f"{where}: no {kind} {', '.join(map(repr, absent))} to keep as a field; there are {there}")
    refused = [f"{n!r} ({t})" for n in wanted if isinstance(t := types[n], str)]
    refused += [f"{n!r} (a name that is no Unicode text)" for n in wanted if not is_text(n)]
    if "tokens" in wanted:
        refused.append("'tokens' (the name is taken by the tokens themselves)")
    if refused:
        raise DataError(
            f"{where}: {kind}s that can't be kept as fields: {', '.join(refused)}; name the ones to keep with the "
            "option 'fields' (an empty list keeps the tokens alone)"
        )
    return {n: t for n in wanted if isinstance(t := types[n], FieldType)}


def check_ids(tokens: Array, offsets: Offsets, place: Place) -> None:
    """Raise DataError that names the row, by ``place(row)``, of an id that is negative or past 32 bits."""
    if (tokens.dtype.kind != "i" and tokens.dtype.itemsize <= 4) or not len(tokens):
        return
    low, high = int(tokens.min()), int(tokens.max())
    if low >= 0 and high <= MAX_ID:
        return
    at = int(np.argmax((tokens < 0) | (tokens > MAX_ID)))
    row = int(np.searchsorted(offsets, at, side="right")) - 1
    raise DataError(f"{place(row)}: token id {int(tokens[at])} is outside 0 .. {MAX_ID}; these are no token ids")


def same_fields(first: Mapping[str, FieldType], other: Mapping[str, FieldType], where: str, first_name: str) -> None:
    """Raise SchemaError that names ``where`` and every difference to the fields of the first file."""
    found = []
    for name in sorted({*first, *other}):
        a, b = first.get(name), other.get(name)
        if a is None or b is None:
            found.append(f"{name!r} is only in {first_name if b is None else 'this file'}")
        elif (a.name, a.is_list) != (b.name, b.is_list):
            found.append(f"{name!r} is {b}, in {first_name} {a}")
    if found:
        raise SchemaError(
            f"{where}: other columns than {first_name}: {'; '.join(found)}; keep the ones that all files share with "
            "the option 'fields', or open the files apart"
        )
