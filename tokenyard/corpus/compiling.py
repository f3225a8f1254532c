"""Functions compiled by numba, which release the GIL, and are kept in its cache: a machine compiles them once.

The cache sees changes of a loop's own file alone. So each file of loops names the contents of the others that it is
made of, as PARTS; a test tells what to write there.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba import njit
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from tokenyard.errors import ConfigError

if getattr(numba.config, "DISABLE_JIT", False):
    raise ConfigError("NUMBA_DISABLE_JIT is set, but tokens are gathered by compiled loops; unset it")


def compiled(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile now; from numba's cache, where there is a folder to have one in."""

    def compile(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            kept: Callable[..., Any] = njit(signature, nogil=True, error_model="numpy", cache=True)(function)
        except NumbaError:
            raise
        except Exception as e:  # noqa: BLE001  # no folder, or a damaged file in it, which fails in any way
            warnings.warn(
                f"numba can't keep compiled code ({type(e).__name__}: {e}), so that each process compiles for some "
                "seconds; set NUMBA_CACHE_DIR to an empty folder that can be written",
                stacklevel=2,
            )
            once: Callable[..., Any] = njit(signature, nogil=True, error_model="numpy")(function)
            return once
        return kept

    return compile


def part_of_loops(function: Callable[..., Any]) -> Callable[..., Any]:
    """What compiled loops are made of."""
    part: Callable[..., Any] = njit(error_model="numpy")(function)
    return part


def instructions(function: Callable[..., Any]) -> Any:
    """What makes instructions of LLVM where it is called in a compiled loop."""
    return intrinsic(function)
