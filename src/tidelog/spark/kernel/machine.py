"""Loads, stores and copies by address, for compiled code.

An index into an array costs a check for negative numbers each time, and a loop over single bytes is not
recognised as a copy; both matter at ten million records a second. Callers check the bounds.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

CHUNK_BYTES = 32
"""Short runs are copied in whole chunks: both sides need that many bytes of room after the last one."""


def _load(bits: int, extend: str) -> Any:
    def typed(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return value if bits == 64 else getattr(builder, extend)(value, ir.IntType(64))

        return types.int64(types.int64), generate

    return intrinsic(typed)


def _store(bits: int) -> Any:
    def typed(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = arguments[1] if bits == 64 else builder.trunc(arguments[1], ir.IntType(bits))
            builder.store(value, pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return intrinsic(typed)


load_8 = _load(8, "zext")
load_64 = _load(64, "")
store_8 = _store(8)
store_32 = _store(32)
store_64 = _store(64)


def _load_float(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.FloatType().as_pointer()), align=1)

    return types.float32(types.int64), generate


def _store_real(kind: Any, number: Any) -> Any:
    def typed(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store(arguments[1], builder.inttoptr(arguments[0], kind().as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, number), generate

    return intrinsic(typed)


load_float: Any = intrinsic(_load_float)
store_float = _store_real(ir.FloatType, types.float32)
store_double = _store_real(ir.DoubleType, types.float64)


def _load_swapped(bits: int) -> Any:
    def typed(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.bswap(builder.load(pointer, align=1))
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return types.int64(types.int64), generate

    return intrinsic(typed)


big_16 = _load_swapped(16)
big_32 = _load_swapped(32)
big_64 = _load_swapped(64)


def _copy_chunk(typing: Any, target: Any, source: Any) -> Any:
    """:data:`CHUNK_BYTES` at once: one load and one store of the widest register."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), CHUNK_BYTES).as_pointer()
        value = builder.load(builder.inttoptr(arguments[1], vector), align=1)
        builder.store(value, builder.inttoptr(arguments[0], vector), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _copy_run(typing: Any, target: Any, source: Any, size: Any) -> Any:
    """Any number of bytes, by the C library."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


copy_chunk: Any = intrinsic(_copy_chunk)
copy_run: Any = intrinsic(_copy_run)
