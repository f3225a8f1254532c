"""Stored items cast to int64, by the addresses of both, which nothing here checks: parts of compiled loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.ma  # numba looks for it at its first call, which is a first batch's
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tokenyard.corpus.compiling import instructions, part_of_loops
from tokenyard.corpus.records import SIGNED


def _loader(kind: Any, bits: int) -> Any:
    """What loads an item from an address."""

    @instructions
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            loaded = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()))
            loaded.align = 1  # items may begin at any byte
            return loaded

        return kind(types.int64), codegen

    return load


def _line_caster(kind: Any, bits: int) -> Any:
    """What casts as many items as a line of the processor's cache has, from an address to another."""
    stored, wide = (ir.VectorType(ir.IntType(size), 512 // bits) for size in (bits, 64))

    @instructions
    def cast_line(typingctx: Any, target: Any, source: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            items = builder.load(builder.inttoptr(args[1], stored.as_pointer()))
            items.align = 1
            if bits < 64:
                items = builder.sext(items, wide) if kind.signed else builder.zext(items, wide)
            builder.store(items, builder.inttoptr(args[0], wide.as_pointer())).align = 8
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return cast_line


_u8, _i8, load_i64 = _loader(types.uint8, 8), _loader(types.int8, 8), _loader(types.int64, 64)


@instructions
def copy_bytes(typingctx: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy ``size`` bytes from the address ``source`` to the address ``target``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        to, come = builder.inttoptr(args[0], byte), builder.inttoptr(args[1], byte)
        cgutils.raw_memcpy(builder, to, come, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@instructions
def prefetch(typingctx: Any, address: Any) -> Any:
    """Have the processor fetch the line of its cache that an address lies in, and go on meanwhile."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        # For reading, to all levels of cache, data.
        builder.call(function, [builder.inttoptr(args[0], byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


def _caster(kind: Any, bits: int) -> Callable[..., Any]:
    """See `cast_items`, for items of one kind."""
    load, cast_line, size, per_line = _loader(kind, bits), _line_caster(kind, bits), bits // 8, 512 // bits

    @part_of_loops
    def cast(items: Any, address: int, ahead: int) -> None:
        target, whole = items.ctypes.data, len(items) - len(items) % per_line
        for first in range(0, whole, per_line):
            prefetch(ahead + first * size)
            cast_line(target + 8 * first, address + first * size)
        prefetch(ahead + whole * size)
        for j in range(whole, len(items)):
            items[j] = load(address + j * size)

    return cast


_cast_u8, _cast_i8 = _caster(types.uint8, 8), _caster(types.int8, 8)
_cast_u16, _cast_i16 = _caster(types.uint16, 16), _caster(types.int16, 16)
_cast_u32, _cast_i32 = _caster(types.uint32, 32), _caster(types.int32, 32)
_cast_i64 = _caster(types.int64, 64)


@part_of_loops
def cast_items(items: Any, address: int, kind: int, ahead: int) -> None:
    """Fill ``items`` int64[n] with those stored from ``address`` on; as many from ``ahead`` on come to the cache.

    Rows lie apart, where the processor doesn't look for them by itself: it would wait for each.
    """
    if kind == 2:
        _cast_u16(items, address, ahead)
    elif kind == 4:
        _cast_u32(items, address, ahead)
    elif kind in (8, 8 + SIGNED):
        _cast_i64(items, address, ahead)
    elif kind == 4 + SIGNED:
        _cast_i32(items, address, ahead)
    elif kind == 2 + SIGNED:
        _cast_i16(items, address, ahead)
    elif kind == 1:
        _cast_u8(items, address, ahead)
    elif kind == 1 + SIGNED:
        _cast_i8(items, address, ahead)
    else:
        size = kind & 15
        for j in range(len(items)):
            value = np.int64(_i8(address + j * size)) if kind & SIGNED else np.int64(_u8(address + j * size))
            for k in range(1, size):
                value = value << 8 | _u8(address + j * size + k)
            items[j] = value
