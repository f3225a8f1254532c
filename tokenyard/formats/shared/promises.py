"""What a row index and a manifest say of a shard, checked when it is opened, once, before anything follows it.

Both can be damaged or forged together, so nothing in them is taken for what it should be. All raise DataError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tokenyard.errors import DataError
from tokenyard.formats.index import ShardIndex
from tokenyard.rows import Offsets
from tokenyard.schema import Schema

_DTYPE = re.compile(r"[<>|=]?([iu][1248]|f[248]|b1)")


def promised_array(index: ShardIndex, name: str, count: int, where: str) -> Offsets:
    """An array of ``count`` numbers out of a row index."""
    array = index.arrays.get(name)
    if array is None or len(array) != count:
        found = "none" if array is None else f"{len(array)}"
        raise DataError(
            f"{where}: its row index should have {count} numbers in {name!r}, and has {found}; rebuild it with "
            "'tokenyard index'"
        )
    return array


def rising_array(index: ShardIndex, name: str, count: int, where: str) -> Offsets:
    """An array of ``count`` numbers from 0 on, none below the one before it."""
    array = promised_array(index, name, count, where)
    if len(array) and (array[0] < 0 or (array[1:] < array[:-1]).any()):
        raise DataError(f"{where}: in its row index {name!r} doesn't rise; rebuild it with 'tokenyard index'")
    return array


def check_fields(index: ShardIndex, schema: Schema, where: str, *, placed: bool) -> None:
    """That the arrays of all fields are there; ``placed``: that each row's place is told, of the tokens too.

    What they say, and how long they are, is checked for all formats where shards are opened.
    """
    rows, texts = index.num_rows, _texts(index, where)
    if placed:
        promised_array(index, "starts", rows, where)
    for name, type in schema.fields.items():
        if placed:
            promised_array(index, f"field:{name}:starts", rows, where)
        if type.has_offsets or name in texts:
            promised_array(index, f"field:{name}:offsets", rows + 1, where)
        if not type.nullable and len(index.arrays.get(f"field:{name}:null", ())):
            raise DataError(f"{where}: its row index has null rows of field {name!r}, which is declared {type}")


def _texts(index: ShardIndex, where: str) -> list[Any]:
    """The fields of numbers that are stored as text."""
    texts = index.meta.get("ascii", [])
    if not isinstance(texts, list):
        raise DataError(f"{where}: its row index says {texts!r:.60} are fields of text; rebuild it")
    return texts


def stored_dtypes(index: ShardIndex, schema: Schema, where: str) -> dict[str, np.dtype[Any]]:
    """The dtype in which tokens and each field are stored: the schema's, or one named by the index that fits it."""
    declared = {"tokens": np.dtype(schema.token_dtype), **{n: t.dtype for n, t in schema.fields.items()}}
    texts, said = _texts(index, where), index.meta.get("dtypes", {})
    found = {name: dtype.newbyteorder("<") for name, dtype in declared.items()}
    if not isinstance(said, Mapping):
        raise DataError(f"{where}: its row index names no dtypes but {said!r:.60}; rebuild it with 'tokenyard index'")
    for name, text in said.items():
        dtype = plain_dtype(text, where)
        fits = name in declared and (dtype == np.uint8 if name in texts else np.can_cast(dtype, declared[name], "safe"))
        if not fits:
            raise DataError(
                f"{where}: its row index says {name} is stored as {text!r:.60}, which is not the schema's "
                f"{declared.get(name)}; rebuild it with 'tokenyard index'"
            )
        found[name] = dtype
    return found


def plain_dtype(text: Any, where: str) -> np.dtype[Any]:
    """The dtype of numbers that a text names."""
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise DataError(f"{where}: its row index names the dtype {text!r:.60}, which is none of numbers; rebuild it")
    return np.dtype(text)


def promised_text(meta: Mapping[str, Any], key: str, known: Iterable[str] | None, where: str) -> str:
    """A text out of what a manifest says of a shard; one of ``known``."""
    value = meta.get(key)
    if not isinstance(value, str) or (known is not None and value not in known):
        expected = "a text" if known is None else f"one of {', '.join(known)}"
        raise DataError(f"{where}: the manifest says {key} is {value!r:.60}, expected {expected}; restore the manifest")
    return value


def promised_names(meta: Mapping[str, Any], key: str, where: str) -> list[str]:
    """Names out of what a manifest says of a shard."""
    value = meta.get(key)
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise DataError(f"{where}: the manifest says {key} are {value!r:.60}, expected names; restore the manifest")
    return value


def promised_size(meta: Mapping[str, Any], key: str, largest: int, where: str) -> int:
    """A number of bytes, up to ``largest``, out of what a manifest or an index says of a shard."""
    value = meta.get(key)
    if type(value) is not int or not 0 <= value <= largest:
        raise DataError(
            f"{where}: {key} is said to be {value!r:.60}, expected a number of bytes up to {largest}; restore the "
            "manifest"
        )
    return value
