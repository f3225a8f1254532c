"""Which columns of other people's MDS dataset hold the tokens, and which are kept as fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenyard.errors import ConfigError, DataError, NoTokensError
from tokenyard.formats.base import ReadOptions
from tokenyard.formats.mds.columns import MdsColumn, valid_name
from tokenyard.formats.mds.index import MdsShard
from tokenyard.formats.shared.foreign import TOKEN_COLUMNS
from tokenyard.schema import FieldType, Schema


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The tokens' column, their dtype if they are bare bytes, and each field: whether a column says what is null."""

    tokens: str
    fields: Mapping[str, bool]
    token_dtype: str | None


def select(shards: Sequence[MdsShard], options: ReadOptions, where: str) -> Selection:
    """Choose among the columns, which must be those of every shard.

    Raises DataError that names the columns when none holds tokens or one can't be read, ConfigError for options that
    fit none.
    """
    columns = {c.name: c for c in shards[0].columns}
    tokens = _tokens(columns, options, where, sum(s.samples for s in shards))
    for shard in shards:
        others = {c.name: c for c in shard.columns}
        if others.keys() != columns.keys() or any(others[n] != c for n, c in columns.items() if n != tokens):
            raise DataError(
                f"{where}: {shard.raw_name} has columns {_listed(others)}, {shards[0].raw_name} has {_listed(columns)};"
                " a corpus has one schema, open them apart"
            )
        _check_tokens(others[tokens], options, f"{where}: {shard.raw_name}")
    validity = {valid_name(n) for n in columns if _is_validity(columns.get(valid_name(n)))}
    known = [n for n in columns if n != tokens and n not in validity]
    kept = known if options.fields is None else list(options.fields)
    if unknown := sorted(set(kept) - set(known)):
        raise ConfigError(
            f"{where}: no column {', '.join(unknown)} to keep; fields may name {', '.join(known) or 'none'}"
        )
    if refused := [f"{n} holds {p}" for n in kept if (p := columns[n].problem)]:
        good = [n for n in kept if not columns[n].problem]
        raise DataError(f"{where}: column {'; column '.join(refused)}; leave it out with fields={good}")
    return Selection(
        tokens=tokens,
        fields={n: valid_name(n) in validity for n in kept},
        token_dtype=options.token_dtype if columns[tokens].encoding == "bytes" else None,
    )


def schema_of(
    selection: Selection, shards: Sequence[MdsShard], peek: Callable[[str], np.dtype[Any]], where: str
) -> Schema:
    """The schema; ``peek`` gives the dtype of a column whose arrays say it themselves."""
    found = {_dtype(selection, {c.name: c for c in s.columns}[selection.tokens], peek) for s in shards}
    dtype = np.result_type(*found)
    if dtype.kind not in "iu":  # int64 and uint64 together promote to float
        raise DataError(f"{where}: shards of mixed token dtypes that no integer type holds together; open them apart")
    columns = {c.name: c for c in shards[0].columns}
    fields = {}
    for name, nullable in selection.fields.items():
        type = columns[name].field_type or FieldType(peek(name).name, is_list=True)
        fields[name] = FieldType(type.name, type.is_list, nullable)
    return Schema(token_dtype=dtype.name, fields=fields)


def _dtype(selection: Selection, column: MdsColumn, peek: Callable[[str], np.dtype[Any]]) -> np.dtype[Any]:
    if selection.token_dtype:
        return np.dtype(selection.token_dtype).newbyteorder("=")
    return (column.dtype or peek(column.name)).newbyteorder("=")


def _tokens(columns: Mapping[str, MdsColumn], options: ReadOptions, where: str, num_rows: int) -> str:
    if options.tokens is not None:
        if options.tokens not in columns:
            raise ConfigError(f"{where}: no column {options.tokens!r}; there are {_listed(columns)}")
        return options.tokens
    for name in TOKEN_COLUMNS:
        if name in columns:
            return name
    likely = [n for n, c in columns.items() if c.is_array and not c.problem and not (c.dtype and c.dtype.kind == "f")]
    if not likely and options.token_dtype:
        likely = [n for n, c in columns.items() if c.encoding == "bytes"]
    if len(likely) == 1:
        return likely[0]
    if likely:
        raise DataError(f"{where}: {' or '.join(likely)} could hold the tokens; name one with tokens='{likely[0]}'")
    raise NoTokensError(
        f"{where}: no column holds token ids, there are {_listed(columns)}; name one with tokens=..., and its "
        "token_dtype if it is bytes; text has to be tokenized first",
        num_rows,
    )


def _check_tokens(column: MdsColumn, options: ReadOptions, where: str) -> None:
    what = f"{where}: column {column.name!r}"
    if column.problem:
        raise DataError(f"{what} holds {column.problem}; name another column with tokens=...")
    if column.encoding == "bytes":
        if options.token_dtype is None:
            raise DataError(f"{what} holds bare bytes; name the dtype of its ids: token_dtype='int64', or 'uint16' ...")
    elif not column.is_array or (column.dtype is not None and column.dtype.kind not in "iu"):
        raise DataError(
            f"{what} is {column.encoding}, but token ids are ndarray:<integer dtype> or bytes; name another column "
            "with tokens=..."
        )
    elif options.token_dtype and column.dtype is not None and np.dtype(options.token_dtype) != column.dtype:
        raise ConfigError(f"{what} is {column.encoding}, not {options.token_dtype}; leave token_dtype out")


def _is_validity(column: MdsColumn | None) -> bool:
    return column is not None and column.encoding == "uint8"


def _listed(columns: Mapping[str, MdsColumn]) -> str:
    return ", ".join(f"{c.name} ({c.encoding})" for c in columns.values()) or "none"
