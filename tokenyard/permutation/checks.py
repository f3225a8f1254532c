"""Checks of what callers hand to the order and the partition. Each raises `ConfigError` and names the setting."""

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokenyard.errors import ConfigError

# Sums of two sizes must stay inside int64.
SIZE_LIMIT = 1 << 62


def check_int(name: str, value: object, *, at_least: int, below: int = SIZE_LIMIT) -> None:
    """Raise `ConfigError` unless `value` is an int in [at_least, below).

    Booleans and NumPy integers are refused: the first are YAML slips, the second can't be written to a JSON state.
    """
    if type(value) is not int:
        raise ConfigError(f"{name}: expected an int, found {value!r} of type {type(value).__name__}; pass a plain int")
    if not at_least <= value < below:
        raise ConfigError(f"{name}: expected an int from {at_least} to {below - 1}, found {value}")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise `ConfigError` unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{name}: expected one of {', '.join(choices)}, found {value!r}")


def check_indices(name: str, values: ArrayLike, *, below: int) -> NDArray[np.int64]:
    """Return `values` as int64 of the same shape, or raise `ConfigError` if one is not an integer in [0, below)."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise ConfigError(f"{name}: expected integers, found dtype {array.dtype}; convert them to int64 first")
    indices = array.astype(np.int64, copy=False)
    # Seen as unsigned, a negative number is larger than any size, so one maximum checks both ends.
    if indices.size and int(indices.view(np.uint64).max()) >= below:
        raise ConfigError(
            f"{name}: expected integers in [0, {below}), found {array.min()} to {array.max()}; "
            "they were made for another size"
        )
    return indices
